/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_preload.c - an independent count of driver calls and bytes.
 *
 * A preload that shares no line with the interposer and works another way:
 * it finds the driver's functions by walking libcuda's own symbol table.  It
 * serves alone, or beneath the interposer in the same run
 * (LD_PRELOAD="libcustody-preload.so count_preload.so"), where it sees what
 * reaches the driver.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "count_file.h"
#include "libcuda_symbol.h"

#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* One counted function; the linker gathers pointers to them into an array. */
struct counted {
	const char *name;
	void *wrapper;
	_Atomic(void *) real;
	ptrdiff_t row; /* in the file, set before the first count */
};

extern struct counted *const __start_counted[] __attribute__((visibility("hidden")));
extern struct counted *const __stop_counted[] __attribute__((visibility("hidden")));

static _Atomic(struct count *) counts;
static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---------------------------------------------------------------- counts */

/* A child of fork counts in a file of its own. */
static void forget_counts(void)
{
	pthread_mutex_init(&counts_lock, NULL);
	atomic_store(&counts, NULL);
}

static struct count *make_counts(void)
{
	static int is_registered;
	struct count *page;

	pthread_mutex_lock(&counts_lock);
	page = atomic_load(&counts);
	if (!page) {
		page = count_file_map("count");
		for (struct counted *const *each = __start_counted; each < __stop_counted; each++) {
			(*each)->row = each - __start_counted;
			snprintf(page[(*each)->row].name, COUNT_NAME_BYTES, "%s", (*each)->name);
		}
		if (!is_registered++)
			pthread_atfork(NULL, NULL, forget_counts);
		atomic_store(&counts, page);
	}
	pthread_mutex_unlock(&counts_lock);
	return page;
}

static void count_call(const struct counted *function, CUresult result, size_t bytes)
{
	struct count *page = atomic_load(&counts);
	struct count *mine;

	if (!page)
		page = make_counts();
	mine = &page[function->row];
	atomic_fetch_add(&mine->calls, 1);
	if (result == CUDA_SUCCESS)
		atomic_fetch_add(&mine->bytes, bytes);
	else if (result != CUDA_ERROR_NOT_READY)
		atomic_fetch_add(&mine->errors, 1);
}

/* ------------------------------------------- the driver's own functions */

static void *real_function(struct counted *function)
{
	void *address = atomic_load(&function->real);

	if (address)
		return address;
	address = libcuda_symbol(function->name);
	if (!address) {
		fprintf(stderr, "count_preload: no %s in libcuda\n", function->name);
		abort();
	}
	atomic_store(&function->real, address);
	return address;
}

#define COUNTED(symbol, size, parameters, ...)                                                    \
	static struct counted counted_##symbol = { #symbol, (void *)symbol, NULL, 0 };            \
	static struct counted *const pointer_##symbol                                             \
		__attribute__((used, section("counted"))) = &counted_##symbol;                    \
	EXPORT CUresult CUDAAPI symbol parameters                                                 \
	{                                                                                         \
		__typeof__(&symbol) real = (__typeof__(&symbol))real_function(&counted_##symbol); \
		CUresult result = real(__VA_ARGS__);                                              \
		count_call(&counted_##symbol, result, size);                                      \
		return result;                                                                    \
	}

/* The same function with the per-thread default stream. */
#define COUNTED_TWINS(symbol, twin, size, parameters, ...) \
	COUNTED(symbol, size, parameters, __VA_ARGS__)     \
	COUNTED(symbol##twin, size, parameters, __VA_ARGS__)

/* ------------------------------------------------- allocation and release */

COUNTED(cuMemAlloc_v2, n, (CUdeviceptr * p, size_t n), p, n)
COUNTED(cuMemAllocPitch_v2, *pitch *h,
	(CUdeviceptr * p, size_t *pitch, size_t w, size_t h, unsigned int element), p, pitch, w, h,
	element)
COUNTED(cuMemAllocManaged, n, (CUdeviceptr * p, size_t n, unsigned int flags), p, n, flags)
COUNTED(cuMemAllocHost_v2, n, (void **p, size_t n), p, n)
COUNTED(cuMemHostAlloc, n, (void **p, size_t n, unsigned int flags), p, n, flags)
COUNTED(cuMemHostRegister_v2, n, (void *p, size_t n, unsigned int flags), p, n, flags)
COUNTED_TWINS(cuMemAllocAsync, _ptsz, n, (CUdeviceptr * p, size_t n, CUstream s), p, n, s)
COUNTED_TWINS(cuMemAllocFromPoolAsync, _ptsz, n,
	      (CUdeviceptr * p, size_t n, CUmemoryPool pool, CUstream s), p, n, pool, s)
COUNTED(cuMemCreate, n,
	(CUmemGenericAllocationHandle * handle, size_t n, const CUmemAllocationProp *property,
	 unsigned long long flags),
	handle, n, property, flags)
COUNTED(cuMemMap, n,
	(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle handle,
	 unsigned long long flags),
	p, n, offset, handle, flags)
COUNTED(cuArrayCreate_v2, 0, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *shape), array, shape)
COUNTED(cuArray3DCreate_v2, 0, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *shape), array,
	shape)

COUNTED(cuMemFree_v2, 0, (CUdeviceptr p), p)
COUNTED(cuMemFreeHost, 0, (void *p), p)
COUNTED(cuMemHostUnregister, 0, (void *p), p)
COUNTED_TWINS(cuMemFreeAsync, _ptsz, 0, (CUdeviceptr p, CUstream s), p, s)
COUNTED(cuMemRelease, 0, (CUmemGenericAllocationHandle handle), handle)
COUNTED(cuMemUnmap, 0, (CUdeviceptr p, size_t n), p, n)
COUNTED(cuArrayDestroy, 0, (CUarray array), array)

/* ------------------------------------------------------ copies and memsets */

COUNTED_TWINS(cuMemcpy, _ptds, n, (CUdeviceptr to, CUdeviceptr from, size_t n), to, from, n)
COUNTED_TWINS(cuMemcpyAsync, _ptsz, n, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), to,
	      from, n, s)
