/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/version.h - versions of what is here.  Any thread.
 */
#ifndef CUSTODY_VERSION_H
#define CUSTODY_VERSION_H

#include <custody/error.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_version {
	int major;
	int minor;
};

/* Of libcustody, "0.1.0". */
CUSTODY_API const char *custody_version(void);

/* The highest CUDA that the driver knows.  CUSTODY_E_NO_DRIVER without one. */
CUSTODY_API int custody_driver_version(struct custody_version *version);

/*
 * Of the CUDA runtime and of NVRTC that the loader finds; loaded for the question
 * alone, CUSTODY_E_UNSUPPORTED where there is none.  Documented: cuda.runtime.get_version().
 */
CUSTODY_API int custody_runtime_version(struct custody_version *version);
CUSTODY_API int custody_nvrtc_version(struct custody_version *version);

/*
 * Whether libcustody was tested with the driver's major version.  The list goes to
 * *versions, its length to *count.  Documented: cuda.is_supported_version(),
 * runtime.supported_versions.
 */
CUSTODY_API bool custody_is_supported_version(void);
CUSTODY_API const struct custody_version *custody_supported_versions(size_t *count);

#ifdef __cplusplus
}
#endif
#endif
