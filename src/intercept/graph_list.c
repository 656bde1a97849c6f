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

void graph_list_free(struct graph_list *list)
{
	if (list->item)
		graph_list_give_memory(list->item, list->class);
	*list = (struct graph_list){ 0 };
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
	for (uint32_t i = 0; i < count; i++) {
		struct graph_item *item = &list->item[first + i];

		item->bytes = from->item[i].bytes;
		item->kind = from->item[i].kind;
		item->source = from->item[i].source;
		item->target = from->item[i].target;
	}
	return true;
}

uint32_t graph_list_find(const struct graph_list *list, uint64_t node)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->item[i].node == node)
			return i;
	return UINT32_MAX;
}

void graph_list_reset(void)
{
	memset(&memory.spares, 0, sizeof(memory.spares));
	lock_give(&memory.lock);
}
