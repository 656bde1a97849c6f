/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI hands its buffers over on a thread of its own, or on one of the program's
 * inside a driver call.  Either way they are written to the thread's own segment,
 * at the moment of now: when the work was done stands in the record itself.
 */
#include "intercept/gpu_record.h"
#include "core/lock.h"
#include "intercept/call.h"
#include "intercept/gpu_join.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
	BUFFER_BYTES = 1 << 19, /* 3,000 calls; what is not full is lost with a kill */
	SPARE_BUFFERS = 8,
	NAME_SLOTS = 1 << 13,
	NAMES_MOST = NAME_SLOTS / 4 * 3,
};

/* Kernels by the hash of their names; of those beyond the most the name is not kept. */
struct names {
	uint64_t hash[NAME_SLOTS]; /* 0: free */
	uint32_t number[NAME_SLOTS];
	uint32_t count;
};

struct shared {
	struct gpu_join join;
	struct names names;
};

static struct cupti cupti;
static struct shared *shared; /* under the lock */
static uint8_t *spare[SPARE_BUFFERS];
static uint32_t spares;
static struct lock lock;
static uint64_t behind_ns; /* added to CUPTI's own clock where it takes none of ours */

/* Migrations of one buffer, by direction: pages come by the hundreds. */
struct migrations {
	uint64_t start, duration, bytes, count;
};

struct writer {
	struct thread_segment *self;
	bool is_ours; /* no call of the program is open on this thread */
	struct migrations migrations[TRANSFER_KINDS];
};

/* -------------------------------------------------------------------- writing */

static bool open_writer(struct writer *writer)
{
	struct thread_segment *self = &thread_segment;

	*writer = (struct writer){ .self = self };
	if (segment_is_ready(self) && self->in_call)
		return true;
	if (!call_is_open(self))
		return false;
	self->in_call = 1;
	segment_mark_busy(self, clock_ticks(self->clock));
	writer->is_ours = true;
	return true;
}

static void close_writer(struct writer *writer)
{
	if (!writer->is_ours)
		return;
	segment_mark_busy(writer->self, 0);
	writer->self->in_call = 0;
}

static void write_record(struct writer *writer, const struct record *record)
{
	struct record *slot = segment_reserve(writer->self, 1);

	if (!slot)
		return;
	*slot = *record;
	slot->start = call_moment();
	slot->kind = RECORD_GPU;
	segment_publish(writer->self, 1);
}

static bool write_name(uint32_t number, const char *text)
{
	const struct record record = {
		.start = call_moment(),
		.kind = RECORD_GPU_NAME,
		.a = number,
	};

	return segment_write_text(&record, text, strlen(text) + 1);
}

/* ---------------------------------------------------------------------- names */

