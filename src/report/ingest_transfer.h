/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_transfer.h - a copy becomes a row: which blocks it touched, and so what
 * kind of memory and which devices.
 */
#ifndef CUSTODY_REPORT_INGEST_TRANSFER_H
#define CUSTODY_REPORT_INGEST_TRANSFER_H

#include "report/ingest.h"

void ingest_transfer(struct ingest_process *process, struct ingest_thread *thread,
		     const struct record *record, const struct store_row_call *call);

#endif
