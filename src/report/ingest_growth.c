/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_growth.h"

#include "core/trace_names.h"
#include "report/ingest.h"
#include "report/ingest_reading_row.h"

#include <stdlib.h>
#include <string.h>

static struct ingest_growth *growth_of(struct ingest_readings *readings,
				       const struct ingest_ledger_entry *entry)
{
	uint64_t key = (uint64_t)entry->context_id << 8 | entry->grown;
	struct ingest_growth *growth = ingest_table_find(&readings->growths, key);

	if (growth)
		return growth;
	growth = ingest_table_memory(NULL, 1, sizeof(*growth));
	*growth = (struct ingest_growth){
		.process_id = entry->process_id,
		.device_id = entry->device_id,
		.context_id = entry->context_id,
		.kind = entry->grown,
	};
	ingest_table_put(&readings->growths, key, growth);
	return growth;
}

static void join(struct ingest_growth_step *into, const struct ingest_growth_step *step)
{
	if (step->at_ns > into->at_ns)
		into->at_ns = step->at_ns;
	into->bytes += step->bytes;
	into->calls += step->calls;
}

static void halve(struct ingest_growth *growth)
{
	int64_t span = growth->step[growth->steps - 1].at_ns - growth->step[0].at_ns;

	for (uint32_t i = 0; i < growth->steps / 2; i++) {
		growth->step[i] = growth->step[2 * i];
		join(&growth->step[i], &growth->step[2 * i + 1]);
	}
	growth->steps /= 2;
	growth->pause_ns = span / (INGEST_GROWTH_STEPS / 2) + 1;
}

static void insert(struct ingest_growth *growth, uint32_t at, const struct ingest_growth_step *step)
{
	if (growth->steps == growth->capacity) {
		growth->capacity = growth->capacity ? growth->capacity * 2 : 1;
		growth->step = ingest_table_memory(growth->step, growth->capacity,
						   sizeof(*growth->step));
	}
	memmove(&growth->step[at + 1], &growth->step[at],
		(growth->steps - at) * sizeof(*growth->step));
	growth->step[at] = *step;
	if (++growth->steps == INGEST_GROWTH_STEPS)
		halve(growth);
}

/* Behind the step before it, or as part of that; the last step may still move. */
static void add(struct ingest_growth *growth, const struct ingest_growth_step *step)
{
	uint32_t at = growth->steps;
	const struct ingest_growth_step *before;

	while (at && growth->step[at - 1].at_ns > step->at_ns)
		at--;
	before = at > 1 ? &growth->step[at - 2] : NULL;
	if (at && (growth->step[at - 1].at_ns == step->at_ns ||
		   (before && step->at_ns - before->at_ns < growth->pause_ns)))
		join(&growth->step[at - 1], step);
	else
		insert(growth, at, step);
}

/* Ahead of the reading, which would be weighed again as the first of its context. */
void ingest_growth_add(struct ingest *ingest, const struct ingest_ledger_entry *entry)
{
	struct ingest_growth *growth = growth_of(&ingest->readings, entry);

	add(growth, &(struct ingest_growth_step){
			    .at_ns = entry->at_ns - 1, .bytes = entry->growth, .calls = 1 });
	growth->is_changed = true;
}

static void save(struct ingest *ingest, struct ingest_growth *growth)
{
	struct ingest_readings *readings = &ingest->readings;
	const char *kind = reading_weighed_name(growth->kind);
	sqlite3_stmt *remove =
		store_prepare(ingest->store, &readings->remove_steps,
			      "DELETE FROM overhead_step WHERE context_id = ? AND kind = ?");
	sqlite3_stmt *insert_step;

	sqlite3_bind_int64(remove, 1, growth->context_id);
	sqlite3_bind_text(remove, 2, kind, -1, SQLITE_STATIC);
	store_step(ingest->store, remove);
	insert_step = store_prepare(ingest->store, &readings->insert_step,
				    "INSERT INTO overhead_step VALUES (?, ?, ?, ?, ?, ?, ?)");
	for (uint32_t i = 0; i < growth->steps; i++) {
		sqlite3_bind_int64(insert_step, 1, growth->process_id);
		sqlite3_bind_int64(insert_step, 2, growth->device_id);
		sqlite3_bind_int64(insert_step, 3, growth->context_id);
		sqlite3_bind_text(insert_step, 4, kind, -1, SQLITE_STATIC);
		sqlite3_bind_int64(insert_step, 5, growth->step[i].at_ns);
		sqlite3_bind_int64(insert_step, 6, growth->step[i].bytes);
		sqlite3_bind_int64(insert_step, 7, (int64_t)growth->step[i].calls);
		store_step(ingest->store, insert_step);
	}
	growth->is_changed = false;
}

void ingest_growth_save(struct ingest *ingest)
{
	struct ingest_growth *growth;
	size_t at = 0;

	while ((growth = ingest_table_next(&ingest->readings.growths, &at)))
		if (growth->is_changed)
			save(ingest, growth);
}

static enum reading_weighed kind_of(const unsigned char *name)
{
	for (int kind = 0; kind < WEIGHED_KINDS; kind++)
		if (name && trace_names_of_weighed[kind] &&
		    !strcmp((const char *)name, trace_names_of_weighed[kind]))
			return kind;
	return WEIGHED_NOTHING;
}

void ingest_growth_load(struct ingest *ingest, bool is_replayed)
{
	sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(ingest->store->db,
			       "SELECT process_id, device_id, context_id, kind, at_ns, bytes, "
			       "calls FROM overhead_step ORDER BY at_ns", -1, &query,
			       NULL) != SQLITE_OK)
		store_fail(ingest->store);
	while (store_next(ingest->store, query)) {
		const struct ingest_ledger_entry entry = {
			.process_id = (uint32_t)sqlite3_column_int64(query, 0),
			.device_id = (uint32_t)sqlite3_column_int64(query, 1),
			.context_id = (uint32_t)sqlite3_column_int64(query, 2),
			.grown = kind_of(sqlite3_column_text(query, 3)),
			.at_ns = sqlite3_column_int64(query, 4),
			.growth = sqlite3_column_int64(query, 5),
		};
		const struct ingest_growth_step step = {
			.at_ns = entry.at_ns,
			.bytes = entry.growth,
			.calls = (uint64_t)sqlite3_column_int64(query, 6),
		};

		add(growth_of(&ingest->readings, &entry), &step);
		if (is_replayed)
			ingest_reading_push_growth(ingest, &entry, step.calls);
	}
	sqlite3_finalize(query);
}

static void free_growth(void *value)
{
	struct ingest_growth *growth = value;

	free(growth->step);
	free(growth);
}

void ingest_growth_forget(struct ingest *ingest)
{
	ingest_table_free(&ingest->readings.growths, free_growth);
}
