/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "core/lock.h"
#include "intercept/real.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST_CAPTURES = 256 };

struct capture {
	uint64_t stream; /* from key_of() */
	uint32_t context;
};

/* Its address tells threads apart. */
static __thread char thread_mark __attribute__((tls_model("initial-exec")));

/* The table grows as long as there is memory and never shrinks. */
static struct capture first_table[FIRST_CAPTURES];
static struct capture *table = first_table;
static uint32_t capacity = FIRST_CAPTURES;
static uint32_t count;
static struct lock lock;

/* The legacy stream cannot be captured, and asking about it is an error while others are. */
static CUstreamCaptureStatus ask_status(uint64_t stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	int saved_errno = errno;

	if (stream == STREAM_NONE || stream == STREAM_LEGACY)
		return status;
	if (REAL(driver, cuStreamIsCapturing)((CUstream)(uintptr_t)stream, &status) != CUDA_SUCCESS)
		status = CU_STREAM_CAPTURE_STATUS_NONE;
	errno = saved_errno;
	return status;
}

bool capture_ask(uint64_t stream)
{
	return ask_status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

enum { NOT_EXCHANGED = -1 };

int capture_ignore(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (!real_has(API_cuThreadExchangeStreamCaptureMode) ||
	    REAL(driver, cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		return NOT_EXCHANGED;
	return (int)mode;
}

void capture_mind(int before)
{
	CUstreamCaptureMode mode = (CUstreamCaptureMode)before;

	if (before != NOT_EXCHANGED)
		REAL(driver, cuThreadExchangeStreamCaptureMode)(&mode);
}

bool capture_goes_on(uint64_t stream)
{
	return ask_status(stream) != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Under the lock. */
static bool grow(void)
{
	size_t bytes = capacity * sizeof(*table);
	int saved_errno = errno;
	void *map =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map != MAP_FAILED) {
		memcpy(map, table, bytes);
		if (table != first_table)
			munmap(table, bytes);
		table = map;
		capacity *= 2;
	}
	errno = saved_errno;
	return map != MAP_FAILED;
}

/* The per-thread streams of all threads have one handle, and each is its thread's alone. */
static uint64_t key_of(uint64_t stream)
{
	return stream == STREAM_PER_THREAD ? (uintptr_t)&thread_mark : stream;
}

/* One that there is no memory for keeps the gate shut for good: the safe side. */
void capture_add(uint64_t stream, uint32_t context)
{
	lock_take(&lock);
	if (count < capacity || grow())
		table[count++] = (struct capture){ key_of(stream), context };
	lock_give(&lock);
}

/* Under the lock. */
static void remove_at(uint32_t i)
{
	table[i] = table[--count];
	gate_open();
}

void capture_remove(uint64_t stream, uint32_t context)
{
	uint64_t key = key_of(stream);

	lock_take(&lock);
	for (uint32_t i = 0; i < count; i++) {
		if (table[i].stream == key &&
		    (table[i].context == context || stream != STREAM_PER_THREAD)) {
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
		if (table[i].context == context)
			remove_at(i);
	lock_give(&lock);
}

void capture_reset(void)
{
	count = 0;
	lock_give(&lock);
}
