/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_peak.h"

#include <stdlib.h>
#include <string.h>

enum {
	FIRST_SLICE_NS = 1000,
	TOOK_UNIT_NS = 256,
	TOOK_MOST = (1 << 24) - 1,
};

bool ingest_peak_is_device(enum block_kind kind)
{
	switch (kind) {
	case BLOCK_DEVICE:
	case BLOCK_PITCH:
	case BLOCK_MANAGED:
	case BLOCK_POOL:
	case BLOCK_VMM:
	case BLOCK_ARRAY:
	case BLOCK_GRAPH:
	case BLOCK_MODULE:
	case BLOCK_EXTERNAL:
		return true;
	default:
		return false;
	}
}

static uint32_t find_group(struct ingest_peak *peak, uint32_t process_id, uint32_t device_id)
{
	struct ingest_peak_group *group;

	for (uint32_t i = peak->group_count; i-- > 0;)
		if (peak->group[i].process_id == process_id &&
		    peak->group[i].device_id == device_id)
			return i;
	peak->group = ingest_table_memory(peak->group, peak->group_count + 1, sizeof(*group));
	group = &peak->group[peak->group_count];
	*group = (struct ingest_peak_group){ .process_id = process_id, .device_id = device_id };
	return peak->group_count++;
}

static uint32_t first_of(const struct ingest_peak *peak, uint32_t device_id)
{
	uintptr_t first = (uintptr_t)ingest_table_find(&peak->shared, device_id);

	return first ? (uint32_t)first : device_id;
}

void ingest_peak_share(struct ingest_peak *peak, uint32_t device_id, uint32_t first_id)
{
	ingest_table_put(&peak->shared, device_id, (void *)(uintptr_t)first_id);
	ingest_table_put(&peak->shared, first_id, (void *)(uintptr_t)first_id);
	/* What it held before this was told has gone into a peak of its own. */
	for (uint32_t i = 0; i < peak->series_count; i++)
		if (peak->series[i].device_id == device_id)
			peak->disordered++;
}

bool ingest_peak_is_shared(const struct ingest_peak *peak, uint32_t device_id)
{
	return ingest_table_find(&peak->shared, device_id) != NULL;
}

uint32_t ingest_peak_series(struct ingest_peak *peak, uint32_t process_id, uint32_t device_id,
			    enum block_kind kind)
{
	uint64_t key = (uint64_t)process_id << 32 | (uint64_t)device_id << 8 | kind;
	uintptr_t known = (uintptr_t)ingest_table_find(&peak->series_of, key);
	struct ingest_peak_series *series;

	if (known)
		return (uint32_t)known - 1;
	peak->series = ingest_table_memory(peak->series, peak->series_count + 1, sizeof(*series));
	series = &peak->series[peak->series_count];
	*series = (struct ingest_peak_series){
		.process_id = process_id,
		.device_id = device_id,
		.kind = kind,
		.is_device = ingest_peak_is_device(kind),
	};
	if (series->is_device) {
		series->group[series->groups++] = find_group(peak, 0, 0);
		series->group[series->groups++] = find_group(peak, process_id, 0);
	}
	/* Memory of an unknown device counts in the sums only. */
	if (series->is_device && device_id) {
		series->group[series->groups++] = find_group(peak, process_id, device_id);
		series->group[series->groups++] = find_group(peak, 0, first_of(peak, device_id));
	}
	ingest_table_put(&peak->series_of, key, (void *)(uintptr_t)(peak->series_count + 1));
	return peak->series_count++;
}

/* Points see all changes of their moment; ends come last of all. */
static uint32_t turn(const struct ingest_peak_change *change)
{
	return change->what < INGEST_PEAK_POINT ? 0 : change->what;
}

static bool is_sooner(const struct ingest_peak_change *a, const struct ingest_peak_change *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : turn(a) < turn(b);
}

