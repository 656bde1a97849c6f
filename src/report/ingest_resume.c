/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on where another collector has died: what was committed is read back,
 * what was not is still in the segments.
 */
#include "report/ingest.h"

#include "core/trace_names.h"
#include "report/ingest_growth.h"

#include <string.h>

static sqlite3_stmt *ask(struct ingest *ingest, const char *sql, int64_t number)
{
	sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(ingest->store->db, sql, -1, &query, NULL) != SQLITE_OK)
		store_fail(ingest->store);
	if (sqlite3_bind_parameter_count(query))
		sqlite3_bind_int64(query, 1, number);
	return query;
}

static uint64_t next_id(struct ingest *ingest, const char *table)
{
	char sql[80];

	sqlite3_snprintf(sizeof(sql), sql, "SELECT coalesce(max(id), 0) + 1 FROM %s", table);
	return (uint64_t)store_number(ingest->store, sql);
}

enum block_kind ingest_resume_kind(const char *name)
{
	for (int kind = 0; kind < BLOCK_KINDS; kind++)
		if (name && !strcmp(name, trace_names_of_blocks[kind]))
			return kind;
	return BLOCK_UNKNOWN;
}

static enum transfer_kind transfer_kind_of(const char *name)
{
	for (int kind = 0; kind < TRANSFER_KINDS; kind++)
		if (name && !strcmp(name, trace_names_of_transfers[kind]))
			return kind;
	return TRANSFER_UNKNOWN;
}

static enum place_kind place_of(const char *name)
{
	for (int kind = 0; kind < PLACE_KINDS; kind++)
		if (name && !strcmp(name, trace_names_of_places[kind]))
			return kind;
	return PLACE_UNKNOWN;
}

static enum release_cause cause_of(const char *name)
{
	for (int cause = RELEASE_FREED; cause < RELEASE_CAUSES; cause++)
		if (name && !strcmp(name, trace_names_of_causes[cause]))
			return cause;
	return RELEASE_FREED;
}

static uint64_t number_at(sqlite3_stmt *query, int column)
{
	return (uint64_t)sqlite3_column_int64(query, column);
}

static const char *text_at(sqlite3_stmt *query, int column)
{
	return (const char *)sqlite3_column_text(query, column);
}

static void read_site(struct ingest *ingest, sqlite3_stmt *query)
{
	struct store_row_site site;

	memset(&site, 0, sizeof(site));
	site.process_id = (uint32_t)number_at(query, 0);
	site.kind = (uint8_t)transfer_kind_of(text_at(query, 1));
	site.api = (uint16_t)number_at(query, 2);
	site.is_async = (uint8_t)number_at(query, 3);
	site.has_source = text_at(query, 4) != NULL;
	site.source = (uint8_t)place_of(text_at(query, 4));
	site.has_target = text_at(query, 5) != NULL;
	site.target = (uint8_t)place_of(text_at(query, 5));
	site.source_device_id = (uint32_t)number_at(query, 6);
	site.target_device_id = (uint32_t)number_at(query, 7);
	site.context_id = (uint32_t)number_at(query, 8);
	site.caller = number_at(query, 9);
	site.result = (uint16_t)number_at(query, 10);
	site.is_captured = (uint8_t)number_at(query, 11);
	site.copies = (uint32_t)number_at(query, 12);
	ingest_total_load_site(&ingest->total, number_at(query, 13), &site);
}

/* Rows that somebody else has made may have any ids, and be alike. */
void ingest_resume_sites(struct ingest *ingest)
{
	sqlite3_stmt *query = ask(
		ingest,
		"SELECT process_id, kind, api_id, is_async, source_kind, target_kind, "
		"source_device_id, target_device_id, context_id, caller, result, is_captured, "
		"copies, id FROM transfer_site ORDER BY id",
		0);

	while (store_next(ingest->store, query))
		read_site(ingest, query);
	sqlite3_finalize(query);
}

static void read_calls(struct ingest *ingest)
{
	sqlite3_stmt *query = ask(ingest,
				  "SELECT process_id, thread_id, api_id, calls, errors, total_ns, "
				  "max_ns FROM api_call",
				  0);

	while (store_next(ingest->store, query)) {
		struct store_row_calls *calls = ingest_total_calls(
			&ingest->total, (uint32_t)number_at(query, 0),
			(uint32_t)number_at(query, 1), (uint16_t)number_at(query, 2));

		calls->calls = number_at(query, 3);
		calls->errors = number_at(query, 4);
		calls->is_timed = sqlite3_column_type(query, 5) != SQLITE_NULL;
		calls->total_ns = sqlite3_column_int64(query, 5);
		calls->max_ns = sqlite3_column_int64(query, 6);
	}
	sqlite3_finalize(query);
}

