/* SPDX-License-Identifier: Apache-2.0 */
/* Private: devices that several processes fill. */
#ifndef SIM_ACCOUNT_H
#define SIM_ACCOUNT_H

#include "sim.h"

void account_open(void);
void account_close(void);
void account_forget(void);
/* Bytes in use, by whomever. */
size_t account_used(const struct device *device);
/* Around what this process counts for itself; false when others leave no room. */
bool account_take(struct device *device, size_t bytes);
void account_give(struct device *device, size_t bytes);

#endif
