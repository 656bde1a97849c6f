/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - findings, one line each: what works, what cannot work and why. */
#ifndef CUSTODY_REPORT_DOCTOR_H
#define CUSTODY_REPORT_DOCTOR_H

#include "report/terminal.h"

#include <stdbool.h>

struct doctor {
	struct terminal terminal;
	int bad; /* findings that stand in the way */
};

enum doctor_finding {
	DOCTOR_GOOD,
	DOCTOR_NOTE, /* works, but should be known */
	DOCTOR_BAD,
};

void doctor_say(struct doctor *doctor, enum doctor_finding finding, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Can this program be recorded?  `name` is searched as a shell would. */
void doctor_program(struct doctor *doctor, const char *name);

/* Other tools that are to be loaded beside the recording. */
void doctor_tools(struct doctor *doctor);

/* Is the file of the interposer sound, and does it ask for nothing but libc? */
void doctor_preload(struct doctor *doctor, const char *path);

/*
 * Record a small program of our own and look into the trace.  On the simulated
 * driver it allocates through every door; on the machine's own it only asks for
 * version and devices.
 */
void doctor_proof_simulated(struct doctor *doctor);
void doctor_proof_driver(struct doctor *doctor, bool can_do_without);

#endif
