/* SPDX-License-Identifier: Apache-2.0 */
#include "report/store_row.h"

#include "core/record.h"
#include "core/trace_names.h"

static const char *const sql_of[STORE_ROW_COUNT] = {
	[STORE_ROW_API] = "INSERT OR IGNORE INTO api VALUES (?, ?)",
	[STORE_ROW_TRANSFER] = "INSERT INTO transfer_row VALUES (?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_SITE] = "INSERT INTO transfer_site VALUES (?,?,?,?,?,?,?,?,?,?,?,NULL,?,?,?)",
	[STORE_ROW_OPERATION] = "INSERT INTO operation VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_FAILURE] = "INSERT INTO failure VALUES (NULL,?,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_FLUSH] = "INSERT INTO flush VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_FINDING] = "INSERT INTO finding VALUES (NULL,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_ALLOCATION] =
		"INSERT INTO allocation(id, process_id, number, kind, address, bytes, "
		"footprint_bytes, device_id, context_id, stream_id, thread_id, api_id, alloc_ns, "
		"alloc_duration_ns, caller, parent_id, is_exported, free_api_id, free_thread_id, "
		"free_requested_ns, free_duration_ns, released_ns, release_cause, free_caller, "
		"free_waited_ns, ready_ns, free_saved_ns) "
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_ROW_RELEASE] =
		"UPDATE allocation SET is_exported=?17, free_api_id=?18, free_thread_id=?19, "
		"free_requested_ns=?20, free_duration_ns=?21, released_ns=?22, release_cause=?23, "
		"free_caller=?24, free_waited_ns=?25, ready_ns=?26, free_saved_ns=?27 "
		"WHERE id=?1",
	[STORE_ROW_GAP] = "INSERT INTO gap VALUES (?,?,?,?,?)",
	[STORE_ROW_UNCOVERED] = "INSERT INTO uncovered VALUES (NULL,?,?,?,?,?)",
	[STORE_ROW_MODULE] = "INSERT INTO module VALUES (NULL,?,?,?,?,?,?)",
	[STORE_ROW_CALLS] = "INSERT OR REPLACE INTO api_call VALUES (?,?,?,?,?,?,?)",
	[STORE_ROW_INGEST] = "INSERT OR REPLACE INTO ingest VALUES (?,?,?,?,?)",
};

static sqlite3_stmt *prepare(struct store_row *rows, enum store_row_name name)
{
	if (rows->statement[name])
		return rows->statement[name];
	return store_prepare(rows->store, &rows->statement[name], sql_of[name]);
}

static void bind_number(sqlite3_stmt *statement, int at, uint64_t number)
{
	sqlite3_bind_int64(statement, at, (int64_t)number);
}

/* `text` lives at least until the statement is run; NULL stays NULL. */
static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

void store_row_api(struct store_row *rows, uint16_t api, const char *name)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_API);

	bind_number(statement, 1, api);
	bind_text(statement, 2, name);
	store_step(rows->store, statement);
}

void store_row_site(struct store_row *rows, uint64_t id, const struct store_row_site *site)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_SITE);

	bind_number(statement, 1, id);
	bind_number(statement, 2, site->process_id);
	bind_text(statement, 3, transfer_kind_name(site->kind));
	store_bind_id(statement, 4, site->api);
	bind_number(statement, 5, site->is_async);
	bind_text(statement, 6, site->has_source ? place_kind_name(site->source) : NULL);
	bind_text(statement, 7, site->has_target ? place_kind_name(site->target) : NULL);
	store_bind_id(statement, 8, site->source_device_id);
	store_bind_id(statement, 9, site->target_device_id);
	store_bind_id(statement, 10, site->context_id);
	store_bind_id(statement, 11, site->caller);
	bind_number(statement, 12, site->result);
	bind_number(statement, 13, site->is_captured);
	bind_number(statement, 14, site->copies);
	store_step(rows->store, statement);
}

void store_row_transfer(struct store_row *rows, const struct store_row_transfer *transfer)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_TRANSFER);

	bind_number(statement, 1, transfer->id);
	bind_number(statement, 2, transfer->site_id);
	store_bind_id(statement, 3, transfer->thread_id);
	store_bind_id(statement, 4, transfer->stream_id);
	bind_number(statement, 5, transfer->bytes);
	bind_number(statement, 6, (uint64_t)transfer->start_ns);
	bind_number(statement, 7, (uint64_t)transfer->duration_ns);
	store_bind_if(statement, 8, transfer->has_source, transfer->source_address);
	store_bind_if(statement, 9, transfer->has_target, transfer->target_address);
	store_bind_id(statement, 10, transfer->source_id);
	store_bind_id(statement, 11, transfer->target_id);
	store_step(rows->store, statement);
}

