/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "core/lock.h"
#include "intercept/real.h"

#include <errno.h>
#include <stdatomic.h>

_Atomic uint32_t capture_live_count;

/* More captures at once than this are not told apart; their records lack the flag. */
enum { CAPTURES = 256 };

/* The per-thread stream of two threads has one handle: each begin takes a slot of its own. */
static struct {
	uint64_t stream;
	uint32_t context;
} captures[CAPTURES];
static uint32_t count;
static struct lock lock;

/*
 * The legacy stream cannot be captured, and asking about it while a blocking
 * stream captures is answered by an error.
 */
bool capture_ask(uint64_t stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	int saved_errno = errno;
	CUresult result;

	if (stream == STREAM_NONE || stream == STREAM_LEGACY)
		return false;
	result = REAL(driver, cuStreamIsCapturing)((CUstream)(uintptr_t)stream, &status);
	errno = saved_errno;
	return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void capture_add(uint64_t stream, uint32_t context)
{
	lock_take(&lock);
	if (count < CAPTURES) {
		captures[count].stream = stream;
		captures[count].context = context;
		count++;
	}
	atomic_store_explicit(&capture_live_count, count, memory_order_release);
	lock_give(&lock);
}

/* Under the lock. */
static void remove_at(uint32_t i)
{
	captures[i] = captures[--count];
	atomic_store_explicit(&capture_live_count, count, memory_order_release);
}

void capture_remove(uint64_t stream, uint32_t context)
{
	lock_take(&lock);
	for (uint32_t i = 0; i < count; i++) {
		if (captures[i].stream == stream &&
		    (captures[i].context == context || stream != STREAM_PER_THREAD)) {
			remove_at(i);
			break;
		}
	}
	lock_give(&lock);
}

void capture_remove_context(uint32_t context)
{
	lock_take(&lock);
	for (uint32_t i = count; i-- > 0;)
		if (captures[i].context == context)
			remove_at(i);
	lock_give(&lock);
}

void capture_reset(void)
{
	count = 0;
	atomic_store_explicit(&capture_live_count, 0, memory_order_relaxed);
	lock_give(&lock);
}
