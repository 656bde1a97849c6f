/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/graph_list.h"
#include "core/lock.h"
#include "core/slab.h"

#include <string.h>

static struct {
	struct lock lock;
	struct slab_spares spares;
} memory;

enum { FIRST_ITEMS = 16 };

enum { IS_ALLOCATED = 1, IS_FREED = 2 };

struct graph_slot {
	uint64_t key;
	uint32_t value; /* 0: the slot is empty */
};

void *graph_list_take_memory(size_t bytes, unsigned int *class)
{
	void *taken;

	*class = slab_class(bytes);
	lock_take(&memory.lock);
	taken = slab_take(&memory.spares, *class);
	lock_give(&memory.lock);
	return taken;
}

void graph_list_give_memory(void *given, unsigned int class)
{
	lock_take(&memory.lock);
	slab_give(&memory.spares, given, class);
	lock_give(&memory.lock);
}

static bool grow(struct graph_list *list)
{
	size_t wanted = list->capacity ? 2 * (size_t)list->capacity : FIRST_ITEMS;
	unsigned int class;
	struct graph_item *item = graph_list_take_memory(wanted * sizeof(*item), &class);

	if (!item)
		return false;
	if (list->count)
		memcpy(item, list->item, list->count * sizeof(*item));
	if (list->item)
		graph_list_give_memory(list->item, list->class);
	list->item = item;
	list->class = class;
	list->capacity = (uint32_t)(slab_bytes(class) / sizeof(*item));
	return true;
}

uint32_t graph_list_add(struct graph_list *list, enum graph_item_type type, uint64_t node)
{
	if (list->count == list->capacity && !grow(list)) {
		list->is_incomplete = true;
		return UINT32_MAX;
	}
	list->item[list->count] = (struct graph_item){
		.node = node,
		.type = (uint8_t)type,
		.device = -1,
		.is_enabled = true,
	};
	return list->count++;
}

/* Room for `count` keys, half of it never used. */
static bool open_index(struct graph_index *index, uint32_t count)
{
	size_t slots = 2;

	while (slots < 2 * (size_t)count)
		slots *= 2;
	index->slot = graph_list_take_memory(slots * sizeof(*index->slot), &index->class);
	if (!index->slot)
		return false;
	memset(index->slot, 0, slots * sizeof(*index->slot));
	index->mask = (uint32_t)(slots - 1);
	return true;
}

static void close_index(struct graph_index *index)
{
	if (index->slot)
		graph_list_give_memory(index->slot, index->class);
	*index = (struct graph_index){ 0 };
}

/* The value of the key, which is entered with 0 where it is not there. */
static uint32_t *value_of(const struct graph_index *index, uint64_t key)
{
	uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & index->mask;

	while (index->slot[at].value && index->slot[at].key != key)
		at = (at + 1) & index->mask;
	index->slot[at].key = key;
	return &index->slot[at].value;
}

void graph_list_free(struct graph_list *list)
{
	close_index(&list->node);
	if (list->item)
		graph_list_give_memory(list->item, list->class);
	*list = (struct graph_list){ 0 };
}

void graph_list_copy(struct graph_item *item, const struct graph_item *from)
{
	item->bytes = from->bytes;
	item->kind = from->kind;
	item->source = from->source;
	item->target = from->target;
}

static bool has_same_shape(const struct graph_item *one, const struct graph_item *other)
{
	return one->type == other->type && one->inside == other->inside;
}

bool graph_list_assign(struct graph_list *list, uint32_t first, uint32_t count,
		       const struct graph_list *from)
{
	if (from->is_incomplete || from->count != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!has_same_shape(&list->item[first + i], &from->item[i]))
			return false;
	for (uint32_t i = 0; i < count; i++)
		graph_list_copy(&list->item[first + i], &from->item[i]);
	return true;
}

static uint32_t search(const struct graph_list *list, uint64_t node)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->item[i].node == node)
			return i;
	return UINT32_MAX;
}

/* The value of a node is the number of its first item, from 1 on. */
static bool index_nodes(struct graph_list *list)
{
	if (list->node.slot)
		return true;
	if (!open_index(&list->node, list->count))
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		uint32_t *value = value_of(&list->node, list->item[i].node);

		if (!*value)
			*value = i + 1;
	}
	return true;
}

uint32_t graph_list_find(struct graph_list *list, uint64_t node)
{
	return index_nodes(list) ? *value_of(&list->node, node) - 1 : search(list, node);
}

static uint32_t memory_mark(const struct graph_item *item)
{
	if (item->type == GRAPH_ITEM_ALLOC)
		return IS_ALLOCATED;
	return item->type == GRAPH_ITEM_FREE ? IS_FREED : 0;
}

static uint32_t count_memory(const struct graph_list *list)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < list->count; i++)
		count += memory_mark(&list->item[i]) != 0;
	return count;
}

void graph_list_pair(struct graph_list *list)
{
	uint32_t count = count_memory(list);
	struct graph_index marks;

	if (!count || !open_index(&marks, count))
		return;
	for (uint32_t i = 0; i < list->count; i++)
		if (memory_mark(&list->item[i]))
			*value_of(&marks, list->item[i].address) |= memory_mark(&list->item[i]);
	for (uint32_t i = 0; i < list->count; i++) {
		struct graph_item *item = &list->item[i];

		item->is_lasting = memory_mark(item) &&
				   *value_of(&marks, item->address) == memory_mark(item);
	}
	close_index(&marks);
}

void graph_list_reset(void)
{
	memset(&memory.spares, 0, sizeof(memory.spares));
	lock_give(&memory.lock);
}
