/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_reading_row.h"

#include "core/trace_names.h"
#include "report/ingest_growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_PAUSE_NS = 1000000000 }; /* between rows of samples, where there is a context */

static const char insert_reading[] =
	"INSERT OR REPLACE INTO reading(id, process_id, device_id, context_id, thread_id, at_ns, "
	"moment, weighed, free_bytes, total_bytes, pools_reserved, graphs_reserved, held_bytes, "
	"pool_bytes, graph_bytes, context_bytes, code_bytes, driver_bytes, recorded_bytes, "
	"foreign_bytes, growth_bytes, pools_cached) "
	"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

/* What was asked stands there from the start: the sums come with the reading's turn. */
static void bind_asked(sqlite3_stmt *insert, const struct ingest_reading *reading)
{
	const struct ingest_ledger_entry *entry = &reading->entry;

	sqlite3_bind_int64(insert, 1, (int64_t)reading->id);
	sqlite3_bind_int64(insert, 2, entry->process_id);
	sqlite3_bind_int64(insert, 3, entry->device_id);
	store_bind_id(insert, 4, entry->context_id);
	store_bind_id(insert, 5, entry->thread_id);
	sqlite3_bind_int64(insert, 6, entry->at_ns);
	sqlite3_bind_text(insert, 7, reading_moment_name(entry->moment), -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 8, reading_weighed_name(entry->weighed), -1, SQLITE_STATIC);
	sqlite3_bind_int64(insert, 9, entry->free);
	sqlite3_bind_int64(insert, 10, entry->total);
	store_bind_if(insert, 11, entry->pools != INGEST_LEDGER_UNKNOWN, entry->pools);
	store_bind_if(insert, 12, entry->graphs != INGEST_LEDGER_UNKNOWN, entry->graphs);
	store_bind_if(insert, 22, entry->cached != INGEST_LEDGER_UNKNOWN, entry->cached);
}

static void bind_sums(sqlite3_stmt *insert, const struct ingest_reading *reading)
{
	const struct ingest_ledger_entry *entry = &reading->entry;
	bool is_known = reading->is_shown;

	store_bind_if(insert, 13, is_known, entry->held);
	store_bind_if(insert, 14, is_known, entry->pool);
	store_bind_if(insert, 15, is_known, entry->graph);
	store_bind_if(insert, 16, entry->has_contexts, entry->own[WEIGHED_CONTEXT]);
	store_bind_if(insert, 17, is_known, entry->own[WEIGHED_CODE]);
	store_bind_if(insert, 18, is_known,
		      entry->own[WEIGHED_STREAM] + entry->own[WEIGHED_GRAPH] +
			      entry->own[WEIGHED_SETTING]);
	store_bind_if(insert, 19, is_known, entry->recorded);
	/* What cannot be told apart stands in one sum. */
	store_bind_if(insert, 20, entry->has_foreign,
		      entry->foreign + (entry->has_contexts ? 0 : entry->own[WEIGHED_CONTEXT]));
	store_bind_if(insert, 21, entry->has_growth, entry->growth);
}

static void write_kinds(struct ingest *ingest, const struct ingest_reading *reading)
{
	const struct ingest_ledger_sums *sums = &reading->entry.sums;
	sqlite3_stmt *insert = store_prepare(ingest->store, &ingest->readings.insert_kind,
					     "INSERT OR REPLACE INTO reading_kind "
					     "VALUES (?, ?, ?, ?, ?)");

	for (int kind = 0; kind < BLOCK_KINDS; kind++) {
		if (!sums->live[kind] && !sums->pending[kind] && !sums->held[kind])
			continue;
		sqlite3_bind_int64(insert, 1, (int64_t)reading->id);
		sqlite3_bind_text(insert, 2, block_kind_name(kind), -1, SQLITE_STATIC);
		sqlite3_bind_int64(insert, 3, sums->live[kind]);
		sqlite3_bind_int64(insert, 4, sums->pending[kind]);
		sqlite3_bind_int64(insert, 5, sums->held[kind]);
		store_step(ingest->store, insert);
	}
}

static void write_reading(struct ingest *ingest, struct ingest_reading *reading)
{
	sqlite3_stmt *insert =
		store_prepare(ingest->store, &ingest->readings.insert, insert_reading);

	bind_asked(insert, reading);
	bind_sums(insert, reading);
	store_step(ingest->store, insert);
	reading->is_stored = true;
	if (reading->is_shown && !reading->has_kinds)
		write_kinds(ingest, reading);
	reading->has_kinds |= reading->is_shown;
}

