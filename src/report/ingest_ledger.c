/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t find_gpu(struct ingest_ledger *ledger, const char *uuid)
{
	struct ingest_ledger_gpu *gpu;

	for (uint32_t i = 0; *uuid && i < ledger->gpus; i++)
		if (!strcmp(ledger->gpu[i]->uuid, uuid))
			return i;
	ledger->gpu = ingest_table_memory(ledger->gpu, ledger->gpus + 1, sizeof(*ledger->gpu));
	gpu = ingest_table_memory(NULL, 1, sizeof(*gpu));
	memset(gpu, 0, sizeof(*gpu));
	snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
	ledger->gpu[ledger->gpus] = gpu;
	return ledger->gpus++;
}

static struct ingest_ledger_use *known_use(const struct ingest_ledger *ledger, uint32_t device_id)
{
	uintptr_t known = (uintptr_t)ingest_table_find(&ledger->use_of, device_id);

	return known ? &ledger->use[known - 1] : NULL;
}

void ingest_ledger_device(struct ingest_ledger *ledger, uint32_t process_id, uint32_t device_id,
			  const char *uuid)
{
	struct ingest_ledger_use *use = known_use(ledger, device_id);

	if (use) {
		if (*uuid)
			use->gpu = find_gpu(ledger, uuid);
		return;
	}
	ledger->use = ingest_table_memory(ledger->use, ledger->uses + 1, sizeof(*use));
	ledger->use[ledger->uses++] = (struct ingest_ledger_use){
		.process_id = process_id,
		.device_id = device_id,
		.gpu = find_gpu(ledger, uuid),
		.pools = INGEST_LEDGER_UNKNOWN,
		.cached = INGEST_LEDGER_UNKNOWN,
		.graphs = INGEST_LEDGER_UNKNOWN,
	};
	ingest_table_put(&ledger->use_of, device_id, (void *)(uintptr_t)ledger->uses);
}

static struct ingest_ledger_use *find_use(struct ingest_ledger *ledger, uint32_t process_id,
					  uint32_t device_id)
{
	if (!known_use(ledger, device_id))
		ingest_ledger_device(ledger, process_id, device_id, "");
	return known_use(ledger, device_id);
}

/* Series that are new belong to somebody; those of memory on no device we know to nobody. */
static void learn_series(struct ingest_ledger *ledger)
{
	for (; ledger->series < ledger->peak->series_count; ledger->series++) {
		const struct ingest_peak_series *series = &ledger->peak->series[ledger->series];

		if (series->is_device && series->device_id)
			find_use(ledger, series->process_id, series->device_id)
				->series[series->kind] = ledger->series + 1;
	}
}

static void sum_blocks(const struct ingest_ledger *ledger, const struct ingest_ledger_use *use,
		       struct ingest_ledger_sums *sums)
{
	memset(sums, 0, sizeof(*sums));
	for (int kind = 0; kind < BLOCK_KINDS; kind++) {
		const struct ingest_peak_series *series;

		if (!use->series[kind])
			continue;
		series = &ledger->peak->series[use->series[kind] - 1];
		sums->live[kind] = series->live;
		sums->pending[kind] = series->pending;
		sums->held[kind] = series->held;
	}
}

/* Managed memory lies where it is used: nobody knows how much of it is on the device. */
static int64_t held_by(const struct ingest_ledger_sums *sums)
{
	int64_t held = 0;

	for (int kind = 0; kind < BLOCK_KINDS; kind++)
		if (kind != BLOCK_MANAGED)
			held += sums->held[kind];
	return held;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A pool that the program has destroyed holds its live blocks, and is asked no more. */
static int64_t pool_of(const struct ingest_ledger_use *use, const struct ingest_ledger_sums *sums)
{
	int64_t in_blocks = sums->live[BLOCK_POOL] + sums->pending[BLOCK_POOL];

	if (use->cached != INGEST_LEDGER_UNKNOWN)
		return in_blocks + use->cached;
	return larger(use->pools, in_blocks);
}

static void hear_pools(struct ingest_ledger_use *use, const struct ingest_ledger_entry *entry)
{
	if (entry->pools == INGEST_LEDGER_UNKNOWN && entry->cached == INGEST_LEDGER_UNKNOWN)
		return;
	use->pools = entry->pools;
	use->cached = entry->cached;
}

static int64_t graph_of(const struct ingest_ledger_use *use, const struct ingest_ledger_sums *sums)
{
	return use->graphs != INGEST_LEDGER_UNKNOWN ? use->graphs : sums->live[BLOCK_GRAPH];
}

static int64_t explained_by(const struct ingest_ledger *ledger,
			    const struct ingest_ledger_use *use)
{
	struct ingest_ledger_sums sums;
	int64_t bytes;

	if (use->is_over)
		return 0;
	sum_blocks(ledger, use, &sums);
	bytes = held_by(&sums) + pool_of(use, &sums) + graph_of(use, &sums);
	for (int kind = 0; kind < WEIGHED_KINDS; kind++)
		bytes += use->own[kind];
	return bytes;
}

/* By all of the trace; or by all but one. */
static int64_t explained_on(const struct ingest_ledger *ledger, uint32_t gpu,
			    const struct ingest_ledger_use *but)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < ledger->uses; i++)
		if (ledger->use[i].gpu == gpu && &ledger->use[i] != but)
			bytes += explained_by(ledger, &ledger->use[i]);
	return bytes;
}

