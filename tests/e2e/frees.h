/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees.h - what the clients share that free while work is pending.
 *
 * Each prints facts: what a program sees of its own frees, and nothing that
 * differs from run to run.  frees.sh runs a client bare, then under each policy,
 * and compares.  All of them run on the simulated driver, with the kernels of
 * frees_kernels.c.
 */
#ifndef CUSTODY_TESTS_E2E_FREES_H
#define CUSTODY_TESTS_E2E_FREES_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* The primary context of device 0, two streams that order with nothing, kernels. */
struct frees {
	CUdevice device;
	CUcontext context;
	CUstream work, quiet;
	CUmodule module;
	CUfunction delay, fill, poll;
	volatile uint32_t *flag; /* pinned: what held streams wait for */
};

extern struct frees frees;

/* Print one line, or end the client unless `is_true`. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void require(int is_true, const char *what);

/* A call that must succeed. */
#define do_call(call) require_success((call), #call)
void require_success(CUresult result, const char *what);

void frees_start(void);
/* Contexts forget their streams and modules: take them anew. */
void frees_take(void);
/* The context is current in this thread from now on. */
void frees_enter(void);

CUdeviceptr frees_block(size_t bytes);

/* The stream stands still until the flag is set: now, or in a while by another thread. */
void frees_hold(CUstream stream);
void frees_let_go(void);
void frees_let_go_after(unsigned milliseconds);
/* Whether it is set, and the end of that other thread. */
int frees_is_let_go(void);
void frees_join(void);

/* A kernel of that length; one that writes words. */
void frees_busy(CUstream stream, unsigned milliseconds);
void frees_fill(CUstream stream, uint64_t address, uint32_t value, uint32_t words);

/* The case named by the first argument; the rest of them follow. */
struct frees_case {
	const char *name;
	void (*run)(char **arguments);
};

int frees_main(const struct frees_case *cases, char **arguments);

/* cuda.h gives this name a newer meaning; an older driver has this one too. */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);

#endif
