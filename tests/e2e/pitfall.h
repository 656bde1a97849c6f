/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pitfall.h - what the cases of the client `pitfall` share.
 *
 * Each case walks into one trap of the driver's interface and prints what the
 * program sees of it: facts that hold on the simulated driver and on a GPU alike,
 * and nothing that differs from run to run.
 */
#ifndef CUSTODY_TESTS_E2E_PITFALL_H
#define CUSTODY_TESTS_E2E_PITFALL_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* The primary context of device 0 and two streams that order with nothing. */
struct pitfall {
	CUdevice device;
	CUcontext context;
	CUstream stream, other;
	volatile uint32_t *flag; /* page-locked: what held streams wait for */
};

extern struct pitfall pitfall;

void pitfall_start(void);

/* One line: "what: value". */
void tell(const char *what, long long value);

/* A call that must succeed, or it ends the client. */
#define need(call) need_success((call), #call)
void need_success(CUresult result, const char *what);

CUdeviceptr new_block(size_t bytes);

/* Device memory in use, as cuMemGetInfo tells it. */
size_t used_bytes(void);

/* The stream stands still until the flag is set: now, or in a while by another thread. */
void hold(CUstream stream);
void let_go(void);
void let_go_after(unsigned milliseconds);
/* Whether it has been set. */
int is_let_go(void);
/* Waits for that other thread. */
void join_letting_go(void);

/* Whether all work of the stream is done. */
int is_done(CUstream stream);

/* The first word at an address. */
uint32_t read_word(CUdeviceptr address);

/* Memory of the device as cuMemCreate and cuMemPoolCreate want to hear it. */
CUmemAllocationProp handle_properties(CUmemAllocationHandleType type);
CUmemPoolProps pool_properties(CUmemAllocationHandleType type);
CUmemAccessDesc full_access(void);

/*
 * Runs `taker` in a process that is forked before CUDA starts, `giver` in this one.
 * They talk over a line; a descriptor goes along where `fd` is not -1.
 */
void run_two(void (*giver)(void), void (*taker)(void));
void send_bytes(const void *bytes, size_t count, int fd);
int receive_bytes(void *bytes, size_t count);
/* "Your turn", and waiting to hear that. */
void hand_over(void);
void wait_for_turn(void);

struct pitfall_case {
	const char *name;
	void (*run)(void);
};

/* Each ends with a row without a name. */
extern const struct pitfall_case pitfall_memory_cases[];
extern const struct pitfall_case pitfall_pool_cases[];
extern const struct pitfall_case pitfall_vmm_cases[];
extern const struct pitfall_case pitfall_share_cases[];
extern const struct pitfall_case pitfall_context_cases[];
extern const struct pitfall_case pitfall_copy_cases[];
extern const struct pitfall_case pitfall_graph_cases[];
extern const struct pitfall_case pitfall_capture_cases[];
extern const struct pitfall_case pitfall_module_cases[];
extern const struct pitfall_case pitfall_peer_cases[];

#endif
