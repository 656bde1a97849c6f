/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - starting the collector from inside a program that knows nothing of it.
 */
#ifndef CUSTODY_CORE_SPAWN_H
#define CUSTODY_CORE_SPAWN_H

/*
 * Run `custody collect --session SESSION` and wait until it has put itself into
 * the background.  The program gets no SIGCHLD, and its wait() does not see the
 * child.  Call with all signals blocked; the collector unblocks its own.
 * Returns 0, or -1 where it cannot be found or did not start.
 */
int spawn_collector(const char *session);

#endif
