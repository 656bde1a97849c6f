/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads on every resource: random sizes and streams, buffers that go from hand
 * to hand, scopes, flushes, captures.  What was written into a buffer stands in it
 * when another thread gets it; at the end nothing is pending and nothing is left.
 *
 *	stress [SECONDS [THREADS [SEED]]]
 */
#include <custody/custody.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 256, SLOTS = 128, MOST_WORDS = 64 << 10, STREAMS = 2, SKIPPED = 77 };

#define MUST(call) must((call), #call, __LINE__)

/* What is refused while a capture is live anywhere is done behind it. */
#define PATIENTLY(call)                                                                            \
	for (int result; (result = (call)) != 0; sched_yield())                                    \
		must(result == CUSTODY_E_CAPTURING ? 0 : result, #call, __LINE__)

/* A buffer on its way from one thread to another, with what is in it. */
struct parcel {
	struct custody_buffer *buffer;
	struct custody_event *event; /* the contents are there */
	uint32_t value;
	bool is_touchable; /* by the host */
};

struct worker {
	pthread_t thread;
	uint64_t seed;
	struct custody_stream *streams[STREAMS]; /* the second one does not block */
	struct custody_stream *captured; /* only by captures: others may free on those above */
	struct custody_event *passed;
	uint32_t *host; /* MOST_WORDS, page-locked */
	struct custody_buffer *host_buffer;
	uint64_t steps, checked;
};

enum { DEVICE, POOL, CURRENT, PINNED, PINNED_POOL, MANAGED, MANAGED_POOL, VIRTUAL, CUSTOM, KINDS };

static struct custody_context *context;
static struct custody_resource *resources[KINDS]; /* NULL: this driver has none */
static struct custody_resource *graph_memory;
static CUresult (*destroy_graph)(CUgraph graph);
static struct parcel slots[SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t end_ns;

static void must(int result, const char *call, int line)
{
	if (!result)
		return;
	fprintf(stderr, "stress.c:%d: %s: %s: %s\n", line, call, custody_error_name(result),
		custody_error_detail());
	abort();
}

static void die(const char *what, uint64_t found, uint64_t expected)
{
	fprintf(stderr, "stress: %s: %#llx instead of %#llx\n", what, (unsigned long long)found,
		(unsigned long long)expected);
	abort();
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t draw(struct worker *worker, uint32_t below)
{
	worker->seed = worker->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(worker->seed >> 33) % below;
}

/* ------------------------------------------------------------------ a resource of our own */

static int give(void *self, size_t bytes, struct custody_stream *stream, void **pointer)
{
	return custody_resource_allocate(self, bytes, stream, pointer);
}

static int take(void *self, void *pointer, size_t bytes, struct custody_stream *stream)
{
	return custody_resource_deallocate(self, pointer, bytes, stream);
}

static void let_go(void *self)
{
	MUST(custody_resource_release(self));
}

static void make_custom(void)
{
	const struct custody_resource_ops ops = {
		.size = sizeof(ops), .allocate = give, .deallocate = take, .destroy = let_go,
	};

	custody_resource_retain(resources[POOL]);
	MUST(custody_resource_custom(context, &ops, resources[POOL], &resources[CUSTOM]));
}

/* A kind that this driver does not have is left out. */
static void may(int result, int kind, const char *call)
{
	if (result == CUSTODY_E_UNSUPPORTED)
		resources[kind] = NULL;
	else
		must(result, call, __LINE__);
}

static void make_resources(void)
{
	const struct custody_location nowhere = { .kind = CUSTODY_LOCATION_NONE };

	MUST(custody_resource_device(context, &resources[DEVICE]));
	MUST(custody_resource_pool(context, NULL, &resources[POOL]));
	MUST(custody_resource_current_pool(context, &resources[CURRENT]));
	MUST(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &resources[PINNED]));
	may(custody_resource_pinned_pool(context, NULL, &resources[PINNED_POOL]), PINNED_POOL,
	    "custody_resource_pinned_pool");
	MUST(custody_resource_managed(context, true, &resources[MANAGED]));
	may(custody_resource_managed_pool(context, nowhere, &resources[MANAGED_POOL]), MANAGED_POOL,
	    "custody_resource_managed_pool");
	may(custody_resource_virtual(context, NULL, &resources[VIRTUAL]), VIRTUAL,
	    "custody_resource_virtual");
	make_custom();
	MUST(custody_resource_graph(context, &graph_memory));
}

static void end_resources(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		MUST(custody_resource_release(resources[kind]));
	MUST(custody_pool_trim(graph_memory, 0));
	MUST(custody_resource_release(graph_memory));
}

/* ------------------------------------------------------------------ parcels */

static struct custody_stream *any_stream(struct worker *worker)
{
	return worker->streams[draw(worker, STREAMS)];
}

static struct custody_resource *any_resource(struct worker *worker)
{
	struct custody_resource *resource;

	do {
		/* Virtual memory waits at its close: now and then is enough. */
		uint32_t kind = draw(worker, KINDS);

		resource = kind == VIRTUAL && draw(worker, 8) ? NULL : resources[kind];
	} while (!resource);
	return resource;
}

/* Mostly small, now and then large. */
static size_t any_bytes(struct worker *worker)
{
	uint32_t most = draw(worker, 8) ? 1024 : MOST_WORDS;

	return (1 + (size_t)draw(worker, most)) * sizeof(uint32_t);
}

static struct parcel make_parcel(struct worker *worker)
{
	struct custody_event_options options = { .size = sizeof(options) };
	struct custody_stream *stream = any_stream(worker);
	struct parcel parcel = { .value = draw(worker, UINT32_MAX) };

	MUST(custody_buffer_create(any_resource(worker), any_bytes(worker), stream,
				   &parcel.buffer));
	MUST(custody_buffer_fill(parcel.buffer, &parcel.value, 4, stream));
	MUST(custody_event_create(context, &options, &parcel.event));
	MUST(custody_event_record(parcel.event, stream));
	return parcel;
}

static void look_at(struct worker *worker, const uint32_t *words, size_t count, uint32_t value)
{
	for (size_t i = 0; i < count; i++) {
		if (words[i] != value)
			die("contents", words[i], value);
	}
	worker->checked++;
}

/* Read on a stream of this thread, behind what the maker's has done. */
static void check_parcel(struct worker *worker, struct parcel *parcel)
{
	struct custody_stream *stream = any_stream(worker);
	size_t bytes = custody_buffer_bytes(parcel->buffer);

	if (bytes > MOST_WORDS * sizeof(uint32_t))
		bytes = MOST_WORDS * sizeof(uint32_t); /* virtual memory is rounded up */
	MUST(custody_event_wait(parcel->event, stream));
	MUST(custody_buffer_record_stream(parcel->buffer, stream));
	MUST(custody_buffer_read(parcel->buffer, 0, worker->host, bytes, stream));
	MUST(custody_stream_synchronize(stream));
	look_at(worker, worker->host, bytes / sizeof(uint32_t), parcel->value);
}

static void end_parcel(struct worker *worker, struct parcel *parcel)
{
	if (!parcel->buffer)
		return;
	check_parcel(worker, parcel);
	if (draw(worker, 2)) {
		struct custody_stream *stream = any_stream(worker);

		PATIENTLY(custody_buffer_close(parcel->buffer, stream));
	}
	PATIENTLY(custody_buffer_release(parcel->buffer));
	MUST(custody_event_destroy(parcel->event));
}

/* Lay a new one down, and take away what lay there. */
static void exchange(struct worker *worker)
{
	struct parcel mine = make_parcel(worker), theirs;
	uint32_t slot = draw(worker, SLOTS);

	pthread_mutex_lock(&slots_lock);
	theirs = slots[slot];
	slots[slot] = mine;
	pthread_mutex_unlock(&slots_lock);
	end_parcel(worker, &theirs);
}

/* ------------------------------------------------------------------ what else there is to do */

static void copy(struct worker *worker)
{
	struct parcel parcel = make_parcel(worker), twin = { .value = parcel.value };
	struct custody_stream *stream = any_stream(worker);

	MUST(custody_event_wait(parcel.event, stream));
	MUST(custody_buffer_copy_to(parcel.buffer, &twin.buffer, stream));
	MUST(custody_buffer_record_stream(parcel.buffer, stream));
	MUST(custody_event_record(parcel.event, stream));
	twin.event = parcel.event;
	PATIENTLY(custody_buffer_release(parcel.buffer)); /* the copy may be under way */
	end_parcel(worker, &twin);
}

static void slice(struct worker *worker)
{
	struct parcel parcel = make_parcel(worker);
	size_t words = custody_buffer_bytes(parcel.buffer) / sizeof(uint32_t);
	size_t offset = words > 1 ? draw(worker, (uint32_t)(words < 1024 ? words : 1024)) : 0;
	struct parcel part = parcel;

	MUST(custody_buffer_slice(parcel.buffer, offset * sizeof(uint32_t),
				  (words - offset) * sizeof(uint32_t), &part.buffer));
	PATIENTLY(custody_buffer_release(parcel.buffer)); /* the part keeps it */
	end_parcel(worker, &part);
}

static void hold_up(struct worker *worker)
{
	MUST(custody_defer_begin(context));
	exchange(worker);
	copy(worker);
	MUST(custody_defer_end(context, (enum custody_leave)draw(worker, 3)));
}

/* A capture may be live anywhere: then a flush says so, and nothing is done. */
static void flush(struct worker *worker)
{
	int result = custody_flush(context, draw(worker, 4) == 0);

	if (result != CUSTODY_E_CAPTURING)
		must(result, "custody_flush", __LINE__);
}

static void renew_stream(struct worker *worker)
{
	uint32_t which = draw(worker, STREAMS);
	struct custody_stream_options options = {
		.size = sizeof(options), .is_nonblocking = which == 1,
	};

	MUST(custody_stream_destroy(worker->streams[which]));
	MUST(custody_stream_create(context, &options, &worker->streams[which]));
}

static void pin(struct worker *worker)
{
	size_t bytes = any_bytes(worker);
	uint32_t *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	struct custody_range range = { memory, (bytes + 4095) & ~(size_t)4095 };
	struct parcel parcel = make_parcel(worker);
	struct custody_pin *pin;

	if (!memory)
		abort();
	if (bytes > custody_buffer_bytes(parcel.buffer))
		bytes = custody_buffer_bytes(parcel.buffer);
	MUST(custody_pin_begin(context, &range, 1, 0, &pin));
	PATIENTLY(custody_event_synchronize(parcel.event));
	MUST(custody_buffer_read(parcel.buffer, 0, memory, bytes, any_stream(worker)));
	PATIENTLY(custody_pin_end(pin)); /* waits for the copy */
	look_at(worker, memory, bytes / sizeof(uint32_t), parcel.value);
	free(memory);
	end_parcel(worker, &parcel);
}

static void use_array(struct worker *worker)
{
	struct custody_layout layout = {
		.size = sizeof(layout), .ndim = 2, .type = { CUSTODY_TYPE_UINT, 4 },
		.shape = { 1 + draw(worker, 64), 1 + draw(worker, 64) },
	};
	struct custody_stream *stream = any_stream(worker);
	struct custody_array *array, *flat;
	uint32_t value = draw(worker, UINT32_MAX);

	MUST(custody_array_create(context, &layout, NULL, stream, &array));
	MUST(custody_array_ravel(array, CUSTODY_ORDER_C, &flat));
	MUST(custody_array_fill(flat, &value, stream));
	MUST(custody_array_copy_to_host(array, worker->host, &layout, stream));
	PATIENTLY(custody_array_destroy(array));
	MUST(custody_stream_synchronize(stream));
	look_at(worker, worker->host, custody_layout_count(&layout), value);
	PATIENTLY(custody_array_destroy(flat));
}

static void capture(struct worker *worker)
{
	struct custody_stream *stream = worker->captured;
	struct custody_buffer *buffer;
	CUgraph graph;

	MUST(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(custody_buffer_create(graph_memory, any_bytes(worker), stream, &buffer));
	MUST(custody_buffer_fill(buffer, &(uint32_t){ 1 }, 4, stream));
	PATIENTLY(custody_buffer_release(buffer));
	MUST(custody_stream_end_capture(stream, &graph));
	MUST(destroy_graph(graph));
}

/* The old buffer and the grown one show the same memory; either may go first. */
static void grow(struct worker *worker)
{
	struct custody_stream *stream = any_stream(worker);
	uint32_t value = draw(worker, UINT32_MAX);
	struct custody_buffer *old, *grown;

	if (!resources[VIRTUAL])
		return;
	MUST(custody_buffer_create(resources[VIRTUAL], 1, stream, &old));
	MUST(custody_buffer_fill(old, &value, 4, stream));
	MUST(custody_virtual_grow(old, custody_buffer_bytes(old) + 1, &grown));
	if (draw(worker, 2))
		PATIENTLY(custody_buffer_close(old, NULL));
	MUST(custody_buffer_read(grown, 0, worker->host, 1024, stream));
	MUST(custody_stream_synchronize(stream));
	look_at(worker, worker->host, 256, value);
	PATIENTLY(custody_buffer_release(grown));
	PATIENTLY(custody_buffer_release(old));
}

/* Out as a tensor and in again; the array goes before its memory does. */
static void go_out_and_in(struct worker *worker)
{
	struct custody_layout layout = {
		.size = sizeof(layout), .ndim = 1, .type = { CUSTODY_TYPE_UINT, 4 },
		.shape = { 1 + draw(worker, 4096) },
	};
	struct custody_stream *stream = any_stream(worker);
	uint32_t value = draw(worker, UINT32_MAX);
	struct custody_dlpack_versioned *tensor;
	struct custody_array *array, *back;

	MUST(custody_array_create(context, &layout, any_resource(worker), stream, &array));
	MUST(custody_array_fill(array, &value, stream));
	PATIENTLY(custody_array_to_dlpack(array, stream, &tensor));
	PATIENTLY(custody_array_destroy(array));
	MUST(custody_array_from_dlpack(context, tensor, stream, &back));
	MUST(custody_array_copy_to_host(back, worker->host, &layout, stream));
	MUST(custody_stream_synchronize(stream));
	look_at(worker, worker->host, layout.shape[0], value);
	PATIENTLY(custody_array_destroy(back));
}

static void note_call(struct custody_stream *stream, CUresult status, void *argument)
{
	(void)stream;
	if (status == CUDA_SUCCESS)
		__atomic_add_fetch((int *)argument, 1, __ATOMIC_RELEASE);
}

static void call_back(struct worker *worker)
{
	struct custody_stream *stream = any_stream(worker);
	int calls = 0;

	MUST(custody_stream_add_callback(stream, note_call, &calls));
	MUST(custody_stream_synchronize(stream));
	if (__atomic_load_n(&calls, __ATOMIC_ACQUIRE) != 1)
		die("calls", (uint64_t)calls, 1);
}

static void complete(struct worker *worker)
{
	struct custody_completion *completion;
	struct custody_stream *stream = any_stream(worker);

	MUST(custody_stream_completion(stream, &completion));
	if (draw(worker, 2))
		MUST(custody_completion_wait(completion, -1));
	custody_completion_destroy(completion);
}

static void ask(struct worker *worker)
{
	struct custody_pending pending = { .size = sizeof(pending) };
	struct custody_defer_statistics statistics = { .size = sizeof(statistics) };
	struct custody_memory_info info = { .size = sizeof(info) };

	(void)worker;
	MUST(custody_pending(context, &pending));
	MUST(custody_defer_statistics(context, &statistics));
	MUST(custody_context_memory_info(context, &info));
	if (statistics.released > statistics.queued)
		die("released", statistics.released, statistics.queued);
}

/* ------------------------------------------------------------------ threads */

static const struct {
	void (*act)(struct worker *worker);
	uint32_t share;
} acts[] = {
	{ exchange, 35 }, { copy, 10 },	    { slice, 8 },	  { hold_up, 4 },
	{ flush, 4 },	  { pin, 4 },	    { use_array, 8 },	  { renew_stream, 4 },
	{ complete, 6 },  { call_back, 4 }, { go_out_and_in, 4 }, { ask, 6 },
	{ grow, 1 },	  { capture, 2 },
};

static void step(struct worker *worker)
{
	uint32_t ticket = draw(worker, 100);
	size_t i = 0;

	while (ticket >= acts[i].share)
		ticket -= acts[i++].share;
	acts[i].act(worker);
	worker->steps++;
}

static void make_stream(bool is_nonblocking, struct custody_stream **stream)
{
	struct custody_stream_options options = {
		.size = sizeof(options), .is_nonblocking = is_nonblocking,
	};

	MUST(custody_stream_create(context, &options, stream));
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (int i = 0; i < STREAMS; i++)
		make_stream(i == 1, &worker->streams[i]);
	make_stream(true, &worker->captured);
	MUST(custody_buffer_create(resources[PINNED], MOST_WORDS * sizeof(uint32_t), NULL,
				   &worker->host_buffer));
	worker->host = custody_buffer_pointer(worker->host_buffer);
	do
		step(worker);
	while (now_ns() < end_ns);
	for (int i = 0; i < STREAMS; i++)
		MUST(custody_stream_synchronize(worker->streams[i]));
	return NULL;
}

static void end_worker(struct worker *worker)
{
	PATIENTLY(custody_buffer_release(worker->host_buffer));
	for (int i = 0; i < STREAMS; i++)
		MUST(custody_stream_destroy(worker->streams[i]));
	MUST(custody_stream_destroy(worker->captured));
}

/* ------------------------------------------------------------------ what is left */

static size_t free_bytes(void)
{
	struct custody_memory_info info = { .size = sizeof(info) };

	MUST(custody_context_memory_info(context, &info));
	return info.free_bytes;
}

static void expect_nothing_left(size_t before)
{
	struct custody_pending pending = { .size = sizeof(pending) };
	struct custody_defer_error error;
	size_t after;

	MUST(custody_flush(context, true));
	MUST(custody_synchronize());
	MUST(custody_pool_trim(resources[CURRENT], 0));
	end_resources();
	MUST(custody_flush(context, true));
	MUST(custody_pending(context, &pending));
	if (pending.memory_count + pending.object_count + pending.pinned_bytes)
		die("pending items", pending.memory_count + pending.object_count, 0);
	if (custody_defer_errors(&error, 1, NULL))
		die("a release failed", (uint64_t)error.result, 0);
	after = free_bytes();
	if (after < before)
		printf("stress: %zu bytes of the device are not free again\n", before - after);
	/* What drivers keep for streams and graphs is theirs; the simulated one keeps none. */
	if (after + (256 << 20) < before)
		die("free bytes", after, before);
}

int main(int argc, char **argv)
{
	static struct worker workers[MOST_THREADS];
	unsigned int seconds = argc > 1 ? (unsigned int)atoi(argv[1]) : 3;
	unsigned int threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 64;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1, steps = 0, checked = 0;
	size_t before;

	if (!custody_is_available()) {
		fprintf(stderr, "stress: %s\n", custody_init_error());
		return SKIPPED;
	}
	if (!threads || threads > MOST_THREADS)
		return 2;
	MUST(custody_context_current(-1, &context));
	*(void **)&destroy_graph = custody_driver_function("cuGraphDestroy");
	before = free_bytes();
	make_resources();
	end_ns = now_ns() + (uint64_t)seconds * 1000000000u;
	for (unsigned int i = 0; i < threads; i++) {
		workers[i].seed = seed * 1000003 + i;
		MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		steps += workers[i].steps;
		checked += workers[i].checked;
	}
	for (int i = 0; i < SLOTS; i++)
		end_parcel(&workers[0], &slots[i]);
	for (unsigned int i = 0; i < threads; i++)
		end_worker(&workers[i]);
	expect_nothing_left(before);
	printf("stress: %u threads, %llu steps, %llu contents checked\n", threads,
	       (unsigned long long)steps, (unsigned long long)checked);
	return checked ? 0 : 1;
}
