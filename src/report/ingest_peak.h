/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_peak.h - bytes in use over time, in bounded memory: the exact peaks and
 * a curve of at most INGEST_PEAK_SLICES slices.
 *
 * Changes come nearly in the order of time.  They wait in a heap until nothing
 * earlier can come any more, so they are applied in order; one that comes later
 * still is counted, and then the curve and peaks must be made again from rows.
 * Changes of one moment count together: a block freed at T is not live at T.
 *
 * Beside what the program asked for stands what that takes of the device, by the
 * driver's page rules: blocks share pages of 2 MiB, the first and the last of each
 * block, and a page counts as long as one of them lies in it.
 *
 * Points are moments whose sums somebody else wants to see (ingest_reading.c): they
 * wait in the same heap, and have their turn behind all changes of their moment.
 */
#ifndef CUSTODY_REPORT_INGEST_PEAK_H
#define CUSTODY_REPORT_INGEST_PEAK_H

#include "core/record.h"
#include "report/ingest_table.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	INGEST_PEAK_SLICES = 1000,
	INGEST_PEAK_WAITING = 262144, /* changes that may wait */
};

/* Use of one process on one device, of one process, or of all. */
struct ingest_peak_group {
	uint32_t process_id; /* 0: all */
	uint32_t device_id;  /* 0: all; of all processes: as ingest_peak_share() knows it */
	int64_t live, pending; /* pending is not among what is live */
	int64_t moment_ns;     /* of the last change */
	int64_t peak, peak_ns;
	int64_t pending_peak;
	int64_t held_peak; /* of both together */
};

struct ingest_peak_slice {
	int64_t live;
	int64_t pending;
};

/* One kind of memory of one process on one device. */
struct ingest_peak_series {
	uint32_t process_id;
	uint32_t device_id; /* 0: host memory, or unknown */
	enum block_kind kind;
	int64_t live, pending;
	int64_t held;  /* of the device, by page rules */
	int64_t small; /* of the live and pending, what shares pages without an address */
	int64_t moment_ns; /* of the last change */
	bool is_device;
	uint32_t group[4]; /* that device memory belongs to */
	uint32_t groups;
	uint32_t first, slices, capacity;
	struct ingest_peak_slice *slice; /* highest use inside each */
};

/* In the order of their turns at one moment. */
enum ingest_peak_what {
	INGEST_PEAK_CHANGE, /* `rest` is bytes held */
	INGEST_PEAK_PAGES,  /* a change, and `rest` the pages of a block */
	INGEST_PEAK_SMALL,  /* a change, and `rest` bytes that share pages, wherever they lie */
	INGEST_PEAK_POINT,  /* `point` is somebody else's */
	INGEST_PEAK_END,    /* the process has ended: all of it is gone */
	INGEST_PEAK_AFTER,  /* a point behind all that */
};

struct ingest_peak_change {
	int64_t at_ns;
	int64_t live;
	int64_t pending;
	union {
		int64_t rest;
		void *point;
	};
	uint32_t series;
	uint32_t what : 8;     /* enum ingest_peak_what */
	uint32_t took : 24;    /* of a block that comes: its call, in units, never too long */
};

/* What a block takes from its device. */
struct ingest_peak_footprint {
	enum ingest_peak_what what; /* CHANGE, PAGES or SMALL */
	int64_t rest;		    /* as in a change, of one block that comes */
};

struct ingest_peak {
	struct ingest_peak_change *waiting; /* heap */
	uint32_t count, capacity;
	int64_t applied_ns;
	uint64_t disordered;
	int64_t longest_ns; /* call that made a block */

	struct ingest_table pages; /* (process, page): blocks in it, and the series it counts in */
	void (*show)(void *viewer, void *point, int64_t at_ns); /* a point has its turn */
	void *viewer;

	struct ingest_peak_series *series;
	uint32_t series_count;
	struct ingest_table series_of; /* (process, device, kind) -> number + 1 */
	struct ingest_peak_group *group;
	uint32_t group_count;
	struct ingest_table shared; /* device.id -> that of the first process which has it */

	int64_t origin_ns, slice_ns;
	bool has_origin;
};

/* The series of this memory, made where it is new.  Its number stays good. */
uint32_t ingest_peak_series(struct ingest_peak *peak, uint32_t process_id, uint32_t device_id,
			    enum block_kind kind);

void ingest_peak_change(struct ingest_peak *peak, uint32_t series, int64_t at_ns, int64_t live,
			int64_t pending);

/* One block, and what becomes of it: each of these is 1, 0 or -1. */
struct ingest_peak_step {
	int live, pending, held;
	int64_t took_ns; /* of a block that comes: its call, which ended at this moment */
};

/* The same of one block. */
void ingest_peak_block(struct ingest_peak *peak, uint32_t series, int64_t at_ns, int64_t bytes,
		       struct ingest_peak_step step, const struct ingest_peak_footprint *footprint);

/*
 * Bytes of blocks whose calls had begun at `at_ns`, which is past, and had not ended:
 * the device may have given them already.  Known of what waits in the heap, so to be
 * asked when a point has its turn.
 */
int64_t ingest_peak_in_flight(const struct ingest_peak *peak, uint32_t process_id,
			      uint32_t device_id, int64_t at_ns);

/* A change of the bytes that are held; and how many those of a block that comes may be. */
void ingest_peak_page_hold(struct ingest_peak *peak, const struct ingest_peak_change *change);
int64_t ingest_peak_page_bytes(const struct ingest_peak_change *change);

/* What a block of this kind takes; the address is not that of an array. */
struct ingest_peak_footprint ingest_peak_page_footprint(enum block_kind kind, uint64_t address,
							uint64_t bytes);

/*
 * peak->show() is called with `point` when all before `at_ns`, and of that moment, is
 * in; of one that is an end, when all other points of that moment have been shown.
 */
void ingest_peak_point(struct ingest_peak *peak, void *point, int64_t at_ns, bool is_end);

/* Both are one physical device, and `first_id` was there first: their use is one peak. */
void ingest_peak_share(struct ingest_peak *peak, uint32_t device_id, uint32_t first_id);

/* Whether several processes have this device, which is then the first's. */
bool ingest_peak_is_shared(const struct ingest_peak *peak, uint32_t device_id);

/* The process has ended: what it still held is the driver's again. */
void ingest_peak_end(struct ingest_peak *peak, uint32_t process_id, int64_t at_ns);

/* Apply all changes before `horizon_ns`, and more if too many wait. */
void ingest_peak_apply(struct ingest_peak *peak, int64_t horizon_ns);

/* When slice `number` begins. */
int64_t ingest_peak_slice_ns(const struct ingest_peak *peak, uint32_t number);

/* Whether a kind counts as device memory in the peaks. */
bool ingest_peak_is_device(enum block_kind kind);

void ingest_peak_free(struct ingest_peak *peak);

#endif
