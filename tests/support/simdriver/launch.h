/* SPDX-License-Identifier: Apache-2.0 */
/* Private: one kernel launch, shared by the queue and the graphs that repeat it. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "sim.h"

/* Sizes of the kernel's parameters, ended by 0; NULL when it does nothing here. */
const size_t *launch_sizes(const char *name);
uint64_t launch_ns(const struct kernel_call *call);
void launch_run(struct kernel_call *call);
void launch_give(struct kernel_call *call);
void launch_retain(struct kernel_call *call);
CUresult launch_from_params(const CUDA_KERNEL_NODE_PARAMS *params, struct kernel_call **out);
void launch_describe(const struct kernel_call *call, CUDA_KERNEL_NODE_PARAMS *params);

#endif
