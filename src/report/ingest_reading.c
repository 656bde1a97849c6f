/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_reading.h"

#include "report/ingest.h"
#include "report/ingest_growth.h"
#include "report/ingest_reading_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIGH_BITS = 50 }; /* as in ingest_record.c: no device has a petabyte */

static void list(struct ingest_readings *readings, struct ingest_reading *reading)
{
	if (reading->is_listed)
		return;
	if (readings->listed_count == readings->listed_capacity) {
		readings->listed_capacity = readings->listed_capacity * 2 + 256;
		readings->listed = ingest_table_memory(readings->listed, readings->listed_capacity,
						       sizeof(reading));
	}
	reading->is_listed = true;
	readings->listed[readings->listed_count++] = reading;
}

static void keep(struct ingest_readings *readings, struct ingest_reading *reading,
		 enum ingest_reading_reason reason)
{
	reading->reasons |= reason;
	list(readings, reading);
}

static void unkeep(struct ingest_readings *readings, struct ingest_reading *reading,
		   enum ingest_reading_reason reason)
{
	if (!reading)
		return;
	reading->reasons &= ~(unsigned)reason;
	list(readings, reading);
}

static struct ingest_reading_kept *kept_of(struct ingest_readings *readings, uint32_t device_id)
{
	struct ingest_reading_kept *kept = ingest_table_find(&readings->kept, device_id);

	if (kept)
		return kept;
	kept = ingest_table_memory(NULL, 1, sizeof(*kept));
	memset(kept, 0, sizeof(*kept));
	ingest_table_put(&readings->kept, device_id, kept);
	return kept;
}

/* Every second one goes; those that stay are as even as they were. */
static void halve(struct ingest_readings *readings, struct ingest_reading_kept *kept)
{
	int64_t first_ns = kept->spaced[0]->entry.at_ns;
	uint32_t left = 0;

	for (uint32_t i = 0; i < kept->spaces; i++) {
		if (i % 2)
			unkeep(readings, kept->spaced[i], READING_KEPT_SPACED);
		else
			kept->spaced[left++] = kept->spaced[i];
	}
	kept->spaces = left;
	kept->pause_ns = (kept->spaced_ns - first_ns) / (INGEST_READING_SPACED / 2) + 1;
}

static void space(struct ingest_readings *readings, struct ingest_reading_kept *kept,
		  struct ingest_reading *reading)
{
	int64_t at_ns = reading->entry.at_ns;

	if (kept->spaces && at_ns - kept->spaced_ns < kept->pause_ns)
		return;
	kept->spaced_ns = at_ns;
	kept->spaced[kept->spaces++] = reading;
	keep(readings, reading, READING_KEPT_SPACED);
	if (kept->spaces == INGEST_READING_SPACED)
		halve(readings, kept);
}

static bool is_important(const struct ingest_ledger_entry *entry)
{
	switch (entry->moment) {
	case READING_OOM:
	case READING_EXIT:
	case READING_ASKED:
		return true;
	default:
		return entry->has_growth && entry->growth;
	}
}

static int64_t used_by(const struct ingest_reading *reading)
{
	return reading->entry.total - reading->entry.free;
}

/* A BEFORE that is not waited for any more stays where its AFTER has something to tell. */
static void settle_before(struct ingest_readings *readings, const struct ingest_reading *after)
{
	struct ingest_reading *before;

	if (!after->entry.settled)
		return;
	before = ingest_reading_of(after->entry.settled);
	if (after->reasons & READING_KEPT_IMPORTANT && after->entry.has_growth)
		keep(readings, before, READING_KEPT_IMPORTANT);
	unkeep(readings, before, READING_KEPT_OPEN);
}

/*
 * What grew is kept without its readings: where others want them they stay as what was
 * in use, and are weighed no more when the sums are made again.
 */
static void carry(struct ingest *ingest, struct ingest_reading *after)
{
	struct ingest_reading *pair[] = { after, NULL };

	if (after->entry.settled)
		pair[1] = ingest_reading_of(after->entry.settled);
	ingest_growth_add(ingest, &after->entry);
	after->entry.has_growth = false;
	for (int i = 0; i < 2; i++) {
		if (!pair[i] || (pair[i]->entry.moment != READING_BEFORE &&
				 pair[i]->entry.moment != READING_AFTER))
			continue;
		pair[i]->entry.moment = READING_QUIET;
		pair[i]->entry.weighed = WEIGHED_NOTHING;
		list(&ingest->readings, pair[i]);
	}
}

