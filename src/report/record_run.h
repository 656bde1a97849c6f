/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_run.h - the two children of `custody record`: the program, which is
 * started but held back until all is ready, and the collector.
 */
#ifndef CUSTODY_REPORT_RECORD_RUN_H
#define CUSTODY_REPORT_RECORD_RUN_H

#include "report/session.h"

#include <stdbool.h>
#include <sys/types.h>

struct record_run {
	struct session session;
	char **argv; /* the program and its arguments */
	const char *path; /* of the program */
	pid_t program;
	int go; /* the session's directory, written here, lets the program run */
	bool has_ended;
	int status; /* as waitpid() gives it */
	long long end_ns;
	pid_t collector; /* 0: none now */
	int to_collector, from_collector;
	int collectors; /* started so far */
	int signals; /* signalfd */
	bool show_progress;
};

enum record_outcome {
	RECORD_TRACED,
	RECORD_NOTHING,	/* no CUDA call was made, or none could be seen */
	RECORD_GOES_ON,	/* other processes still run; the collector stays for them */
	RECORD_BROKEN,	/* the collector has failed, and has said why, or was killed */
};

/* Fork the program; it has its pid now and waits for record_run_start(). */
void record_run_prepare(struct record_run *run);

/* End the program before it has begun. */
void record_run_cancel(struct record_run *run);

/* Let the program run under the collector of run->session, until both have ended. */
enum record_outcome record_run_start(struct record_run *run);

/* What a shell would return for the program. */
int record_run_exit_code(const struct record_run *run);

#endif
