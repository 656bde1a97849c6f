/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/graph_work.h"
#include "core/lock.h"
#include "core/slab.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/graph_table.h"
#include "intercept/graph_walk.h"
#include "intercept/hook.h"

#include <string.h>

/* How much goes one way at each launch; those of conditional bodies apart from what surely runs. */
struct way {
	uint64_t bytes;
	uint32_t items; /* 0: nothing does any more */
	uint16_t aux;	/* AUX_TRANSFER() */
	bool is_conditional;
};

/*
 * Memory of sums is used for sums of the same size again and for nothing else, so
 * that a program which launches what it destroys misleads nobody but itself.
 */
struct sums {
	void *spare;
	unsigned int class;
	uint32_t count;
	struct way way[];
};

/* Memory that a launch leaves behind, or that it frees (bytes 0) and others have left. */
struct lasting {
	uint64_t address;
	uint64_t bytes;
	int device;
};

/* Made once; as for sums, memory is used for nothing else. */
struct memory {
	void *spare;
	unsigned int class;
	uint32_t count;
	struct lasting block[];
};

struct graph_work {
	void *spare;
	_Atomic(struct sums *) sums;	 /* NULL: there is no memory for them */
	_Atomic(struct memory *) memory; /* NULL: nothing is left or freed */
	bool is_replaced; /* the list is that of another graph than it was made of */
	struct graph_list list;
};

static struct {
	struct lock lock;
	struct slab_spares works, sums, memories;
} kept;

/* ------------------------------------------------------------------ sums */

/* What could not be read is a copy of which nothing is known. */
static const struct graph_item unknown = {
	.type = GRAPH_ITEM_COPY,
	.kind = TRANSFER_UNKNOWN,
	.is_enabled = true,
	.is_conditional = true,
};

static struct sums *sums_of(const struct graph_work *work)
{
	return atomic_load_explicit(&work->sums, memory_order_relaxed);
}

/* Under the lock. */
static void drop_sums(struct graph_work *work)
{
	struct sums *sums = atomic_exchange_explicit(&work->sums, NULL, memory_order_relaxed);

	if (sums)
		slab_give(&kept.sums, sums, sums->class);
}

/* Under the lock.  The same ways, with room for more. */
static struct sums *grow_sums(struct graph_work *work)
{
	struct sums *old = sums_of(work);
	unsigned int class = old ? old->class + 1 : 0;
	struct sums *sums = slab_take(&kept.sums, class);

	if (!sums)
		return NULL;
	sums->class = class;
	sums->count = old ? old->count : 0;
	if (old)
		memcpy(sums->way, old->way, old->count * sizeof(struct way));
	drop_sums(work);
	atomic_store_explicit(&work->sums, sums, memory_order_release);
	return sums;
}

static struct way *find_way(struct sums *sums, uint16_t aux, bool is_conditional)
{
	for (uint32_t i = 0; i < sums->count; i++)
		if (sums->way[i].aux == aux && sums->way[i].is_conditional == is_conditional)
			return &sums->way[i];
	return NULL;
}

/* Under the lock.  The way of an item, a new one where it is the first; NULL: no memory. */
static struct way *way_of(struct graph_work *work, const struct graph_item *item)
{
	uint16_t aux = AUX_TRANSFER(item->kind, item->source, item->target, 1);
	struct sums *sums = sums_of(work);
	struct way *way = find_way(sums, aux, item->is_conditional);

	if (way)
		return way;
	if (sizeof(*sums) + (sums->count + 1) * sizeof(*way) > slab_bytes(sums->class))
		sums = grow_sums(work);
	if (!sums)
		return NULL;
	way = &sums->way[sums->count++];
	*way = (struct way){ .aux = aux, .is_conditional = item->is_conditional };
	return way;
}

/* Under the lock.  Once more or once less.  Sums that cannot hold an item are of no use. */
static void count_item(struct graph_work *work, const struct graph_item *item, int by)
{
	struct way *way;

	if (!sums_of(work) || item->type != GRAPH_ITEM_COPY || !item->is_enabled)
		return;
	way = way_of(work, item);
	if (way) {
		way->bytes += (uint64_t)by * item->bytes;
		way->items += (uint32_t)by;
	} else {
		drop_sums(work);
	}
}

/* Under the lock.  Before items change that are in the sums; pairs with enter_items(). */
static void leave_items(struct graph_work *work, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		count_item(work, &work->list.item[i], -1);
}

/* Under the lock.  Of all items. */
static void set_sums(struct graph_work *work)
{
	drop_sums(work);
	grow_sums(work);
	for (uint32_t i = 0; i < work->list.count; i++)
		count_item(work, &work->list.item[i], 1);
	if (work->list.is_incomplete)
		count_item(work, &unknown, 1);
}

