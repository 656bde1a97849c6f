/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_ledger.h - what the memory of a device goes to, at the moments when the
 * driver was asked: our sums of blocks, what its pools and graphs reserve, what it
 * keeps for itself, and the rest.
 *
 * Three differences tell what nobody asked for.  What a call made the driver keep is
 * the growth of what is not explained between the readings BEFORE and AFTER it.  What
 * a context takes is the same between the newest moment before the call that made it
 * - a sample of NVML, or a reading - and the first reading in it; where NVML was late,
 * the first sample inside that call must do.  And what is not explained just before the
 * first context is other processes'.
 *
 * All is called in the order of time: points come out of the heap of ingest_peak.h.
 */
#ifndef CUSTODY_REPORT_INGEST_LEDGER_H
#define CUSTODY_REPORT_INGEST_LEDGER_H

#include "core/record.h"
#include "report/ingest_peak.h"
#include "report/ingest_table.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	INGEST_LEDGER_UUID = 48,
	INGEST_LEDGER_MOMENTS = 256,
	INGEST_LEDGER_MANAGED_STEP = 128 << 20, /* so much at a time does a device give */
};

#define INGEST_LEDGER_UNKNOWN INT64_C(-1)

/* Bytes of a process on a device, by kind. */
struct ingest_ledger_sums {
	int64_t live[BLOCK_KINDS], pending[BLOCK_KINDS], held[BLOCK_KINDS];
};

/* What is told of at its turn; ingest_reading.c has the rest of it. */
struct ingest_ledger_entry {
	uint32_t process_id, device_id, context_id, thread_id;
	int64_t at_ns;
	int64_t context_ns; /* when the call began that made the context; 0: unknown */
	enum reading_moment moment;
	enum reading_weighed weighed;
	int64_t free, total;
	int64_t pools, graphs; /* reserved; UNKNOWN: not asked */
	int64_t cached;	       /* told instead of `pools`: what is in no block; or UNKNOWN */

	/* From here on known after its turn. */
	int64_t in_flight; /* of blocks that were being made */
	struct ingest_ledger_sums sums;
	int64_t held;		/* by blocks whose pages are known: not managed, pool, graph */
	int64_t pool, graph;	/* reserved, or where that was not asked what is known of it */
	int64_t own[WEIGHED_KINDS]; /* of the driver, for the process */
	int64_t recorded;	/* of other processes of this trace */
	int64_t foreign;	/* of others, see has_foreign */
	int64_t growth;		/* of an AFTER: what its call made the driver keep */
	enum reading_weighed grown; /* of which kind that is */
	int64_t unexplained;	/* of what is in use, before anything foreign */
	bool has_foreign;
	bool has_contexts; /* what contexts take is told from what is foreign */
	bool has_growth;
	bool is_open; /* a BEFORE that waits for its AFTER */
	struct ingest_ledger_entry *settled; /* a BEFORE that is not waited for any more; NULL */
};

/* What is not explained, at one moment. */
struct ingest_ledger_moment {
	int64_t at_ns, free, explained;
};

/* A device as a thing, whatever processes call it. */
struct ingest_ledger_gpu {
	char uuid[INGEST_LEDGER_UUID]; /* "": unknown */
	struct ingest_ledger_moment moment[INGEST_LEDGER_MOMENTS]; /* a ring */
	uint64_t moments;
	int64_t foreign;
	bool has_foreign;
	bool has_contexts;
};

/* One process on one device. */
struct ingest_ledger_use {
	uint32_t process_id, device_id;
	uint32_t gpu;
	int64_t pools, cached, graphs; /* as last heard of; one of the first two at most */
	int64_t own[WEIGHED_KINDS];
	int64_t left; /* what nothing explained when last there was no managed memory */
	uint32_t series[BLOCK_KINDS]; /* of the peaks, number + 1; 0: none yet */
	bool is_over;
};

/* What the driver keeps of one kind for one context: a row of `overhead`. */
struct ingest_ledger_own {
	uint64_t id;
	uint32_t process_id, device_id, context_id;
	enum reading_weighed kind;
	int64_t bytes;
	uint64_t count; /* calls that changed it */
	int64_t created_ns, ended_ns;
	bool is_unknown; /* a context's, which nothing told from what is foreign */
	bool is_changed;
};

struct ingest_ledger {
	const struct ingest_peak *peak;
	struct ingest_ledger_gpu **gpu;
	uint32_t gpus;
	struct ingest_ledger_use *use;
	uint32_t uses;
	struct ingest_table use_of; /* by device.id: index + 1 */
	uint32_t series;	    /* of the peaks, how many are known to the uses */
	struct ingest_ledger_own *own;
	uint32_t owns, own_capacity;
	struct ingest_table own_of; /* by (context, kind): index + 1 */
	struct ingest_table before; /* by thread.id: struct ingest_ledger_entry, told before */
	uint64_t next_own;
};

/* The device `device_id` of a process is this one; "" where it has no name. */
void ingest_ledger_device(struct ingest_ledger *ledger, uint32_t process_id, uint32_t device_id,
			  const char *uuid);

/* A reading has its turn. */
void ingest_ledger_read(struct ingest_ledger *ledger, struct ingest_ledger_entry *entry);

/* `growth` of so many calls that were read before, whose readings are gone. */
void ingest_ledger_grow(struct ingest_ledger *ledger, const struct ingest_ledger_entry *entry,
			uint64_t calls);

/* So much was free on a device at that moment, as NVML says; `before` a context, or of none. */
void ingest_ledger_sample(struct ingest_ledger *ledger, const char *uuid, int64_t at_ns,
			  int64_t free_bytes);

/* What the driver kept for it is given back. */
void ingest_ledger_end_context(struct ingest_ledger *ledger, uint32_t context_id, int64_t at_ns);
void ingest_ledger_end_process(struct ingest_ledger *ledger, uint32_t process_id, int64_t at_ns);

/* Whether anything of ours was weighed on that device. */
bool ingest_ledger_has_context(const struct ingest_ledger *ledger, const char *uuid);

void ingest_ledger_free(struct ingest_ledger *ledger);

#endif