static void note_moment(struct ingest_ledger *ledger, uint32_t gpu, int64_t at_ns,
			int64_t free_bytes)
{
	struct ingest_ledger_gpu *is = ledger->gpu[gpu];

	is->moment[is->moments++ % INGEST_LEDGER_MOMENTS] = (struct ingest_ledger_moment){
		.at_ns = at_ns,
		.free = free_bytes,
		.explained = explained_on(ledger, gpu, NULL),
	};
}

/* The newest moment that was not later, else the first before `until_ns`; NULL: none is known. */
static const struct ingest_ledger_moment *moment_before(const struct ingest_ledger_gpu *gpu,
							int64_t at_ns, int64_t until_ns)
{
	uint64_t oldest = gpu->moments > INGEST_LEDGER_MOMENTS ?
				  gpu->moments - INGEST_LEDGER_MOMENTS : 0;

	for (uint64_t i = gpu->moments; i-- > oldest;)
		if (gpu->moment[i % INGEST_LEDGER_MOMENTS].at_ns <= at_ns)
			return &gpu->moment[i % INGEST_LEDGER_MOMENTS];
	if (gpu->moments && gpu->moment[oldest % INGEST_LEDGER_MOMENTS].at_ns < until_ns)
		return &gpu->moment[oldest % INGEST_LEDGER_MOMENTS];
	return NULL;
}

static uint64_t own_key(uint32_t context_id, enum reading_weighed kind)
{
	return (uint64_t)context_id << 8 | kind;
}

static struct ingest_ledger_own *known_own(const struct ingest_ledger *ledger, uint32_t context_id,
					   enum reading_weighed kind)
{
	uintptr_t known =
		(uintptr_t)ingest_table_find(&ledger->own_of, own_key(context_id, kind));

	return known ? &ledger->own[known - 1] : NULL;
}

static struct ingest_ledger_own *make_own(struct ingest_ledger *ledger,
					  const struct ingest_ledger_entry *entry,
					  enum reading_weighed kind)
{
	if (ledger->owns == ledger->own_capacity) {
		ledger->own_capacity = ledger->own_capacity * 2 + 16;
		ledger->own = ingest_table_memory(ledger->own, ledger->own_capacity,
						  sizeof(*ledger->own));
	}
	ledger->own[ledger->owns++] = (struct ingest_ledger_own){
		.id = ++ledger->next_own,
		.process_id = entry->process_id,
		.device_id = entry->device_id,
		.context_id = entry->context_id,
		.kind = kind,
		.created_ns = entry->at_ns,
	};
	ingest_table_put(&ledger->own_of, own_key(entry->context_id, kind),
			 (void *)(uintptr_t)ledger->owns);
	return &ledger->own[ledger->owns - 1];
}

/* The driver cannot give back more than it has taken: what is beyond is somebody else's doing. */
static int64_t grow(struct ingest_ledger *ledger, struct ingest_ledger_use *use,
		    const struct ingest_ledger_entry *entry, enum reading_weighed kind,
		    int64_t bytes)
{
	struct ingest_ledger_own *own = known_own(ledger, entry->context_id, kind);

	if (!own)
		own = make_own(ledger, entry, kind);
	bytes = larger(bytes, -own->bytes);
	if (own->ended_ns)
		return 0;
	own->bytes += bytes;
	own->count++;
	own->is_changed = true;
	use->own[kind] += bytes;
	return bytes;
}

static bool has_live_context(const struct ingest_ledger *ledger, uint32_t gpu)
{
	for (uint32_t i = 0; i < ledger->owns; i++) {
		const struct ingest_ledger_own *own = &ledger->own[i];

		if (own->kind == WEIGHED_CONTEXT && !own->ended_ns &&
		    known_use(ledger, own->device_id)->gpu == gpu)
			return true;
	}
	return false;
}

