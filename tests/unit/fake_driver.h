/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_driver.h - a driver that a test moves by hand, behind the real wrappers,
 * and the records that came of it.
 */
#ifndef CUSTODY_TESTS_FAKE_DRIVER_H
#define CUSTODY_TESTS_FAKE_DRIVER_H

#include "core/record.h"
#include "intercept/driver_table.h"

/* What the next call answers, and what it hands out. */
extern CUresult fake_result;
extern CUdeviceptr fake_address;
extern CUcontext fake_context;	     /* that cuCtxGetCurrent tells */
extern CUresult fake_context_result; /* what a question about it is answered */

/* Make `function` what stands behind a wrapper. */
void fake_set(enum api api, void *function);

/* cuMemAlloc and cuMemFree, as fake_result and fake_address tell. */
CUresult CUDAAPI fake_give_address(CUdeviceptr *address, size_t bytes);
CUresult CUDAAPI fake_free_address(CUdeviceptr address);

/* cuMemCreate, which hands out this, and what maps, unmaps and releases it. */
enum { FAKE_MEMORY = 0x33 };
void fake_set_mapping(void);

/* Allocate through the wrapper; the id of the block. */
uint64_t fake_allocate(CUdeviceptr address, size_t bytes);

/* A session, the functions every test needs, a current context. */
void fake_start(void);
void fake_stop(void);

/* The same without a session, where nothing shall be recorded. */
void fake_begin(void);

/*
 * Records of this thread since the last look, those of identities left out.
 * They stay good until the next look.
 */
enum { FAKE_RECORDS = 64 };
struct fake_look {
	uint32_t count;
	struct record record[FAKE_RECORDS];
};
const struct fake_look *fake_look(void);

/* The single record since the last look, which must be of this kind and function. */
const struct record *fake_look_one(enum record_kind kind, enum api api);

/* Calls and errors counted by this thread; the slot is found by the function. */
uint64_t fake_counted(enum api api);
uint64_t fake_counted_errors(enum api api);

#endif
