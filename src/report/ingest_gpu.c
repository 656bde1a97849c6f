/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_gpu.h"

#include "core/trace_names.h"
#include "report/ingest.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 18, CALLS_MOST = PLACES / 2 };

static const char *const work_names[GPU_WORKS] = {
	[GPU_LOST] = "lost",	 [GPU_COPY] = "copy",		[GPU_MEMSET] = "memset",
	[GPU_KERNEL] = "kernel", [GPU_MIGRATION] = "migration",
};

/* -------------------------------------------------------------- the latest calls */

static uint32_t home_of(uint32_t process_id, uint64_t key)
{
	uint64_t hash = (key ^ (uint64_t)process_id << 20) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(hash >> 46) % PLACES;
}

static void forget(struct ingest_gpu_calls *calls)
{
	if (!calls->place)
		calls->place = ingest_table_memory(NULL, PLACES, sizeof(*calls->place));
	memset(calls->place, 0, PLACES * sizeof(*calls->place));
	calls->count = 0;
}

static void add_call(struct ingest_gpu *gpu, const struct ingest_gpu_call *call)
{
	struct ingest_gpu_calls *calls = &gpu->calls[gpu->latest];
	uint32_t at = home_of(call->process_id, call->key);

	if (!calls->place || calls->count == CALLS_MOST) {
		gpu->latest = !gpu->latest;
		calls = &gpu->calls[gpu->latest];
		forget(calls);
	}
	while (calls->place[at].key)
		at = (at + 1) % PLACES;
	calls->place[at] = *call;
	calls->count++;
}

/* What was not done, or not by a device, is not waited for. */
void ingest_gpu_expect(struct ingest_process *process, uint32_t thread, uint64_t start,
		       const struct store_row_site *site, uint64_t transfer_id, uint64_t bytes)
{
	if (!process->has_gpu_times || site->result || site->is_captured ||
	    site->kind == TRANSFER_PREFETCH)
		return;
	add_call(&process->ingest->gpu, &(struct ingest_gpu_call){
						.key = call_key(thread, start),
						.transfer_id = transfer_id,
						.bytes = bytes,
						.process_id = process->id,
						.kind = site->kind,
						.source = site->source,
						.target = site->target,
					});
}

/* ------------------------------------------------------------- whose work it was */

/* How much of a call and of work must agree. */
enum likeness { ANY, SAME_KIND, SAME_PLACES };

/* Walks over the transfers of one call. */
struct search {
	struct ingest_gpu_calls *calls;
	const struct record *record;
	uint32_t process_id;
	enum likeness likeness;
	uint32_t at;
};

static bool is_locked(uint8_t place)
{
	return place == PLACE_PINNED || place == PLACE_REGISTERED;
}

static bool are_same_places(uint8_t one, uint8_t other)
{
	return one == other || (is_locked(one) && is_locked(other));
}

static bool is_like(const struct ingest_gpu_call *call, const struct record *record,
		    enum likeness likeness)
{
	if (likeness == ANY)
		return true;
	if (call->kind != record_gpu_kind(record))
		return false;
	return likeness == SAME_KIND ||
	       (are_same_places(call->source, record->aux >> 8 & 15) &&
		are_same_places(call->target, record->aux >> 12));
}

static void search_begin(struct search *search)
{
	search->at = home_of(search->process_id, search->record->stream);
}

static struct ingest_gpu_call *search_next(struct search *search)
{
	struct ingest_gpu_call *call;

	while (search->calls->place && (call = &search->calls->place[search->at])->key) {
		search->at = (search->at + 1) % PLACES;
		if (call->key == search->record->stream &&
		    call->process_id == search->process_id &&
		    is_like(call, search->record, search->likeness))
			return call;
	}
	return NULL;
}

static void write_time(struct ingest_process *process, const struct ingest_gpu_call *call,
		       const struct record *record, uint64_t duration)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *insert = store_prepare(
		ingest->store, &ingest->gpu.insert_transfer,
		"INSERT INTO transfer_gpu VALUES (?, ?, ?) ON CONFLICT(transfer_id) DO UPDATE SET "
		"start_ns = min(start_ns, excluded.start_ns), "
		"duration_ns = duration_ns + excluded.duration_ns");

	sqlite3_bind_int64(insert, 1, (int64_t)call->transfer_id);
	sqlite3_bind_int64(insert, 2, (int64_t)record->a);
	sqlite3_bind_int64(insert, 3, (int64_t)duration);
	store_step(ingest->store, insert);
}

/* One of them has just these bytes and has had no work yet. */
static bool give_whole(struct ingest_process *process, struct search *search)
{
	struct ingest_gpu_call *call;

	search_begin(search);
	while ((call = search_next(search))) {
		if (call->is_done || call->bytes != search->record->c)
			continue;
		call->is_done = true;
		write_time(process, call, search->record, search->record->b);
		return true;
	}
	return false;
}

