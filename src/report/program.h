/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - the program a user names: where it is, and whether a preload can
 * reach into it.
 */
#ifndef CUSTODY_REPORT_PROGRAM_H
#define CUSTODY_REPORT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path execvp() would run, to `path`.  Returns 0, else errno: ENOENT not
 * found, EACCES found but not executable.
 */
int program_find(const char *name, char *path, size_t bytes);

enum program_obstacle {
	PROGRAM_GOOD,
	PROGRAM_UNREADABLE,
	PROGRAM_NO_ELF,	    /* and no script either */
	PROGRAM_STATIC,	    /* no dynamic loader: nothing can be preloaded */
	PROGRAM_SETUID,	    /* it gains rights, so the loader ignores preloads: by its ... */
	PROGRAM_SETGID,	    /* ... set-group-id bit ... */
	PROGRAM_CAPABLE,    /* ... or file capabilities */
	PROGRAM_MUSL,
	PROGRAM_OTHER_LIBC, /* its loader is neither glibc's nor musl's */
	PROGRAM_32_BIT,
	PROGRAM_OTHER_CPU,
};

/* A script counts as its interpreter, whose path goes to `subject` (else `path` does). */
enum program_obstacle program_inspect(const char *path, char *subject, size_t bytes);

/* One clause: "is statically linked". */
const char *program_explain(enum program_obstacle obstacle);

/* Where the driver is told what to load when it starts. */
#define INJECTION_VARIABLE "CUDA_INJECTION64_PATH"

/* The library that is meant to be named there; it lies beside the preload. */
bool program_find_injection(const char *preload, char *path, size_t bytes);

/*
 * The preload and the directory of the simulated driver that belong to this
 * program `custody`: named by the environment, in the build tree, or installed.
 */
bool program_find_preload(char *path, size_t bytes);
bool program_find_simdriver(char *path, size_t bytes);

#endif
