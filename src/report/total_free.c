/* SPDX-License-Identifier: Apache-2.0 */
#include "report/total_free.h"

#include "report/store.h"

#include <stdlib.h>
#include <string.h>

const char total_free_columns[] =
	"process_id INTEGER NOT NULL, api_id INTEGER, caller INTEGER, count INTEGER NOT NULL,"
	" host_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, forwarded_ns INTEGER NOT NULL,"
	" deferred INTEGER NOT NULL, deferred_bytes INTEGER NOT NULL, waited_ns INTEGER NOT NULL,"
	" waited_max_ns INTEGER NOT NULL, saved_ns INTEGER NOT NULL";

const char total_free_pending_columns[] =
	"released INTEGER NOT NULL, median_ns INTEGER, p99_ns INTEGER, longest_ns INTEGER,"
	" exit_count INTEGER NOT NULL, exit_bytes INTEGER NOT NULL";

/* In the order of the table. */
enum sum {
	SUM_COUNT, SUM_HOST_NS, SUM_MAX_NS, SUM_FORWARDED_NS, SUM_DEFERRED, SUM_DEFERRED_BYTES,
	SUM_WAITED_NS, SUM_WAITED_MAX_NS, SUM_SAVED_NS,
	SUMS
};

struct group {
	int64_t process_id, api_id, caller;
	uint64_t sum[SUMS]; /* wraps on nonsense rather than overflows */
	struct group *next; /* with the same hash */
};

/* Buckets are as wide as a thousandth of what they hold: small numbers have one each. */
enum { STEPS = 1024, STEP_BITS = 10, BUCKETS = STEPS * (64 - STEP_BITS + 1) };

static uint32_t bucket_of(int64_t ns)
{
	uint64_t value = ns > 0 ? (uint64_t)ns : 0;
	uint32_t power;

	if (value < STEPS)
		return (uint32_t)value;
	power = 63 - (uint32_t)__builtin_clzll(value) - STEP_BITS;
	return power * STEPS + (uint32_t)(value >> power);
}

static int64_t bucket_ns(uint32_t bucket)
{
	uint32_t power = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;

	return (int64_t)(bucket - power * STEPS) << power;
}

/* The time that `part` of a hundred did not exceed. */
static int64_t find_percentile(const struct total_frees *frees, unsigned int part)
{
	uint64_t rank = (frees->released * part + 99) / 100;
	uint64_t passed = 0;

	for (uint32_t i = 0; frees->bucket && i < BUCKETS; i++) {
		passed += frees->bucket[i];
		if (passed >= rank && passed)
			return bucket_ns(i);
	}
	return 0;
}

static uint64_t hash_of(const struct total_free *call)
{
	uint64_t hash = (uint64_t)call->caller;

	hash = (hash ^ (uint64_t)call->process_id << 40) * UINT64_C(0x9E3779B97F4A7C15);
	hash = (hash ^ (uint64_t)call->api_id << 20) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 32;
}

static struct group *find_group(struct total_frees *frees, const struct total_free *call)
{
	uint64_t hash = hash_of(call);
	struct group *first = ingest_table_find(&frees->groups, hash);
	struct group *group = first;

	while (group && (group->process_id != call->process_id || group->api_id != call->api_id ||
			 group->caller != call->caller))
		group = group->next;
	if (group)
		return group;
	group = ingest_table_memory(NULL, 1, sizeof(*group));
	*group = (struct group){ call->process_id, call->api_id, call->caller, { 0 }, first };
	ingest_table_put(&frees->groups, hash, group);
	return group;
}

static void raise_to(uint64_t *highest, int64_t value)
{
	if (value > (int64_t)*highest)
		*highest = (uint64_t)value;
}

static void add_pending(struct total_frees *frees, const struct total_free *call)
{
	if (call->is_at_exit) {
		frees->exit_count++;
		frees->exit_bytes += (uint64_t)call->bytes;
		return;
	}
	if (call->pending_ns < 0)
		return;
	if (!frees->bucket) {
		frees->bucket = ingest_table_memory(NULL, BUCKETS, sizeof(*frees->bucket));
		memset(frees->bucket, 0, BUCKETS * sizeof(*frees->bucket));
	}
	frees->bucket[bucket_of(call->pending_ns)]++;
	frees->released++;
	if (call->pending_ns > frees->longest_ns)
		frees->longest_ns = call->pending_ns;
}

