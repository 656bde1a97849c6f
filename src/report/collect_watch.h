/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_watch.h - a descriptor that can be read when a process joins the session, so
 * that the collector meets it before its first context.  Without one it is met at the
 * next look.
 */
#ifndef CUSTODY_REPORT_COLLECT_WATCH_H
#define CUSTODY_REPORT_COLLECT_WATCH_H

/* -1: it cannot be watched. */
int collect_watch_open(const char *directory);

/* Take what is there to be read: it has been seen. */
void collect_watch_drain(int watch);

#endif