static uint64_t hash_name(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

/* Told of at its first use; 0 where it cannot be told. */
static uint32_t number_of(struct names *names, const char *name)
{
	uint64_t hash = hash_name(name);
	uint32_t at = (uint32_t)hash % NAME_SLOTS;

	while (names->hash[at] && names->hash[at] != hash)
		at = (at + 1) % NAME_SLOTS;
	if (names->hash[at])
		return names->number[at];
	if (names->count == NAMES_MOST || !write_name(names->count + 1, name))
		return 0;
	names->hash[at] = hash;
	names->number[at] = ++names->count;
	return names->number[at];
}

/* -------------------------------------------------------- one record of CUPTI */

static enum transfer_kind kind_of_copy(uint8_t kind)
{
	static const uint8_t kinds[CUPTI_COPY_KINDS] = {
		[CUPTI_COPY_H2D] = TRANSFER_H2D, [CUPTI_COPY_D2H] = TRANSFER_D2H,
		[CUPTI_COPY_H2A] = TRANSFER_H2D, [CUPTI_COPY_A2H] = TRANSFER_D2H,
		[CUPTI_COPY_A2A] = TRANSFER_D2D, [CUPTI_COPY_A2D] = TRANSFER_D2D,
		[CUPTI_COPY_D2A] = TRANSFER_D2D, [CUPTI_COPY_D2D] = TRANSFER_D2D,
		[CUPTI_COPY_H2H] = TRANSFER_H2H, [CUPTI_COPY_P2P] = TRANSFER_P2P,
	};

	return kind < CUPTI_COPY_KINDS ? (enum transfer_kind)kinds[kind] : TRANSFER_UNKNOWN;
}

static enum place_kind place_of_memory(uint8_t kind)
{
	static const uint8_t places[CUPTI_MEMORY_KINDS] = {
		[CUPTI_MEMORY_PAGEABLE] = PLACE_PAGEABLE,
		[CUPTI_MEMORY_PINNED] = PLACE_PINNED,
		[CUPTI_MEMORY_DEVICE] = PLACE_DEVICE,
		[CUPTI_MEMORY_ARRAY] = PLACE_ARRAY,
		[CUPTI_MEMORY_MANAGED] = PLACE_MANAGED,
		[CUPTI_MEMORY_STATIC] = PLACE_DEVICE,
		[CUPTI_MEMORY_MANAGED_STATIC] = PLACE_MANAGED,
	};

	return kind < CUPTI_MEMORY_KINDS ? (enum place_kind)places[kind] : PLACE_UNKNOWN;
}

/* What has no times was cut short by a forced flush. */
static void write_work(struct writer *writer, struct record *record, uint32_t correlation,
		       uint64_t start, uint64_t end)
{
	struct gpu_join *join = &shared->join;

	if (!start || end < start)
		return;
	record->a = start + behind_ns;
	record->b = end - start;
	record->stream = gpu_join_find(join, correlation);
	if (record->stream || !gpu_join_wait(join, correlation, record))
		write_record(writer, record);
}

static void write_copy(struct writer *writer, const struct cupti_copy *copy, uint32_t correlation)
{
	struct record record = {
		.c = copy->bytes,
		.aux = AUX_GPU(GPU_COPY, kind_of_copy(copy->copy_kind),
			       place_of_memory(copy->source_kind),
			       place_of_memory(copy->target_kind)),
	};

	write_work(writer, &record, correlation, copy->start, copy->end);
}

static void write_fill(struct writer *writer, const struct cupti_fill *fill)
{
	struct record record = {
		.c = fill->bytes,
		.aux = AUX_GPU(GPU_MEMSET, TRANSFER_MEMSET, 0, 0),
	};

	write_work(writer, &record, fill->correlation, fill->start, fill->end);
}

static void write_kernel(struct writer *writer, const struct cupti_kernel *kernel)
{
	struct record record = {
		.c = kernel->name ? number_of(&shared->names, kernel->name) : 0,
		.aux = AUX_GPU(GPU_KERNEL, 0, 0, 0),
	};

	write_work(writer, &record, kernel->correlation, kernel->start, kernel->end);
}

static enum transfer_kind kind_of_migration(uint32_t counter)
{
	switch (counter) {
	case CUPTI_MANAGED_H2D:
		return TRANSFER_H2D;
	case CUPTI_MANAGED_D2H:
		return TRANSFER_D2H;
	case CUPTI_MANAGED_D2D:
		return TRANSFER_P2P;
	default:
		return TRANSFER_UNKNOWN;
	}
}

static void add_migration(struct writer *writer, const struct cupti_managed *managed)
{
	struct migrations *sum = &writer->migrations[kind_of_migration(managed->counter)];

	if (!sum->count || managed->start < sum->start)
		sum->start = managed->start;
	if (managed->end > managed->start)
		sum->duration += managed->end - managed->start;
	sum->bytes += managed->value;
	sum->count++;
}

static void write_migrations(struct writer *writer)
{
	for (int kind = TRANSFER_UNKNOWN + 1; kind < TRANSFER_KINDS; kind++) {
		const struct migrations *sum = &writer->migrations[kind];

		if (sum->count)
			write_record(writer, &(struct record){
						     .a = sum->start + behind_ns,
						     .b = sum->duration,
						     .c = sum->bytes,
						     .stream = sum->count,
						     .aux = AUX_GPU(GPU_MIGRATION, kind, 0, 0),
					     });
	}
}

static void write_one(struct writer *writer, const uint32_t *kind)
{
	const void *record = kind;

	switch (*kind) {
	case CUPTI_MEMCPY:
		write_copy(writer, record, ((const struct cupti_copy *)record)->correlation);
		break;
	case CUPTI_MEMCPY2:
		write_copy(writer, record, ((const struct cupti_copy *)record)->peer_correlation);
		break;
	case CUPTI_MEMSET:
		write_fill(writer, record);
		break;
	case CUPTI_KERNEL:
		write_kernel(writer, record);
		break;
	case CUPTI_MANAGED:
		add_migration(writer, record);
		break;
	default:
		break;
	}
}

/* --------------------------------------------------------------- whole buffers */

static uint32_t *next_record(uint8_t *buffer, size_t valid, uint32_t *record)
{
	return cupti.activity_get_next_record(buffer, valid, &record) == CUPTI_GOOD ? record :
										      NULL;
}

static void note_calls(uint8_t *buffer, size_t valid)
{
	uint32_t *record = NULL;

	while ((record = next_record(buffer, valid, record))) {
		const struct cupti_external *external = (const void *)record;

		if (external->kind == CUPTI_EXTERNAL &&
		    external->external_kind == CUPTI_EXTERNAL_CUSTOM2)
			gpu_join_note(&shared->join, external->correlation, external->id);
	}
}

static void write_waiting(struct writer *writer)
{
	struct record record;

	while (gpu_join_take(&shared->join, &record))
		write_record(writer, &record);
}

static void write_lost(struct writer *writer, void *context, uint32_t stream)
{
	size_t dropped = 0;

	if (cupti.activity_get_dropped &&
	    cupti.activity_get_dropped(context, stream, &dropped) == CUPTI_GOOD && dropped)
		write_record(writer,
			     &(struct record){ .a = dropped, .aux = AUX_GPU(GPU_LOST, 0, 0, 0) });
}

/* Between two readings of the other clock; the first buffer is not yet old then. */
static void compare_clocks(void)
{
	uint64_t theirs = 0;
	struct clock_triple now;

	if (cupti.activity_register_clock || !cupti.get_timestamp ||
	    cupti.get_timestamp(&theirs) != CUPTI_GOOD)
		return;
	clock_read_triple(&now, clock_choose());
	behind_ns = now.monotonic_ns - theirs;
}

static void write_buffer(struct writer *writer, uint8_t *buffer, size_t valid)
{
	uint32_t *record = NULL;

	note_calls(buffer, valid);
	write_waiting(writer);
	while ((record = next_record(buffer, valid, record)))
		write_one(writer, record);
	write_migrations(writer);
}

void gpu_record_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			 size_t valid)
{
	int saved_errno = errno;
	struct writer writer;

	lock_take(&lock);
	if (shared && valid && open_writer(&writer)) {
		compare_clocks();
		write_buffer(&writer, buffer, valid);
		write_lost(&writer, context, stream);
		close_writer(&writer);
	}
	if (spares < SPARE_BUFFERS)
		spare[spares++] = buffer;
	else
		munmap(buffer, bytes);
	lock_give(&lock);
	errno = saved_errno;
}

void gpu_record_request(uint8_t **buffer, size_t *bytes, size_t *records)
{
	int saved_errno = errno;
	void *memory = NULL;

	lock_take(&lock);
	if (spares)
		memory = spare[--spares];
	lock_give(&lock);
	if (!memory)
		memory = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*buffer = memory == MAP_FAILED ? NULL : memory;
	*bytes = memory == MAP_FAILED ? 0 : BUFFER_BYTES;
	*records = 0; /* as many as fit */
	errno = saved_errno;
}

void gpu_record_finish(void)
{
	struct writer writer;

	lock_take(&lock);
	if (shared && open_writer(&writer)) {
		write_waiting(&writer);
		close_writer(&writer);
	}
	lock_give(&lock);
}

void gpu_record_say(const char *why)
{
	struct writer writer;

	if (!open_writer(&writer))
		return;
	write_name(0, why);
	close_writer(&writer);
}

bool gpu_record_start(const struct cupti *library)
{
	void *memory = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	lock_take(&lock);
	cupti = *library;
	shared = memory;
	lock_give(&lock);
	return true;
}

void gpu_record_reset(void)
{
	shared = NULL;
	spares = 0;
	lock_give(&lock);
}
