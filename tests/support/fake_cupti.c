/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cupti.c - a libcupti.so.13 for the simulated driver: one slot for a
 * subscriber, activity records of what the device does, a thread of its own that
 * hands buffers over.  As in the real one, the record of an external id comes ahead
 * of the work, and only for functions whose calls are recorded.
 *
 *	FAKE_CUPTI_HOLDER=NAME	the slot is taken by that from the start
 *	FAKE_CUPTI_LATE=1	external ids come with the next buffer
 *	FAKE_CUPTI_REFUSE=KIND	that kind cannot be enabled
 *	FAKE_CUPTI_LOG=FILE	what is asked of it, one line each
 *
 * With FAKE_CUPTI_OLD it is an older one: no choice of functions, no clock but its
 * own, no name for a subscriber.
 */
#include "intercept/cupti_abi.h"
#include "simdriver/simwatch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOT_BYTES = 160, KINDS = 64, EARLIER_MAX = 64, TAKEN = CUPTI_TAKEN, REFUSED = 10,
       GOOD = CUPTI_GOOD, NO_MORE = 12, WRONG = 1 };

/* Functions that it has numbers for: the place in this list, from 1. */
static const char *const functions[] = {
#include "support/fake/functions.h"
};

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static struct {
	char holder[CUPTI_HOLDER_BYTES]; /* "" : the slot is free */
	bool is_on[KINDS];
	bool is_recorded[FUNCTIONS + 1];
	bool is_late;
	cupti_request request;
	cupti_complete complete;
	cupti_clock clock;
	uint8_t *buffer;
	size_t bytes, used;
	struct cupti_external earlier[EARLIER_MAX]; /* that come late */
	int earlier_count;
	uint32_t correlation;
	struct cupti_copy batch; /* of its correlation, so far */
} fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the worker is to hand over. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_started, is_full;
	uint8_t *buffer;
	size_t bytes, used;
} worker = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static __thread struct {
	uint64_t id[16];
	int depth;
	uint32_t correlation; /* of the call that the innermost id is for */
} external;

static void tell(const char *what, const char *text)
{
	const char *path = getenv("FAKE_CUPTI_LOG");
	FILE *log = path ? fopen(path, "a") : NULL;

	if (!log)
		return;
	fprintf(log, "%s %s\n", what, text);
	fclose(log);
}

static void tell_number(const char *what, long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", number);
	tell(what, text);
}

static uint64_t now(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ------------------------------------------------------------- handing over */

static void *work(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&worker.lock);
	for (;;) {
		while (!worker.is_full)
			pthread_cond_wait(&worker.changed, &worker.lock);
		fake.complete(NULL, 0, worker.buffer, worker.bytes, worker.used);
		worker.is_full = false;
		pthread_cond_broadcast(&worker.changed);
	}
	return NULL;
}

