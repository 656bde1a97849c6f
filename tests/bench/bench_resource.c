/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocation and its free cost together, of every resource of libcustody and of
 * the driver's own functions beside them: in one process, by turns, on an idle device
 * and with work in flight.  A line for each of them:
 *
 *	ALLOCATOR <tab> BYTES <tab> idle|busy <tab> PAIRS <tab> MEDIAN <tab> WORST
 *		<tab> MEDIAN OF ALLOCATIONS <tab> MEDIAN OF FREES		(nanoseconds)
 *
 *	bench_resource [-n PAIRS] [-r ROUNDS] [-t MILLISECONDS] [-m MOST-BYTES]
 *
 * PAIRS in each of ROUNDS, or as many as fit into MILLISECONDS and five at least.
 */
#include "client.h"

#include <custody/custody.h>
#include <unistd.h>

enum { MOST_SAMPLES = 20000, IN_FLIGHT = 8, WARM_UP = 3, LEAST = 5, MOST_ALLOCATORS = 32 };

#define MUST(call) must((call), #call)

static void must(int result, const char *call)
{
	if (!result)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: %s: %s\n", call, custody_error_name(result), custody_error_detail());
	exit(1);
}

static struct options {
	int pairs, rounds, milliseconds;
	size_t most_bytes;
} options = { .pairs = 200, .rounds = 3, .milliseconds = 60, .most_bytes = (size_t)1 << 30 };

static struct custody_context *context;
static struct custody_stream *stream;
static CUstream handle; /* of `stream` */

/* ------------------------------------------------------------------ allocators */

struct allocator {
	const char *name;
	void (*allocate)(struct allocator *self, size_t bytes, void **pointer);
	void (*release)(struct allocator *self, void *pointer, size_t bytes);
	struct custody_resource *resource;
	CUmemoryPool pool;
	uint64_t *samples, *allocations, *frees;
	int count;
};

static struct allocator allocators[MOST_ALLOCATORS];
static int allocator_count;

static void bare_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	(void)self;
	CALL(cuMemAlloc, (CUdeviceptr *)pointer, bytes);
}

static void bare_release(struct allocator *self, void *pointer, size_t bytes)
{
	(void)self, (void)bytes;
	CALL(cuMemFree, (CUdeviceptr)(uintptr_t)pointer);
}

static void pool_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	CALL(cuMemAllocFromPoolAsync, (CUdeviceptr *)pointer, bytes, self->pool, handle);
}

static void pool_release(struct allocator *self, void *pointer, size_t bytes)
{
	(void)self, (void)bytes;
	CALL(cuMemFreeAsync, (CUdeviceptr)(uintptr_t)pointer, handle);
}

static void pinned_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	(void)self;
	CALL(cuMemHostAlloc, pointer, bytes, 0);
}

static void pinned_release(struct allocator *self, void *pointer, size_t bytes)
{
	(void)self, (void)bytes;
	CALL(cuMemFreeHost, pointer);
}

static void managed_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	(void)self;
	CALL(cuMemAllocManaged, (CUdeviceptr *)pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static void resource_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	MUST(custody_resource_allocate(self->resource, bytes, stream, pointer));
}

static void resource_release(struct allocator *self, void *pointer, size_t bytes)
{
	MUST(custody_resource_deallocate(self->resource, pointer, bytes, stream));
}

static void buffer_allocate(struct allocator *self, size_t bytes, void **pointer)
{
	MUST(custody_buffer_create(self->resource, bytes, stream,
				   (struct custody_buffer **)pointer));
}

static void buffer_release(struct allocator *self, void *pointer, size_t bytes)
{
	(void)self, (void)bytes;
	MUST(custody_buffer_release(pointer));
}

static struct allocator *add(const char *name,
			     void (*allocate)(struct allocator *, size_t, void **),
			     void (*release)(struct allocator *, void *, size_t))
{
	struct allocator *new = &allocators[allocator_count++];
	size_t bytes = MOST_SAMPLES * sizeof(uint64_t);

	new->name = name;
	new->allocate = allocate;
	new->release = release;
	new->samples = malloc(bytes);
	new->allocations = malloc(bytes);
	new->frees = malloc(bytes);
	if (!new->samples || !new->allocations || !new->frees)
		exit(1);
	return new;
}

