/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_total.h - sums that are kept while records pass: calls per function
 * and thread, and transfers per site and class of size.
 */
#ifndef CUSTODY_REPORT_INGEST_TOTAL_H
#define CUSTODY_REPORT_INGEST_TOTAL_H

#include "report/ingest_table.h"
#include "report/store_row.h"

struct ingest_total_sum {
	uint32_t site; /* its number */
	int size_class; /* floor(log2(bytes)), -1 for 0 */
	uint64_t count, bytes, failed;
	int64_t host_ns, max_ns;
};

struct ingest_total {
	struct ingest_table calls; /* (thread, api): struct store_row_calls */
	struct store_row_calls **changed;
	uint32_t changed_count, changed_capacity;

	struct store_row_site *site; /* of number i + 1 */
	uint64_t *site_row;	     /* and its row's id, which is another one after a gap */
	uint64_t last_site_row;
	uint32_t sites, site_capacity;
	uint32_t *site_slot; /* hash of sites: their numbers, 0 empty */
	uint32_t slot_capacity;
	struct ingest_table by_row; /* ids of the rows of sites: the sites' numbers */
	struct ingest_table sums;   /* (site, size class): struct ingest_total_sum */
};

/* The sums of this function in this thread, marked as changed. */
struct store_row_calls *ingest_total_calls(struct ingest_total *total, uint32_t process_id,
					   uint32_t thread_id, uint16_t api);

/* Write the changed ones. */
void ingest_total_save(struct ingest_total *total, struct store_row *rows);

/* The number of the site; `*is_new` tells that it has no row yet. */
uint32_t ingest_total_site(struct ingest_total *total, const struct store_row_site *site,
			   bool *is_new);

/* The id of the site's row; of several that are alike, of the first. */
uint64_t ingest_total_site_row(const struct ingest_total *total, uint32_t site);

/* The row of a site, read back; and its number again, 0: there was no such row. */
void ingest_total_load_site(struct ingest_total *total, uint64_t row,
			    const struct store_row_site *site);
uint32_t ingest_total_find_site(const struct ingest_total *total, uint64_t row);

/* A transfer of the site; of a sum the size class is that of its copies on average. */
void ingest_total_transfer(struct ingest_total *total, uint32_t number, uint64_t bytes,
			   int64_t duration_ns);

int ingest_total_size_class(uint64_t bytes);

void ingest_total_free(struct ingest_total *total);

#endif
