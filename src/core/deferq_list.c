/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of a queue, and what becomes of an item that leaves them.
 */
#include "core/deferq_queue.h"
#include "core/pending.h"

#include <stddef.h>

#define PAGE_BYTES	 (UINT64_C(2) << 20)
#define SHARED_PAGE_MOST (UINT64_C(1) << 20) /* blocks up to this share pages */

_Atomic uint64_t deferq_list_released;
_Atomic uint64_t deferq_list_last;

void deferq_list_append(struct item_list *list, struct deferq_item *item)
{
	item->next = NULL;
	if (list->last)
		list->last->next = item;
	else
		list->first = item;
	list->last = item;
	list->count++;
	list->bytes += item->bytes;
}

void deferq_list_remove(struct item_list *list, struct deferq_item *before,
			struct deferq_item *item)
{
	if (before)
		before->next = item->next;
	else
		list->first = item->next;
	if (list->last == item)
		list->last = before;
	list->count--;
	list->bytes -= item->bytes;
}

uint64_t deferq_list_pages(const struct deferq_item *item)
{
	bool is_on_device = item->kind == DEFERQ_MEMORY || item->kind == DEFERQ_STUBBORN ||
			    item->kind == DEFERQ_ARRAY || item->kind == DEFERQ_MIPMAPPED_ARRAY;

	if (!is_on_device || item->bytes <= SHARED_PAGE_MOST)
		return 0;
	return (item->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void report_item(struct deferq_report *report, struct deferq_item *item)
{
	item->next = NULL;
	if (!report->items)
		report->items_end = &report->items;
	*report->items_end = item;
	report->items_end = &item->next;
}

/* What a chain of items adds up to. */
struct tally {
	uint64_t count;
	uint64_t pages; /* bytes of them */
	uint64_t released;
	uint64_t released_bytes;
};

static void add_up(struct tally *tally, const struct deferq_item *item)
{
	tally->count++;
	tally->pages += deferq_list_pages(item);
	if (item->cause == RELEASE_FAILED)
		return;
	tally->released++;
	tally->released_bytes += item->bytes;
}

/* Whoever sees that nothing is pending any more shall see that something was released. */
static void settle(struct deferq *queue, const struct tally *tally)
{
	if (tally->released)
		atomic_fetch_add(&deferq_list_released, tally->released);
	lock_take(&queue->lock);
	queue->page_bytes -= tally->pages;
	queue->statistics.failed += tally->count - tally->released;
	queue->statistics.released += tally->released;
	queue->statistics.released_bytes += tally->released_bytes;
	deferq_list_count(queue, -(int64_t)tally->count);
	lock_give(&queue->lock);
}

void deferq_list_close_all(struct deferq *queue, struct deferq_item *first,
			   struct deferq_report *report)
{
	struct tally tally = { 0 };
	struct deferq_item *next;

	for (struct deferq_item *item = first; item; item = next) {
		next = item->next;
		if (item->id)
			pending_close((enum block_space)item->space, item->handle, item->bytes,
				      item->id);
		add_up(&tally, item);
		report_item(report, item);
	}
	settle(queue, &tally);
}

void deferq_list_close(struct deferq *queue, struct deferq_item *item, struct deferq_report *report)
{
	item->next = NULL;
	deferq_list_close_all(queue, item, report);
}

static void count_pass(struct deferq_statistics *statistics, const struct deferq_flush *flush)
{
	statistics->passes[flush->cause]++;
	statistics->waited += flush->waited;
	if (flush->duration > statistics->longest)
		statistics->longest = flush->duration;
}

void deferq_list_flush(struct deferq *queue, const struct deferq_flush *flush,
		       struct deferq_report *report)
{
	struct deferq_flush *copy;

	lock_take(&queue->lock);
	count_pass(&queue->statistics, flush);
	copy = slab_take(&queue->slabs, slab_class(sizeof(*copy)));
	lock_give(&queue->lock);
	if (!copy)
		return;
	*copy = *flush;
	copy->next = NULL;
	if (!report->flushes)
		report->flushes_end = &report->flushes;
	*report->flushes_end = copy;
	report->flushes_end = &copy->next;
}

struct deferq_item *deferq_list_give_items(struct deferq_item *first)
{
	uint32_t context = first->context;
	struct deferq *queue = deferq_find(context);
	struct deferq_item *item = first, *next;

	if (queue)
		lock_take(&queue->lock);
	for (; item && item->context == context; item = next) {
		next = item->next;
		if (queue)
			slab_give(&queue->slabs, item, slab_class(sizeof(*item)));
	}
	if (queue)
		lock_give(&queue->lock);
	return item;
}

void deferq_list_give_flush(struct deferq_flush *flush)
{
	struct deferq *queue = deferq_find(flush->context);

	if (!queue)
		return;
	lock_take(&queue->lock);
	slab_give(&queue->slabs, flush, slab_class(sizeof(*flush)));
	lock_give(&queue->lock);
}
