/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.h - who holds memory or spends time on copies: a place in the code,
 * named by file and offset, so that the same place is one holder in every
 * process, wherever the file was mapped.
 */
#ifndef CUSTODY_REPORT_HOLDER_H
#define CUSTODY_REPORT_HOLDER_H

#include "report/rows.h"

#include <stddef.h>
#include <stdint.h>

struct query;

enum { HOLDER_SUMS = 5, HOLDER_KINDS_BYTES = 64 };

struct holder {
	const char *path; /* NULL: unknown; owned by the symbol map */
	int64_t offset;	  /* into the file, or an address without one; 0: nothing known */
	int64_t sum[HOLDER_SUMS];
	char kinds[HOLDER_KINDS_BYTES]; /* "device, pinned", in the order they were added */
};

struct holder_list {
	struct holder *holder;
	size_t count;
	size_t room;
};

/* `sql` gives process, caller, kind and up to HOLDER_SUMS sums; sorted by the first sum. */
void holder_load(struct holder_list *list, struct query *query, const char *sql);

/* Made one for each file; what it had of places is gone afterwards. */
void holder_join_files(struct holder_list *list);
void holder_free(struct holder_list *list);

/*
 * The columns a table of holders begins with: for people one, for programs
 * module, offset (the address itself where there is no module) and symbol.
 * holder_write() fills these and returns the next.
 */
#define HOLDER_COLUMNS(title)                                                                      \
	{ NULL, title, ROWS_TEXT }, { "module", NULL, ROWS_TEXT },                                 \
	{ "offset", NULL, ROWS_COUNT }, { "symbol", NULL, ROWS_TEXT }

struct rows_value *holder_write(const struct holder *holder, struct query *query,
				struct rows_value *value);

#endif