/* Under the lock.  A program may change all its nodes at each step: by difference. */
static void enter_items(struct graph_work *work, uint32_t first, uint32_t count)
{
	if (!sums_of(work)) {
		set_sums(work);
		return;
	}
	for (uint32_t i = first; i < first + count; i++)
		count_item(work, &work->list.item[i], 1);
}

/* ------------------------------------------------------------------ memory */

/* Under the lock.  What is allocated and freed cannot be changed later on. */
static void set_memory(struct graph_work *work)
{
	const struct graph_list *list = &work->list;
	uint32_t count = 0;
	struct memory *memory;
	unsigned int class;

	atomic_store_explicit(&work->memory, NULL, memory_order_relaxed);
	for (uint32_t i = 0; i < list->count; i++)
		count += list->item[i].is_lasting;
	class = slab_class(sizeof(*memory) + count * sizeof(*memory->block));
	memory = count ? slab_take(&kept.memories, class) : NULL;
	if (!memory)
		return;
	memory->class = class;
	memory->count = 0;
	for (uint32_t i = 0; i < list->count; i++)
		if (list->item[i].is_lasting)
			memory->block[memory->count++] = (struct lasting){
				list->item[i].address, list->item[i].bytes, list->item[i].device
			};
	atomic_store_explicit(&work->memory, memory, memory_order_release);
}

/* Under the lock. */
static void drop_memory(struct graph_work *work)
{
	struct memory *memory = atomic_load_explicit(&work->memory, memory_order_relaxed);

	if (memory)
		slab_give(&kept.memories, memory, memory->class);
}

/* ------------------------------------------------------------------ what happens to a graph */

/* Under the lock. */
static void drop(struct graph_work *work)
{
	drop_sums(work);
	drop_memory(work);
	graph_list_free(&work->list);
	slab_give(&kept.works, work, slab_class(sizeof(*work)));
}

/* Under the lock.  Takes over what is in the list. */
static struct graph_work *make(struct graph_list *list)
{
	struct graph_work *work = slab_take(&kept.works, slab_class(sizeof(*work)));

	if (!work)
		return NULL;
	atomic_store_explicit(&work->sums, NULL, memory_order_relaxed);
	work->is_replaced = false;
	work->list = *list;
	*list = (struct graph_list){ 0 };
	set_sums(work);
	set_memory(work);
	return work;
}

void graph_work_keep(uint64_t exec, struct graph_list *list)
{
	struct graph_work *stale, *work = NULL;

	graph_list_pair(list);
	lock_take(&kept.lock);
	stale = graph_table_take(exec);
	if (stale)
		drop(stale);
	if (list->count || list->is_incomplete)
		work = make(list);
	if (work && !graph_table_enter(exec, work))
		drop(work);
	lock_give(&kept.lock);
	graph_list_free(list);
}

struct graph_work *graph_work_take(uint64_t exec)
{
	struct graph_work *work;

	lock_take(&kept.lock);
	work = graph_table_take(exec);
	lock_give(&kept.lock);
	return work;
}

void graph_work_drop(struct graph_work *work)
{
	lock_take(&kept.lock);
	drop(work);
	lock_give(&kept.lock);
}

void graph_work_put_back(uint64_t exec, struct graph_work *work)
{
	lock_take(&kept.lock);
	if (!graph_table_enter(exec, work))
		drop(work);
	lock_give(&kept.lock);
}

bool graph_work_is_kept(uint64_t exec)
{
	return graph_table_find(exec) != NULL;
}

/* Under the lock.  The copy of this node; UINT32_MAX: there is none. */
static uint32_t find_copy(struct graph_work *work, uint64_t node)
{
	uint32_t at = work ? graph_list_find(&work->list, node) : UINT32_MAX;

	return at != UINT32_MAX && work->list.item[at].type == GRAPH_ITEM_COPY ? at : UINT32_MAX;
}

/* Under the lock.  There is something now that could not be read. */
static void lose_track(struct graph_work *work)
{
	if (!work->list.is_incomplete)
		count_item(work, &unknown, 1);
	work->list.is_incomplete = true;
}

void graph_work_change(uint64_t exec, uint64_t node, const struct graph_item *copy)
{
	struct graph_work *work;
	uint32_t at;

	lock_take(&kept.lock);
	work = graph_table_find(exec);
	at = find_copy(work, node);
	if (at != UINT32_MAX) {
		leave_items(work, at, 1);
		graph_list_copy(&work->list.item[at], copy);
		enter_items(work, at, 1);
	} else if (work) {
		lose_track(work);
	}
	lock_give(&kept.lock);
}