/*
 * A block that another thread was making may have been taken of the device already, and
 * is explained only when its call ends.  What is weighed takes little beside such a block.
 */
static int64_t without_flying(int64_t growth, int64_t before, int64_t after)
{
	if (after && growth >= after)
		return growth - after;
	return growth < 0 && growth + before >= 0 ? growth + before : growth;
}

/*
 * What is foreign is what was there before our first context; without such a moment
 * our context is part of it.  Where all of ours have ended it is measured again.
 */
static int64_t weigh_context(struct ingest_ledger *ledger, struct ingest_ledger_use *use,
			     const struct ingest_ledger_entry *entry)
{
	struct ingest_ledger_gpu *gpu = ledger->gpu[use->gpu];
	int64_t from_ns = entry->context_ns && entry->context_ns < entry->at_ns ?
				  entry->context_ns : entry->at_ns;
	const struct ingest_ledger_moment *before = moment_before(gpu, from_ns, entry->at_ns);
	bool is_first = !has_live_context(ledger, use->gpu);
	int64_t was;

	gpu->has_foreign = true;
	if (!before) {
		if (is_first) {
			gpu->foreign = entry->unexplained;
			gpu->has_contexts = false;
		}
		grow(ledger, use, entry, WEIGHED_CONTEXT, 0);
		known_own(ledger, entry->context_id, WEIGHED_CONTEXT)->is_unknown = true;
		return 0;
	}
	was = entry->total - before->free - before->explained;
	if (is_first) {
		gpu->foreign = larger(was, 0);
		gpu->has_contexts = true;
	}
	return grow(ledger, use, entry, WEIGHED_CONTEXT,
		    larger(without_flying(entry->unexplained - was, 0, entry->in_flight), 0));
}

static int64_t managed_of(const struct ingest_ledger_entry *entry)
{
	return entry->sums.live[BLOCK_MANAGED] + entry->sums.pending[BLOCK_MANAGED];
}

/*
 * The last managed block has gone between the two.  What was its and has not come back
 * is the driver's from here on; what nothing had explained before there was any is not.
 */
static int64_t kept_of_managed(const struct ingest_ledger_gpu *gpu,
			       const struct ingest_ledger_use *use,
			       const struct ingest_ledger_entry *before,
			       const struct ingest_ledger_entry *after)
{
	int64_t known = gpu->foreign + use->left;
	int64_t had = larger(before->unexplained - known, 0);
	int64_t has = larger(after->unexplained - known, 0);

	return managed_of(after) ? 0 : had < has ? had : has;
}

/*
 * A kernel that is launched, or runs beside the call, moves managed memory to the
 * device: what grew is that, as long as so much of it may not have been there before.
 * Of what a graph, a stream or a limit takes it has no part but whole steps.
 */
static int64_t moved_managed(const struct ingest_ledger_gpu *gpu,
			     const struct ingest_ledger_use *use,
			     const struct ingest_ledger_entry *before,
			     const struct ingest_ledger_entry *after)
{
	const int64_t step = INGEST_LEDGER_MANAGED_STEP;
	int64_t most = managed_of(after);
	int64_t was = larger(before->unexplained - gpu->foreign - use->left, 0);
	int64_t grown = larger(after->growth, 0);
	int64_t room;

	if (after->weighed != WEIGHED_CODE)
		grown -= grown % step;
	most = (most + step - 1) / step * step;
	room = larger(most - was, 0);
	return grown < room ? grown : room;
}

/* Of a pair on one thread, in one context. */
static void weigh_call(struct ingest_ledger *ledger, struct ingest_ledger_use *use,
		       struct ingest_ledger_entry *entry)
{
	const struct ingest_ledger_entry *before = entry->settled =
		ingest_table_take(&ledger->before, entry->thread_id);

	if (!before || before->weighed != entry->weighed ||
	    before->context_id != entry->context_id || before->device_id != entry->device_id)
		return;
	entry->has_growth = true;
	entry->grown = entry->weighed;
	if (managed_of(entry) < managed_of(before)) {
		entry->growth = kept_of_managed(ledger->gpu[use->gpu], use, before, entry);
		if (entry->growth)
			grow(ledger, use, entry, entry->weighed, entry->growth);
		return;
	}
	entry->growth = without_flying(entry->unexplained - before->unexplained,
				       before->in_flight, entry->in_flight);
	entry->growth -= moved_managed(ledger->gpu[use->gpu], use, before, entry);
	if (entry->growth)
		entry->growth = grow(ledger, use, entry, entry->weighed, entry->growth);
}

