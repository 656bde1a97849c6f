/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - private: what the tests of libcustody share.
 *
 * A test program has a suite and, where it needs any, stories.  Each test is a process
 * of its own (Check forks), whose parent never touches CUDA, so SIMCUDA_* settings are
 * made with setenv() at the head of a test.  The simulated driver is linked, so that a
 * test may call it directly: such calls are the program's and pass libcustody by.
 */
#ifndef CUSTODY_TESTS_FIXTURE_H
#define CUSTODY_TESTS_FIXTURE_H

#include <custody/custody.h>

#include <check.h>
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1 << 20 };

/* The suite of this program; main() of fixture.c runs it. */
Suite *library_suite(void);

/* A function of libcustody succeeds, or fails with this error; says why not. */
#define ck_ok(call) fixture_check(__FILE__, __LINE__, #call, (call), 0)
#define ck_is(call, error) fixture_check(__FILE__, __LINE__, #call, (call), (error))
void fixture_check(const char *file, int line, const char *call, int result, int expected);

/* A call to the driver itself. */
#define ck_cu(call) ck_assert_int_eq((int)(call), (int)CUDA_SUCCESS)
#define ck_cu_is(call, code) ck_assert_int_eq((int)(call), (int)(code))

/* A device, its primary context; both fail the test where there is none. */
struct custody_device *fixture_device(int ordinal);
struct custody_context *fixture_context(int ordinal);

/* Free device memory of a context as the driver says. */
size_t fixture_free_bytes(struct custody_context *context);

/* What waits in the context's queues: items of both, and bytes of memory and pinned ones. */
uint64_t fixture_pending_count(struct custody_context *context);
uint64_t fixture_pending_bytes(struct custody_context *context);

/*
 * Plain device memory in a context, by the driver's functions that libcustody gives out,
 * whose frees are put off; and pinned memory.  Neither changes what is current.
 */
CUdeviceptr fixture_allocate(struct custody_context *context, size_t bytes);
void fixture_free(struct custody_context *context, CUdeviceptr address);
void *fixture_allocate_pinned(struct custody_context *context, size_t bytes);
void fixture_free_pinned(struct custody_context *context, void *address);

/* The same `count` times over: each block is freed before the next is made. */
void fixture_free_some(struct custody_context *context, unsigned int count, size_t bytes);

/*
 * Hold up a stream of the current context: its later work waits until the release.  One
 * gate for all streams; `handle` may be CU_STREAM_LEGACY.
 */
void fixture_hold(CUstream handle);
void fixture_release(void);

/*
 * Count the driver's calls from now on, by whomever they are made; ahead of the first
 * call of the process.  fixture_calls() tells how often a symbol ("cuMemFree_v2") was
 * called since, NULL: any.  fixture_forget() begins anew.
 */
void fixture_watch(void);
unsigned int fixture_calls(const char *symbol);
void fixture_forget(void);

/* The same in what a story has printed under SIMCUDA_VERBOSE=1; `text` is taken apart. */
unsigned int fixture_count(char *text, const char *symbol);

/* A case of the suite whose tests begin with `setup`, which may be NULL, and may take a minute. */
TCase *fixture_case(Suite *suite, const char *name, SFun setup);

/*
 * A story is told by a process that runs this program anew: for what needs a life of
 * its own, as exit, fork, other settings or another process.  Its exit status is the
 * return value, and 1 where a check has failed.  After its return checks are made by
 * story_check() alone.
 */
struct fixture_story {
	const char *name;
	int (*tell)(void);
};

/* Defined by a program that has any; ends with a row of NULL. */
extern const struct fixture_story fixture_stories[];

/*
 * Run a story with "NAME=value" settings (NULL ends them; may be NULL), and keep its
 * standard output and error in `text`.  Returns the exit status, or -signal.
 */
int fixture_run(const char *story, const char *const *settings, char *text, size_t bytes);

/* As an assertion, at any time; ends the process with status 1 and a sentence. */
#define story_check(condition) fixture_story_check((condition), #condition, __LINE__)
void fixture_story_check(bool holds, const char *what, int line);

#endif