static uint32_t count_calls(struct search *search, uint64_t *bytes)
{
	struct ingest_gpu_call *call;
	uint32_t count = 0;

	*bytes = 0;
	search_begin(search);
	for (; (call = search_next(search)); count++)
		*bytes += call->bytes;
	return count;
}

/* Several that CUPTI tells of as one: each has its share, by its bytes. */
static bool give_shares(struct ingest_process *process, struct search *search)
{
	uint64_t left = search->record->b, bytes;
	uint32_t count = count_calls(search, &bytes);
	struct ingest_gpu_call *call;

	search_begin(search);
	for (uint32_t i = 0; (call = search_next(search)); i++) {
		uint64_t share = left;

		if (i + 1 < count && bytes)
			share = (uint64_t)((double)left * (double)call->bytes / (double)bytes);
		bytes -= call->bytes;
		left -= share;
		write_time(process, call, search->record, share);
	}
	return count;
}

/* All that the call was about, whatever kinds it has: a batch is told of as one. */
static bool give_to_all(struct ingest_process *process, struct search *search)
{
	uint64_t bytes;

	search->likeness = ANY;
	return count_calls(search, &bytes) > 1 && bytes == search->record->c &&
	       give_shares(process, search);
}

static bool give_to_some(struct ingest_process *process, struct search *search)
{
	for (int likeness = SAME_PLACES; likeness >= ANY; likeness--) {
		search->likeness = (enum likeness)likeness;
		if (give_whole(process, search) || give_shares(process, search))
			return true;
	}
	return false;
}

