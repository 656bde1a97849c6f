/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrapper.h - what the generated wrappers are made of; private to them.
 */
#ifndef CUSTODY_INTERCEPT_WRAPPER_H
#define CUSTODY_INTERCEPT_WRAPPER_H

#include "intercept/call.h"
#include "intercept/deferral.h"
#include "intercept/doors.h"
#include "intercept/gpu_times.h"
#include "intercept/guard.h"
#include "intercept/hook.h"
#include "intercept/hook_copy.h"
#include "intercept/hook_guard.h"
#include "intercept/hook_room.h"
#include "intercept/oom.h"
#include "intercept/reading.h"
#include "intercept/real.h"

#define EXPORT __attribute__((visibility("default")))

/* The words of driver.tbl's hook column; all of them see the wrapper's `call`. */
#define OUT(pointer) (call.result == CUDA_SUCCESS && (pointer) ? (uint64_t)*(pointer) : 0)
#define ADDR(pointer) ((uint64_t)(uintptr_t)(pointer))

enum { SYNC = 0, ASYNC = 1 };

/* Stream 0 means the legacy stream or the thread's own, by the door it came through. */
static inline uint64_t stream_of(CUstream stream, uint64_t zero)
{
	return stream ? (uint64_t)(uintptr_t)stream : zero;
}

#define STREAM_OF_LEGACY(stream) stream_of(stream, STREAM_LEGACY)
#define STREAM_OF_THREAD(stream) stream_of(stream, STREAM_PER_THREAD)
#define PLACES(kind, source, target, is_async) AUX_TRANSFER(kind, source, target, is_async)

#endif