static void start_worker(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (worker.is_started)
		return;
	worker.is_started = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, work, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Under the lock: nobody adds to the buffer meanwhile. */
static void hand_over(void)
{
	if (!fake.used)
		return;
	pthread_mutex_lock(&worker.lock);
	start_worker();
	worker.buffer = fake.buffer;
	worker.bytes = fake.bytes;
	worker.used = fake.used;
	worker.is_full = true;
	pthread_cond_broadcast(&worker.changed);
	while (worker.is_full)
		pthread_cond_wait(&worker.changed, &worker.lock);
	pthread_mutex_unlock(&worker.lock);
	fake.buffer = NULL;
	fake.used = 0;
}

static void add(const void *record, size_t bytes)
{
	size_t records;

	if (fake.buffer && fake.used + SLOT_BYTES > fake.bytes)
		hand_over();
	if (!fake.buffer)
		fake.request(&fake.buffer, &fake.bytes, &records);
	if (!fake.buffer || fake.bytes < SLOT_BYTES)
		return;
	memset(fake.buffer + fake.used, 0xee, SLOT_BYTES);
	memcpy(fake.buffer + fake.used, record, bytes);
	fake.used += SLOT_BYTES;
}

static void add_earlier(void)
{
	for (int i = 0; i < fake.earlier_count; i++)
		add(&fake.earlier[i], sizeof(fake.earlier[i]));
	fake.earlier_count = 0;
}

/* ------------------------------------------------------- what the device does */

static int find_function(const char *name)
{
	for (int i = 0; i < FUNCTIONS; i++)
		if (!strcmp(functions[i], name))
			return i + 1;
	return 0;
}

static void add_external(uint64_t id, uint32_t correlation)
{
	const struct cupti_external record = {
		.kind = CUPTI_EXTERNAL,
		.external_kind = CUPTI_EXTERNAL_CUSTOM2,
		.id = id,
		.correlation = correlation,
	};

	if (fake.is_late && fake.earlier_count < EARLIER_MAX)
		fake.earlier[fake.earlier_count++] = record;
	else
		add(&record, sizeof(record));
}

/* The copies of a batch have one record; it is over when the next one begins. */
static void end_batch(void)
{
	if (fake.batch.bytes)
		add(&fake.batch, sizeof(fake.batch));
	fake.batch.bytes = 0;
}

/* All work of one call has one number. */
static uint32_t begin_call(const char *name)
{
	int function = find_function(name);
	bool is_recorded = fake.is_on[CUPTI_DRIVER] || fake.is_recorded[function];

	if (external.depth && external.correlation)
		return external.correlation;
	fake.correlation++;
	if (!external.depth)
		return fake.correlation;
	external.correlation = fake.correlation;
	if (!strncmp(name, "cuMemcpyBatch", 13)) {
		end_batch();
		fake.batch.correlation = fake.correlation;
	}
	if (is_recorded && fake.is_on[CUPTI_EXTERNAL])
		add_external(external.id[external.depth - 1], fake.correlation);
	return fake.correlation;
}

static uint32_t given(const char *name)
{
	uint32_t correlation;

	pthread_mutex_lock(&lock);
	correlation = begin_call(name);
	pthread_mutex_unlock(&lock);
	return correlation;
}

/* Between a moment of the device and the clock that was asked for. */
static uint64_t stamp(uint64_t at_ns)
{
	uint64_t clock = fake.clock ? fake.clock() : now(CLOCK_REALTIME);

	return clock - (now(CLOCK_MONOTONIC) - at_ns);
}

static uint8_t memory_of(enum simwatch_memory memory)
{
	static const uint8_t kinds[] = { CUPTI_MEMORY_PAGEABLE, CUPTI_MEMORY_PINNED,
					 CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_MANAGED };

	return kinds[memory];
}

static uint8_t kind_of(const struct simwatch_work *done)
{
	bool from_host = done->from == SIMWATCH_PAGEABLE || done->from == SIMWATCH_PINNED;
	bool to_host = done->to == SIMWATCH_PAGEABLE || done->to == SIMWATCH_PINNED;

	if (from_host)
		return to_host ? CUPTI_COPY_H2H : CUPTI_COPY_H2D;
	return to_host ? CUPTI_COPY_D2H : CUPTI_COPY_D2D;
}

static void add_copy(const struct simwatch_work *done)
{
	uint64_t start = stamp(done->start_ns);
	const struct cupti_copy record = {
		.kind = CUPTI_MEMCPY,
		.copy_kind = kind_of(done),
		.source_kind = memory_of(done->from),
		.target_kind = memory_of(done->to),
		.bytes = done->bytes,
		.start = start,
		.end = start + (done->end_ns - done->start_ns),
		.correlation = done->call,
	};

	if (!fake.is_on[CUPTI_MEMCPY])
		return;
	if (done->call != fake.batch.correlation) {
		add(&record, sizeof(record));
	} else if (!fake.batch.bytes) {
		fake.batch = record;
	} else {
		fake.batch.bytes += record.bytes;
		fake.batch.end = record.end;
	}
}

/* Managed memory that the device sets comes to it in two pieces. */
static void add_migrations(const struct simwatch_work *done)
{
	uint64_t start = stamp(done->start_ns);
	struct cupti_managed record = {
		.kind = CUPTI_MANAGED,
		.counter = CUPTI_MANAGED_H2D,
		.value = done->bytes / 2,
		.start = start,
		.end = start + 1000,
	};

	if (!fake.is_on[CUPTI_MANAGED] || done->to != SIMWATCH_MANAGED)
		return;
	add(&record, sizeof(record));
	add(&record, sizeof(record));
}

static void add_fill(const struct simwatch_work *done)
{
	uint64_t start = stamp(done->start_ns);
	const struct cupti_fill record = {
		.kind = CUPTI_MEMSET,
		.bytes = done->bytes,
		.start = start,
		.end = start + (done->end_ns - done->start_ns),
		.correlation = done->call,
	};

	if (fake.is_on[CUPTI_MEMSET])
		add(&record, sizeof(record));
	add_migrations(done);
}

static void add_kernel(const struct simwatch_work *done)
{
	uint64_t start = stamp(done->start_ns);
	const struct cupti_kernel record = {
		.kind = CUPTI_KERNEL,
		.start = start,
		.end = start + (done->end_ns - done->start_ns),
		.correlation = done->call,
		.name = done->name,
	};

	if (fake.is_on[CUPTI_KERNEL])
		add(&record, sizeof(record));
}

static void note_done(const struct simwatch_work *done)
{
	pthread_mutex_lock(&lock);
	switch (done->kind) {
	case SIMWATCH_COPY:
		add_copy(done);
		break;
	case SIMWATCH_FILL:
		add_fill(done);
		break;
	case SIMWATCH_KERNEL:
		add_kernel(done);
		break;
	}
	pthread_mutex_unlock(&lock);
}

static void watch(bool is_wanted)
{
	static const struct simwatch watcher = { given, note_done };
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void (*set)(const struct simwatch *) = NULL;

	if (driver)
		*(void **)&set = dlsym(driver, "simwatch");
	if (set)
		set(is_wanted ? &watcher : NULL);
}

/* ------------------------------------------------------------- CUPTI's own names */

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuptiSubscribe(void **handle, cupti_callback callback, void *data);
EXPORT int cuptiSubscribe_v2(void **handle, cupti_callback callback, void *data,
			     struct cupti_subscriber *subscriber);
EXPORT int cuptiUnsubscribe(void *handle);
EXPORT int cuptiActivityRegisterCallbacks(cupti_request request, cupti_complete complete);
EXPORT int cuptiActivityEnable(int kind);
EXPORT int cuptiActivityDisable(int kind);
EXPORT int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable);
EXPORT int cuptiActivityConfigureUnifiedMemoryCounter(struct cupti_managed_setting *setting,
						      uint32_t count);
