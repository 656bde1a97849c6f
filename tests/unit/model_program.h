/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_program.h - a program that allocates and frees on the model driver, and
 * the books of what became of it: everything that is reported closed must be
 * back at the device, and nothing is closed more often than it was put off.
 *
 * Contexts 1 and 2 are on device 0, 3 and 4 on device 1; a device has 1000 bytes
 * and the machine 500, so that a ratio of 0.2 makes limits of 200 and 100.
 */
#ifndef CUSTODY_TESTS_MODEL_PROGRAM_H
#define CUSTODY_TESTS_MODEL_PROGRAM_H

#include "model_driver.h"

enum { PROGRAM_TOLD = 512, DEVICE_BYTES = 1000, HOST_BYTES = 500 };

/* Of the next program_queue(); the count is 10, the ratio 0.2, as documented. */
extern struct deferq_settings program_settings;

/* A world anew, nothing pending anywhere, context 1 current.  For a fixture. */
void program_begin(void);

/*
 * Complains where a context was left pushed, the gate not left or an event lost;
 * for a fixture, when the threads are gone.
 */
void program_end(void);

/* The queue of a context. */
struct deferq *program_queue(uint32_t context);

/* Allocate, and free all that was allocated so, now in use or not. */
uint64_t program_make(uint32_t context, enum deferq_kind kind, uint64_t bytes);
enum deferq_answer program_free(uint64_t handle);

/* Be given the address of a block that is back at the device; false: it is not. */
bool program_remake(uint64_t handle);

/* Make and free at once `count` of them; the handle of the first, the others follow it. */
uint64_t program_free_new(uint32_t context, enum deferq_kind kind, uint64_t bytes, int count);
uint64_t program_nth(uint64_t first, int n);

/* Each behind a piece of work of its own, the last that uses it. */
uint64_t program_free_behind_work(uint32_t context, enum deferq_kind kind, uint64_t bytes,
				  int count);

/* How many of these were released; whether all were, each once. */
uint32_t program_released(uint64_t first, int count);
bool program_all_released(uint64_t first, int count);

/* The gate is shut, and no call may be made. */
void program_begin_capture(void);
void program_end_capture(void);

/* Whether frees of this thread say that they do not wait, as those of the library. */
extern _Thread_local bool program_is_nowait;

/* What the last free of this thread was answered. */
extern _Thread_local CUresult program_result;
extern _Thread_local uint64_t program_waited;

/* As the calls of deferq.h are named, with the report booked. */
void program_collect(uint32_t context);
void program_flush(uint32_t context, bool does_wait);
void program_synchronize(uint32_t context);
bool program_out_of_memory(int device);
bool program_resume(uint32_t context);
void program_reuse(uint64_t address, uint64_t bytes, uint64_t tick);

/* What this thread was told since the last look, in order. */
struct program_told {
	uint32_t count;
	uint32_t flush_count;
	struct deferq_item items[PROGRAM_TOLD];
	struct deferq_flush flushes[PROGRAM_TOLD];
};
const struct program_told *program_look(void);

/* How often this was put off, and how often reported closed, by any thread. */
uint32_t program_queued(uint64_t handle);
uint32_t program_closes(uint64_t handle);

/* Items that wait, of both queues of a context or of one; and those that are issued. */
uint64_t program_waiting(uint32_t context);
uint64_t program_waiting_in(uint32_t context, enum queue_kind kind);
uint64_t program_issued(uint32_t context);

#endif
