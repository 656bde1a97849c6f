/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw_file.h - small files by system calls alone: no stdio, no allocation, and
 * no way to end the process by a limit on the size of files.
 */
#ifndef CUSTODY_CORE_RAW_FILE_H
#define CUSTODY_CORE_RAW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read at most `bytes` - 1 from the front and put a NUL behind; -1: errno. */
ssize_t raw_file_read(const char *path, char *text, size_t bytes);

/*
 * A file that was not there before, for the owner alone; the descriptor or -1.
 * It is none of the first three: a daemon that has closed those may still print.
 */
int raw_file_create(const char *path);

/* Write all of it, or return -1 with errno. */
int raw_file_write(int fd, const void *data, size_t bytes);

/*
 * Give the file `bytes` that are really there: a page of a mapping that cannot
 * be had later would be a SIGBUS.  Asks RLIMIT_FSIZE first, since going beyond
 * it is a SIGXFSZ.  -1 with errno.
 */
int raw_file_reserve(int fd, size_t bytes);

/* Bytes that may still be written to the file system of `path`; -1 with errno. */
int raw_file_room(const char *path, uint64_t *bytes);

#endif
