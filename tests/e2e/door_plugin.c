/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_plugin.c - a program that knows nothing of CUDA and opens, for itself
 * alone, a library that is linked with the driver: the driver is then in nobody's
 * scope but that library's.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	void *plugin = count > 1 ? dlopen(arguments[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
	void (*tell)(void);

	if (!plugin) {
		fprintf(stderr, "client: %s\n", count > 1 ? dlerror() : "no plugin is named");
		return 90;
	}
	*(void **)&tell = dlsym(plugin, "plugin_tell");
	if (!tell)
		return 91;
	tell();
	return 0;
}
