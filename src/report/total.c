/* SPDX-License-Identifier: Apache-2.0 */
#include "report/total.h"

#include "report/store.h"
#include "report/total_free.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char total_columns[] =
	"process_id INTEGER NOT NULL, device_id INTEGER, kind TEXT NOT NULL, caller INTEGER,"
	" is_view INTEGER NOT NULL, size_class INTEGER NOT NULL, count INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, footprint_bytes INTEGER NOT NULL, alloc_ns INTEGER NOT NULL,"
	" frees INTEGER NOT NULL, free_ns INTEGER NOT NULL, free_max_ns INTEGER NOT NULL,"
	" peak_count INTEGER NOT NULL, peak_bytes INTEGER NOT NULL,"
	" peak_footprint_bytes INTEGER NOT NULL, exit_count INTEGER NOT NULL,"
	" exit_bytes INTEGER NOT NULL, ended_count INTEGER NOT NULL, ended_bytes INTEGER NOT NULL";

/* The sums, in the order of the table. */
enum sum {
	SUM_COUNT, SUM_BYTES, SUM_FOOTPRINT, SUM_ALLOC_NS,
	SUM_FREES, SUM_FREE_NS, SUM_FREE_MAX_NS,
	SUM_PEAK_COUNT, SUM_PEAK_BYTES, SUM_PEAK_FOOTPRINT,
	SUM_EXIT_COUNT, SUM_EXIT_BYTES,
	SUM_ENDED_COUNT, SUM_ENDED_BYTES,
	SUMS
};

enum { KEYS = 6, KINDS_MOST = 64 };

/* What blocks are summed by; device and caller are 0 where they are not known. */
struct group {
	int64_t process_id, device_id, caller;
	int32_t kind; /* index into totals.kind */
	int8_t is_view;
	int8_t size_class;
	uint64_t sum[SUMS]; /* wraps on nonsense rather than overflows */
};

struct totals {
	struct group *group;
	uint32_t count, room;
	uint32_t *slot; /* hash table of index + 1, at least half of it empty */
	uint32_t slots; /* a power of two */
	char *kind[KINDS_MOST];
	int kinds;
	struct total_frees frees;
};

/* Columns of the walk over all blocks. */
enum column {
	ID, PROCESS, DEVICE, KIND, CALLER, PARENT, BYTES, FOOTPRINT, ALLOC_NS,
	FREE_REQUESTED, FREE_NS, RELEASED, CAUSE, FREE_API, FREE_CALLER, WAITED, SAVED, IN_GRAPH
};

/* What the launch of a graph allocates and frees takes no time of its own. */
#define BY_LAUNCH(api) api " IN (SELECT id FROM api WHERE name LIKE 'cuGraphLaunch%')"
#define UNLESS_BY_LAUNCH(api, ns) "CASE WHEN " BY_LAUNCH(api) " THEN 0 ELSE " ns " END"

static const char select_blocks[] =
	"SELECT id, process_id, device_id, kind, caller, parent_id, bytes, footprint_bytes, "
	UNLESS_BY_LAUNCH("api_id", "alloc_duration_ns") ", free_requested_ns, "
	UNLESS_BY_LAUNCH("free_api_id", "free_duration_ns") ", released_ns, release_cause,"
	" free_api_id, free_caller, free_waited_ns, free_saved_ns, " BY_LAUNCH("free_api_id")
	" FROM allocation ORDER BY id";

static const char select_peak[] =
	"SELECT allocation_id FROM peak_block WHERE process_id IS NULL AND device_id IS NULL"
	" ORDER BY allocation_id";

static int size_class(int64_t bytes)
{
	return bytes > 0 ? 63 - __builtin_clzll((unsigned long long)bytes) : -1;
}

/* Kinds are few; a damaged trace may hold any, and those beyond the limit share the last name. */
static int find_kind(struct totals *totals, const char *name)
{
	for (int i = 0; i < totals->kinds; i++)
		if (!strcmp(totals->kind[i], name))
			return i;
	if (totals->kinds == KINDS_MOST)
		return KINDS_MOST - 1;
	totals->kind[totals->kinds] = strdup(name);
	return totals->kind[totals->kinds] ? totals->kinds++ : -1;
}

static bool is_same_group(const struct group *a, const struct group *b)
{
	return a->caller == b->caller && a->process_id == b->process_id &&
	       a->device_id == b->device_id && a->kind == b->kind && a->is_view == b->is_view &&
	       a->size_class == b->size_class;
}

static uint64_t hash_group(const struct group *group)
{
	uint64_t hash = (uint64_t)group->caller;

	hash = (hash ^ (uint64_t)group->process_id << 40) * UINT64_C(0x9E3779B97F4A7C15);
	hash = (hash ^ (uint64_t)group->device_id << 20) * UINT64_C(0x9E3779B97F4A7C15);
	hash ^= (uint64_t)group->kind << 16 ^ (uint64_t)(uint8_t)group->size_class << 8 ^
		(uint64_t)group->is_view;
	hash *= UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 32;
}

