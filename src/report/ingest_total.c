/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_total.h"

#include <stdlib.h>
#include <string.h>

static struct store_row_calls *new_calls(struct ingest_total *total, uint64_t key,
					 uint32_t process_id, uint32_t thread_id, uint16_t api)
{
	struct store_row_calls *calls = ingest_table_memory(NULL, 1, sizeof(*calls));

	*calls = (struct store_row_calls){
		.process_id = process_id,
		.thread_id = thread_id,
		.api = api,
	};
	ingest_table_put(&total->calls, key, calls);
	return calls;
}

struct store_row_calls *ingest_total_calls(struct ingest_total *total, uint32_t process_id,
					   uint32_t thread_id, uint16_t api)
{
	uint64_t key = (uint64_t)thread_id << 16 | api;
	struct store_row_calls *calls = ingest_table_find(&total->calls, key);

	if (!calls)
		calls = new_calls(total, key, process_id, thread_id, api);
	if (calls->is_changed)
		return calls;
	if (total->changed_count == total->changed_capacity) {
		total->changed_capacity = total->changed_capacity * 2 + 16;
		total->changed = ingest_table_memory(total->changed, total->changed_capacity,
						     sizeof(*total->changed));
	}
	calls->is_changed = true;
	total->changed[total->changed_count++] = calls;
	return calls;
}

void ingest_total_save(struct ingest_total *total, struct store_row *rows)
{
	for (uint32_t i = 0; i < total->changed_count; i++) {
		store_row_calls(rows, total->changed[i]);
		total->changed[i]->is_changed = false;
	}
	total->changed_count = 0;
}

static uint32_t hash_site(const struct store_row_site *site)
{
	const unsigned char *bytes = (const unsigned char *)site;
	uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t word;

	_Static_assert(sizeof(*site) % sizeof(word) == 0, "no padding behind a site");
	for (size_t i = 0; i < sizeof(*site); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	return (uint32_t)hash;
}

static uint32_t *probe_site(const struct ingest_total *total, const struct store_row_site *site)
{
	uint32_t at = hash_site(site) & (total->slot_capacity - 1);

	while (total->site_slot[at] &&
	       memcmp(&total->site[total->site_slot[at] - 1], site, sizeof(*site)))
		at = (at + 1) & (total->slot_capacity - 1);
	return &total->site_slot[at];
}

static void grow_sites(struct ingest_total *total)
{
	total->slot_capacity = total->slot_capacity ? total->slot_capacity * 2 : 64;
	free(total->site_slot);
	total->site_slot =
		ingest_table_memory(NULL, total->slot_capacity, sizeof(*total->site_slot));
	memset(total->site_slot, 0, total->slot_capacity * sizeof(*total->site_slot));
	total->site_capacity = total->slot_capacity / 2;
	total->site = ingest_table_memory(total->site, total->site_capacity, sizeof(*total->site));
	total->site_row = ingest_table_memory(total->site_row, total->site_capacity,
					      sizeof(*total->site_row));
	for (uint32_t i = 0; i < total->sites; i++)
		*probe_site(total, &total->site[i]) = i + 1;
}

static void note_row(struct ingest_total *total, uint64_t row, uint32_t number)
{
	if (row > total->last_site_row)
		total->last_site_row = row;
	ingest_table_put(&total->by_row, row, (void *)(uintptr_t)number);
}

static void add_site(struct ingest_total *total, uint32_t *slot, const struct store_row_site *site,
		     uint64_t row)
{
	total->site_row[total->sites] = row;
	total->site[total->sites++] = *site;
	*slot = total->sites;
	note_row(total, row, *slot);
}

static uint32_t *find_slot(struct ingest_total *total, const struct store_row_site *site)
{
	if (total->sites == total->site_capacity)
		grow_sites(total);
	return probe_site(total, site);
}

uint32_t ingest_total_site(struct ingest_total *total, const struct store_row_site *site,
			   bool *is_new)
{
	uint32_t *slot = find_slot(total, site);

	*is_new = !*slot;
	if (*is_new)
		add_site(total, slot, site, total->last_site_row + 1);
	return *slot;
}

uint64_t ingest_total_site_row(const struct ingest_total *total, uint32_t site)
{
	return total->site_row[site - 1];
}

void ingest_total_load_site(struct ingest_total *total, uint64_t row,
			    const struct store_row_site *site)
{
	uint32_t *slot = find_slot(total, site);

	if (*slot)
		note_row(total, row, *slot);
	else
		add_site(total, slot, site, row);
}

uint32_t ingest_total_find_site(const struct ingest_total *total, uint64_t row)
{
	return (uint32_t)(uintptr_t)ingest_table_find(&total->by_row, row);
}

int ingest_total_size_class(uint64_t bytes)
{
	return bytes ? 63 - __builtin_clzll(bytes) : -1;
}

void ingest_total_transfer(struct ingest_total *total, uint32_t number, uint64_t bytes,
			   int64_t duration_ns)
{
	const struct store_row_site *site = &total->site[number - 1];
	struct ingest_total_sum *sum;
	int size_class;
	uint64_t key;

	size_class = ingest_total_size_class(site->copies > 1 ? bytes / site->copies : bytes);
	key = (uint64_t)number << 8 | (unsigned int)(size_class + 1);
	sum = ingest_table_find(&total->sums, key);
	if (!sum) {
		sum = ingest_table_memory(NULL, 1, sizeof(*sum));
		*sum = (struct ingest_total_sum){ .site = number, .size_class = size_class };
		ingest_table_put(&total->sums, key, sum);
	}
	sum->count += site->copies;
	sum->failed += site->result != 0;
	sum->bytes += site->result || site->is_captured ? 0 : bytes;
	sum->host_ns += duration_ns;
	if (duration_ns > sum->max_ns)
		sum->max_ns = duration_ns;
}

void ingest_total_free(struct ingest_total *total)
{
	ingest_table_free(&total->calls, free);
	ingest_table_free(&total->by_row, NULL);
	ingest_table_free(&total->sums, free);
	free(total->changed);
	free(total->site);
	free(total->site_row);
	free(total->site_slot);
	*total = (struct ingest_total){ 0 };
}
