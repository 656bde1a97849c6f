/* SPDX-License-Identifier: Apache-2.0 */
/* Private: one kernel launch, shared by the queue and the graphs that repeat it. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "sim.h"

uint64_t launch_ns(const struct kernel_call *call);
void launch_run(struct kernel_call *call);
void launch_give(struct kernel_call *call);
void launch_retain(struct kernel_call *call);

#endif
