/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_survivor.h - processes of a session that outlive its program: a daemon
 * that has yet to make its first CUDA call is known by its environment only.
 */
#ifndef CUSTODY_REPORT_COLLECT_SURVIVOR_H
#define CUSTODY_REPORT_COLLECT_SURVIVOR_H

enum collect_survivor {
	SURVIVOR_NONE,
	SURVIVOR_IDLE,	 /* runs, but without a CUDA driver */
	SURVIVOR_DRIVER, /* has the driver loaded: calls may come */
};

/* The most that any process started with CUSTODY_SESSION=`session` may still do. */
enum collect_survivor collect_survivor_find(const char *session);

#endif
