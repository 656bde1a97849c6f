/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover_copy.c - one-dimensional copies, memsets and prefetches: every function
 * and every twin, a row of a table each.
 */
#include "cover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, PIECE = 10000 };

/* Where copies go from and to: of device memory, and of each kind of host memory. */
static CUdeviceptr left, right, managed;
static unsigned char pageable[BYTES];
static unsigned char *pinned, *registered;
static CUstream stream;

static void note(const char *kind, const char *api, size_t bytes, uint64_t source, uint64_t target,
		 const char *on)
{
	struct copy_note copy = {
		.kind = kind,
		.api = api,
		.bytes = bytes,
		.source = source,
		.target = target,
		.stream = on ? on : cover_default_stream(api),
		.is_async = strstr(api, "Async") != NULL,
	};

	note_copy(&copy);
	/* The next may go another way, by a stream that does not wait for this one. */
	must("cuCtxSynchronize", cuCtxSynchronize());
	note_operation("cuCtxSynchronize", "none", 0);
}

static uint64_t at(const void *host)
{
	return (uintptr_t)host;
}

/* ---------------------------------------------------------- no direction said */

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t);
} unified[] = {
	{ "cuMemcpy", cuMemcpy },
	{ "cuMemcpy_ptds", cuMemcpy_ptds },
};

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
} unified_async[] = {
	{ "cuMemcpyAsync", cuMemcpyAsync },
	{ "cuMemcpyAsync_ptsz", cuMemcpyAsync_ptsz },
};

struct route {
	const char *kind;
	uint64_t source, target;
};

static void copy_unified(const struct route *route)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		must(unified[i].api, unified[i].copy(route->target, route->source, PIECE));
		note(route->kind, unified[i].api, PIECE, route->source, route->target, NULL);
		must(unified_async[i].api,
		     unified_async[i].copy(route->target, route->source, PIECE, NULL));
		note(route->kind, unified_async[i].api, PIECE, route->source, route->target, NULL);
		must(unified_async[i].api,
		     unified_async[i].copy(route->target, route->source, PIECE, stream));
		note(route->kind, unified_async[i].api, PIECE, route->source, route->target, "own");
	}
}

static void copies_without_direction(void)
{
	const struct route routes[] = {
		{ "H2D", at(pageable), left },	       { "D2H", left + 100, at(pageable) + 3 },
		{ "D2D", left, right + 4096 },	       { "H2D", at(pinned) + 64, right },
		{ "D2H", right, at(registered) },      { "H2H", at(pinned), at(pageable) },
		{ "H2H", at(registered), at(pinned) },
	};
	unsigned i;

	for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		copy_unified(&routes[i]);
}

/* ------------------------------------------------------------- direction said */

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, const void *, size_t);
} to_device[] = {
	{ "cuMemcpyHtoD_v2", cuMemcpyHtoD_v2 },
	{ "cuMemcpyHtoD_v2_ptds", cuMemcpyHtoD_v2_ptds },
};

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, const void *, size_t, CUstream);
} to_device_async[] = {
	{ "cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync_v2 },
	{ "cuMemcpyHtoDAsync_v2_ptsz", cuMemcpyHtoDAsync_v2_ptsz },
};

static const struct {
	const char *api;
	CUresult (*copy)(void *, CUdeviceptr, size_t);
} to_host[] = {
	{ "cuMemcpyDtoH_v2", cuMemcpyDtoH_v2 },
	{ "cuMemcpyDtoH_v2_ptds", cuMemcpyDtoH_v2_ptds },
};

static const struct {
	const char *api;
	CUresult (*copy)(void *, CUdeviceptr, size_t, CUstream);
} to_host_async[] = {
	{ "cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync_v2 },
	{ "cuMemcpyDtoHAsync_v2_ptsz", cuMemcpyDtoHAsync_v2_ptsz },
};

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t);
} on_device[] = {
	{ "cuMemcpyDtoD_v2", cuMemcpyDtoD_v2 },
	{ "cuMemcpyDtoD_v2_ptds", cuMemcpyDtoD_v2_ptds },
};