void ingest_resume(struct ingest *ingest)
{
	ingest->is_resumed = true;
	ingest->next_allocation = next_id(ingest, "allocation");
	ingest->next_transfer = next_id(ingest, "transfer_row");
	ingest->next_process = (uint32_t)next_id(ingest, "process");
	ingest->next_device = (uint32_t)next_id(ingest, "device");
	ingest->next_context = (uint32_t)next_id(ingest, "context");
	ingest->next_stream = (uint32_t)next_id(ingest, "stream");
	ingest->next_event = (uint32_t)next_id(ingest, "event");
	ingest->next_thread = (uint32_t)next_id(ingest, "thread");
	ingest->readings.next_id = next_id(ingest, "reading");
	ingest->readings.next_sample = next_id(ingest, "device_sample");
	ingest->readings.ledger.next_own = next_id(ingest, "overhead");
	ingest_resume_sites(ingest);
	read_calls(ingest);
	ingest_growth_load(ingest, false);
}

static void read_threads(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT id, number, tid FROM thread WHERE process_id = ?",
				  process->id);

	while (store_next(process->ingest->store, query)) {
		struct ingest_thread *thread = ingest_table_memory(NULL, 1, sizeof(*thread));

		*thread = (struct ingest_thread){
			.id = (uint32_t)number_at(query, 0),
			.number = (uint32_t)number_at(query, 1),
			.tid = (uint32_t)number_at(query, 2),
		};
		thread->queue.thread = thread;
		ingest_table_put(&process->threads, thread->number, thread);
	}
	sqlite3_finalize(query);
}

static void read_devices(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT id, ordinal, uuid FROM device WHERE process_id = ?",
				  process->id);

	while (store_next(process->ingest->store, query)) {
		ingest_table_put(&process->devices, number_at(query, 1) + 1,
				 (void *)(uintptr_t)number_at(query, 0));
		ingest_ledger_device(&process->ingest->readings.ledger, process->id,
				     (uint32_t)number_at(query, 0),
				     text_at(query, 2) ? text_at(query, 2) : "");
	}
	sqlite3_finalize(query);
}

static void read_contexts(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT id, number, device_id, handle, destroyed_ns IS NOT NULL, "
				  "created_ns, is_green "
				  "FROM context WHERE process_id = ?",
				  process->id);

	while (store_next(process->ingest->store, query)) {
		struct ingest_context *context = ingest_table_memory(NULL, 1, sizeof(*context));

		*context = (struct ingest_context){
			.id = (uint32_t)number_at(query, 0),
			.number = (uint32_t)number_at(query, 1),
			.device_id = (uint32_t)number_at(query, 2),
			.handle = number_at(query, 3),
			.is_dead = number_at(query, 4),
			.created_ns = sqlite3_column_int64(query, 5),
			.is_green = number_at(query, 6),
		};
		ingest_table_put(&process->contexts, context->number, context);
	}
	sqlite3_finalize(query);
}

static struct ingest_object *read_object(sqlite3_stmt *query, bool is_event)
{
	struct ingest_object *object = ingest_table_memory(NULL, 1, sizeof(*object));

	*object = (struct ingest_object){
		.id = (uint32_t)number_at(query, 0),
		.context_id = (uint32_t)number_at(query, 1),
		.handle = number_at(query, 2),
		.created_ns = sqlite3_column_int64(query, 3),
		.is_event = is_event,
		.is_stored = true,
	};
	return object;
}

static void read_streams(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT s.id, s.context_id, s.handle, s.created_ns, s.thread_id, "
				  "c.number, t.number FROM stream s "
				  "LEFT JOIN context c ON c.id = s.context_id "
				  "LEFT JOIN thread t ON t.id = s.thread_id "
				  "WHERE s.process_id = ? AND s.destroyed_ns IS NULL",
				  process->id);

	while (store_next(process->ingest->store, query)) {
		struct ingest_object *stream = read_object(query, false);

		stream->thread_id = (uint32_t)number_at(query, 4);
		if (stream->handle > STREAM_PER_THREAD)
			ingest_table_put(&process->streams, stream->handle, stream);
		else
			ingest_table_put(&process->default_streams,
					 ingest_identity_default_key(
						 (uint32_t)number_at(query, 5),
						 (uint32_t)number_at(query, 6), stream->handle),
					 stream);
	}
	sqlite3_finalize(query);
}

