/* SPDX-License-Identifier: Apache-2.0 */
/* Private: modules, libraries and their functions. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "sim.h"

struct function {
	struct object object;
	struct module *module;
	char *name;
	struct function *next;
	int attributes[32];
};

/* A variable of a module: a block of its own, named. */
struct variable {
	char *name;
	struct block *block;
	struct variable *next;
};

struct module {
	struct object object;
	struct context *context;	/* NULL: a library */
	bool library;
	struct function *functions;
	struct variable *variables;
	struct module *next, *prev;	/* of the context */
};

#endif