static const struct {
	const char *api;
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
} on_device_async[] = {
	{ "cuMemcpyDtoDAsync_v2", cuMemcpyDtoDAsync_v2 },
	{ "cuMemcpyDtoDAsync_v2_ptsz", cuMemcpyDtoDAsync_v2_ptsz },
};

static void copies_to_device(unsigned i)
{
	must(to_device[i].api, to_device[i].copy(left + 7, pageable, 1));
	note("H2D", to_device[i].api, 1, at(pageable), left + 7, NULL);
	must(to_device[i].api, to_device[i].copy(managed, pinned, PIECE));
	note("H2D", to_device[i].api, PIECE, at(pinned), managed, NULL);
	must(to_device_async[i].api, to_device_async[i].copy(left, registered, BYTES, stream));
	note("H2D", to_device_async[i].api, BYTES, at(registered), left, "own");
	must(to_device_async[i].api, to_device_async[i].copy(left, pageable, 12, NULL));
	note("H2D", to_device_async[i].api, 12, at(pageable), left, NULL);
}

static void copies_to_host(unsigned i)
{
	must(to_host[i].api, to_host[i].copy(pageable, right, 4));
	note("D2H", to_host[i].api, 4, right, at(pageable), NULL);
	must(to_host_async[i].api, to_host_async[i].copy(pinned, right, 4096, stream));
	note("D2H", to_host_async[i].api, 4096, right, at(pinned), "own");
	must(to_host_async[i].api, to_host_async[i].copy(registered, right, 40, NULL));
	note("D2H", to_host_async[i].api, 40, right, at(registered), NULL);
}

static void copies_on_device(unsigned i)
{
	must(on_device[i].api, on_device[i].copy(right, left, BYTES));
	note("D2D", on_device[i].api, BYTES, left, right, NULL);
	must(on_device_async[i].api, on_device_async[i].copy(left, right + 5, 50, stream));
	note("D2D", on_device_async[i].api, 50, right + 5, left, "own");
	must(on_device_async[i].api, on_device_async[i].copy(left, right, 60, NULL));
	note("D2D", on_device_async[i].api, 60, right, left, NULL);
}

/* A copy of nothing, and copies that the driver refuses. */
static void odd_copies(void)
{
	struct copy_note refused = {
		.kind = "H2D",
		.api = "cuMemcpyHtoD_v2",
		.bytes = PIECE,
		.source = at(pageable),
		.target = 0x1000,
		.target_kind = "device",
		.stream = "legacy",
		.result = CUDA_ERROR_INVALID_VALUE,
	};

	require(called("cuMemcpyHtoD_v2", cuMemcpyHtoD_v2(0x1000, pageable, PIECE)) ==
			CUDA_ERROR_INVALID_VALUE,
		"a copy to nowhere is refused");
	note_copy(&refused);
}

/* ------------------------------------------------------------------- memsets */

static const struct {
	const char *api;
	unsigned width;
	CUresult (*set8)(CUdeviceptr, unsigned char, size_t);
	CUresult (*set16)(CUdeviceptr, unsigned short, size_t);
	CUresult (*set32)(CUdeviceptr, unsigned, size_t);
} sets[] = {
	{ "cuMemsetD8_v2", 1, .set8 = cuMemsetD8_v2 },
	{ "cuMemsetD8_v2_ptds", 1, .set8 = cuMemsetD8_v2_ptds },
	{ "cuMemsetD16_v2", 2, .set16 = cuMemsetD16_v2 },
	{ "cuMemsetD16_v2_ptds", 2, .set16 = cuMemsetD16_v2_ptds },
	{ "cuMemsetD32_v2", 4, .set32 = cuMemsetD32_v2 },
	{ "cuMemsetD32_v2_ptds", 4, .set32 = cuMemsetD32_v2_ptds },
};