EXPORT int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
EXPORT int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);
EXPORT int cuptiActivityRegisterTimestampCallback(cupti_clock clock);
EXPORT int cuptiActivityFlushPeriod(uint32_t milliseconds);
EXPORT int cuptiActivityFlushAll(uint32_t flag);
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint32_t **record);
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
EXPORT int cuptiGetCallbackName(int domain, uint32_t id, const char **name);
EXPORT int cuptiGetTimestamp(uint64_t *at);

static int take_slot(void **handle, const char *name, struct cupti_subscriber *subscriber)
{
	const char *other = getenv("FAKE_CUPTI_HOLDER");

	if (other && !*fake.holder)
		snprintf(fake.holder, sizeof(fake.holder), "%s", other);
	tell("subscribe", name);
	if (*fake.holder && subscriber && subscriber->holder)
		snprintf(subscriber->holder, subscriber->holder_bytes, "%s", fake.holder);
	if (*fake.holder)
		return TAKEN;
	snprintf(fake.holder, sizeof(fake.holder), "CUPTI for %s", name);
	*handle = fake.holder;
	return GOOD;
}

int cuptiSubscribe(void **handle, cupti_callback callback, void *data)
{
	(void)callback;
	(void)data;
	return take_slot(handle, "<not provided>", NULL);
}

#ifndef FAKE_CUPTI_OLD
int cuptiSubscribe_v2(void **handle, cupti_callback callback, void *data,
		      struct cupti_subscriber *subscriber)
{
	const char *name = subscriber ? subscriber->name : NULL;

	(void)callback;
	(void)data;
	if (subscriber && subscriber->bytes < sizeof(*subscriber))
		return WRONG;
	return take_slot(handle, name ? name : "<not provided>", subscriber);
}
#endif

