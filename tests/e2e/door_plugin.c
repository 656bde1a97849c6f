/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_plugin.c - a program that knows nothing of CUDA and opens, for itself
 * alone, a library that is linked with the driver: the driver is then in nobody's
 * scope but that library's.  A second argument says how: "deepbind", that it comes
 * first in its own scope; "namespace", that it is in one of its own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_plugin(const char *path, const char *how)
{
	if (!strcmp(how, "namespace"))
		return dlmopen(LM_ID_NEWLM, path, RTLD_LAZY | RTLD_LOCAL);
	return dlopen(path, RTLD_LAZY | RTLD_LOCAL |
				    (strcmp(how, "deepbind") ? 0 : RTLD_DEEPBIND));
}

int main(int count, char **arguments)
{
	void *plugin = count > 1 ? open_plugin(arguments[1], count > 2 ? arguments[2] : "") : NULL;
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