static void weigh(struct ingest_ledger *ledger, struct ingest_ledger_use *use,
		  struct ingest_ledger_entry *entry)
{
	if (entry->context_id && !known_own(ledger, entry->context_id, WEIGHED_CONTEXT)) {
		entry->has_growth = true;
		entry->grown = WEIGHED_CONTEXT;
		entry->growth = weigh_context(ledger, use, entry);
	} else if (entry->moment == READING_BEFORE) {
		entry->is_open = true;
		entry->settled = ingest_table_put(&ledger->before, entry->thread_id, entry);
	} else if (entry->moment == READING_AFTER) {
		weigh_call(ledger, use, entry);
	}
}

void ingest_ledger_read(struct ingest_ledger *ledger, struct ingest_ledger_entry *entry)
{
	const struct ingest_ledger_gpu *gpu;
	struct ingest_ledger_use *use;

	learn_series(ledger);
	use = find_use(ledger, entry->process_id, entry->device_id);
	gpu = ledger->gpu[use->gpu];
	hear_pools(use, entry);
	if (entry->graphs != INGEST_LEDGER_UNKNOWN)
		use->graphs = entry->graphs;
	sum_blocks(ledger, use, &entry->sums);
	entry->held = held_by(&entry->sums);
	entry->pool = pool_of(use, &entry->sums);
	entry->graph = graph_of(use, &entry->sums);
	entry->recorded = explained_on(ledger, use->gpu, use);
	entry->unexplained = entry->total - entry->free - entry->recorded -
			     explained_by(ledger, use);
	if (entry->moment == READING_BEFORE || entry->moment == READING_AFTER)
		entry->in_flight = ingest_peak_in_flight(ledger->peak, entry->process_id,
							 entry->device_id, entry->at_ns);
	weigh(ledger, use, entry);
	if (!managed_of(entry))
		use->left = entry->total - entry->free - gpu->foreign -
			    explained_on(ledger, use->gpu, NULL);
	memcpy(entry->own, use->own, sizeof(entry->own));
	entry->has_foreign = gpu->has_foreign;
	entry->has_contexts = gpu->has_contexts;
	entry->foreign = gpu->foreign;
	note_moment(ledger, use->gpu, entry->at_ns, entry->free);
}

void ingest_ledger_grow(struct ingest_ledger *ledger, const struct ingest_ledger_entry *entry,
			uint64_t calls)
{
	struct ingest_ledger_use *use = find_use(ledger, entry->process_id, entry->device_id);

	grow(ledger, use, entry, entry->grown, entry->growth);
	known_own(ledger, entry->context_id, entry->grown)->count += calls - 1;
}

void ingest_ledger_sample(struct ingest_ledger *ledger, const char *uuid, int64_t at_ns,
			  int64_t free_bytes)
{
	learn_series(ledger);
	note_moment(ledger, find_gpu(ledger, uuid), at_ns, free_bytes);
}

static void end_own(struct ingest_ledger *ledger, struct ingest_ledger_own *own, int64_t at_ns)
{
	struct ingest_ledger_use *use = known_use(ledger, own->device_id);

	if (own->ended_ns)
		return;
	own->ended_ns = at_ns;
	own->is_changed = true;
	if (use)
		use->own[own->kind] -= own->bytes;
}

void ingest_ledger_end_context(struct ingest_ledger *ledger, uint32_t context_id, int64_t at_ns)
{
	for (uint32_t i = 0; i < ledger->owns; i++)
		if (ledger->own[i].context_id == context_id)
			end_own(ledger, &ledger->own[i], at_ns);
}

void ingest_ledger_end_process(struct ingest_ledger *ledger, uint32_t process_id, int64_t at_ns)
{
	for (uint32_t i = 0; i < ledger->owns; i++)
		if (ledger->own[i].process_id == process_id)
			end_own(ledger, &ledger->own[i], at_ns);
	for (uint32_t i = 0; i < ledger->uses; i++)
		if (ledger->use[i].process_id == process_id)
			ledger->use[i].is_over = true;
}

bool ingest_ledger_has_context(const struct ingest_ledger *ledger, const char *uuid)
{
	for (uint32_t i = 0; i < ledger->gpus; i++)
		if (!strcmp(ledger->gpu[i]->uuid, uuid))
			return ledger->gpu[i]->has_foreign;
	return false;
}

void ingest_ledger_free(struct ingest_ledger *ledger)
{
	for (uint32_t i = 0; i < ledger->gpus; i++)
		free(ledger->gpu[i]);
	free(ledger->gpu);
	free(ledger->use);
	free(ledger->own);
	ingest_table_free(&ledger->use_of, NULL);
	ingest_table_free(&ledger->own_of, NULL);
	ingest_table_free(&ledger->before, NULL);
	*ledger = (struct ingest_ledger){ .peak = ledger->peak };
}
