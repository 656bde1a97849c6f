/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - what a test program says that the trace must show.
 *
 * A client notes every driver call next to making it.  The journal keeps its
 * own account of live blocks, so the joins of copies to blocks, the kinds of
 * places and the totals per function are computed here a second time, by other
 * code than that under test.  Lines go to the file named by $E2E_JOURNAL;
 * rows.sql makes the same lines from a trace and harness.sh compares them.
 *
 * For clients of one thread, but for journal_line(), which any thread may call.
 */
#ifndef CUSTODY_TESTS_E2E_JOURNAL_H
#define CUSTODY_TESTS_E2E_JOURNAL_H

#include <cuda.h>
#include <stdint.h>

/* One line, written at once. */
void journal_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Count a call of `api`; one that failed makes a failure row.  Returns `result`. */
CUresult called(const char *api, CUresult result);

/* The same for a call that must succeed: anything else ends the client. */
void must(const char *api, CUresult result);

/* End the client with a message unless `is_true`. */
void require(int is_true, const char *what);

/* A block now exists; returns its ordinal, from 1 in order of allocation. */
unsigned note_alloc(const char *kind, uint64_t address, uint64_t bytes, const char *api);

/* The same for one whose bytes belong to the block `parent`. */
unsigned note_view(const char *kind, uint64_t address, uint64_t bytes, const char *api,
		   unsigned parent);

/* The program released it by calling `api`. */
void note_free(unsigned ordinal, const char *api);

/* It ended for another reason: context, reset, exit, or "-" if it lives on. */
void note_end(unsigned ordinal, const char *cause);

/* All blocks that live now end so, in order of their ordinals. */
void note_end_of_all(const char *cause);

struct copy_note {
	const char *kind; /* H2D ... */
	const char *api;
	uint64_t bytes;
	uint64_t source, target; /* addresses; 0: the trace need not know one */
	const char *source_kind; /* NULL: what the account of blocks says */
	const char *target_kind;
	const char *stream; /* legacy, per-thread, own, none */
	int is_async;
	int is_captured;
	int result;
	int copies; /* in one row; 0 stands for 1, UNCOUNTED for 0 */
};

enum { UNCOUNTED = -1 };

void note_copy(const struct copy_note *copy);

/* A row in `operation`. */
void note_operation(const char *api, const char *stream, int result);

/* Write the totals per function; the last thing a client does. */
void journal_end(void);

#endif
