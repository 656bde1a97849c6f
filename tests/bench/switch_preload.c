/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_preload.c - turns the interposer on and off in a running program, so
 * that both are measured in one process: two processes on one machine differ
 * by more than what is to be seen.
 *
 * Preloaded above the interposer (LD_PRELOAD="switch.so libcustody-preload.so"),
 * it hands out stubs (switch_stubs.awk) that jump either to the interposer's
 * wrappers or straight to libcuda.  switch_set(0) takes the interposer out of
 * the way, switch_set(1) puts it back.  While it is out it sees nothing, so what it
 * knows of blocks that came or went then is wrong: the figures of such a trace are
 * not to be used.  Nothing may be pending when it goes: the program synchronises.
 */
#include "libcuda_symbol.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { NAME_BYTES = 64, FUNCTIONS_MAX = 1024 };

extern const char switch_names[][NAME_BYTES];
extern const uint64_t switch_count;
extern void *const switch_stubs[];
extern void *volatile switch_target[];

static void *wrapper[FUNCTIONS_MAX]; /* the interposer's */
static void *driver[FUNCTIONS_MAX];  /* libcuda's own */

void *switch_next_dlsym;
void *switch_pick(void *handle, const char *name);
EXPORT void switch_set(int is_on);

static void *next_symbol(const char *name)
{
	return ((void *(*)(void *, const char *))switch_next_dlsym)(RTLD_NEXT, name);
}

__attribute__((constructor)) static void find_wrappers(void)
{
	if (switch_count > FUNCTIONS_MAX)
		abort();
	if (!switch_next_dlsym)
		switch_next_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	for (uint64_t i = 0; i < switch_count; i++) {
		wrapper[i] = next_symbol(switch_names[i]);
		switch_target[i] = wrapper[i];
	}
}

static void find_driver(void)
{
	for (uint64_t i = 0; i < switch_count; i++) {
		if (!driver[i])
			driver[i] = libcuda_symbol(switch_names[i]);
	}
}

/* Not while another thread is about to make a driver call. */
EXPORT void switch_set(int is_on)
{
	find_driver();
	for (uint64_t i = 0; i < switch_count; i++)
		switch_target[i] = is_on || !driver[i] ? wrapper[i] : driver[i];
}

/* ------------------------------------------------------------------ doors */

static void *stub_of(void *address)
{
	for (uint64_t i = 0; i < switch_count; i++) {
		if (address && (address == wrapper[i] || address == driver[i]))
			return switch_stubs[i];
	}
	return address;
}

EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
					    cuuint64_t flags,
					    CUdriverProcAddressQueryResult *status)
{
	__typeof__(&cuGetProcAddress_v2) next = next_symbol("cuGetProcAddress_v2");
	CUresult result = next(symbol, pfn, version, flags, status);

	find_driver();
	if (result == CUDA_SUCCESS && *pfn == (void *)next)
		*pfn = (void *)cuGetProcAddress_v2;
	else if (result == CUDA_SUCCESS)
		*pfn = stub_of(*pfn);
	return result;
}

/*
 * What the interposer answers is asked for first, so that it learns of the
 * look-up; NULL lets it, or libc, answer.
 */
__attribute__((used, visibility("hidden"))) void *switch_pick(void *handle, const char *name)
{
	void *answer;

	if (!switch_next_dlsym)
		switch_next_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (handle == RTLD_NEXT || !name || name[0] != 'c' || name[1] != 'u')
		return NULL;
	answer = ((void *(*)(void *, const char *))switch_next_dlsym)(handle, name);
	if (answer && !strcmp(name, "cuGetProcAddress_v2"))
		return (void *)cuGetProcAddress_v2;
	find_driver();
	return stub_of(answer);
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
	"	call switch_pick\n"
	"	addq $8, %rsp\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	movq switch_next_dlsym@GOTPCREL(%rip), %rax\n"
	"	jmpq *(%rax)\n"
	".size dlsym, . - dlsym\n"
	".popsection\n");
