/* SPDX-License-Identifier: Apache-2.0 */
/* Private: modules, libraries and their functions. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "own.h"

enum { FUNCTION_ATTRIBUTES = 32 };

struct simk_launch;

struct function {
	struct object object;
	struct module *module;
	char *name;
	struct function *next;
	int attributes[FUNCTION_ATTRIBUTES];
	_Atomic uint64_t loaded_in[SIM_DEVICES_MAX];	/* ids of contexts, if lazily */

	/* Found once, by launch_prepare. */
	void (*body)(const struct simk_launch *launch);
	const size_t *sizes;	/* of the parameters; NULL: it does nothing here */
	uint64_t ns;
};

/* A variable of a module: a block of its own, named. */
struct variable {
	char *name;
	struct block *block;
	struct variable *next;
};

/* A library is a module that belongs to no context. */
struct module {
	struct object object;
	struct context *context;
	bool library;
	pthread_mutex_t lock;
	struct function *functions;
	unsigned function_count;
	struct variable *variables;
	struct owed code[SIM_DEVICES_MAX];	/* in the context that has it, by device */
	struct module *next, *prev;	/* of the context */
};

/* Of a context, or of none; with its code where that is loaded at once. */
CUresult module_new(struct context *context, struct module **out);
void module_end(struct module *module);
CUresult module_check_image(const void *image);
/* The function of that name; made at first use, every name exists. */
CUresult module_find_function(struct module *module, const char *name, struct function **out);
CUresult module_find_variable(struct module *module, const char *name, bool managed,
			      struct block **out);
CUresult module_list(struct module *module, struct function **list, unsigned room);

void function_finish(void *function);

enum { LINKER_OPTIONS = 64 };

/* cuLinkCreate; the client keeps the values, not the list of options. */
struct linker {
	struct object object;
	unsigned option_count, inputs;
	CUjit_option options[LINKER_OPTIONS];
	void **values;
	bool complete;
	char image[64];
};

#endif
