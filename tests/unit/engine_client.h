/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_client.h - what libcustody does with the engine, on the fake driver.
 */
#ifndef CUSTODY_TESTS_ENGINE_CLIENT_H
#define CUSTODY_TESTS_ENGINE_CLIENT_H

#include "fake_queue.h"
#include "intercept/engine.h"

extern const struct engine *engine;
extern uint32_t engine_context; /* number of the current context */

/* A preload under a policy, with the engine in use; the second half of that alone. */
void engine_start(const char *policy);
void engine_begin(void);

/* A free of the library's; of so many new blocks, which lie one behind the other. */
CUresult engine_free(CUdeviceptr address);
CUdeviceptr engine_free_new(uint32_t count);

/* Streams or events with handles from `first` on; they were freed in this function. */
void engine_retire(enum deferq_kind kind, uint64_t first, uint32_t count);

struct deferq_statistics engine_statistics(void);
uint64_t engine_waiting(enum queue_kind kind);

#endif
