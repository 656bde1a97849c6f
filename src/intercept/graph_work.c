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

enum { WAYS = TRANSFER_KINDS * PLACE_KINDS * PLACE_KINDS };

/* How much goes one way at each launch. */
struct way {
	uint64_t bytes;
	uint32_t copies; /* 0: nobody knows how many, and bytes are those of one run */
	uint16_t aux;	 /* AUX_TRANSFER() */
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
	_Atomic(struct sums *) sums;	 /* NULL: nothing is copied */
	_Atomic(struct memory *) memory; /* NULL: nothing is left or freed */
	struct graph_list list;
};

static struct {
	struct lock lock;
	struct slab_spares works, sums, memories;
	struct way scratch[2 * WAYS];
	uint16_t at[2 * WAYS]; /* index in scratch + 1 */
} kept;

/* ------------------------------------------------------------------ sums */

/* Under the lock.  Those of conditional bodies are kept apart from those that surely run. */
static void add_up(const struct graph_item *item, uint32_t *count)
{
	unsigned int key = ((item->is_conditional * TRANSFER_KINDS + item->kind) * PLACE_KINDS +
			    item->source) * PLACE_KINDS + item->target;
	struct way *way;

	if (!kept.at[key]) {
		kept.scratch[*count] = (struct way){
			.aux = AUX_TRANSFER(item->kind, item->source, item->target, 1),
		};
		kept.at[key] = (uint16_t)++*count;
	}
	way = &kept.scratch[kept.at[key] - 1];
	way->bytes += item->bytes;
	way->copies += !item->is_conditional;
}

/* Under the lock.  How many ways there are, in the scratch. */
static uint32_t sum_up(const struct graph_list *list)
{
	uint32_t count = 0;

	memset(kept.at, 0, sizeof(kept.at));
	for (uint32_t i = 0; i < list->count; i++)
		if (list->item[i].type == GRAPH_ITEM_COPY && list->item[i].is_enabled)
			add_up(&list->item[i], &count);
	if (list->is_incomplete && count < 2 * WAYS)
		kept.scratch[count++] = (struct way){ .aux = AUX_TRANSFER(0, 0, 0, 1) };
	return count;
}

/* Under the lock. */
static void drop_sums(struct graph_work *work)
{
	struct sums *sums = atomic_exchange_explicit(&work->sums, NULL, memory_order_relaxed);

	if (sums)
		slab_give(&kept.sums, sums, sums->class);
}

/* Under the lock. */
static void set_sums(struct graph_work *work)
{
	uint32_t count = sum_up(&work->list);
	unsigned int class = slab_class(sizeof(struct sums) + count * sizeof(struct way));
	struct sums *sums;

	drop_sums(work);
	sums = count ? slab_take(&kept.sums, class) : NULL;
	if (!sums)
		return;
	sums->class = class;
	sums->count = count;
	memcpy(sums->way, kept.scratch, count * sizeof(struct way));
	atomic_store_explicit(&work->sums, sums, memory_order_release);
}

/* ------------------------------------------------------------------ memory */

/* Whether another item of the graph does the opposite with the same address. */
static bool is_paired(const struct graph_list *list, const struct graph_item *item)
{
	enum graph_item_type opposite = item->type == GRAPH_ITEM_ALLOC ? GRAPH_ITEM_FREE :
									 GRAPH_ITEM_ALLOC;

	for (uint32_t i = 0; i < list->count; i++)
		if (list->item[i].type == opposite && list->item[i].address == item->address)
			return true;
	return false;
}

static bool is_lasting(const struct graph_list *list, uint32_t at)
{
	const struct graph_item *item = &list->item[at];

	return (item->type == GRAPH_ITEM_ALLOC || item->type == GRAPH_ITEM_FREE) &&
	       !is_paired(list, item);
}

/* Under the lock.  What is allocated and freed cannot be changed later on. */
static void set_memory(struct graph_work *work)
{
	const struct graph_list *list = &work->list;
	uint32_t count = 0;
	struct memory *memory;
	unsigned int class;

	atomic_store_explicit(&work->memory, NULL, memory_order_relaxed);
	for (uint32_t i = 0; i < list->count; i++)
		count += is_lasting(list, i);
	class = slab_class(sizeof(*memory) + count * sizeof(*memory->block));
	memory = count ? slab_take(&kept.memories, class) : NULL;
	if (!memory)
		return;
	memory->class = class;
	memory->count = 0;
	for (uint32_t i = 0; i < list->count; i++)
		if (is_lasting(list, i))
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
	work->list = *list;
	*list = (struct graph_list){ 0 };
	set_sums(work);
	set_memory(work);
	return work;
}

void graph_work_keep(uint64_t exec, struct graph_list *list)
{
	struct graph_work *stale, *work = NULL;

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

/* Under the lock.  The copy of this node; NULL: there is none. */
static struct graph_item *find_copy(struct graph_work *work, uint64_t node)
{
	uint32_t at = work ? graph_list_find(&work->list, node) : UINT32_MAX;

	if (at == UINT32_MAX || work->list.item[at].type != GRAPH_ITEM_COPY)
		return NULL;
	return &work->list.item[at];
}

void graph_work_change(uint64_t exec, uint64_t node, const struct graph_item *copy)
{
	struct graph_work *work;
	struct graph_item *item;

	lock_take(&kept.lock);
	work = graph_table_find(exec);
	item = find_copy(work, node);
	if (item) {
		item->bytes = copy->bytes;
		item->kind = copy->kind;
		item->source = copy->source;
		item->target = copy->target;
		set_sums(work);
	}
	lock_give(&kept.lock);
}

void graph_work_enable(uint64_t exec, uint64_t node, bool is_enabled)
{
	struct graph_work *work;
	struct graph_item *item;

	lock_take(&kept.lock);
	work = graph_table_find(exec);
	item = find_copy(work, node);
	if (item) {
		item->is_enabled = is_enabled;
		set_sums(work);
	}
	lock_give(&kept.lock);
}

/* Under the lock.  Where the two do not match, what was read last is what is known. */
static void assign_all(struct graph_work *work, struct graph_list *list)
{
	struct graph_list old = work->list;

	if (!old.is_incomplete && graph_list_assign(&work->list, 0, old.count, list))
		return;
	work->list = *list;
	*list = old;
}

/* Under the lock.  A child of another shape leaves it unknown what is copied there. */
static void assign_child(struct graph_work *work, uint64_t node, const struct graph_list *list)
{
	uint32_t at = graph_list_find(&work->list, node);

	if (at == UINT32_MAX ||
	    !graph_list_assign(&work->list, at + 1, work->list.item[at].inside, list))
		work->list.is_incomplete = true;
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
	if (work)
		set_sums(work);
	lock_give(&kept.lock);
	graph_list_free(list);
}

/* ------------------------------------------------------------------ launches */

/* What no number is known of has not moved, as far as any sum is concerned. */
static void write_way(struct call *call, const struct way *way, uint64_t stream, uint8_t captured)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_TRANSFER,
				 .a = way->copies,
				 .c = way->bytes,
				 .stream = stream,
				 .context = current_number(),
				 .aux = way->aux,
				 .flags = RECORD_SUM | (way->copies ? captured : RECORD_CAPTURED),
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
