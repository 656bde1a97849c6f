/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_map.h - the files of one traced process, mapped.  They are somebody
 * else's: sizes and numbers in them are checked before they are used, texts are
 * copied with a bound.
 */
#ifndef CUSTODY_REPORT_INGEST_MAP_H
#define CUSTODY_REPORT_INGEST_MAP_H

#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>

enum { INGEST_MAP_SEGMENTS = 65536 };

struct ingest_map {
	char *directory;
	struct trace_control *control;
	uint64_t inode; /* of the control page: who maps it is the process */
	unsigned char **segment; /* NULL: missing or not whole */
	/*
	 * The headers of all chunks, each mapped once more by itself: they are looked
	 * at again and again, and a look must not bring in the records behind them.
	 */
	struct chunk_header **header;
	uint32_t segments;
	bool is_private; /* the files could not be opened for writing: chunks are not given back */
};

/*
 * Map the control page in `directory`.  Returns 0; 1 where there is none yet; -1
 * with one clause in `why` where there is one that cannot be read.
 */
int ingest_map_open(struct ingest_map *map, const char *directory, char *why, size_t bytes);

/* Map the segments made since.  False, once, if one of them cannot be read. */
bool ingest_map_refresh(struct ingest_map *map, char *why, size_t bytes);

/* NULL where the segment could not be read. */
static inline struct trace_chunk *ingest_map_chunk(const struct ingest_map *map, uint32_t segment,
						   uint32_t chunk)
{
	unsigned char *base = map->segment[segment];

	return base ? (struct trace_chunk *)(base + (size_t)chunk * CHUNK_BYTES) : NULL;
}

/* Its header; NULL as above. */
static inline struct chunk_header *ingest_map_header(const struct ingest_map *map,
						     uint32_t segment, uint32_t chunk)
{
	return map->header[(size_t)segment * SEGMENT_CHUNKS + chunk];
}

/* The records of the chunk are read: they need no memory of ours any more. */
void ingest_map_let_go(struct trace_chunk *chunk);

void ingest_map_close(struct ingest_map *map);

/* Remove the directory and what a traced process puts there. */
void ingest_map_remove(const char *directory);

#endif
