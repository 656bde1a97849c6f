/* SPDX-License-Identifier: Apache-2.0 */
/* Private: what the driver takes of a device for itself. */
#ifndef SIM_OWN_H
#define SIM_OWN_H

#include "sim.h"

struct module;
struct function;

/* What something took in a context, as long as that lives. */
struct owed {
	struct context *context;
	uint64_t context_id;
	size_t bytes;
};

CUresult own_owe(struct owed *owed, struct context *context, size_t bytes);
void own_repay(struct owed *owed);
/* Bytes of the driver's own in a context; the error is out of memory. */
CUresult own_take(struct context *context, size_t bytes);
void own_give(struct context *context, size_t bytes);
/* With the context all of that goes. */
void own_end(struct context *context);
/* The code of a module, or with SIMCUDA_LAZY of one function; context NULL: not yet. */
CUresult own_load_module(struct module *module, struct context *context);
CUresult own_load_function(struct function *function, struct context *context);
bool own_is_loaded(struct function *function, const struct context *context);
void own_unload_module(struct module *module);
CUresult own_set_limit(struct context *context, CUlimit limit, size_t value);

#endif