static void decide(struct ingest *ingest, struct ingest_reading *reading)
{
	struct ingest_readings *readings = &ingest->readings;
	struct ingest_reading_kept *kept = kept_of(readings, reading->entry.device_id);
	/* A program that asks without end must not take the place of what it ends with. */
	uint32_t *budget = reading->entry.moment == READING_ASKED ? &kept->asked :
								    &kept->important;

	if (!kept->has_first)
		keep(readings, reading, READING_KEPT_FIRST);
	kept->has_first = true;
	if (!kept->top || used_by(reading) > used_by(kept->top)) {
		unkeep(readings, kept->top, READING_KEPT_TOP);
		kept->top = reading;
		keep(readings, reading, READING_KEPT_TOP);
	}
	unkeep(readings, kept->last, READING_KEPT_LAST);
	kept->last = reading;
	keep(readings, reading, READING_KEPT_LAST);
	if (is_important(&reading->entry) && *budget < INGEST_READING_MOST) {
		++*budget;
		keep(readings, reading, READING_KEPT_IMPORTANT);
	} else if (reading->entry.is_open) {
		keep(readings, reading, READING_KEPT_OPEN);
	} else if (reading->entry.moment != READING_BEFORE) {
		space(readings, kept, reading);
	}
	if (reading->entry.has_growth && reading->entry.growth && reading->entry.context_id &&
	    !(reading->reasons & READING_KEPT_IMPORTANT))
		carry(ingest, reading);
	settle_before(readings, reading);
}

static void show_reading(struct ingest *ingest, struct ingest_reading *reading)
{
	ingest_ledger_read(&ingest->readings.ledger, &reading->entry);
	reading->is_shown = true;
	decide(ingest, reading);
}

/* What grew by calls whose readings have no rows. */
struct growth_point {
	struct ingest_point point;
	struct ingest_ledger_entry entry;
	uint64_t calls;
};

/* As peak->show. */
static void show(void *viewer, void *point, int64_t at_ns)
{
	struct ingest *ingest = viewer;
	struct ingest_readings *readings = &ingest->readings;
	struct ingest_point *is = point;

	switch (is->what) {
	case POINT_READING:
		show_reading(ingest, point);
		return;
	case POINT_GROWTH:
		ingest_ledger_grow(&readings->ledger, &((struct growth_point *)point)->entry,
				   ((struct growth_point *)point)->calls);
		break;
	case POINT_SAMPLE:
		ingest_ledger_sample(&readings->ledger, is->uuid, at_ns, is->free);
		break;
	case POINT_CONTEXT_END:
		ingest_ledger_end_context(&readings->ledger, is->id, at_ns);
		break;
	case POINT_PROCESS_END:
		ingest_ledger_end_process(&readings->ledger, is->id, at_ns);
		break;
	}
	free(is);
}

void ingest_reading_start(struct ingest *ingest)
{
	ingest->peak.show = show;
	ingest->peak.viewer = ingest;
	ingest->readings.ledger.peak = &ingest->peak;
	if (!ingest->readings.next_id)
		ingest->readings.next_id = 1;
}

struct ingest_reading *ingest_reading_push(struct ingest *ingest,
					   const struct ingest_ledger_entry *entry, uint64_t id)
{
	struct ingest_reading *reading = ingest_table_memory(NULL, 1, sizeof(*reading));

	memset(reading, 0, sizeof(*reading));
	reading->point.what = POINT_READING;
	reading->entry = *entry;
	reading->id = id ? id : ingest->readings.next_id++;
	reading->is_stored = id != 0;
	ingest_peak_point(&ingest->peak, reading, entry->at_ns, false);
	return reading;
}

void ingest_reading_push_growth(struct ingest *ingest, const struct ingest_ledger_entry *entry,
				uint64_t calls)
{
	struct growth_point *growth = ingest_table_memory(NULL, 1, sizeof(*growth));

	*growth = (struct growth_point){
		.point.what = POINT_GROWTH,
		.entry = *entry,
		.calls = calls,
	};
	ingest_peak_point(&ingest->peak, growth, entry->at_ns, false);
}

static int64_t known_bytes(uint64_t bytes)
{
	return bytes >> HIGH_BITS ? INGEST_LEDGER_UNKNOWN : (int64_t)bytes;
}

static int64_t cached_bytes(uint64_t bytes)
{
	return bytes == READING_UNKNOWN || !(bytes & READING_CACHED) ?
		       INGEST_LEDGER_UNKNOWN : known_bytes(bytes & ~READING_CACHED);
}

