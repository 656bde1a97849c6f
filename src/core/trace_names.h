/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_names.h - the text forms of the enums of a trace, as they stand in the
 * database and in reports.
 */
#ifndef CUSTODY_CORE_TRACE_NAMES_H
#define CUSTODY_CORE_TRACE_NAMES_H

#include "core/record.h"

#include <stddef.h>

extern const char *const trace_names_of_blocks[BLOCK_KINDS];
extern const char *const trace_names_of_transfers[TRANSFER_KINDS];
extern const char *const trace_names_of_places[PLACE_KINDS];
extern const char *const trace_names_of_causes[RELEASE_CAUSES];
extern const char *const trace_names_of_queues[QUEUE_KINDS];
extern const char *const trace_names_of_findings[FINDING_KINDS];
extern const char *const trace_names_of_moments[READING_MOMENTS];
extern const char *const trace_names_of_weighed[WEIGHED_KINDS];

/* The name of a CUresult ("CUDA_ERROR_OUT_OF_MEMORY"); NULL: newer than this build. */
const char *trace_names_of_result(unsigned int result);

/* A number that no enum has comes from a damaged trace: it reads "unknown". */
static inline const char *trace_names_pick(const char *const *names, size_t count,
					   unsigned int number)
{
	return number < count ? names[number] : "unknown";
}

/* allocation.kind */
static inline const char *block_kind_name(enum block_kind kind)
{
	return trace_names_pick(trace_names_of_blocks, BLOCK_KINDS, kind);
}

/* transfer.kind */
static inline const char *transfer_kind_name(enum transfer_kind kind)
{
	return trace_names_pick(trace_names_of_transfers, TRANSFER_KINDS, kind);
}

/* transfer.source_kind, transfer.target_kind */
static inline const char *place_kind_name(enum place_kind kind)
{
	return trace_names_pick(trace_names_of_places, PLACE_KINDS, kind);
}

/* allocation.release_cause; NULL while the block lives, as the column is. */
static inline const char *release_cause_name(enum release_cause cause)
{
	return trace_names_pick(trace_names_of_causes, RELEASE_CAUSES, cause);
}

/* flush.queue */
static inline const char *queue_kind_name(enum queue_kind kind)
{
	return trace_names_pick(trace_names_of_queues, QUEUE_KINDS, kind);
}

/* finding.kind */
static inline const char *finding_kind_name(enum finding_kind kind)
{
	return trace_names_pick(trace_names_of_findings, FINDING_KINDS, kind);
}

/* reading.moment */
static inline const char *reading_moment_name(enum reading_moment moment)
{
	return trace_names_pick(trace_names_of_moments, READING_MOMENTS, moment);
}

/* overhead.kind */
static inline const char *reading_weighed_name(enum reading_weighed weighed)
{
	return trace_names_pick(trace_names_of_weighed, WEIGHED_KINDS, weighed);
}

/* See trace_names_of_result(). */
static inline const char *result_name(unsigned int result)
{
	return trace_names_of_result(result);
}

#endif