static bool grow(struct totals *totals)
{
	uint32_t room = totals->room ? 2 * totals->room : 512;
	struct group *group = reallocarray(totals->group, room, sizeof(*group));
	uint32_t *slot = calloc(2 * (size_t)room, sizeof(*slot));

	if (group)
		totals->group = group;
	if (!group || !slot) {
		free(slot);
		return false;
	}
	free(totals->slot);
	totals->slot = slot;
	totals->slots = 2 * room;
	totals->room = room;
	for (uint32_t i = 0; i < totals->count; i++) {
		uint32_t at = hash_group(&group[i]) & (totals->slots - 1);

		while (slot[at])
			at = (at + 1) & (totals->slots - 1);
		slot[at] = i + 1;
	}
	return true;
}

/* The group with the key of `wanted`, made where it is new; NULL: out of memory. */
static struct group *find_group(struct totals *totals, const struct group *wanted)
{
	uint32_t at;

	if (totals->count == totals->room && !grow(totals))
		return NULL;
	at = hash_group(wanted) & (totals->slots - 1);
	for (; totals->slot[at]; at = (at + 1) & (totals->slots - 1))
		if (is_same_group(&totals->group[totals->slot[at] - 1], wanted))
			return &totals->group[totals->slot[at] - 1];
	totals->group[totals->count] = *wanted;
	totals->slot[at] = ++totals->count;
	return &totals->group[totals->count - 1];
}

static bool is_null(sqlite3_stmt *block, enum column column)
{
	return sqlite3_column_type(block, (int)column) == SQLITE_NULL;
}

static uint64_t read_number(sqlite3_stmt *block, enum column column)
{
	return (uint64_t)sqlite3_column_int64(block, (int)column);
}

static void add_free(struct group *group, sqlite3_stmt *block)
{
	uint64_t took = read_number(block, FREE_NS);

	group->sum[SUM_FREES]++;
	group->sum[SUM_FREE_NS] += took;
	if ((int64_t)took > (int64_t)group->sum[SUM_FREE_MAX_NS])
		group->sum[SUM_FREE_MAX_NS] = took;
}

/* Nonsense may be as large as a number can be: no difference of two may overflow. */
static int64_t pending_for(sqlite3_stmt *block)
{
	uint64_t from = read_number(block, FREE_REQUESTED) + read_number(block, WAITED);
	int64_t span = (int64_t)(read_number(block, RELEASED) - from);

	return span > 0 ? span : 0;
}

static void note_free(struct total_frees *frees, sqlite3_stmt *block)
{
	const char *cause = (const char *)sqlite3_column_text(block, CAUSE);
	struct total_free call = {
		.process_id = sqlite3_column_int64(block, PROCESS),
		.api_id = sqlite3_column_int64(block, FREE_API),
		.caller = sqlite3_column_int64(block, FREE_CALLER),
		.host_ns = sqlite3_column_int64(block, FREE_NS),
		.is_deferred = !is_null(block, WAITED),
		.pending_ns = -1,
	};

	if (call.is_deferred) {
		call.bytes = sqlite3_column_int64(block, BYTES);
		call.waited_ns = sqlite3_column_int64(block, WAITED);
		call.saved_ns = sqlite3_column_int64(block, SAVED);
		call.is_at_exit = cause && !strcmp(cause, "exit");
		if (!is_null(block, RELEASED))
			call.pending_ns = pending_for(block);
	}
	total_free_add(frees, &call);
}

static void add_block(struct group *group, sqlite3_stmt *block, bool is_at_peak)
{
	uint64_t bytes = read_number(block, BYTES), footprint = read_number(block, FOOTPRINT);
	const char *cause;

	group->sum[SUM_COUNT]++;
	group->sum[SUM_BYTES] += bytes;
	group->sum[SUM_FOOTPRINT] += footprint;
	group->sum[SUM_ALLOC_NS] += read_number(block, ALLOC_NS);
	if (is_at_peak) {
		group->sum[SUM_PEAK_COUNT]++;
		group->sum[SUM_PEAK_BYTES] += bytes;
		group->sum[SUM_PEAK_FOOTPRINT] += footprint;
	}
	/* What the program has freed is neither left over nor has it died with anything. */
	if (!is_null(block, FREE_REQUESTED)) {
		add_free(group, block);
		return;
	}
	if (is_null(block, RELEASED)) {
		group->sum[SUM_EXIT_COUNT]++;
		group->sum[SUM_EXIT_BYTES] += bytes;
		return;
	}
	cause = (const char *)sqlite3_column_text(block, CAUSE);
	if (cause && (!strcmp(cause, "context") || !strcmp(cause, "reset"))) {
		group->sum[SUM_ENDED_COUNT]++;
		group->sum[SUM_ENDED_BYTES] += bytes;
	}
}

static const char select_unloads[] =
	"SELECT process_id, api_id, caller, duration_ns FROM operation"
	" WHERE caller IS NOT NULL AND result = 0";