static bool give_to_call(struct ingest_process *process, const struct record *record)
{
	struct ingest_gpu *gpu = &process->ingest->gpu;
	struct search search = { .record = record, .process_id = process->id };

	for (int age = 0; age < 2 && record->stream; age++) {
		search.calls = &gpu->calls[age ? !gpu->latest : gpu->latest];
		if (give_to_all(process, &search) || give_to_some(process, &search))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------- rows of their own */

static void bind_name(sqlite3_stmt *statement, int at, const char *name)
{
	sqlite3_bind_text(statement, at, name, -1, SQLITE_STATIC);
}

static bool is_kernel(const struct record *record)
{
	return record_gpu_work(record) == GPU_KERNEL;
}

static const char *place_or_null(const struct record *record, int shift)
{
	bool has_places = record_gpu_work(record) == GPU_COPY;

	return has_places ? place_kind_name((enum place_kind)(record->aux >> shift & 15)) : NULL;
}

static void bind_site(sqlite3_stmt *statement, uint32_t process_id, const struct record *record)
{
	sqlite3_bind_int64(statement, 1, process_id);
	bind_name(statement, 2, work_names[record_gpu_work(record)]);
	bind_name(statement, 3,
		  is_kernel(record) ? NULL : transfer_kind_name(record_gpu_kind(record)));
	bind_name(statement, 4, place_or_null(record, 8));
	bind_name(statement, 5, place_or_null(record, 12));
	store_bind_if(statement, 6, is_kernel(record), record->c);
}

static uint64_t site_key(uint32_t process_id, const struct record *record)
{
	uint64_t number = is_kernel(record) ? record->c << 16 : 0;

	return (uint64_t)process_id << 44 ^ number ^ record->aux;
}

/* A collector that goes on where another died finds the row of that one. */
static int64_t find_row(struct ingest *ingest, uint32_t process_id, const struct record *record)
{
	sqlite3_stmt *query;
	int64_t id = 0;

	if (!ingest->is_resumed)
		return 0;
	query = store_prepare(ingest->store, &ingest->gpu.find_site,
			      "SELECT id FROM gpu_work_site WHERE process_id = ? AND kind = ? "
			      "AND direction IS ? AND source_kind IS ? AND target_kind IS ? "
			      "AND number IS ?");
	bind_site(query, process_id, record);
	while (store_next(ingest->store, query))
		id = sqlite3_column_int64(query, 0);
	return id;
}

static int64_t make_row(struct ingest *ingest, uint32_t process_id, const struct record *record)
{
	sqlite3_stmt *insert = store_prepare(
		ingest->store, &ingest->gpu.insert_site,
		"INSERT INTO gpu_work_site(process_id, kind, direction, source_kind, target_kind, "
		"number) VALUES (?, ?, ?, ?, ?, ?)");

	bind_site(insert, process_id, record);
	store_step(ingest->store, insert);
	return sqlite3_last_insert_rowid(ingest->store->db);
}

static int64_t find_site(struct ingest_process *process, const struct record *record)
{
	struct ingest *ingest = process->ingest;
	uint64_t key = site_key(process->id, record);
	int64_t id = (int64_t)(uintptr_t)ingest_table_find(&ingest->gpu.sites, key);

	if (id)
		return id;
	id = find_row(ingest, process->id, record);
	if (!id)
		id = make_row(ingest, process->id, record);
	ingest_table_put(&ingest->gpu.sites, key, (void *)(uintptr_t)id);
	return id;
}

static void write_row(struct ingest_process *process, const struct record *record)
{
	struct ingest *ingest = process->ingest;
	int64_t site_id = find_site(process, record);
	bool is_migration = record_gpu_work(record) == GPU_MIGRATION;
	sqlite3_stmt *insert = store_prepare(
		ingest->store, &ingest->gpu.insert_row,
		"INSERT INTO gpu_work_row(site_id, start_ns, duration_ns, bytes, count) "
		"VALUES (?, ?, ?, ?, ?)");

	sqlite3_bind_int64(insert, 1, site_id);
	sqlite3_bind_int64(insert, 2, (int64_t)record->a);
	sqlite3_bind_int64(insert, 3, (int64_t)record->b);
	store_bind_if(insert, 4, !is_kernel(record), record->c);
	sqlite3_bind_int64(insert, 5, is_migration ? (int64_t)record->stream : 1);
	store_step(ingest->store, insert);
}

static void write_lost(struct ingest_process *process, uint64_t count)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *update =
		store_prepare(ingest->store, &ingest->gpu.lose,
			      "UPDATE gpu_times SET lost = lost + ?2 WHERE process_id = ?1");

	sqlite3_bind_int64(update, 1, process->id);
	sqlite3_bind_int64(update, 2, (int64_t)count);
	store_step(ingest->store, update);
}

void ingest_gpu(struct ingest_process *process, const struct record *record, int64_t at_ns)
{
	(void)at_ns;
	switch (record_gpu_work(record)) {
	case GPU_LOST:
		write_lost(process, record->a);
		break;
	case GPU_COPY:
	case GPU_MEMSET:
		if (!give_to_call(process, record))
			write_row(process, record);
		break;
	case GPU_KERNEL:
	case GPU_MIGRATION:
		write_row(process, record);
		break;
	case GPU_WORKS:
		break;
	}
}

/* ------------------------------------------------------- names, beginning and end */

static void name_kernel(struct ingest_process *process, uint64_t number, const char *name)
{
	struct ingest *ingest = process->ingest;
	const struct record kernel = { .c = number, .aux = AUX_GPU(GPU_KERNEL, 0, 0, 0) };
	sqlite3_stmt *update = store_prepare(ingest->store, &ingest->gpu.name_site,
					     "UPDATE gpu_work_site SET name = ?2 WHERE id = ?1");

	sqlite3_bind_int64(update, 1, find_site(process, &kernel));
	sqlite3_bind_text(update, 2, name, -1, SQLITE_STATIC);
	store_step(ingest->store, update);
}

static void tell_begin(struct ingest_process *process, int64_t at_ns)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *insert =
		store_prepare(ingest->store, &ingest->gpu.begin,
			      "INSERT INTO gpu_times(process_id, start_ns) VALUES (?, ?)");

	sqlite3_bind_int64(insert, 1, process->id);
	sqlite3_bind_int64(insert, 2, at_ns);
	store_step(ingest->store, insert);
}

/* They end, or never began. */
static void tell_end(struct ingest_process *process, const char *why, int64_t at_ns)
{
	struct ingest *ingest = process->ingest;
	bool is_end = process->has_gpu_times;
	sqlite3_stmt *statement =
		is_end ? store_prepare(ingest->store, &ingest->gpu.end,
				       "UPDATE gpu_times SET why = ?2, end_ns = ?3 "
				       "WHERE process_id = ?1") :
			 store_prepare(ingest->store, &ingest->gpu.refuse,
				       "INSERT INTO gpu_times(process_id, why) VALUES (?, ?)");

	sqlite3_bind_int64(statement, 1, process->id);
	sqlite3_bind_text(statement, 2, why, -1, SQLITE_STATIC);
	if (is_end)
		sqlite3_bind_int64(statement, 3, at_ns);
	store_step(ingest->store, statement);
}

void ingest_gpu_name(struct ingest_process *process, const struct record *record,
		     const char *text, int64_t at_ns)
{
	if (record->a) {
		name_kernel(process, record->a, text);
	} else if (*text) {
		tell_end(process, text, at_ns);
	} else if (!process->has_gpu_times) {
		process->has_gpu_times = true;
		tell_begin(process, at_ns);
	}
}

void ingest_gpu_free(struct ingest_gpu *gpu)
{
	free(gpu->calls[0].place);
	free(gpu->calls[1].place);
	ingest_table_free(&gpu->sites, NULL);
	memset(gpu->calls, 0, sizeof(gpu->calls)); /* the statements are the store's to end */
}