void total_free_add(struct total_frees *frees, const struct total_free *call)
{
	struct group *group = find_group(frees, call);

	group->sum[SUM_COUNT]++;
	group->sum[SUM_HOST_NS] += (uint64_t)call->host_ns;
	raise_to(&group->sum[SUM_MAX_NS], call->host_ns);
	if (!call->is_deferred) {
		group->sum[SUM_FORWARDED_NS] += (uint64_t)call->host_ns;
		return;
	}
	group->sum[SUM_DEFERRED]++;
	group->sum[SUM_DEFERRED_BYTES] += (uint64_t)call->bytes;
	group->sum[SUM_WAITED_NS] += (uint64_t)call->waited_ns;
	raise_to(&group->sum[SUM_WAITED_MAX_NS], call->waited_ns);
	group->sum[SUM_SAVED_NS] += (uint64_t)call->saved_ns;
	add_pending(frees, call);
}

static int prepare(sqlite3 *db, const char *format, const char *schema, sqlite3_stmt **insert)
{
	char *sql = sqlite3_mprintf(format, schema);
	int status = sql ? sqlite3_prepare_v2(db, sql, -1, insert, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return status;
}

static int store_group(sqlite3_stmt *insert, const struct group *group)
{
	int status;

	sqlite3_bind_int64(insert, 1, group->process_id);
	store_bind_id(insert, 2, (uint64_t)group->api_id);
	store_bind_id(insert, 3, (uint64_t)group->caller);
	for (int sum = 0; sum < SUMS; sum++)
		sqlite3_bind_int64(insert, 4 + sum, (int64_t)group->sum[sum]);
	status = sqlite3_step(insert);
	sqlite3_reset(insert);
	return status;
}

static int store_groups(const struct total_frees *frees, sqlite3 *db, const char *schema)
{
	sqlite3_stmt *insert = NULL;
	const struct group *group;
	int status = SQLITE_DONE;
	size_t at = 0;

	if (prepare(db, "INSERT INTO %s.free_total VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", schema,
		    &insert) != SQLITE_OK)
		return sqlite3_errcode(db);
	while (status == SQLITE_DONE && (group = ingest_table_next(&frees->groups, &at)))
		for (; group && status == SQLITE_DONE; group = group->next)
			status = store_group(insert, group);
	sqlite3_finalize(insert);
	return status == SQLITE_DONE ? SQLITE_OK : status;
}

static int store_pending(const struct total_frees *frees, sqlite3 *db, const char *schema)
{
	sqlite3_stmt *insert = NULL;
	int status;

	if (prepare(db, "INSERT INTO %s.pending_total VALUES (?,?,?,?,?,?)", schema, &insert) !=
	    SQLITE_OK)
		return sqlite3_errcode(db);
	sqlite3_bind_int64(insert, 1, (int64_t)frees->released);
	if (frees->released) {
		sqlite3_bind_int64(insert, 2, find_percentile(frees, 50));
		sqlite3_bind_int64(insert, 3, find_percentile(frees, 99));
		sqlite3_bind_int64(insert, 4, frees->longest_ns);
	}
	sqlite3_bind_int64(insert, 5, (int64_t)frees->exit_count);
	sqlite3_bind_int64(insert, 6, (int64_t)frees->exit_bytes);
	status = sqlite3_step(insert);
	sqlite3_finalize(insert);
	return status == SQLITE_DONE ? SQLITE_OK : status;
}

int total_free_store(const struct total_frees *frees, sqlite3 *db, const char *schema)
{
	int status = store_groups(frees, db, schema);

	return status == SQLITE_OK ? store_pending(frees, db, schema) : status;
}

static void free_chain(void *first)
{
	struct group *group = first;

	while (group) {
		struct group *next = group->next;

		free(group);
		group = next;
	}
}

void total_free_free(struct total_frees *frees)
{
	ingest_table_free(&frees->groups, free_chain);
	free(frees->bucket);
	*frees = (struct total_frees){ 0 };
}
