/* SPDX-License-Identifier: Apache-2.0 */
#include "report/usage.h"

#include "report/message.h"
#include "report/query.h"

#include <stdlib.h>
#include <string.h>

const struct rows_column usage_columns[] = {
	{ NULL, "at", ROWS_MOMENT },
	{ NULL, "bytes", ROWS_BYTES },
	{ NULL, "pending", ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

static void *grow(void *array, size_t count, size_t size)
{
	array = reallocarray(array, count + 1, size);
	if (!array)
		message_die(EXIT_COULD_NOT, "out of memory");
	memset((char *)array + count * size, 0, size);
	return array;
}

static bool is_device(const char *kind)
{
	return strcmp(kind, "pinned") && strcmp(kind, "registered") && strcmp(kind, "ipc");
}

static size_t find_kind(struct usage *usage, const char *name)
{
	struct usage_kind *kind;

	for (size_t i = 0; i < usage->kinds; i++)
		if (!strncmp(usage->kind[i].name, name, sizeof(kind->name) - 1))
			return i;
	usage->kind = grow(usage->kind, usage->kinds, sizeof(*kind));
	kind = &usage->kind[usage->kinds];
	strncpy(kind->name, name, sizeof(kind->name) - 1);
	kind->is_device = is_device(name);
	return usage->kinds++;
}

static struct usage_level *find_level(struct usage *usage, sqlite3_stmt *sample)
{
	const char *name = (const char *)sqlite3_column_text(sample, 3);
	struct usage_level wanted = {
		.process_id = sqlite3_column_int64(sample, 1),
		.device_id = sqlite3_column_int64(sample, 2),
		.kind = find_kind(usage, name ? name : ""),
	};

	for (size_t i = 0; i < usage->levels; i++)
		if (usage->level[i].process_id == wanted.process_id &&
		    usage->level[i].device_id == wanted.device_id &&
		    usage->level[i].kind == wanted.kind)
			return &usage->level[i];
	usage->level = grow(usage->level, usage->levels, sizeof(wanted));
	usage->level[usage->levels] = wanted;
	return &usage->level[usage->levels++];
}

/* All that was live in one slice, and all that was pending. */
static int64_t sum_levels(struct usage *usage, int64_t *pending)
{
	int64_t device_bytes = 0;

	*pending = 0;
	for (size_t i = 0; i < usage->kinds; i++)
		usage->kind[i].bytes = 0;
	for (size_t i = 0; i < usage->levels; i++) {
		struct usage_kind *kind = &usage->kind[usage->level[i].kind];

		kind->bytes = rows_plus(kind->bytes, usage->level[i].bytes);
		if (!kind->is_device)
			continue;
		device_bytes = rows_plus(device_bytes, usage->level[i].bytes);
		*pending = rows_plus(*pending, usage->level[i].pending);
	}
	for (size_t i = 0; i < usage->kinds; i++)
		if (usage->kind[i].bytes > usage->kind[i].highest)
			usage->kind[i].highest = usage->kind[i].bytes;
	return device_bytes;
}

static void end_slice(struct usage *usage, struct rows *curve, int64_t at, int64_t peak,
		      int64_t held)
{
	struct rows_value *value = rows_add(curve);
	int64_t pending, bytes = sum_levels(usage, &pending);

	if (bytes > peak)
		bytes = peak;
	rows_number(&value[0], at);
	rows_number(&value[1], bytes);
	if (pending > rows_minus(held, bytes))
		pending = rows_minus(held, bytes);
	rows_number(&value[2], pending > 0 ? pending : 0);
}

/* A level that has no sample in a slice keeps its last. */
void usage_load(struct usage *usage, struct query *query, struct rows *curve, int64_t peak,
		int64_t held)
{
	sqlite3_stmt *sample =
		query_prepare(query, "SELECT at_ns, process_id, device_id, kind, live_bytes,"
				     " pending_bytes FROM sample ORDER BY at_ns");
	struct usage_level *level;
	int64_t at = 0;

	memset(usage, 0, sizeof(*usage));
	while (query_step(query, sample)) {
		if (usage->levels && at != sqlite3_column_int64(sample, 0))
			end_slice(usage, curve, at, peak, held);
		at = sqlite3_column_int64(sample, 0);
		level = find_level(usage, sample);
		level->bytes = sqlite3_column_int64(sample, 4);
		level->pending = sqlite3_column_int64(sample, 5);
	}
	if (usage->levels)
		end_slice(usage, curve, at, peak, held);
	sqlite3_finalize(sample);
}

void usage_free(struct usage *usage)
{
	free(usage->level);
	free(usage->kind);
	memset(usage, 0, sizeof(*usage));
}

bool usage_has_bounds(const struct usage *usage)
{
	return usage->levels > usage->kinds;
}

int64_t usage_highest(const struct usage *usage, const char *kind)
{
	for (size_t i = 0; kind && i < usage->kinds; i++)
		if (!strncmp(usage->kind[i].name, kind, sizeof(usage->kind[i].name) - 1))
			return usage->kind[i].highest;
	return 0;
}
