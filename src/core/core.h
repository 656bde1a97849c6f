/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - what the words of this room mean, and the rules of the house in it.
 *
 * session	a run of `custody record`, or one program under the bare preload: a
 *		directory in which the writers and one collector meet
 * process	one program image that has made a recorded call
 * segment	a file of 1 MiB that is mapped by its process and the collector
 * chunk	64 KiB of a segment, written by one thread at a time
 * slot		64 bytes of a chunk: one record, or a part of a record's text
 * block	an allocation, from request to release
 * context	a CUDA context, known by a number that is never reused
 *
 * Layers: core includes only core.  It does not know how a call arrived, nor
 * what becomes of a record.
 *
 * A guest's manners: nothing here allocates with malloc, prints more than one
 * line, keeps a descriptor, installs a signal handler or ends the process; errno
 * is as it was; what cannot be done is left undone and counted.
 *
 * Locks, outermost first; nobody holds one across a driver call, but for the
 * claim of a deferred-free queue.  Passes want that, and a free that has to learn
 * first whether cuMemFreeAsync takes plain blocks, but does without it where it
 * is taken:
 *
 *	process_page.entering	first call of a process or of a child of fork
 *	counter.c adding	a new chunk of counters
 *	chunk.c growing		a new segment
 *	context.c adding	a new context, or the death of one
 *	deferq.c opening	a new queue
 *	deferq.claim		a pass over a queue, its driver calls and waits among it
 *	deferq.lock		a step of a queue
 *	block_shard.lock	a step of the tracker; at most one shard at a time
 *	slab.c lock		memory for the tracker
 *
 * A child of fork takes none of them before it has reset them: the first lies in
 * a page that fork wipes, its holder resets the others.
 */
#ifndef CUSTODY_CORE_CORE_H
#define CUSTODY_CORE_CORE_H
#endif
