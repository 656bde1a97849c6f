/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_peak.h - bytes in use over time, in bounded memory: the exact peaks and
 * a curve of at most INGEST_PEAK_SLICES slices.
 *
 * Changes come nearly in the order of time.  They wait in a heap until nothing
 * earlier can come any more, so they are applied in order; one that comes later
 * still is counted, and then the curve and peaks must be made again from rows.
 * Changes of one moment count together: a block freed at T is not live at T.
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
	uint32_t device_id;  /* 0: all; of all processes: a device as ingest_peak_share() knows it */
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
	int64_t moment_ns; /* of the last change */
	bool is_device;
	uint32_t group[4]; /* that device memory belongs to */
	uint32_t groups;
	uint32_t first, slices, capacity;
	struct ingest_peak_slice *slice; /* highest use inside each */
};

struct ingest_peak_change {
	int64_t at_ns;
	int64_t live;
	int64_t pending;
	uint32_t series;
	bool is_end; /* the process has ended: all of it is gone */
};

struct ingest_peak {
	struct ingest_peak_change *waiting; /* heap */
	uint32_t count, capacity;
	int64_t applied_ns;
	uint64_t disordered;

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
