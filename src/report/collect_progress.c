/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_progress.h"

#include "core/clock.h"

#include <stdio.h>

static const int64_t patience_ns = 1000000000, pause_ns = 100000000;

void collect_progress_update(struct collect_progress *progress, uint64_t done, uint64_t total)
{
	int64_t now = (int64_t)clock_system_ns(CLOCK_MONOTONIC);

	if (!progress->is_wanted)
		return;
	if (!progress->begin_ns)
		progress->begin_ns = now;
	if (now - progress->begin_ns < patience_ns || now - progress->written_ns < pause_ns)
		return;
	progress->written_ns = now;
	progress->is_shown = true;
	if (done < total)
		fprintf(stderr, "\rcustody: reading what was recorded: %u %%\033[K",
			(unsigned int)(100 * (double)done / (double)total));
	else
		fprintf(stderr, "\rcustody: completing the trace\033[K");
}

void collect_progress_end(struct collect_progress *progress)
{
	if (progress->is_shown)
		fputs("\r\033[K", stderr);
	progress->is_shown = false;
}
