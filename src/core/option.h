/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option.h - every option has an environment twin; this is the table of them,
 * shared by the preload (which reads the environment) and the program `custody`
 * (which sets it and prints it with `custody env`).
 */
#ifndef CUSTODY_CORE_OPTION_H
#define CUSTODY_CORE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_id {
	OPTION_OUTPUT,	 /* template of the trace's name */
	OPTION_FREES,	 /* immediate | deferred | nowait */
	OPTION_MAX_PENDING,	  /* items a queue may hold before a pass */
	OPTION_MAX_PENDING_RATIO, /* and their share of the memory they lie in */
	OPTION_MEMINFO,	 /* pending | driver */
	OPTION_CHILDREN, /* all | none */
	OPTION_BUFFER,	 /* bytes */
	OPTION_LIMIT,	 /* bytes of a device, or none */
	OPTION_FAIL_NTH, /* from 1, or none */
	OPTION_GPU_TIMES, /* 0 | 1 */
	OPTION_DEEPBIND, /* pass | clear */
	OPTION_PER_THREAD_STREAM, /* 0: the legacy default stream; of linked programs */
	OPTION_COUNT
};

/* Set by `record` for the processes it starts; not options of a user. */
#define OPTION_ENV_SESSION "CUSTODY_SESSION" /* directory of the session */
#define OPTION_ENV_ROOT "CUSTODY_ROOT"	     /* pid to record when children are not */

enum { OPTION_OTHERS = 2 };

struct option_info {
	enum option_id id;
	const char *variable;	   /* CUSTODY_... */
	const char *other_variables[OPTION_OTHERS]; /* honoured, in order, where ours is unset */
	const char *default_value; /* as text */
	const char *values;	   /* for people: "immediate", "SIZE" */
	const char *meaning;	   /* one line */
};

const struct option_info *option_info(enum option_id id);

/*
 * The value in force: the environment's where it can be parsed, else the default.
 * A value that cannot be parsed is reported by option_complaint(), once.
 */
const char *option_text(enum option_id id);
uint64_t option_number(enum option_id id);

/* OPTION_MAX_PENDING, which may be negative, _PER_THREAD_STREAM; OPTION_MAX_PENDING_RATIO. */
int64_t option_integer(enum option_id id);
double option_ratio(enum option_id id);

/*
 * This is the value in force from now on, whatever the environment says; for whoever
 * knows that nobody reads the option meanwhile.  False: it is too long.
 */
bool option_set(enum option_id id, const char *value);

/*
 * One sentence on the first variable whose value cannot be used, without a
 * newline; NULL where all are good.  The preload says it at its first call, and
 * no more than once in a process.
 */
const char *option_complaint(void);

/*
 * The value of an environment variable, or NULL.  Walks the array itself: the
 * getenv() of another preload may lock or allocate.
 */
const char *option_environment(const char *variable);

/*
 * Whether `value` is good for `id`; if not, `why` gets one sentence.  Used for
 * command line options too, so that both say the same.
 */
bool option_is_valid(enum option_id id, const char *value, char *why, size_t why_bytes);

/*
 * "1073741824", "256k", "64MiB" (powers of 1024), "64MB" (powers of 1000) ->
 * bytes; false: not a size.
 */
bool option_parse_size(const char *text, uint64_t *bytes);

#endif