COUNTED_TWINS(cuMemcpyHtoD_v2, _ptds, n, (CUdeviceptr to, const void *from, size_t n), to, from, n)
COUNTED_TWINS(cuMemcpyDtoH_v2, _ptds, n, (void *to, CUdeviceptr from, size_t n), to, from, n)
COUNTED_TWINS(cuMemcpyDtoD_v2, _ptds, n, (CUdeviceptr to, CUdeviceptr from, size_t n), to, from, n)
COUNTED_TWINS(cuMemcpyHtoDAsync_v2, _ptsz, n,
	      (CUdeviceptr to, const void *from, size_t n, CUstream s), to, from, n, s)
COUNTED_TWINS(cuMemcpyDtoHAsync_v2, _ptsz, n, (void *to, CUdeviceptr from, size_t n, CUstream s),
	      to, from, n, s)
COUNTED_TWINS(cuMemcpyDtoDAsync_v2, _ptsz, n,
	      (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), to, from, n, s)
COUNTED_TWINS(cuMemcpyPeer, _ptds, n,
	      (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n), to,
	      there, from, here, n)
COUNTED_TWINS(cuMemcpyPeerAsync, _ptsz, n,
	      (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n,
	       CUstream s),
	      to, there, from, here, n, s)
COUNTED_TWINS(cuMemcpy2D_v2, _ptds, copy->WidthInBytes * copy->Height, (const CUDA_MEMCPY2D *copy),
	      copy)
COUNTED_TWINS(cuMemcpy2DUnaligned_v2, _ptds, copy->WidthInBytes * copy->Height,
	      (const CUDA_MEMCPY2D *copy), copy)
COUNTED_TWINS(cuMemcpy2DAsync_v2, _ptsz, copy->WidthInBytes * copy->Height,
	      (const CUDA_MEMCPY2D *copy, CUstream s), copy, s)
COUNTED_TWINS(cuMemcpy3D_v2, _ptds, copy->WidthInBytes * copy->Height * copy->Depth,
	      (const CUDA_MEMCPY3D *copy), copy)
COUNTED_TWINS(cuMemcpy3DAsync_v2, _ptsz, copy->WidthInBytes * copy->Height * copy->Depth,
	      (const CUDA_MEMCPY3D *copy, CUstream s), copy, s)

COUNTED_TWINS(cuMemsetD8_v2, _ptds, n, (CUdeviceptr p, unsigned char value, size_t n), p, value, n)
COUNTED_TWINS(cuMemsetD16_v2, _ptds, n * 2, (CUdeviceptr p, unsigned short value, size_t n), p,
	      value, n)
COUNTED_TWINS(cuMemsetD32_v2, _ptds, n * 4, (CUdeviceptr p, unsigned int value, size_t n), p, value,
	      n)
COUNTED_TWINS(cuMemsetD8Async, _ptsz, n, (CUdeviceptr p, unsigned char value, size_t n, CUstream s),
	      p, value, n, s)
COUNTED_TWINS(cuMemsetD16Async, _ptsz, n * 2,
	      (CUdeviceptr p, unsigned short value, size_t n, CUstream s), p, value, n, s)
COUNTED_TWINS(cuMemsetD32Async, _ptsz, n * 4,
	      (CUdeviceptr p, unsigned int value, size_t n, CUstream s), p, value, n, s)

COUNTED_TWINS(cuMemsetD2D8_v2, _ptds, w *h,
	      (CUdeviceptr p, size_t pitch, unsigned char value, size_t w, size_t h), p, pitch,
	      value, w, h)