/* The unloading of a module waits as a free does, and may end no block at all. */
static int walk_unloads(struct total_frees *frees, sqlite3 *db)
{
	sqlite3_stmt *unload = NULL;
	int status = sqlite3_prepare_v2(db, select_unloads, -1, &unload, NULL);

	while (status == SQLITE_OK && (status = sqlite3_step(unload)) == SQLITE_ROW) {
		const struct total_free call = {
			.process_id = sqlite3_column_int64(unload, 0),
			.api_id = sqlite3_column_int64(unload, 1),
			.caller = sqlite3_column_int64(unload, 2),
			.host_ns = sqlite3_column_int64(unload, 3),
		};

		total_free_add(frees, &call);
		status = SQLITE_OK;
	}
	sqlite3_finalize(unload);
	return status;
}

static int take_block(struct totals *totals, sqlite3_stmt *block, bool is_at_peak)
{
	const char *kind = (const char *)sqlite3_column_text(block, KIND);
	struct group key = {
		.process_id = sqlite3_column_int64(block, PROCESS),
		.device_id = sqlite3_column_int64(block, DEVICE),
		.caller = sqlite3_column_int64(block, CALLER),
		.kind = find_kind(totals, kind ? kind : "unknown"),
		.is_view = !is_null(block, PARENT),
		.size_class = (int8_t)size_class(sqlite3_column_int64(block, BYTES)),
	};
	struct group *group = key.kind < 0 ? NULL : find_group(totals, &key);

	if (!group)
		return SQLITE_NOMEM;
	add_block(group, block, is_at_peak);
	/* The variables of a module end in one call, which is an operation, as is a launch. */
	if (!key.is_view && !is_null(block, FREE_REQUESTED) &&
	    (!kind || strcmp(kind, "module")) && !sqlite3_column_int(block, IN_GRAPH))
		note_free(&totals->frees, block);
	return SQLITE_ROW;
}

/* Both walks go by id, so a block of the peak is met when the other walk stands at it. */
static int walk(struct totals *totals, sqlite3_stmt *block, sqlite3_stmt *peak)
{
	int peak_status = sqlite3_step(peak);
	int status;

	while ((status = sqlite3_step(block)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(block, ID);

		while (peak_status == SQLITE_ROW && sqlite3_column_int64(peak, 0) < id)
			peak_status = sqlite3_step(peak);
		status = take_block(totals, block, peak_status == SQLITE_ROW &&
							   sqlite3_column_int64(peak, 0) == id);
		if (status != SQLITE_ROW)
			break;
	}
	return peak_status == SQLITE_ROW || peak_status == SQLITE_DONE ? status : peak_status;
}

static int store(const struct totals *totals, sqlite3_stmt *insert)
{
	int status = SQLITE_DONE;

	for (uint32_t i = 0; i < totals->count && status == SQLITE_DONE; i++) {
		const struct group *group = &totals->group[i];

		sqlite3_bind_int64(insert, 1, group->process_id);
		store_bind_id(insert, 2, (uint64_t)group->device_id);
		sqlite3_bind_text(insert, 3, totals->kind[group->kind], -1, SQLITE_STATIC);
		store_bind_id(insert, 4, (uint64_t)group->caller);
		sqlite3_bind_int(insert, 5, group->is_view);
		sqlite3_bind_int(insert, 6, group->size_class);
		for (int sum = 0; sum < SUMS; sum++)
			sqlite3_bind_int64(insert, KEYS + 1 + sum, (int64_t)group->sum[sum]);
		status = sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	return status;
}

static int prepare_insert(sqlite3 *db, const char *schema, sqlite3_stmt **insert)
{
	char *sql = sqlite3_mprintf("INSERT INTO %s.allocation_total VALUES "
				    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
				    schema);
	int status = sql ? sqlite3_prepare_v2(db, sql, -1, insert, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return status;
}

static void free_totals(struct totals *totals)
{
	for (int i = 0; i < totals->kinds; i++)
		free(totals->kind[i]);
	free(totals->slot);
	free(totals->group);
	total_free_free(&totals->frees);
}

int total_allocations(sqlite3 *db, const char *schema)
{
	sqlite3_stmt *block = NULL, *peak = NULL, *insert = NULL;
	struct totals totals = { 0 };
	int status = sqlite3_prepare_v2(db, select_blocks, -1, &block, NULL);

	if (status == SQLITE_OK)
		status = sqlite3_prepare_v2(db, select_peak, -1, &peak, NULL);
	if (status == SQLITE_OK)
		status = prepare_insert(db, schema, &insert);
	if (status == SQLITE_OK)
		status = walk(&totals, block, peak);
	if (status == SQLITE_DONE)
		status = walk_unloads(&totals.frees, db);
	if (status == SQLITE_DONE)
		status = store(&totals, insert);
	if (status == SQLITE_DONE && total_free_store(&totals.frees, db, schema) != SQLITE_OK)
		status = sqlite3_errcode(db);
	sqlite3_finalize(block);
	sqlite3_finalize(peak);
	sqlite3_finalize(insert);
	free_totals(&totals);
	return status == SQLITE_DONE ? SQLITE_OK : status;
}
