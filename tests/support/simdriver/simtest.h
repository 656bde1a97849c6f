/* SPDX-License-Identifier: Apache-2.0 */
/* Private: what the tests of the simulated driver share. */
#ifndef SIM_SIMTEST_H
#define SIM_SIMTEST_H

#include <check.h>
#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A context, a non-blocking stream and a word that holds the stream up. */
struct bench {
	CUcontext context;
	CUdevice device;
	CUstream stream;
	CUmodule module;
	CUfunction delay, fill;
	volatile uint32_t *gate;
};

/* cuInit and all of that; in the child process of each test. */
void bench_open(struct bench *bench);
/* The stream stands still until the gate is opened. */
void bench_hold(struct bench *bench, CUstream stream);
void bench_release(struct bench *bench);
/* Keeps a stream busy for a while. */
void bench_busy(struct bench *bench, CUstream stream, unsigned milliseconds);
size_t bench_free_bytes(void);

#define ck_cu(call) ck_assert_int_eq((int)(call), (int)CUDA_SUCCESS)
#define ck_cu_is(call, code) ck_assert_int_eq((int)(call), (int)(code))

enum { MIB = 1 << 20 };

Suite *suite_memory(void);
Suite *suite_stream(void);
Suite *suite_pool(void);
Suite *suite_mapping(void);
Suite *suite_capture(void);
Suite *suite_graph(void);
Suite *suite_ledger(void);
Suite *suite_lookup(void);
Suite *suite_external(void);
Suite *suite_green(void);
Suite *suite_peer(void);
Suite *suite_share(void);
Suite *suite_setting(void);

#endif
