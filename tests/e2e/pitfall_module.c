/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_module.c - variables of modules: memory that nobody allocates. */
#include "pitfall.h"

static const char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			   ".visible .global .align 4 .b8 table[64];\n"
			   ".visible .global .align 4 .b8 hidden[64];\n"
			   ".visible .entry touch()\n{\n\tret;\n}\n";

/* Known from the look-up to the unloading; who never looks never knows of it. */
static void variables(void)
{
	CUdeviceptr table, again, base;
	CUmodule module;
	size_t bytes = 0, size = 0;

	pitfall_start();
	need(cuModuleLoadData(&module, code));
	need(cuModuleGetGlobal(&table, &bytes, module, "table"));
	need(cuModuleGetGlobal(&again, NULL, module, "table"));
	tell("one address", table == again);
	tell("at least what was declared", bytes >= 64);
	need(cuMemGetAddressRange(&base, &size, table));
	need(cuMemsetD32(table, 71, 16));
	tell("word", read_word(table));
	tell("free of it", cuMemFree(table));
	need(cuModuleUnload(module));
	tell("word behind the unloading", cuMemsetD32(table, 72, 1) != CUDA_SUCCESS);
}

static void libraries(void)
{
	CUlibrary library;
	CUdeviceptr table;
	size_t bytes = 0;

	pitfall_start();
	need(cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
	need(cuLibraryGetGlobal(&table, &bytes, library, "table"));
	need(cuMemsetD32(table, 73, 16));
	tell("word", read_word(table));
	need(cuLibraryUnload(library));
}

/* Loading waits for the context; so who is waited for may not wait for the loader. */
static void loading(void)
{
	CUmodule module;

	pitfall_start();
	hold(pitfall.stream);
	let_go_after(400);
	need(cuModuleLoadData(&module, code));
	join_letting_go();
	need(cuStreamSynchronize(pitfall.stream));
	need(cuModuleUnload(module));
	tell("loaded", 1);
}

const struct pitfall_case pitfall_module_cases[] = {
	{ "module-variables", variables },
	{ "module-libraries", libraries },
	{ "module-loading", loading },
	{ NULL, NULL },
};