static void push(struct ingest_peak *peak, struct ingest_peak_change change)
{
	uint32_t at = peak->count++;

	if (peak->count > peak->capacity) {
		peak->capacity = peak->capacity ? peak->capacity * 2 : 1024;
		peak->waiting = ingest_table_memory(peak->waiting, peak->capacity, sizeof(change));
	}
	while (at && is_sooner(&change, &peak->waiting[(at - 1) / 2])) {
		peak->waiting[at] = peak->waiting[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	peak->waiting[at] = change;
}

static struct ingest_peak_change pop(struct ingest_peak *peak)
{
	struct ingest_peak_change *heap = peak->waiting;
	struct ingest_peak_change first = heap[0];
	struct ingest_peak_change last = heap[--peak->count];
	uint32_t at = 0;

	for (uint32_t child = 1; child < peak->count; child = at * 2 + 1) {
		if (child + 1 < peak->count && is_sooner(&heap[child + 1], &heap[child]))
			child++;
		if (!is_sooner(&heap[child], &last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

static void raise_to(int64_t *highest, int64_t value)
{
	if (value > *highest)
		*highest = value;
}

/* Two slices become one; the series keeps its place on the line. */
static void fold(struct ingest_peak_series *series)
{
	uint32_t first = series->first / 2;
	uint32_t slices = 0;

	for (uint32_t i = 0; i < series->slices; i++) {
		uint32_t to = (series->first + i) / 2 - first;
		struct ingest_peak_slice old = series->slice[i];

		if (to < slices) {
			raise_to(&series->slice[to].live, old.live);
			raise_to(&series->slice[to].pending, old.pending);
			continue;
		}
		series->slice[to] = old;
		slices = to + 1;
	}
	series->first = first;
	series->slices = slices;
}

static uint32_t slice_at(struct ingest_peak *peak, int64_t at_ns)
{
	if (!peak->has_origin) {
		peak->has_origin = true;
		peak->origin_ns = at_ns;
		peak->slice_ns = FIRST_SLICE_NS;
	}
	if (at_ns < peak->origin_ns)
		return 0;
	while ((at_ns - peak->origin_ns) / peak->slice_ns >= INGEST_PEAK_SLICES) {
		peak->slice_ns *= 2;
		for (uint32_t i = 0; i < peak->series_count; i++)
			fold(&peak->series[i]);
	}
	return (uint32_t)((at_ns - peak->origin_ns) / peak->slice_ns);
}

/* Let the series reach this slice: where nothing happened, use stayed what it was. */
static void reach(struct ingest_peak_series *series, uint32_t number)
{
	struct ingest_peak_slice now = { series->live, series->pending };

	if (!series->slices)
		series->first = number;
	while (series->first + series->slices <= number) {
		if (series->slices == series->capacity) {
			series->capacity = series->capacity ? series->capacity * 2 : 8;
			series->slice = ingest_table_memory(series->slice, series->capacity,
							    sizeof(now));
		}
		series->slice[series->slices++] = now;
	}
}

/* All changes of a moment are in: what holds now has been held. */
static void settle_group(struct ingest_peak_group *group)
{
	raise_to(&group->pending_peak, group->pending);
	raise_to(&group->held_peak, group->live + group->pending);
	if (group->live > group->peak) {
		group->peak = group->live;
		group->peak_ns = group->moment_ns;
	}
}

static void settle_series(struct ingest_peak_series *series)
{
	if (!series->slices)
		return;
	raise_to(&series->slice[series->slices - 1].live, series->live);
	raise_to(&series->slice[series->slices - 1].pending, series->pending);
}

static void settle(struct ingest_peak *peak)
{
	for (uint32_t i = 0; i < peak->group_count; i++)
		settle_group(&peak->group[i]);
	for (uint32_t i = 0; i < peak->series_count; i++)
		settle_series(&peak->series[i]);
}

/* What a process had in the moment of its end, it has had. */
static bool is_next_moment(const struct ingest_peak_change *change, int64_t moment_ns)
{
	return change->at_ns != moment_ns || change->what == INGEST_PEAK_END;
}

static void change_group(struct ingest_peak_group *group, const struct ingest_peak_change *change)
{
	if (is_next_moment(change, group->moment_ns))
		settle_group(group);
	group->moment_ns = change->at_ns;
	group->live += change->live;
	group->pending += change->pending;
}

/* The pages of a process that has ended are nobody's; its addresses come again elsewhere. */
static void end_series(struct ingest_peak_series *series, struct ingest_peak_change *change)
{
	change->live = -series->live;
	change->pending = -series->pending;
	series->held = series->small = 0;
}

static void apply(struct ingest_peak *peak, struct ingest_peak_change change)
{
	struct ingest_peak_series *series;
	uint32_t slice;

	if (change.at_ns > peak->applied_ns)
		peak->applied_ns = change.at_ns;
	if (change.what == INGEST_PEAK_POINT || change.what == INGEST_PEAK_AFTER) {
		peak->show(peak->viewer, change.point, change.at_ns);
		return;
	}
	series = &peak->series[change.series];
	slice = slice_at(peak, change.at_ns);
	if (is_next_moment(&change, series->moment_ns))
		settle_series(series);
	reach(series, slice);
	series->moment_ns = change.at_ns;
	if (change.what == INGEST_PEAK_END)
		end_series(series, &change);
	else
		ingest_peak_page_hold(peak, &change);
	series->live += change.live;
	series->pending += change.pending;
	for (uint32_t i = 0; i < series->groups; i++)
		change_group(&peak->group[series->group[i]], &change);
}

static void add(struct ingest_peak *peak, struct ingest_peak_change change)
{
	if (change.at_ns < peak->applied_ns && change.what < INGEST_PEAK_END)
		peak->disordered++;
	push(peak, change);
}

void ingest_peak_change(struct ingest_peak *peak, uint32_t series, int64_t at_ns, int64_t live,
			int64_t pending)
{
	add(peak, (struct ingest_peak_change){
			  .at_ns = at_ns, .live = live, .pending = pending, .series = series });
}

void ingest_peak_block(struct ingest_peak *peak, uint32_t series, int64_t at_ns, int64_t bytes,
		       struct ingest_peak_step step, const struct ingest_peak_footprint *footprint)
{
	int64_t took = step.held > 0 ? step.took_ns / TOOK_UNIT_NS : 0;

	if (took > TOOK_MOST)
		took = TOOK_MOST;
	raise_to(&peak->longest_ns, took * TOOK_UNIT_NS);
	add(peak, (struct ingest_peak_change){
			  .at_ns = at_ns,
			  .live = step.live * bytes,
			  .pending = step.pending * bytes,
			  .rest = step.held * footprint->rest,
			  .series = series,
			  .what = footprint->what,
			  .took = (uint32_t)took,
		  });
}

void ingest_peak_point(struct ingest_peak *peak, void *point, int64_t at_ns, bool is_end)
{
	/* Each has its turn, even one of nonsense: whoever made it waits for that. */
	add(peak, (struct ingest_peak_change){
			  .at_ns = at_ns < INT64_MAX ? at_ns : INT64_MAX - 1,
			  .point = point,
			  .what = is_end ? INGEST_PEAK_AFTER : INGEST_PEAK_POINT,
		  });
}

void ingest_peak_end(struct ingest_peak *peak, uint32_t process_id, int64_t at_ns)
{
	for (uint32_t i = 0; i < peak->series_count; i++)
		if (peak->series[i].process_id == process_id)
			add(peak, (struct ingest_peak_change){ .at_ns = at_ns,
							       .series = i,
							       .what = INGEST_PEAK_END });
}

void ingest_peak_apply(struct ingest_peak *peak, int64_t horizon_ns)
{
	if (!peak->count || (peak->waiting[0].at_ns >= horizon_ns &&
			     peak->count <= INGEST_PEAK_WAITING))
		return;
	while (peak->count && peak->waiting[0].at_ns < horizon_ns)
		apply(peak, pop(peak));
	while (peak->count > INGEST_PEAK_WAITING)
		apply(peak, pop(peak));
	settle(peak);
}

/* From one node of the heap on; below one that is too late all are. */
static int64_t sum_in_flight(const struct ingest_peak *peak, uint32_t node, uint32_t process_id,
			     uint32_t device_id, int64_t at_ns)
{
	const struct ingest_peak_change *change;
	const struct ingest_peak_series *series;
	int64_t bytes = 0;
	uint64_t later; /* by so much does it end; moments of nonsense are far apart */

	if (node >= peak->count)
		return 0;
	change = &peak->waiting[node];
	later = change->at_ns > at_ns ? (uint64_t)change->at_ns - (uint64_t)at_ns : 0;
	if (later > (uint64_t)peak->longest_ns)
		return 0;
	if (later && change->rest > 0 && later < (uint64_t)change->took * TOOK_UNIT_NS) {
		series = &peak->series[change->series];
		if (series->process_id == process_id && series->device_id == device_id)
			bytes = ingest_peak_page_bytes(change);
	}
	return bytes + sum_in_flight(peak, node * 2 + 1, process_id, device_id, at_ns) +
	       sum_in_flight(peak, node * 2 + 2, process_id, device_id, at_ns);
}

int64_t ingest_peak_in_flight(const struct ingest_peak *peak, uint32_t process_id,
			      uint32_t device_id, int64_t at_ns)
{
	return sum_in_flight(peak, 0, process_id, device_id, at_ns);
}

int64_t ingest_peak_slice_ns(const struct ingest_peak *peak, uint32_t number)
{
	return peak->origin_ns + (int64_t)number * peak->slice_ns;
}

void ingest_peak_free(struct ingest_peak *peak)
{
	for (uint32_t i = 0; i < peak->series_count; i++)
		free(peak->series[i].slice);
	free(peak->series);
	free(peak->group);
	free(peak->waiting);
	ingest_table_free(&peak->series_of, NULL);
	ingest_table_free(&peak->shared, NULL);
	ingest_table_free(&peak->pages, NULL);
	*peak = (struct ingest_peak){ 0 };
}