static const struct {
	const char *api;
	unsigned width;
	CUresult (*set8)(CUdeviceptr, unsigned char, size_t, CUstream);
	CUresult (*set16)(CUdeviceptr, unsigned short, size_t, CUstream);
	CUresult (*set32)(CUdeviceptr, unsigned, size_t, CUstream);
} sets_async[] = {
	{ "cuMemsetD8Async", 1, .set8 = cuMemsetD8Async },
	{ "cuMemsetD8Async_ptsz", 1, .set8 = cuMemsetD8Async_ptsz },
	{ "cuMemsetD16Async", 2, .set16 = cuMemsetD16Async },
	{ "cuMemsetD16Async_ptsz", 2, .set16 = cuMemsetD16Async_ptsz },
	{ "cuMemsetD32Async", 4, .set32 = cuMemsetD32Async },
	{ "cuMemsetD32Async_ptsz", 4, .set32 = cuMemsetD32Async_ptsz },
};

static const struct {
	const char *api;
	unsigned width;
	CUresult (*set8)(CUdeviceptr, size_t, unsigned char, size_t, size_t);
	CUresult (*set16)(CUdeviceptr, size_t, unsigned short, size_t, size_t);
	CUresult (*set32)(CUdeviceptr, size_t, unsigned, size_t, size_t);
} sets_2d[] = {
	{ "cuMemsetD2D8_v2", 1, .set8 = cuMemsetD2D8_v2 },
	{ "cuMemsetD2D8_v2_ptds", 1, .set8 = cuMemsetD2D8_v2_ptds },
	{ "cuMemsetD2D16_v2", 2, .set16 = cuMemsetD2D16_v2 },
	{ "cuMemsetD2D16_v2_ptds", 2, .set16 = cuMemsetD2D16_v2_ptds },
	{ "cuMemsetD2D32_v2", 4, .set32 = cuMemsetD2D32_v2 },
	{ "cuMemsetD2D32_v2_ptds", 4, .set32 = cuMemsetD2D32_v2_ptds },
};