/* A library that is loaded beside it, and whose constructor wants a profiler, does as this. */
__attribute__((constructor)) static void subscribe_at_once(void)
{
	const char *first = getenv("FAKE_CUPTI_EAGER"); /* the library that has the name */
	void *library = first ? dlopen(first, RTLD_NOW | RTLD_NOLOAD) : NULL, *handle;
	int (*found)(void **, cupti_callback, void *) = NULL;

	if (library)
		*(void **)&found = dlsym(library, "cuptiSubscribe");
	if (found)
		found(&handle, NULL, NULL);
}

int cuptiUnsubscribe(void *handle)
{
	tell("unsubscribe", "");
	if (handle != fake.holder)
		return WRONG;
	fake.holder[0] = '\0';
	return GOOD;
}

int cuptiActivityRegisterCallbacks(cupti_request request, cupti_complete complete)
{
	tell("callbacks", "");
	pthread_mutex_lock(&lock);
	fake.request = request;
	fake.complete = complete;
	fake.is_late = getenv("FAKE_CUPTI_LATE") != NULL;
	pthread_mutex_unlock(&lock);
	return GOOD;
}

static int set_kind(int kind, bool is_on)
{
	const char *refused = getenv("FAKE_CUPTI_REFUSE");

	if (kind <= 0 || kind >= KINDS)
		return WRONG;
	if (is_on && refused && atoi(refused) == kind)
		return REFUSED;
	pthread_mutex_lock(&lock);
	fake.is_on[kind] = is_on;
	pthread_mutex_unlock(&lock);
	watch(is_on);
	return GOOD;
}

int cuptiActivityEnable(int kind)
{
	tell_number("enable", kind);
	return set_kind(kind, true);
}

int cuptiActivityDisable(int kind)
{
	return set_kind(kind, false);
}

#ifndef FAKE_CUPTI_OLD
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable)
{
	if (!id || id > FUNCTIONS)
		return WRONG;
	if (enable)
		tell("record", functions[id - 1]);
	fake.is_recorded[id] = enable;
	return GOOD;
}
#endif

int cuptiActivityConfigureUnifiedMemoryCounter(struct cupti_managed_setting *setting,
					       uint32_t count)
{
	return setting && count ? GOOD : WRONG;
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
	if (kind != CUPTI_EXTERNAL_CUSTOM2 || external.depth == 16)
		return WRONG;
	external.id[external.depth++] = id;
	external.correlation = 0;
	return GOOD;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
	if (kind != CUPTI_EXTERNAL_CUSTOM2 || !external.depth)
		return WRONG;
	*last = external.id[--external.depth];
	external.correlation = 0;
	return GOOD;
}

#ifndef FAKE_CUPTI_OLD
int cuptiActivityRegisterTimestampCallback(cupti_clock clock)
{
	fake.clock = clock;
	return clock ? GOOD : WRONG;
}
#endif

#ifndef FAKE_CUPTI_OLD
int cuptiActivityFlushPeriod(uint32_t milliseconds)
{
	tell_number("period", milliseconds);
	return GOOD;
}
#endif

int cuptiActivityFlushAll(uint32_t flag)
{
	tell_number("flush", flag);
	pthread_mutex_lock(&lock);
	if (fake.request) {
		end_batch();
		hand_over();
		add_earlier();
		hand_over();
	}
	pthread_mutex_unlock(&lock);
	return GOOD;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint32_t **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + SLOT_BYTES : buffer;

	if (next + SLOT_BYTES > buffer + valid)
		return NO_MORE;
	*record = (uint32_t *)(void *)next;
	return GOOD;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	*dropped = 0;
	return GOOD;
}

#ifndef FAKE_CUPTI_OLD
int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
	if (domain != CUPTI_DOMAIN_DRIVER || !id || id > FUNCTIONS)
		return WRONG;
	*name = functions[id - 1];
	return GOOD;
}
#endif

#ifdef FAKE_CUPTI_OLD
int cuptiGetTimestamp(uint64_t *at)
{
	*at = now(CLOCK_REALTIME);
	return GOOD;
}
#endif
