/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/graph_work.h"
#include "core/lock.h"
#include "core/slab.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/graph_walk.h"
#include "intercept/hook.h"

#include <string.h>

enum {
	FIRST_SLOTS = 1024,
	WAYS = TRANSFER_KINDS * PLACE_KINDS * PLACE_KINDS,
};

/* A slot that was given up: others may stand behind it. */
#define SLOT_GIVEN UINT64_C(1)

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

struct slot {
	_Atomic uint64_t exec; /* 0: never used */
	_Atomic(struct graph_work *) work;
};

/*
 * Open addressing, written under the lock and read without.  A table that was
 * outgrown is not given back: somebody may be reading it.
 */
struct table {
	uint32_t capacity; /* a power of two */
	uint32_t used;	   /* slots that are not 0 */
	struct slot *slot;
};

static struct slot first_slots[FIRST_SLOTS];
static struct table first_table = { .capacity = FIRST_SLOTS, .slot = first_slots };

static struct {
	struct lock lock;
	_Atomic(struct table *) table;
	struct slab_spares works, sums, memories, tables;
	struct way scratch[2 * WAYS];
	uint16_t at[2 * WAYS]; /* index in scratch + 1 */
} kept = { .table = &first_table };

/* ------------------------------------------------------------------ the table */

static struct slot *slot_at(const struct table *table, uint64_t exec, uint32_t i)
{
	uint64_t home = exec * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &table->slot[(home + i) & (table->capacity - 1)];
}

/* The slot of `exec`, or the empty one that ends the search. */
static struct slot *find_slot(const struct table *table, uint64_t exec)
{
	for (uint32_t i = 0; i < table->capacity; i++) {
		struct slot *slot = slot_at(table, exec, i);
		uint64_t there = atomic_load_explicit(&slot->exec, memory_order_acquire);

		if (there == exec || !there)
			return slot;
	}
	return NULL;
}

static struct graph_work *find(uint64_t exec)
{
	const struct table *table = atomic_load_explicit(&kept.table, memory_order_acquire);
	struct slot *slot = find_slot(table, exec);

	if (!slot || atomic_load_explicit(&slot->exec, memory_order_relaxed) != exec)
		return NULL;
	return atomic_load_explicit(&slot->work, memory_order_acquire);
}

/* Under the lock.  The first slot that can be had, `exec` not being there. */
static struct slot *free_slot(struct table *table, uint64_t exec)
{
	for (uint32_t i = 0; i < table->capacity; i++) {
		struct slot *slot = slot_at(table, exec, i);
		uint64_t there = atomic_load_explicit(&slot->exec, memory_order_relaxed);

		if (!there)
			table->used++;
		if (!there || there == SLOT_GIVEN)
			return slot;
	}
	return NULL;
}

static void fill_slot(struct slot *slot, uint64_t exec, struct graph_work *work)
{
	atomic_store_explicit(&slot->work, work, memory_order_release);
	atomic_store_explicit(&slot->exec, exec, memory_order_release);
}

/* Under the lock. */
static bool grow_table(const struct table *old)
{
	uint32_t capacity = 2 * old->capacity;
	size_t bytes = capacity * sizeof(struct slot);
	struct table *table = slab_take(&kept.tables, slab_class(sizeof(*table)));

	if (!table)
		return false;
	*table = (struct table){ .capacity = capacity };
	table->slot = slab_take(&kept.tables, slab_class(bytes));
	if (!table->slot)
		return false;
	memset(table->slot, 0, bytes);
	for (uint32_t i = 0; i < old->capacity; i++) {
		uint64_t exec = atomic_load_explicit(&old->slot[i].exec, memory_order_relaxed);

		if (exec > SLOT_GIVEN)
			fill_slot(free_slot(table, exec), exec,
				  atomic_load_explicit(&old->slot[i].work, memory_order_relaxed));
	}
	atomic_store_explicit(&kept.table, table, memory_order_release);
	return true;
}

/* Under the lock.  False: there is no memory to keep it in. */
static bool enter(uint64_t exec, struct graph_work *work)
{
	struct table *table = atomic_load_explicit(&kept.table, memory_order_relaxed);
	struct slot *slot;

	if (2 * table->used >= table->capacity && grow_table(table))
		table = atomic_load_explicit(&kept.table, memory_order_relaxed);
	slot = free_slot(table, exec);
	if (slot)
		fill_slot(slot, exec, work);
	return slot != NULL;
}

/* Under the lock.  Slots that were given up and that nothing stands behind are as good as new. */
static void clear_given(struct table *table, uint32_t at)
{
	const uint32_t mask = table->capacity - 1;

	if (atomic_load_explicit(&table->slot[(at + 1) & mask].exec, memory_order_relaxed))
		return;
	while (atomic_load_explicit(&table->slot[at].exec, memory_order_relaxed) == SLOT_GIVEN) {
		atomic_store_explicit(&table->slot[at].exec, 0, memory_order_release);
		table->used--;
		at = (at - 1) & mask;
	}
}

/* Under the lock. */
static struct graph_work *take(uint64_t exec)
{
	struct table *table = atomic_load_explicit(&kept.table, memory_order_relaxed);
	struct slot *slot = find_slot(table, exec);
	struct graph_work *work;

	if (!slot || atomic_load_explicit(&slot->exec, memory_order_relaxed) != exec)
		return NULL;
	work = atomic_load_explicit(&slot->work, memory_order_relaxed);
	atomic_store_explicit(&slot->exec, SLOT_GIVEN, memory_order_release);
	clear_given(table, (uint32_t)(slot - table->slot));
	return work;
}

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
	stale = take(exec);
	if (stale)
		drop(stale);
	if (list->count || list->is_incomplete)
		work = make(list);
	if (work && !enter(exec, work))
		drop(work);
	lock_give(&kept.lock);
	graph_list_free(list);
}

struct graph_work *graph_work_take(uint64_t exec)
{
	struct graph_work *work;

	lock_take(&kept.lock);
	work = take(exec);
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
	if (!enter(exec, work))
		drop(work);
	lock_give(&kept.lock);
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
	work = find(exec);
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
	work = find(exec);
	item = find_copy(work, node);
	if (item) {
		item->is_enabled = is_enabled;
		set_sums(work);
	}
	lock_give(&kept.lock);
}

/* Under the lock.  What was not known of the graph is known of one that stands in for all of it. */
static bool assign_all(struct graph_work *work, struct graph_list *list)
{
	struct graph_list old = work->list;

	if (!old.is_incomplete)
		return graph_list_assign(&work->list, 0, old.count, list);
	work->list = *list;
	*list = old;
	return true;
}

/* Under the lock.  Only graphs of one shape can stand in for each other. */
static bool assign(struct graph_work *work, uint64_t node, struct graph_list *list)
{
	uint32_t at;

	if (!node)
		return assign_all(work, list);
	at = graph_list_find(&work->list, node);
	return at != UINT32_MAX &&
	       graph_list_assign(&work->list, at + 1, work->list.item[at].inside, list);
}

void graph_work_assign(uint64_t exec, uint64_t node, struct graph_list *list)
{
	struct graph_work *work;

	lock_take(&kept.lock);
	work = find(exec);
	if (work) {
		if (!assign(work, node, list))
			work->list.is_incomplete = true;
		set_sums(work);
	}
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
	struct graph_work *work = find(exec);
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
	memset(first_slots, 0, sizeof(first_slots));
	first_table.used = 0;
	memset(&kept, 0, sizeof(kept));
	atomic_store(&kept.table, &first_table);
	graph_list_reset();
	graph_walk_reset();
}
