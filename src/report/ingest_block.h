/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_block.h - the blocks of one process: by number for frees, by address
 * for copies.  A freed block stays findable for a while, because a copy that was
 * under way when it was freed is recorded later.
 */
#ifndef CUSTODY_REPORT_INGEST_BLOCK_H
#define CUSTODY_REPORT_INGEST_BLOCK_H

#include "report/ingest_table.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	INGEST_BLOCK_RETIRED_MIN = 4096,   /* kept however old they are */
	INGEST_BLOCK_RETIRED_MAX = 131072, /* and no more than these, however long a call takes */
};

struct ingest_block {
	uint64_t id;	 /* allocation.id */
	uint64_t number; /* in the process, as records name it */
	uint64_t address;
	uint64_t bytes;
	uint64_t parent_id; /* allocation.id, 0: none */
	uint64_t caller;
	uint64_t free_caller;
	int64_t alloc_ns;
	int64_t live_ns; /* end of the call: from here on it lives */
	int64_t free_ns;
	int64_t free_duration_ns;
	int64_t waited_ns;   /* of the free, for the device */
	int64_t pending_ns;  /* from here on it waits to be released, if it is deferred */
	int64_t ready_ns;    /* its device work was seen done; 0: it was not */
	int64_t saved_ns;    /* what the free would have waited; see schema.sql */
	int64_t released_ns; /* 0 while live */
	int64_t replaced_ns; /* another block got its address then; 0: none has */
	uint32_t device_id;  /* of identity tables; 0: none */
	uint32_t context_id;
	uint32_t stream_id;
	uint32_t thread_id;
	uint32_t free_thread_id;
	uint32_t series;     /* in the peaks */
	uint16_t api;	     /* 0: none, else row of driver.tbl + 1 */
	uint16_t free_api;
	uint8_t kind;	     /* enum block_kind */
	uint8_t cause;	     /* enum release_cause */
	bool is_view;
	bool is_exported;
	bool is_deferred;    /* its free put the release off */
	bool is_pending;     /* and it is not released yet */
	bool has_saved;
	bool awaits_free;    /* released, but the record of its free is still to come */
	bool is_stored;	     /* has a row */
	bool is_batched;     /* its row is to be written with the next commit */
	bool is_retired;     /* in the list of those kept after their release */
	bool is_placed;	     /* in a tree */

	/* The tree: a treap by address whose nodes know what lies below them. */
	struct ingest_block *left, *right;
	uint64_t highest; /* address */
	int64_t latest;	  /* release; INT64_MAX if one is live */
	uint32_t priority;

	struct ingest_block *next; /* in the list of retired or spare ones */
};

struct ingest_blocks {
	struct ingest_table by_number;
	struct ingest_block *addresses; /* trees: device and host addresses, */
	struct ingest_block *handles;	/* and handles of arrays */
	struct ingest_block *oldest, *newest; /* retired, in the order of their release */
	uint32_t retired;
	struct ingest_block *spare;
	uint32_t seed;
};

/* A block with this number; all else is 0.  A stale one of that number is forgotten. */
struct ingest_block *ingest_block_add(struct ingest_blocks *blocks, uint64_t number);

/* Make it findable by its address, which no longer changes. */
void ingest_block_place(struct ingest_blocks *blocks, struct ingest_block *block);

struct ingest_block *ingest_block_find(const struct ingest_blocks *blocks, uint64_t number);

/* It is released, and its free is still to come: found by number until it is retired. */
void ingest_block_await(struct ingest_blocks *blocks, struct ingest_block *block);

/* It is released: no longer found by number, but by address until it is forgotten. */
void ingest_block_retire(struct ingest_blocks *blocks, struct ingest_block *block);

/* A retired block has ended earlier than was thought. */
void ingest_block_shorten(struct ingest_blocks *blocks, struct ingest_block *block,
			  int64_t released_ns);

/* Its row is written: drops it for good if nothing else needs it. */
void ingest_block_settle(struct ingest_blocks *blocks, struct ingest_block *block);

/* Forget retired blocks that were released before `horizon_ns`. */
void ingest_block_forget(struct ingest_blocks *blocks, int64_t horizon_ns);

/* The newest block that covers the address and was live at `at_ns`, or NULL. */
struct ingest_block *ingest_block_at(const struct ingest_blocks *blocks, uint64_t address,
				     int64_t at_ns);

/* The same for the handle of an array. */
struct ingest_block *ingest_block_array(const struct ingest_blocks *blocks, uint64_t handle,
					int64_t at_ns);

/* Whether trees and lists are sound; for tests. */
bool ingest_block_check(const struct ingest_blocks *blocks);

void ingest_block_free_all(struct ingest_blocks *blocks);

#endif