static const struct {
	const char *api;
	unsigned width;
	CUresult (*set8)(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream);
	CUresult (*set16)(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream);
	CUresult (*set32)(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
} sets_2d_async[] = {
	{ "cuMemsetD2D8Async", 1, .set8 = cuMemsetD2D8Async },
	{ "cuMemsetD2D8Async_ptsz", 1, .set8 = cuMemsetD2D8Async_ptsz },
	{ "cuMemsetD2D16Async", 2, .set16 = cuMemsetD2D16Async },
	{ "cuMemsetD2D16Async_ptsz", 2, .set16 = cuMemsetD2D16Async_ptsz },
	{ "cuMemsetD2D32Async", 4, .set32 = cuMemsetD2D32Async },
	{ "cuMemsetD2D32Async_ptsz", 4, .set32 = cuMemsetD2D32Async_ptsz },
};

static void check_set(CUdeviceptr address, unsigned width)
{
	unsigned char seen[4];

	require(!cuMemcpyDtoH_v2(seen, address, sizeof(seen)), "what was set can be read");
	called("cuMemcpyDtoH_v2", CUDA_SUCCESS);
	note("D2H", "cuMemcpyDtoH_v2", sizeof(seen), address, at(seen), NULL);
	require(seen[0] == 0x11 && seen[width - 1] == 0x11 * width, "the value was set");
}

static void sets_in_line(unsigned i)
{
	static const size_t count = 999;
	unsigned width = sets[i].width;

	if (width == 1)
		must(sets[i].api, sets[i].set8(left, 0x11, count));
	else if (width == 2)
		must(sets[i].api, sets[i].set16(left, 0x2211, count));
	else
		must(sets[i].api, sets[i].set32(left, 0x44332211, count));
	note("MEMSET", sets[i].api, count * width, 0, left, NULL);
	check_set(left, width);
	if (width == 1)
		must(sets_async[i].api, sets_async[i].set8(left + 8, 0x11, count, NULL));
	else if (width == 2)
		must(sets_async[i].api, sets_async[i].set16(left + 8, 0x2211, count, NULL));
	else
		must(sets_async[i].api, sets_async[i].set32(left + 8, 0x44332211, count, NULL));
	note("MEMSET", sets_async[i].api, count * width, 0, left + 8, NULL);
}

static void sets_in_rows(unsigned i)
{
	static const size_t pitch = 512, columns = 30, rows = 11;
	unsigned width = sets_2d[i].width;

	if (width == 1)
		must(sets_2d[i].api, sets_2d[i].set8(right, pitch, 0x11, columns, rows));
	else if (width == 2)
		must(sets_2d[i].api, sets_2d[i].set16(right, pitch, 0x2211, columns, rows));
	else
		must(sets_2d[i].api, sets_2d[i].set32(right, pitch, 0x44332211, columns, rows));
	note("MEMSET", sets_2d[i].api, columns * rows * width, 0, right, NULL);
	check_set(right + 2 * pitch, width);
	if (width == 1)
		must(sets_2d_async[i].api,
		     sets_2d_async[i].set8(right, pitch, 0x11, columns, rows, stream));
	else if (width == 2)
		must(sets_2d_async[i].api,
		     sets_2d_async[i].set16(right, pitch, 0x2211, columns, rows, stream));
	else
		must(sets_2d_async[i].api,
		     sets_2d_async[i].set32(right, pitch, 0x44332211, columns, rows, stream));
	note("MEMSET", sets_2d_async[i].api, columns * rows * width, 0, right, "own");
}

/* ------------------------------------------------------------------ the rest */

static void prefetches(void)
{
	CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };

	must("cuMemPrefetchAsync", cuMemPrefetchAsync(managed, PIECE, 0, NULL));
	note("PREFETCH", "cuMemPrefetchAsync", PIECE, 0, managed, NULL);
	must("cuMemPrefetchAsync_ptsz", cuMemPrefetchAsync_ptsz(managed, PIECE, 0, NULL));
	note("PREFETCH", "cuMemPrefetchAsync_ptsz", PIECE, 0, managed, NULL);
	must("cuMemPrefetchAsync_v2", cuMemPrefetchAsync_v2(managed, PIECE, device, 0, stream));
	note("PREFETCH", "cuMemPrefetchAsync_v2", PIECE, 0, managed, "own");
}

static void set_up(void)
{
	cover_start(0);
	left = cover_alloc(BYTES, NULL);
	right = cover_alloc(BYTES, NULL);
	must("cuMemAllocManaged", cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	note_alloc("managed", managed, BYTES, "cuMemAllocManaged");
	must("cuMemHostAlloc", cuMemHostAlloc((void **)&pinned, BYTES, 0));
	note_alloc("pinned", at(pinned), BYTES, "cuMemHostAlloc");
	registered = aligned_alloc(4096, BYTES);
	must("cuMemHostRegister_v2", cuMemHostRegister_v2(registered, BYTES, 0));
	note_alloc("registered", at(registered), BYTES, "cuMemHostRegister_v2");
	must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	note_operation("cuStreamCreate", "none", 0);
}

int main(void)
{
	unsigned i;

	set_up();
	copies_without_direction();
	for (i = 0; i < 2; i++) {
		copies_to_device(i);
		copies_to_host(i);
		copies_on_device(i);
	}
	odd_copies();
	for (i = 0; i < 6; i++) {
		sets_in_line(i);
		sets_in_rows(i);
	}
	prefetches();
	must("cuCtxSynchronize", cuCtxSynchronize());
	note_operation("cuCtxSynchronize", "none", 0);
	cover_end();
	return 0;
}
