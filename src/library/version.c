/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "library/library.h"

#include <custody/version.h>

#include <dlfcn.h>
#include <stdio.h>

/* Newest first. */
static const struct custody_version supported[] = { { 13, 0 }, { 12, 0 } };

enum { SUPPORTED = sizeof(supported) / sizeof(supported[0]) };

const char *custody_version(void)
{
	return PACKAGE_VERSION;
}

/* As cuda.h numbers them: 13000 is 13.0. */
static struct custody_version split(int number)
{
	return (struct custody_version){ number / 1000, number % 1000 / 10 };
}

/* The driver tells it before it is initialised, so a program may fork afterwards. */
int custody_driver_version(struct custody_version *version)
{
	CUresult (*ask)(int *number);
	const struct engine *engine;
	CUresult result;
	int error, number;

	if (!version)
		return error_null("version");
	error_forget();
	error = library_check();
	if (error)
		return error;
	engine = library_open();
	if (!engine)
		return CUSTODY_E_NO_DRIVER;
	*(void **)&ask = engine->find("cuDriverGetVersion");
	if (!ask)
		return error_say(CUSTODY_E_NO_DRIVER, "the CUDA driver does not tell its version");
	result = ask(&number);
	if (result == CUDA_SUCCESS)
		*version = split(number);
	return (int)result;
}

/* ------------------------------------------------------------------ runtime and NVRTC */

static int ask_runtime(void *library, struct custody_version *version)
{
	int (*ask)(int *number);
	int error, number;

	*(void **)&ask = dlsym(library, "cudaRuntimeGetVersion");
	if (!ask)
		return error_say(CUSTODY_E_UNSUPPORTED,
				 "the CUDA runtime does not tell its version");
	error = ask(&number);
	if (error)
		return error_say(CUSTODY_E_UNSUPPORTED,
				 "the CUDA runtime answers with its error %d", error);
	*version = split(number);
	return 0;
}

static int ask_nvrtc(void *library, struct custody_version *version)
{
	struct custody_version found;
	int (*ask)(int *major, int *minor);
	int error;

	*(void **)&ask = dlsym(library, "nvrtcVersion");
	if (!ask)
		return error_say(CUSTODY_E_UNSUPPORTED, "NVRTC does not tell its version");
	error = ask(&found.major, &found.minor);
	if (error)
		return error_say(CUSTODY_E_UNSUPPORTED, "NVRTC answers with its error %d", error);
	*version = found;
	return 0;
}

/* One that the process has already comes first, whichever it is. */
static void *load(const char *name)
{
	static const char *const endings[] = { ".13", ".12", ".11.0", "" };
	char file[64];
	void *library = NULL;

	for (int flags = RTLD_LAZY | RTLD_NOLOAD; !library; flags = RTLD_LAZY) {
		for (size_t i = 0; !library && i < sizeof(endings) / sizeof(endings[0]); i++) {
			snprintf(file, sizeof(file), "%s.so%s", name, endings[i]);
			library = dlopen(file, flags);
		}
		if (flags == RTLD_LAZY)
			break;
	}
	return library;
}

/* Its errors are of its own kind, so none of them goes out as a driver's. */
static int ask_library(const char *name, struct custody_version *version,
		       int (*ask)(void *library, struct custody_version *version))
{
	void *library;
	int error;

	if (!version)
		return error_null("version");
	error_forget();
	library = load(name);
	if (!library)
		return error_say(CUSTODY_E_UNSUPPORTED, "the loader finds no %s.so", name);
	error = ask(library, version);
	dlclose(library);
	return error;
}

int custody_runtime_version(struct custody_version *version)
{
	return ask_library("libcudart", version, ask_runtime);
}

int custody_nvrtc_version(struct custody_version *version)
{
	return ask_library("libnvrtc", version, ask_nvrtc);
}

/* ------------------------------------------------------------------ what is supported */

bool custody_is_supported_version(void)
{
	struct custody_version version;

	if (custody_driver_version(&version))
		return false;
	for (int i = 0; i < SUPPORTED; i++)
		if (supported[i].major == version.major)
			return true;
	return false;
}

const struct custody_version *custody_supported_versions(size_t *count)
{
	if (count)
		*count = SUPPORTED;
	return supported;
}
