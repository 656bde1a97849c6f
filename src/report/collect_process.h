/* SPDX-License-Identifier: Apache-2.0 */
/* collect_process.h - whether a traced process still runs. */
#ifndef CUSTODY_REPORT_COLLECT_PROCESS_H
#define CUSTODY_REPORT_COLLECT_PROCESS_H

#include "report/ingest.h"

/*
 * Find the process among ours; once, when it is first seen.  Its own number for
 * itself may mean nothing here, or another process.
 */
void collect_process_find(struct ingest_process *process);

/*
 * False once this image of the process can write no more: the process is gone,
 * its number belongs to another one, or another program runs in it.
 */
bool collect_process_is_alive(const struct ingest_process *process);

/* Whether a thread of a living process is gone.  In doubt it is not. */
bool collect_process_has_lost(const struct ingest_process *process, uint32_t tid);

#endif
