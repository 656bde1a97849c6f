/* SPDX-License-Identifier: Apache-2.0 */
/* Private: one kernel launch, shared by the queue and the graphs that repeat it. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "sim.h"

struct function;

/* Looks up what a new function does and how long it takes. */
void launch_prepare(struct function *function);
bool launch_is_nothing(const struct kernel_call *call);
const char *launch_name(const struct kernel_call *call);
uint64_t launch_ns(const struct kernel_call *call);
void launch_run(struct kernel_call *call, struct context *context);
void launch_give(struct kernel_call *call);
void launch_retain(struct kernel_call *call);
CUresult launch_from_params(const CUDA_KERNEL_NODE_PARAMS *params, struct kernel_call **out);
void launch_describe(const struct kernel_call *call, CUDA_KERNEL_NODE_PARAMS *params);

#endif