static void remove_reading(struct ingest *ingest, const struct ingest_reading *reading)
{
	sqlite3_stmt *remove =
		store_prepare(ingest->store, &ingest->readings.remove,
			      "DELETE FROM reading WHERE id = ?");

	sqlite3_bind_int64(remove, 1, (int64_t)reading->id);
	store_step(ingest->store, remove);
	if (!reading->has_kinds)
		return;
	remove = store_prepare(ingest->store, &ingest->readings.remove_kinds,
			       "DELETE FROM reading_kind WHERE reading_id = ?");
	sqlite3_bind_int64(remove, 1, (int64_t)reading->id);
	store_step(ingest->store, remove);
}

static void save_own(struct ingest *ingest, struct ingest_ledger_own *own)
{
	sqlite3_stmt *insert =
		store_prepare(ingest->store, &ingest->readings.insert_own,
			      "INSERT OR REPLACE INTO overhead VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");

	sqlite3_bind_int64(insert, 1, (int64_t)own->id);
	sqlite3_bind_int64(insert, 2, own->process_id);
	sqlite3_bind_int64(insert, 3, own->device_id);
	store_bind_id(insert, 4, own->context_id);
	sqlite3_bind_text(insert, 5, reading_weighed_name(own->kind), -1, SQLITE_STATIC);
	store_bind_if(insert, 6, !own->is_unknown, own->bytes);
	sqlite3_bind_int64(insert, 7, (int64_t)own->count);
	sqlite3_bind_int64(insert, 8, own->created_ns);
	store_bind_id(insert, 9, (uint64_t)own->ended_ns);
	store_step(ingest->store, insert);
	own->is_changed = false;
}

/* Before there is a context the newest sample has the one row; later some are enough. */
static void save_sample(struct ingest *ingest, struct ingest_reading_sample *sample)
{
	struct ingest_readings *readings = &ingest->readings;
	bool has_context = ingest_ledger_has_context(&readings->ledger, sample->uuid);
	sqlite3_stmt *insert;

	if (sample->row && (sample->free == sample->row_free ||
			    (has_context && sample->at_ns - sample->row_ns < SAMPLE_PAUSE_NS)))
		return;
	if (!sample->row || has_context)
		sample->row = readings->next_sample++;
	sample->row_ns = sample->at_ns;
	sample->row_free = sample->free;
	insert = store_prepare(ingest->store, &readings->insert_sample,
			       "INSERT OR REPLACE INTO device_sample VALUES (?, ?, ?, ?)");
	sqlite3_bind_int64(insert, 1, (int64_t)sample->row);
	sqlite3_bind_int64(insert, 2, sample->at_ns);
	sqlite3_bind_text(insert, 3, sample->uuid, -1, SQLITE_STATIC);
	sqlite3_bind_int64(insert, 4, sample->free);
	store_step(ingest->store, insert);
}

void ingest_reading_row_save(struct ingest *ingest)
{
	struct ingest_readings *readings = &ingest->readings;
	struct ingest_ledger *ledger = &readings->ledger;

	store_begin(ingest->store);
	for (uint32_t i = 0; i < readings->listed_count; i++) {
		struct ingest_reading *reading = readings->listed[i];

		reading->is_listed = false;
		if (!reading->is_shown || reading->reasons)
			write_reading(ingest, reading);
		else if (reading->is_stored)
			remove_reading(ingest, reading);
		if (reading->is_shown && !(reading->reasons & READING_HELD))
			free(reading);
	}
	readings->listed_count = 0;
	for (uint32_t i = 0; i < ledger->owns; i++)
		if (ledger->own[i].is_changed)
			save_own(ingest, &ledger->own[i]);
	ingest_growth_save(ingest);
	for (uint32_t i = 0; i < readings->samples; i++)
		save_sample(ingest, &readings->sample[i]);
}

void ingest_reading_row_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
			       int64_t free_bytes)
{
	struct ingest_readings *readings = &ingest->readings;
	struct ingest_reading_sample *sample = NULL;

	for (uint32_t i = 0; i < readings->samples; i++)
		if (!strcmp(readings->sample[i].uuid, uuid))
			sample = &readings->sample[i];
	if (!sample) {
		readings->sample = ingest_table_memory(readings->sample, readings->samples + 1,
						       sizeof(*sample));
		sample = &readings->sample[readings->samples++];
		*sample = (struct ingest_reading_sample){ 0 };
		snprintf(sample->uuid, sizeof(sample->uuid), "%s", uuid);
	}
	sample->at_ns = at_ns;
	sample->free = free_bytes;
}