void graph_work_enable(uint64_t exec, uint64_t node, bool is_enabled)
{
	struct graph_work *work;
	uint32_t at;

	lock_take(&kept.lock);
	work = graph_table_find(exec);
	at = find_copy(work, node);
	if (at != UINT32_MAX) {
		leave_items(work, at, 1);
		work->list.item[at].is_enabled = is_enabled;
		enter_items(work, at, 1);
	} else if (work && work->is_replaced) {
		lose_track(work); /* else it is a node that copies nothing */
	}
	lock_give(&kept.lock);
}

/* Under the lock.  What is off stays off, wherever it is now. */
static void keep_off(struct graph_work *work, const struct graph_item *item)
{
	uint32_t at = find_copy(work, item->node);

	if (at != UINT32_MAX)
		work->list.item[at].is_enabled = false;
	else
		work->list.is_incomplete = true;
}

/*
 * Under the lock.  Where the two do not match, what was read last is what is known,
 * and which of its nodes stand for which before only where they are the same.
 */
static void assign_all(struct graph_work *work, struct graph_list *list)
{
	struct graph_list old = work->list;

	if (old.is_incomplete || !graph_list_assign(&work->list, 0, old.count, list)) {
		work->list = *list;
		work->is_replaced = true;
		*list = old;
		for (uint32_t i = 0; i < old.count; i++)
			if (!old.item[i].is_enabled)
				keep_off(work, &old.item[i]);
	}
	set_sums(work);
}

/* Under the lock.  A child of another shape leaves it unknown what is copied there. */
static void assign_child(struct graph_work *work, uint64_t node, const struct graph_list *list)
{
	uint32_t at = graph_list_find(&work->list, node);
	uint32_t inside = at == UINT32_MAX ? 0 : work->list.item[at].inside;
	bool is_assigned;

	leave_items(work, at + 1, inside);
	is_assigned = at != UINT32_MAX && graph_list_assign(&work->list, at + 1, inside, list);
	enter_items(work, at + 1, inside);
	if (!is_assigned)
		lose_track(work);
}

void graph_work_assign(uint64_t exec, uint64_t node, struct graph_list *list)
{
	struct graph_work *work;

	lock_take(&kept.lock);
	work = graph_table_find(exec);
	if (work && node)
		assign_child(work, node, list);
	else if (work)
		assign_all(work, list);
	lock_give(&kept.lock);
	graph_list_free(list);
}

/* ------------------------------------------------------------------ launches */

/* What no number is known of has not moved, as far as any sum is concerned. */
static void write_way(struct call *call, const struct way *way, uint64_t stream, uint8_t captured)
{
	if (!way->items)
		return;
	call_write(call, &(struct call_facts){
				 .kind = RECORD_TRANSFER,
				 .a = way->is_conditional ? 0 : way->items,
				 .c = way->bytes,
				 .stream = stream,
				 .context = current_number(),
				 .aux = way->aux,
				 .flags = RECORD_SUM |
					  (way->is_conditional ? RECORD_CAPTURED : captured),
			 });
}

/* Where the program has not freed it since the last launch, it is still the same block. */
static void leave_block(struct call *call, const struct lasting *lasting, uint64_t stream)
{
	struct block block;

	if (tracker_find(SPACE_ADDRESS, lasting->address, &block) &&
	    block.kind == BLOCK_GRAPH && block.address == lasting->address)
		return;
	block_begin(call, &(struct block_facts){
				  .kind = BLOCK_GRAPH,
				  .address = lasting->address,
				  .bytes = lasting->bytes,
				  .stream = stream,
				  .device = lasting->device,
			  });
}

static void end_block(struct call *call, const struct lasting *lasting, uint64_t stream)
{
	block_take(call, SPACE_ADDRESS, lasting->address);
	if (call->has_taken)
		block_write_end(call, &call->taken, stream, 0);
}

static void launch_memory(struct call *call, const struct memory *memory, uint64_t stream)
{
	for (uint32_t i = 0; i < memory->count; i++) {
		if (memory->block[i].bytes)
			leave_block(call, &memory->block[i], stream);
		else
			end_block(call, &memory->block[i], stream);
	}
}

void graph_work_launch(struct call *call, uint64_t exec, uint64_t stream)
{
	struct graph_work *work = graph_table_find(exec);
	struct memory *memory;
	struct sums *sums;
	uint8_t captured;

	if (!work)
		return;
	captured = capture_flag(stream);
	sums = atomic_load_explicit(&work->sums, memory_order_acquire);
	for (uint32_t i = 0; sums && i < sums->count; i++)
		write_way(call, &sums->way[i], stream, captured);
	memory = atomic_load_explicit(&work->memory, memory_order_acquire);
	if (memory && !captured)
		launch_memory(call, memory, stream);
}

/* All memory is gone with the parent's slabs. */
void graph_work_reset(void)
{
	memset(&kept, 0, sizeof(kept));
	graph_table_reset();
	graph_list_reset();
	graph_walk_reset();
}