void store_row_operation(struct store_row *rows, const struct store_row_call *call)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_OPERATION);

	bind_number(statement, 1, call->process_id);
	bind_number(statement, 2, call->api);
	bind_number(statement, 3, (uint64_t)call->start_ns);
	bind_number(statement, 4, (uint64_t)call->duration_ns);
	store_bind_id(statement, 5, call->thread_id);
	store_bind_id(statement, 6, call->context_id);
	store_bind_id(statement, 7, call->stream_id);
	store_bind_id(statement, 8, call->object);
	bind_number(statement, 9, call->result);
	store_bind_id(statement, 10, call->is_unload ? call->caller : 0);
	store_bind_id(statement, 11, call->detail);
	store_bind_id(statement, 12, call->bytes);
	store_step(rows->store, statement);
}

static const char *failure_origin(const struct store_row_call *call)
{
	if (call->is_ours)
		return "custody";
	switch ((enum failure_why)call->failure_why) {
	case FAILURE_LIMIT:
		return "limit";
	case FAILURE_NTH:
		return "fail-nth";
	default:
		return "program";
	}
}

void store_row_failure(struct store_row *rows, const struct store_row_call *call)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_FAILURE);

	bind_number(statement, 1, call->process_id);
	bind_text(statement, 2, failure_origin(call));
	store_bind_id(statement, 3, call->api);
	bind_number(statement, 4, call->result);
	store_bind_id(statement, 5, call->bytes);
	store_bind_id(statement, 6, call->object);
	bind_number(statement, 7, (uint64_t)call->start_ns);
	store_bind_id(statement, 8, call->thread_id);
	store_bind_id(statement, 9, call->context_id);
	store_bind_id(statement, 10, call->caller);
	store_step(rows->store, statement);
}

void store_row_flush(struct store_row *rows, const struct store_row_call *call,
		     const struct store_row_flush *flush)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_FLUSH);

	bind_number(statement, 1, call->process_id);
	store_bind_id(statement, 2, call->context_id);
	store_bind_id(statement, 3, call->thread_id);
	bind_text(statement, 4, queue_kind_name(flush->queue));
	bind_text(statement, 5, release_cause_name(flush->cause));
	bind_number(statement, 6, flush->count);
	bind_number(statement, 7, flush->bytes);
	bind_number(statement, 8, flush->failed);
	bind_number(statement, 9, (uint64_t)call->start_ns);
	bind_number(statement, 10, (uint64_t)call->duration_ns);
	bind_number(statement, 11, (uint64_t)flush->waited_ns);
	store_step(rows->store, statement);
}

void store_row_finding(struct store_row *rows, const struct store_row_call *call,
		       enum finding_kind kind, uint64_t allocation_id)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_FINDING);

	bind_number(statement, 1, call->process_id);
	bind_text(statement, 2, finding_kind_name(kind));
	store_bind_id(statement, 3, call->api);
	store_bind_id(statement, 4, allocation_id);
	bind_number(statement, 5, call->object);
	bind_number(statement, 6, (uint64_t)call->start_ns);
	store_bind_id(statement, 7, call->thread_id);
	store_bind_id(statement, 8, call->context_id);
	store_bind_id(statement, 9, call->caller);
	store_step(rows->store, statement);
}

void store_row_calls(struct store_row *rows, const struct store_row_calls *calls)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_CALLS);

	bind_number(statement, 1, calls->process_id);
	bind_number(statement, 2, calls->api);
	bind_number(statement, 3, calls->thread_id);
	bind_number(statement, 4, calls->calls);
	bind_number(statement, 5, calls->errors);
	store_bind_if(statement, 6, calls->is_timed, (uint64_t)calls->total_ns);
	store_bind_if(statement, 7, calls->is_timed, (uint64_t)calls->max_ns);
	store_step(rows->store, statement);
}

uint64_t store_row_footprint(enum block_kind kind, bool is_view, uint64_t bytes)
{
	const uint64_t page = UINT64_C(2) << 20;

	if (is_view || kind == BLOCK_IPC || kind == BLOCK_REGISTERED || kind == BLOCK_EXTERNAL)
		return 0;
	if (kind != BLOCK_DEVICE && kind != BLOCK_PITCH && kind != BLOCK_MANAGED)
		return bytes;
	if (bytes <= page / 2)
		return (bytes + 511) & ~UINT64_C(511);
	return bytes > UINT64_MAX - page ? bytes : (bytes + page - 1) & ~(page - 1);
}