static sqlite3_stmt *ask(struct ingest *ingest, const char *sql)
{
	sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(ingest->store->db, sql, -1, &query, NULL) != SQLITE_OK)
		store_fail(ingest->store);
	return query;
}

static int find_name(const char *const *names, int count, const unsigned char *name)
{
	for (int i = 0; i < count; i++)
		if (name && names[i] && !strcmp((const char *)name, names[i]))
			return i;
	return 0;
}

static int64_t number_or_unknown(sqlite3_stmt *query, int column)
{
	return sqlite3_column_type(query, column) == SQLITE_NULL ?
		       INGEST_LEDGER_UNKNOWN : sqlite3_column_int64(query, column);
}

static void load_readings(struct ingest *ingest)
{
	sqlite3_stmt *query = ask(
		ingest, "SELECT r.id, r.process_id, r.device_id, r.context_id, r.thread_id, "
			"r.at_ns, r.moment, r.weighed, r.free_bytes, r.total_bytes, "
			"r.pools_reserved, r.graphs_reserved, c.created_ns, r.pools_cached "
			"FROM reading r "
			"LEFT JOIN context c ON c.id = r.context_id ORDER BY r.at_ns, r.id");

	while (store_next(ingest->store, query)) {
		const struct ingest_ledger_entry entry = {
			.process_id = (uint32_t)sqlite3_column_int64(query, 1),
			.device_id = (uint32_t)sqlite3_column_int64(query, 2),
			.context_id = (uint32_t)sqlite3_column_int64(query, 3),
			.thread_id = (uint32_t)sqlite3_column_int64(query, 4),
			.at_ns = sqlite3_column_int64(query, 5),
			.moment = find_name(trace_names_of_moments, READING_MOMENTS,
					    sqlite3_column_text(query, 6)),
			.weighed = find_name(trace_names_of_weighed, WEIGHED_KINDS,
					     sqlite3_column_text(query, 7)),
			.free = sqlite3_column_int64(query, 8),
			.total = sqlite3_column_int64(query, 9),
			.pools = number_or_unknown(query, 10),
			.graphs = number_or_unknown(query, 11),
			.context_ns = sqlite3_column_int64(query, 12),
			.cached = number_or_unknown(query, 13),
		};

		ingest_reading_push(ingest, &entry, (uint64_t)sqlite3_column_int64(query, 0));
	}
	sqlite3_finalize(query);
}

static void load_devices(struct ingest *ingest)
{
	sqlite3_stmt *query = ask(ingest, "SELECT process_id, id, uuid FROM device");

	while (store_next(ingest->store, query)) {
		const char *uuid = (const char *)sqlite3_column_text(query, 2);

		ingest_ledger_device(&ingest->readings.ledger,
				     (uint32_t)sqlite3_column_int64(query, 0),
				     (uint32_t)sqlite3_column_int64(query, 1), uuid ? uuid : "");
	}
	sqlite3_finalize(query);
}

static void load_samples(struct ingest *ingest)
{
	sqlite3_stmt *query = ask(ingest, "SELECT uuid, at_ns, free_bytes FROM device_sample");

	while (store_next(ingest->store, query))
		ingest_reading_push_sample(ingest, (const char *)sqlite3_column_text(query, 0),
					   sqlite3_column_int64(query, 1),
					   sqlite3_column_int64(query, 2));
	sqlite3_finalize(query);
}

static void load_ends(struct ingest *ingest, const char *sql,
		      void (*end)(struct ingest *ingest, uint32_t id, int64_t at_ns))
{
	sqlite3_stmt *query = ask(ingest, sql);

	while (store_next(ingest->store, query))
		end(ingest, (uint32_t)sqlite3_column_int64(query, 0),
		    sqlite3_column_int64(query, 1));
	sqlite3_finalize(query);
}

void ingest_reading_row_load(struct ingest *ingest)
{
	store_run(ingest->store, "DELETE FROM reading_kind; DELETE FROM overhead");
	load_devices(ingest);
	load_samples(ingest);
	ingest_growth_load(ingest, true);
	load_readings(ingest);
	load_ends(ingest, "SELECT id, destroyed_ns FROM context WHERE destroyed_ns IS NOT NULL",
		  ingest_reading_end_context);
	load_ends(ingest, "SELECT id, end_ns FROM process WHERE end_ns IS NOT NULL",
		  ingest_reading_end_process);
}