/* A pool of the driver's own, that gives back what is unused at each synchronise or never. */
static void add_bare_pool(const char *name, uint64_t threshold)
{
	struct allocator *new = add(name, pool_allocate, pool_release);
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	CALL(cuMemPoolCreate, &new->pool, &properties);
	CALL(cuMemPoolSetAttribute, new->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

/* What this driver does not have is left out. */
static void add_resource(const char *name, int result, struct custody_resource *const *resource)
{
	if (result == CUSTODY_E_UNSUPPORTED) {
		fprintf(stderr, "bench_resource: no %s here: %s\n", name, custody_error_detail());
		return;
	}
	must(result, name);
	add(name, resource_allocate, resource_release)->resource = *resource;
}

static void add_buffer(const char *name, struct custody_resource *resource)
{
	add(name, buffer_allocate, buffer_release)->resource = resource;
}

#define ADD(name, call) add_resource(name, call, &resource)

static void add_all(void)
{
	const struct custody_location nowhere = { .kind = CUSTODY_LOCATION_NONE };
	struct custody_resource *resource = NULL;

	add("cuMemAlloc", bare_allocate, bare_release);
	add_bare_pool("cuMemAllocAsync", 0);
	add_bare_pool("cuMemAllocAsync, memory kept", UINT64_MAX);
	add("cuMemHostAlloc", pinned_allocate, pinned_release);
	add("cuMemAllocManaged", managed_allocate, bare_release);
	ADD("custody device", custody_resource_device(context, &resource));
	add_buffer("custody device, buffer", resource);
	ADD("custody pool", custody_resource_pool(context, NULL, &resource));
	add_buffer("custody pool, buffer", resource);
	ADD("custody current pool", custody_resource_current_pool(context, &resource));
	ADD("custody pinned", custody_resource_pinned(context, 0, &resource));
	ADD("custody pinned pool", custody_resource_pinned_pool(context, NULL, &resource));
	ADD("custody managed", custody_resource_managed(context, true, &resource));
	ADD("custody managed pool", custody_resource_managed_pool(context, nowhere, &resource));
	ADD("custody virtual", custody_resource_virtual(context, NULL, &resource));
}

/* ------------------------------------------------------------------ work in flight */

static CUstream beside;
static CUdeviceptr field;
static size_t field_bytes;
static CUevent passed[IN_FLIGHT];

static void open_field(void)
{
	size_t free_bytes, total_bytes;

	CALL(cuMemGetInfo, &free_bytes, &total_bytes);
	field_bytes = total_bytes > (size_t)8 << 30 ? (size_t)512 << 20 : (size_t)16 << 20;
	CALL(cuMemAlloc, &field, field_bytes);
	CALL(cuStreamCreate, &beside, CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < IN_FLIGHT; i++)
		CALL(cuEventCreate, &passed[i], CU_EVENT_DISABLE_TIMING);
}

/* Some large memsets are under way when this returns. */
static void keep_busy(void)
{
	static int next;

	for (int i = 0; i < IN_FLIGHT; i++) {
		if (cuEventQuery(passed[next]) == CUDA_ERROR_NOT_READY)
			return;
		CALL(cuMemsetD8Async, field, 1, field_bytes, beside);
		CALL(cuEventRecord, passed[next], beside);
		next = (next + 1) % IN_FLIGHT;
	}
}

/* ------------------------------------------------------------------ measuring */

static void settle(void)
{
	CALL(cuCtxSynchronize);
	MUST(custody_flush(context, true));
}

static void time_pair(struct allocator *self, size_t bytes, int is_counted)
{
	uint64_t begin, middle, end;
	void *pointer;

	begin = client_now_ns();
	self->allocate(self, bytes, &pointer);
	middle = client_now_ns();
	self->release(self, pointer, bytes);
	end = client_now_ns();
	if (!is_counted || self->count == MOST_SAMPLES)
		return;
	self->samples[self->count] = end - begin;
	self->allocations[self->count] = middle - begin;
	self->frees[self->count++] = end - middle;
}

static void time_round(struct allocator *self, size_t bytes, int is_busy)
{
	uint64_t end = 0;

	for (int i = -WARM_UP; i < options.pairs; i++) {
		if (i == 0)
			end = client_now_ns() + (uint64_t)options.milliseconds * 1000000u;
		if (i >= LEAST && client_now_ns() > end)
			break;
		if (is_busy)
			keep_busy();
		time_pair(self, bytes, i >= 0);
	}
	settle();
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static uint64_t median(uint64_t *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return values[count / 2];
}

static void tell(struct allocator *self, size_t bytes, int is_busy)
{
	uint64_t middle = median(self->samples, self->count);

	printf("%s\t%zu\t%s\t%d\t%llu\t%llu\t%llu\t%llu\n", self->name, bytes,
	       is_busy ? "busy" : "idle", self->count, (unsigned long long)middle,
	       (unsigned long long)self->samples[self->count - 1],
	       (unsigned long long)median(self->allocations, self->count),
	       (unsigned long long)median(self->frees, self->count));
	fflush(stdout);
	self->count = 0;
}

/* Each round begins with another allocator. */
static void measure(size_t bytes, int is_busy)
{
	for (int round = 0; round < options.rounds; round++) {
		for (int i = 0; i < allocator_count; i++)
			time_round(&allocators[(i + round) % allocator_count], bytes, is_busy);
	}
	for (int i = 0; i < allocator_count; i++)
		tell(&allocators[i], bytes, is_busy);
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:r:t:m:")) != -1) {
		switch (option) {
		case 'n': options.pairs = atoi(optarg); break;
		case 'r': options.rounds = atoi(optarg); break;
		case 't': options.milliseconds = atoi(optarg); break;
		case 'm': options.most_bytes = strtoull(optarg, NULL, 0); break;
		default: exit(2);
		}
	}
	if (options.pairs < LEAST || options.rounds < 1)
		exit(2);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 256,	  4 << 10,   64 << 10,	1 << 20,
					16 << 20, 256 << 20, (size_t)1 << 30 };
	struct custody_stream_options nonblocking = {
		.size = sizeof(nonblocking), .is_nonblocking = true,
	};

	read_options(argc, argv);
	client_open();
	MUST(custody_context_current(-1, &context));
	MUST(custody_stream_create(context, &nonblocking, &stream));
	handle = custody_stream_handle(stream);
	add_all();
	open_field();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] > options.most_bytes)
			continue;
		measure(sizes[i], 0);
		measure(sizes[i], 1);
	}
	return 0;
}
