/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - the driver's functions that the library calls, as the engine's wrappers:
 * library_cuda.cuMemAlloc(&address, bytes).
 *
 * A name that cuda.h maps to a newer one stands for that one, here too.  A function
 * that the driver in use does not have is NULL; those marked OPTIONAL may be, and are
 * looked at before they are called, all others are there once library_init() has
 * succeeded.
 */
#ifndef CUSTODY_LIBRARY_CUDA_H
#define CUSTODY_LIBRARY_CUDA_H

#include <cuda.h>
#include <cudaProfiler.h>

#define CUDA_FUNCTIONS(NEEDED, OPTIONAL)                                                           \
	NEEDED(cuInit)                                                                             \
	NEEDED(cuDriverGetVersion)                                                                 \
	NEEDED(cuGetErrorName)                                                                     \
	NEEDED(cuGetErrorString)                                                                   \
	NEEDED(cuDeviceGet)                                                                        \
	NEEDED(cuDeviceGetCount)                                                                   \
	NEEDED(cuDeviceGetName)                                                                    \
	NEEDED(cuDeviceTotalMem)                                                                   \
	NEEDED(cuDeviceGetAttribute)                                                               \
	OPTIONAL(cuDeviceGetUuid)                                                                  \
	NEEDED(cuDeviceGetByPCIBusId)                                                              \
	NEEDED(cuDeviceGetPCIBusId)                                                                \
	NEEDED(cuDeviceCanAccessPeer)                                                              \
	NEEDED(cuDevicePrimaryCtxRetain)                                                           \
	NEEDED(cuDevicePrimaryCtxRelease)                                                          \
	NEEDED(cuDevicePrimaryCtxReset)                                                            \
	NEEDED(cuDevicePrimaryCtxGetState)                                                         \
	NEEDED(cuCtxGetCurrent)                                                                    \
	NEEDED(cuCtxSetCurrent)                                                                    \
	NEEDED(cuCtxPushCurrent)                                                                   \
	NEEDED(cuCtxPopCurrent)                                                                    \
	OPTIONAL(cuCtxGetId)                                                                       \
	NEEDED(cuCtxGetDevice)                                                                     \
	NEEDED(cuCtxSynchronize)                                                                   \
	NEEDED(cuCtxEnablePeerAccess)                                                              \
	NEEDED(cuCtxDisablePeerAccess)                                                             \
	NEEDED(cuCtxGetStreamPriorityRange)                                                        \
	NEEDED(cuMemGetInfo)                                                                       \
	NEEDED(cuMemAlloc)                                                                         \
	NEEDED(cuMemFree)                                                                          \
	NEEDED(cuMemAllocManaged)                                                                  \
	NEEDED(cuMemHostAlloc)                                                                     \
	NEEDED(cuMemFreeHost)                                                                      \
	NEEDED(cuMemHostGetDevicePointer)                                                          \
	NEEDED(cuMemHostRegister)                                                                  \
	NEEDED(cuMemHostUnregister)                                                                \
	NEEDED(cuMemGetAddressRange)                                                               \
	NEEDED(cuPointerGetAttribute)                                                              \
	NEEDED(cuPointerGetAttributes)                                                             \
	NEEDED(cuMemcpy)                                                                           \
	NEEDED(cuMemcpyAsync)                                                                      \
	NEEDED(cuMemcpyHtoD)                                                                       \
	NEEDED(cuMemcpyHtoDAsync)                                                                  \
	NEEDED(cuMemcpyDtoH)                                                                       \
	NEEDED(cuMemcpyDtoHAsync)                                                                  \
	NEEDED(cuMemcpyDtoD)                                                                       \
	NEEDED(cuMemcpyDtoDAsync)                                                                  \
	NEEDED(cuMemcpyPeerAsync)                                                                  \
	NEEDED(cuMemcpy2DAsync)                                                                    \
	NEEDED(cuMemsetD8Async)                                                                    \
	NEEDED(cuMemsetD16Async)                                                                   \
	NEEDED(cuMemsetD32Async)                                                                   \
	NEEDED(cuMemsetD2D8Async)                                                                  \
	NEEDED(cuMemsetD2D32Async)                                                                 \
	NEEDED(cuStreamCreateWithPriority)                                                         \
	NEEDED(cuStreamDestroy)                                                                    \
	NEEDED(cuStreamSynchronize)                                                                \
	NEEDED(cuStreamQuery)                                                                      \
	NEEDED(cuStreamWaitEvent)                                                                  \
	NEEDED(cuStreamGetPriority)                                                                \
	NEEDED(cuStreamGetCtx)                                                                     \
	NEEDED(cuStreamAddCallback)                                                                \
	NEEDED(cuStreamAttachMemAsync)                                                             \
	OPTIONAL(cuLaunchHostFunc)                                                                 \
	OPTIONAL(cuStreamBeginCapture)                                                             \
	OPTIONAL(cuStreamEndCapture)                                                               \
	OPTIONAL(cuStreamIsCapturing)                                                              \
	OPTIONAL(cuThreadExchangeStreamCaptureMode)                                                \
	NEEDED(cuEventCreate)                                                                      \
	NEEDED(cuEventDestroy)                                                                     \
	NEEDED(cuEventRecord)                                                                      \
	NEEDED(cuEventQuery)                                                                       \
	NEEDED(cuEventSynchronize)                                                                 \
	OPTIONAL(cuEventElapsedTime)                                                               \
	OPTIONAL(cuCtxRecordEvent)                                                                 \
	NEEDED(cuIpcGetEventHandle)                                                                \
	NEEDED(cuIpcOpenEventHandle)                                                               \
	NEEDED(cuIpcGetMemHandle)                                                                  \
	NEEDED(cuIpcOpenMemHandle)                                                                 \
	NEEDED(cuIpcCloseMemHandle)                                                                \
	NEEDED(cuProfilerStart)                                                                    \
	NEEDED(cuProfilerStop)                                                                     \
	OPTIONAL(cuMemAllocAsync)                                                                  \
	OPTIONAL(cuMemAllocFromPoolAsync)                                                          \
	OPTIONAL(cuMemFreeAsync)                                                                   \
	OPTIONAL(cuMemPoolCreate)                                                                  \
	OPTIONAL(cuMemPoolDestroy)                                                                 \
	OPTIONAL(cuMemPoolTrimTo)                                                                  \
	OPTIONAL(cuMemPoolGetAttribute)                                                            \
	OPTIONAL(cuMemPoolSetAttribute)                                                            \
	OPTIONAL(cuMemPoolGetAccess)                                                               \
	OPTIONAL(cuMemPoolSetAccess)                                                               \
	OPTIONAL(cuMemPoolExportToShareableHandle)                                                 \
	OPTIONAL(cuMemPoolImportFromShareableHandle)                                               \
	OPTIONAL(cuMemPoolExportPointer)                                                           \
	OPTIONAL(cuMemPoolImportPointer)                                                           \
	OPTIONAL(cuDeviceGetMemPool)                                                               \
	OPTIONAL(cuDeviceGetDefaultMemPool)                                                        \
	OPTIONAL(cuDeviceGraphMemTrim)                                                             \
	OPTIONAL(cuDeviceGetGraphMemAttribute)                                                     \
	OPTIONAL(cuDeviceSetGraphMemAttribute)                                                     \
	OPTIONAL(cuMemAddressReserve)                                                              \
	OPTIONAL(cuMemAddressFree)                                                                 \
	OPTIONAL(cuMemCreate)                                                                      \
	OPTIONAL(cuMemRelease)                                                                     \
	OPTIONAL(cuMemMap)                                                                         \
	OPTIONAL(cuMemUnmap)                                                                       \
	OPTIONAL(cuMemSetAccess)                                                                   \
	OPTIONAL(cuMemGetAllocationGranularity)                                                    \
	OPTIONAL(cuMemRetainAllocationHandle)                                                      \
	OPTIONAL(cuMemExportToShareableHandle)                                                     \
	OPTIONAL(cuMemImportFromShareableHandle)                                                   \
	OPTIONAL(cuMemPrefetchAsync)                                                               \
	OPTIONAL(cuMemAdvise)                                                                      \
	OPTIONAL(cuMemDiscardBatchAsync)                                                           \
	OPTIONAL(cuMemDiscardAndPrefetchBatchAsync)

#define CUDA_FIELD(name) CUDA_FIELD_EXPANDED(name)
#define CUDA_FIELD_EXPANDED(name) __typeof__(name) *name;

struct library_cuda {
	CUDA_FUNCTIONS(CUDA_FIELD, CUDA_FIELD)
};

extern struct library_cuda library_cuda;

#endif
