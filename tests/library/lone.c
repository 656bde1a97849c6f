/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is linked with libcustody alone, so that it starts without a driver;
 * test_driver.sh looks at what it says.
 */
#include <custody/custody.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *what, int error)
{
	printf("%s %s\n", what, custody_error_name(error));
}

/* Every function that needs a driver says that there is none; nothing crashes. */
static int tell_without(void)
{
	struct custody_defer_limits limits = { .size = sizeof(limits) };
	struct custody_context *context;
	struct custody_device *device;
	struct custody_version version;
	int count;

	printf("available %d\n", custody_is_available());
	printf("why %s\n", custody_init_error() ? custody_init_error() : "");
	say("count", custody_device_count(&count));
	say("device", custody_device_get(0, &device));
	say("context", custody_context_current(-1, &context));
	say("synchronize", custody_synchronize());
	say("limits", custody_defer_limits(&limits));
	say("driver", custody_driver_version(&version));
	say("detect", custody_detect(stdout, NULL));
	say("shutdown", custody_shutdown());
	printf("function %d\n", custody_driver_function("cuMemAlloc_v2") != NULL);
	printf("supported %d\n", custody_is_supported_version());
	printf("version %s\n", custody_version());
	return 0;
}

/* The driver comes while the program runs, as where a module is loaded. */
static int tell_later(const char *driver, const char *place)
{
	printf("before %d\n", custody_is_available());
	unlink(place);
	if (symlink(driver, place)) {
		perror(place);
		return 1;
	}
	printf("after %d\n", custody_is_available());
	return 0;
}

static void say_version(const char *what, int error, const struct custody_version *version)
{
	if (error)
		printf("%s %s\n", what, custody_error_name(error));
	else
		printf("%s %d.%d\n", what, version->major, version->minor);
}

static int tell_versions(void)
{
	struct custody_version version;

	say_version("driver", custody_driver_version(&version), &version);
	say_version("runtime", custody_runtime_version(&version), &version);
	say_version("nvrtc", custody_nvrtc_version(&version), &version);
	printf("supported %d\n", custody_is_supported_version());
	printf("loaded %d\n", dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD) != NULL ||
				       dlopen("libnvrtc.so.13", RTLD_LAZY | RTLD_NOLOAD) != NULL);
	return 0;
}

static int tell_devices(void)
{
	int supported = -1;

	say("detect", custody_detect(stdout, &supported));
	printf("supported %d\n", supported);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "without"))
		return tell_without();
	if (!strcmp(what, "later") && argc == 4)
		return tell_later(argv[2], argv[3]);
	if (!strcmp(what, "versions"))
		return tell_versions();
	if (!strcmp(what, "devices"))
		return tell_devices();
	return 2;
}