static void read_events(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT id, context_id, handle, created_ns FROM event "
				  "WHERE process_id = ? AND destroyed_ns IS NULL",
				  process->id);

	while (store_next(process->ingest->store, query)) {
		struct ingest_object *event = read_object(query, true);

		ingest_table_put(&process->events, event->handle, event);
	}
	sqlite3_finalize(query);
}

static void read_block(struct ingest_process *process, sqlite3_stmt *query)
{
	struct ingest_block *block = ingest_block_add(&process->blocks, number_at(query, 1));

	block->id = number_at(query, 0);
	block->kind = (uint8_t)ingest_resume_kind(text_at(query, 2));
	block->address = number_at(query, 3);
	block->bytes = number_at(query, 4);
	block->device_id = (uint32_t)number_at(query, 5);
	block->context_id = (uint32_t)number_at(query, 6);
	block->alloc_ns = sqlite3_column_int64(query, 7);
	block->live_ns = block->alloc_ns + sqlite3_column_int64(query, 8);
	block->parent_id = number_at(query, 9);
	block->is_view = block->parent_id != 0;
	block->is_exported = number_at(query, 10);
	block->free_ns = sqlite3_column_int64(query, 11);
	block->free_duration_ns = sqlite3_column_int64(query, 12);
	block->free_api = (uint16_t)number_at(query, 13);
	block->free_thread_id = (uint32_t)number_at(query, 14);
	block->free_caller = number_at(query, 15);
	block->is_deferred = sqlite3_column_type(query, 17) != SQLITE_NULL;
	block->waited_ns = sqlite3_column_int64(query, 17);
	block->pending_ns = block->free_ns + block->waited_ns;
	block->ready_ns = sqlite3_column_int64(query, 18);
	block->is_pending = block->free_ns != 0;
	block->is_stored = true;
	block->series = ingest_peak_series(&process->ingest->peak, process->id, block->device_id,
					   block->kind);
	if (block->is_view || (block->kind != BLOCK_VMM && !number_at(query, 16)))
		ingest_block_place(&process->blocks, block);
	if (sqlite3_column_type(query, 19) == SQLITE_NULL)
		return;
	block->released_ns = sqlite3_column_int64(query, 19);
	block->cause = (uint8_t)cause_of(text_at(query, 20));
	ingest_block_await(&process->blocks, block);
}

/* Those that live, and those whose release was met before their free. */
static void read_blocks(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(
		process->ingest,
		"SELECT id, number, kind, address, bytes, device_id, context_id, alloc_ns, "
		"alloc_duration_ns, parent_id, is_exported, free_requested_ns, free_duration_ns, "
		"free_api_id, free_thread_id, free_caller, "
		"api_id IN (SELECT id FROM api WHERE name = 'cuMemCreate'), free_waited_ns, "
		"ready_ns, released_ns, release_cause FROM allocation "
		"WHERE process_id = ? AND (released_ns IS NULL OR (free_requested_ns IS NULL "
		"AND release_cause NOT IN ('context', 'reset', 'exit')))",
		process->id);

	while (store_next(process->ingest->store, query))
		read_block(process, query);
	sqlite3_finalize(query);
}

/* A pid and the number of images before this one name an image once in a session. */
static bool find_row(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT id, end_ns, lost_records FROM process "
				  "WHERE pid = ? AND exec_serial = ?",
				  process->pid);
	bool is_found;

	sqlite3_bind_int64(query, 2, process->map.control->exec_serial);
	is_found = store_next(process->ingest->store, query);
	if (is_found) {
		process->id = (uint32_t)number_at(query, 0);
		process->end_ns = sqlite3_column_int64(query, 1);
		process->lost = number_at(query, 2);
	}
	sqlite3_finalize(query);
	return is_found;
}

/* What was not told of before is joined to no transfer that was stored before. */
static bool hears_devices(struct ingest_process *process)
{
	sqlite3_stmt *query = ask(process->ingest,
				  "SELECT count(*) FROM gpu_times "
				  "WHERE process_id = ? AND start_ns IS NOT NULL",
				  process->id);
	bool is_heard = store_next(process->ingest->store, query) && number_at(query, 0);

	sqlite3_finalize(query);
	return is_heard;
}

void ingest_resume_process(struct ingest_process *process)
{
	if (!find_row(process))
		return;
	process->is_ended = process->is_done = process->end_ns != 0;
	if (process->is_done)
		return;
	read_threads(process);
	read_devices(process);
	read_contexts(process);
	read_streams(process);
	read_events(process);
	read_blocks(process);
	process->has_gpu_times = hears_devices(process);
}
