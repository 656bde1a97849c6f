/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_transfer.h"

#include "report/ingest_gpu.h"

#include <string.h>

/* One end of a copy. */
struct end {
	enum place_kind kind;
	const struct ingest_block *block;
	bool is_known; /* the end exists and has an address */
};

/* Which side of the bus the direction says this end is on; UNKNOWN where it says nothing. */
static enum place_kind place_by_direction(enum transfer_kind kind, bool is_source)
{
	switch (kind) {
	case TRANSFER_H2D:
		return is_source ? PLACE_PAGEABLE : PLACE_DEVICE;
	case TRANSFER_D2H:
		return is_source ? PLACE_DEVICE : PLACE_PAGEABLE;
	case TRANSFER_H2H:
		return PLACE_PAGEABLE;
	case TRANSFER_D2D:
	case TRANSFER_P2P:
		return PLACE_DEVICE;
	default:
		return PLACE_UNKNOWN;
	}
}

/*
 * The writer's word counts where it has one; else the block that covers the
 * address; and host memory that no block covers is the program's own.
 */
static struct end find_end(const struct ingest_process *process, uint64_t address,
			   enum place_kind stated, enum place_kind implied, int64_t at_ns)
{
	struct end end = { stated, NULL, true };

	end.block = stated == PLACE_ARRAY ?
			    ingest_block_array(&process->blocks, address, at_ns) :
			    ingest_block_at(&process->blocks, address, at_ns);
	if (end.kind == PLACE_UNKNOWN && end.block)
		end.kind = record_place_of_block(end.block->kind);
	if (end.kind == PLACE_UNKNOWN)
		end.kind = implied;
	return end;
}

static bool is_host(enum place_kind kind)
{
	return kind == PLACE_PAGEABLE || kind == PLACE_PINNED || kind == PLACE_REGISTERED;
}

/* The blocks of both ends are known, and lie on two devices. */
static bool is_between_devices(const struct end *source, const struct end *target)
{
	return source->block && target->block && source->block->device_id &&
	       target->block->device_id && source->block->device_id != target->block->device_id;
}

/* A direction the writer did not know, where both ends tell it. */
static enum transfer_kind infer_kind(const struct end *source, const struct end *target)
{
	if (source->kind == PLACE_UNKNOWN || target->kind == PLACE_UNKNOWN)
		return TRANSFER_UNKNOWN;
	if (is_host(source->kind))
		return is_host(target->kind) ? TRANSFER_H2H : TRANSFER_H2D;
	if (is_host(target->kind))
		return TRANSFER_D2H;
	return is_between_devices(source, target) ? TRANSFER_P2P : TRANSFER_D2D;
}

/* The device of an end: its block's, else for memory of a device the one of the context. */
static uint32_t device_of(const struct ingest_process *process, const struct end *end,
			  uint32_t context)
{
	const struct ingest_context *owner;

	if (!end->is_known || is_host(end->kind))
		return 0;
	if (end->block && end->block->device_id)
		return end->block->device_id;
	if (end->kind != PLACE_DEVICE && end->kind != PLACE_ARRAY)
		return 0;
	owner = ingest_table_find(&process->contexts, context);
	return owner ? owner->device_id : 0;
}

static uint32_t find_site(struct ingest_process *process, const struct store_row_site *site)
{
	struct ingest *ingest = process->ingest;
	bool is_new;
	uint32_t number = ingest_total_site(&ingest->total, site, &is_new);

	if (is_new)
		store_row_site(&ingest->rows, ingest_total_site_row(&ingest->total, number), site);
	return number;
}

/* All copies of a launch that go one way are one record, which has no addresses. */
static uint32_t copies_of(const struct record *record)
{
	if (!(record->flags & RECORD_SUM))
		return 1;
	return record->a < UINT32_MAX ? (uint32_t)record->a : UINT32_MAX;
}

static uint32_t describe_site(struct ingest_process *process, const struct record *record,
			      const struct store_row_call *call, const struct end *source,
			      const struct end *target)
{
	uint32_t context = record_context(record);
	struct store_row_site site;

	memset(&site, 0, sizeof(site));
	site.process_id = process->id;
	site.caller = call->caller;
	site.context_id = call->context_id;
	site.api = call->api;
	site.result = record->result;
	site.kind = record_transfer_kind(record);
	if (site.kind == TRANSFER_UNKNOWN)
		site.kind = infer_kind(source, target);
	if (site.kind == TRANSFER_D2D && is_between_devices(source, target))
		site.kind = TRANSFER_P2P; /* cuMemcpyDtoD takes any two devices */
	site.source = source->kind;
	site.target = target->kind;
	site.has_source = source->is_known;
	site.has_target = target->is_known;
	site.source_device_id = device_of(process, source, context);
	site.target_device_id = device_of(process, target, context);
	site.is_async = (uint8_t)record_is_async(record);
	site.is_captured = !!(record->flags & RECORD_CAPTURED);
	site.copies = copies_of(record);
	return find_site(process, &site);
}

static bool has_source(enum transfer_kind kind)
{
	return kind != TRANSFER_MEMSET && kind != TRANSFER_PREFETCH;
}

static void find_ends(const struct ingest_process *process, const struct record *record,
		      int64_t at_ns, struct end *source, struct end *target)
{
	enum transfer_kind kind = record_transfer_kind(record);

	*source = (struct end){ PLACE_UNKNOWN, NULL, false };
	if (record->flags & RECORD_SUM) {
		if (has_source(kind))
			*source = (struct end){ record_source_place(record), NULL, true };
		*target = (struct end){ record_target_place(record), NULL, true };
		return;
	}
	if (has_source(kind))
		*source = find_end(process, record->a, record_source_place(record),
				   place_by_direction(kind, true), at_ns);
	*target = find_end(process, record->b, record_target_place(record),
			   place_by_direction(kind, false), at_ns);
}

void ingest_transfer(struct ingest_process *process, struct ingest_thread *thread,
		     const struct record *record, const struct store_row_call *call)
{
	struct ingest_total *total = &process->ingest->total;
	bool is_sum = record->flags & RECORD_SUM;
	struct store_row_transfer row = {
		.id = process->ingest->next_transfer++,
		.thread_id = thread->id,
		.bytes = record->c,
		.start_ns = call->start_ns,
		/* The time of a call is counted once, whatever it moves. */
		.duration_ns = record->flags & RECORD_MORE ? 0 : call->duration_ns,
		.source_address = record->a,
		.target_address = record->b,
		.has_target = !is_sum,
	};
	struct end source, target;
	uint32_t site;

	find_ends(process, record, call->start_ns, &source, &target);
	row.has_source = source.is_known && !is_sum;
	row.source_id = source.block ? source.block->id : 0;
	row.target_id = target.block ? target.block->id : 0;
	row.stream_id = ingest_identity_stream(process, thread, record_context(record),
					       record->stream);
	site = describe_site(process, record, call, &source, &target);
	row.site_id = ingest_total_site_row(total, site);
	store_row_transfer(&process->ingest->rows, &row);
	ingest_gpu_expect(process, thread->number, record->start, &total->site[site - 1], row.id,
			  record->c);
	ingest_total_transfer(total, site, record->c, row.duration_ns);
}
