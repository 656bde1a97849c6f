/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - the driver's functions that the library calls, as the engine's wrappers:
 * library_cuda.cuMemAlloc(&address, bytes).
 *
 * A name that cuda.h maps to a newer one stands for that one, here too.  A function
 * that the driver in use does not have is NULL; those marked OPTIONAL in
 * cuda_functions.h may be, and are looked at before they are called, all others are there
 * once library_init() has succeeded.
 */
#ifndef CUSTODY_LIBRARY_CUDA_H
#define CUSTODY_LIBRARY_CUDA_H

#include <cuda.h>
#include <cudaProfiler.h>

#define CUDA_FIELD(name) CUDA_FIELD_EXPANDED(name)
#define CUDA_FIELD_EXPANDED(name) __typeof__(name) *name;

#define NEEDED CUDA_FIELD
#define OPTIONAL CUDA_FIELD

struct library_cuda {
#include "library/cuda_functions.h"
};

extern struct library_cuda library_cuda;

#endif