static void bind_release(sqlite3_stmt *statement, const struct ingest_block *block)
{
	bind_number(statement, 17, block->is_exported);
	store_bind_id(statement, 18, block->free_api);
	store_bind_id(statement, 19, block->free_thread_id);
	store_bind_id(statement, 20, (uint64_t)block->free_ns);
	store_bind_if(statement, 21, block->free_ns, (uint64_t)block->free_duration_ns);
	store_bind_id(statement, 22, (uint64_t)block->released_ns);
	bind_text(statement, 23, block->released_ns ? release_cause_name(block->cause) : NULL);
	store_bind_id(statement, 24, block->free_caller);
	store_bind_if(statement, 25, block->is_deferred, (uint64_t)block->waited_ns);
	store_bind_id(statement, 26, (uint64_t)block->ready_ns);
	store_bind_if(statement, 27, block->has_saved, (uint64_t)block->saved_ns);
}

static void bind_block(sqlite3_stmt *statement, uint32_t process_id,
		       const struct ingest_block *block)
{
	bind_number(statement, 2, process_id);
	bind_number(statement, 3, block->number);
	bind_text(statement, 4, block_kind_name(block->kind));
	bind_number(statement, 5, block->address);
	bind_number(statement, 6, block->bytes);
	bind_number(statement, 7,
		    store_row_footprint(block->kind, block->is_view, block->bytes));
	store_bind_id(statement, 8, block->device_id);
	store_bind_id(statement, 9, block->context_id);
	store_bind_id(statement, 10, block->stream_id);
	store_bind_id(statement, 11, block->thread_id);
	store_bind_id(statement, 12, block->api);
	bind_number(statement, 13, (uint64_t)block->alloc_ns);
	bind_number(statement, 14, (uint64_t)(block->live_ns - block->alloc_ns));
	store_bind_id(statement, 15, block->caller);
	store_bind_id(statement, 16, block->parent_id);
}

void store_row_block(struct store_row *rows, uint32_t process_id, const struct ingest_block *block)
{
	sqlite3_stmt *statement =
		prepare(rows, block->is_stored ? STORE_ROW_RELEASE : STORE_ROW_ALLOCATION);

	bind_number(statement, 1, block->id);
	if (!block->is_stored)
		bind_block(statement, process_id, block);
	bind_release(statement, block);
	store_step(rows->store, statement);
}

void store_row_gap(struct store_row *rows, uint32_t process_id, uint32_t thread_id,
		   uint64_t count, int64_t from_ns, int64_t to_ns)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_GAP);

	bind_number(statement, 1, process_id);
	store_bind_id(statement, 2, thread_id);
	bind_number(statement, 3, count);
	store_bind_id(statement, 4, (uint64_t)from_ns);
	store_bind_id(statement, 5, (uint64_t)to_ns);
	store_step(rows->store, statement);
}

void store_row_uncovered(struct store_row *rows, const struct store_row_call *call,
			 const struct record *record, const char *name)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_UNCOVERED);

	bind_number(statement, 1, call->process_id);
	bind_text(statement, 2, name);
	store_bind_id(statement, 3, record->b);
	bind_number(statement, 4, record->c);
	bind_number(statement, 5, (uint64_t)call->start_ns);
	store_step(rows->store, statement);
}

void store_row_module(struct store_row *rows, const struct store_row_call *call, const char *path,
		      const char *build_id)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_MODULE);

	bind_number(statement, 1, call->process_id);
	bind_text(statement, 2, path);
	bind_text(statement, 3, build_id);
	bind_number(statement, 4, call->object);
	bind_number(statement, 5, call->bytes);
	bind_number(statement, 6, (uint64_t)call->start_ns);
	store_step(rows->store, statement);
}

void store_row_ingest(struct store_row *rows, uint32_t process_id, uint32_t segment,
		      uint32_t chunk, uint64_t sequence, uint32_t consumed)
{
	sqlite3_stmt *statement = prepare(rows, STORE_ROW_INGEST);

	bind_number(statement, 1, process_id);
	bind_number(statement, 2, segment);
	bind_number(statement, 3, chunk);
	bind_number(statement, 4, sequence);
	bind_number(statement, 5, consumed);
	store_step(rows->store, statement);
}