/* Its moment is its end: it may begin with the call that it was part of. */
void ingest_reading(struct ingest_process *process, struct ingest_thread *thread,
		    const struct record *record, const struct store_row_call *call)
{
	const struct ingest_context *context =
		ingest_identity_context(process, record_context(record));
	const struct ingest_ledger_entry entry = {
		.process_id = process->id,
		.device_id = ingest_identity_device(process, (int)(record->aux & 0xff) - 1),
		.context_id = call->context_id,
		.thread_id = thread->id,
		.at_ns = call->start_ns + call->duration_ns,
		.context_ns = context ? context->created_ns : 0,
		.moment = record_moment(record),
		.weighed = record_weighed(record),
		.free = (int64_t)record->a,
		.total = (int64_t)record->b,
		.pools = known_bytes(record->c),
		.cached = cached_bytes(record->c),
		.graphs = known_bytes(record->stream),
	};

	if (!entry.device_id || !entry.total || entry.moment >= READING_MOMENTS ||
	    entry.weighed >= WEIGHED_KINDS)
		return;
	list(&process->ingest->readings, ingest_reading_push(process->ingest, &entry, 0));
}

static void push_end(struct ingest *ingest, enum ingest_point_what what, uint32_t id,
		     int64_t at_ns)
{
	struct ingest_point *point = ingest_table_memory(NULL, 1, sizeof(*point));

	*point = (struct ingest_point){ .what = what, .id = id };
	ingest_peak_point(&ingest->peak, point, at_ns, true);
}

void ingest_reading_end_context(struct ingest *ingest, uint32_t context_id, int64_t at_ns)
{
	push_end(ingest, POINT_CONTEXT_END, context_id, at_ns);
}

void ingest_reading_end_process(struct ingest *ingest, uint32_t process_id, int64_t at_ns)
{
	push_end(ingest, POINT_PROCESS_END, process_id, at_ns);
}

void ingest_reading_push_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
				int64_t free_bytes)
{
	struct ingest_point *point = ingest_table_memory(NULL, 1, sizeof(*point));

	*point = (struct ingest_point){ .what = POINT_SAMPLE, .free = free_bytes };
	snprintf(point->uuid, sizeof(point->uuid), "%s", uuid);
	ingest_peak_point(&ingest->peak, point, at_ns, false);
}

void ingest_reading_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
			   int64_t free_bytes)
{
	/* It is handed over later than it was taken: what is settled meanwhile stays so. */
	if (at_ns < ingest->peak.applied_ns)
		at_ns = ingest->peak.applied_ns;
	ingest_reading_push_sample(ingest, uuid, at_ns, free_bytes);
	ingest_reading_row_sample(ingest, uuid, at_ns, free_bytes);
}

static void free_held(struct ingest_reading *reading, unsigned reason)
{
	if (!reading)
		return;
	reading->reasons &= ~reason;
	if (!(reading->reasons & READING_HELD))
		free(reading);
}

static void free_kept(void *value)
{
	struct ingest_reading_kept *kept = value;

	free_held(kept->last, READING_KEPT_LAST);
	free_held(kept->top, READING_KEPT_TOP);
	for (uint32_t i = 0; i < kept->spaces; i++)
		free_held(kept->spaced[i], READING_KEPT_SPACED);
	free(kept);
}

/* All have had their turn by now; those that nothing holds any more are on the list only. */
static void forget(struct ingest *ingest)
{
	struct ingest_readings *readings = &ingest->readings;
	struct ingest_ledger_entry *before;
	size_t at = 0;

	for (uint32_t i = 0; i < readings->listed_count; i++)
		if (!(readings->listed[i]->reasons & READING_HELD))
			free(readings->listed[i]);
	readings->listed_count = 0;
	while ((before = ingest_table_next(&readings->ledger.before, &at)))
		free_held(ingest_reading_of(before), READING_KEPT_OPEN);
	ingest_table_free(&readings->kept, free_kept);
	ingest_growth_forget(ingest);
	ingest_ledger_free(&readings->ledger);
}

void ingest_reading_rebuild(struct ingest *ingest)
{
	if (ingest->readings.is_final)
		return;
	ingest_reading_row_save(ingest);
	forget(ingest);
	ingest_reading_start(ingest);
	ingest_reading_row_load(ingest);
}

void ingest_reading_free(struct ingest *ingest)
{
	forget(ingest);
	free(ingest->readings.listed);
	free(ingest->readings.sample);
}
