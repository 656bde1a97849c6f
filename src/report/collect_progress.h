/* SPDX-License-Identifier: Apache-2.0 */
/* collect_progress.h - a line on a terminal while reading takes longer than a second. */
#ifndef CUSTODY_REPORT_COLLECT_PROGRESS_H
#define CUSTODY_REPORT_COLLECT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct collect_progress {
	bool is_wanted;
	bool is_shown;
	int64_t begin_ns;   /* when there was nothing left but reading; 0: not yet */
	int64_t written_ns; /* when the line was written last */
};

/* `done` of `total` records are read; call as often as you like, from the beginning on. */
void collect_progress_update(struct collect_progress *progress, uint64_t done, uint64_t total);

/* Take the line away again. */
void collect_progress_end(struct collect_progress *progress);

#endif
