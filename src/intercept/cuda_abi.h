/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_abi.h - the CUDA headers with every exported name visible as itself:
 * no macro turns cuMemAlloc into cuMemAlloc_v2 here.
 */
#ifndef CUSTODY_INTERCEPT_CUDA_ABI_H
#define CUSTODY_INTERCEPT_CUDA_ABI_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <stdint.h>

#endif