COUNTED_TWINS(cuMemsetD2D16_v2, _ptds, 2 * w * h,
	      (CUdeviceptr p, size_t pitch, unsigned short value, size_t w, size_t h), p, pitch,
	      value, w, h)
COUNTED_TWINS(cuMemsetD2D32_v2, _ptds, 4 * w * h,
	      (CUdeviceptr p, size_t pitch, unsigned int value, size_t w, size_t h), p, pitch,
	      value, w, h)
COUNTED_TWINS(cuMemsetD2D8Async, _ptsz, w *h,
	      (CUdeviceptr p, size_t pitch, unsigned char value, size_t w, size_t h, CUstream s), p,
	      pitch, value, w, h, s)
COUNTED_TWINS(cuMemsetD2D16Async, _ptsz, 2 * w * h,
	      (CUdeviceptr p, size_t pitch, unsigned short value, size_t w, size_t h, CUstream s),
	      p, pitch, value, w, h, s)
COUNTED_TWINS(cuMemsetD2D32Async, _ptsz, 4 * w * h,
	      (CUdeviceptr p, size_t pitch, unsigned int value, size_t w, size_t h, CUstream s), p,
	      pitch, value, w, h, s)

/* ------------------------------------------------------ launches and waits */

COUNTED_TWINS(cuLaunchKernel, _ptsz, 0,
	      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	       unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **parameters,
	       void **extra),
	      f, gx, gy, gz, bx, by, bz, shared, s, parameters, extra)
COUNTED_TWINS(cuLaunchKernelEx, _ptsz, 0,
	      (const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra), config,
	      f, parameters, extra)
COUNTED_TWINS(cuGraphLaunch, _ptsz, 0, (CUgraphExec graph, CUstream s), graph, s)
COUNTED_TWINS(cuEventRecord, _ptsz, 0, (CUevent event, CUstream s), event, s)
COUNTED_TWINS(cuStreamSynchronize, _ptsz, 0, (CUstream s), s)
COUNTED(cuModuleLoadData, 0, (CUmodule * module, const void *image), module, image)

/* ------------------------------------------------------------------ doors */

static void *wrapper_of(void *address)
{
	for (struct counted *const *each = __start_counted; each < __stop_counted; each++) {
		if (libcuda_symbol((*each)->name) == address)
			return (*each)->wrapper;
	}
	return address;
}

EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version,
					 cuuint64_t flags)
{
	__typeof__(&cuGetProcAddress) real =
		(__typeof__(&cuGetProcAddress))libcuda_symbol("cuGetProcAddress");
	CUresult result = real(symbol, pfn, version, flags);

	if (result == CUDA_SUCCESS && *pfn)
		*pfn = wrapper_of(*pfn);
	return result;
}

EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
					    cuuint64_t flags,
					    CUdriverProcAddressQueryResult *status)
{
	__typeof__(&cuGetProcAddress_v2) real =
		(__typeof__(&cuGetProcAddress_v2))libcuda_symbol("cuGetProcAddress_v2");
	CUresult result = real(symbol, pfn, version, flags, status);

	if (result == CUDA_SUCCESS && *pfn)
		*pfn = wrapper_of(*pfn);
	if (result == CUDA_SUCCESS && *pfn == libcuda_symbol("cuGetProcAddress"))
		*pfn = (void *)cuGetProcAddress;
	if (result == CUDA_SUCCESS && *pfn == (void *)real)
		*pfn = (void *)cuGetProcAddress_v2;
	return result;
}

void *count_real_dlsym;
void *count_pick(void *handle, const char *name);

/*
 * Our answer to dlsym, or NULL to let libc answer.  Only used alone: beneath
 * the interposer its dlsym comes first.
 */
__attribute__((used, visibility("hidden"))) void *count_pick(void *handle, const char *name)
{
	if (!count_real_dlsym)
		count_real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (handle == RTLD_NEXT || !name || name[0] != 'c' || name[1] != 'u')
		return NULL;
	if (!libcuda_symbol(name))
		return NULL;
	if (!strcmp(name, "cuGetProcAddress"))
		return (void *)cuGetProcAddress;
	if (!strcmp(name, "cuGetProcAddress_v2"))
		return (void *)cuGetProcAddress_v2;
	for (struct counted *const *each = __start_counted; each < __stop_counted; each++) {
		if (!strcmp((*each)->name, name))
			return (*each)->wrapper;
	}
	return NULL;
}

/* A jump, not a call: libc finds the start of RTLD_NEXT by the return address. */
__asm__(".pushsection .text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	pushq %rsi\n"
	"	subq $8, %rsp\n"
	"	call count_pick\n"
	"	addq $8, %rsp\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	movq count_real_dlsym@GOTPCREL(%rip), %rax\n"
	"	jmpq *(%rax)\n"
	".size dlsym, . - dlsym\n"
	".popsection\n");
