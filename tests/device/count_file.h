/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_file.h - where the independent counters count: one mapped file per
 * process in COUNT_DIR, an array of struct count, so that the numbers outlive
 * whatever ends the process.  figures.py reads it.
 */
#ifndef CUSTODY_DEVICE_COUNT_FILE_H
#define CUSTODY_DEVICE_COUNT_FILE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COUNT_NAME_BYTES = 40, COUNT_MAX = 1024 };

struct count {
	char name[COUNT_NAME_BYTES];
	_Atomic uint64_t calls;
	_Atomic uint64_t errors;
	_Atomic uint64_t bytes; /* of the calls that succeeded */
};

/* `counter` begins the file's name.  Never NULL: without a file the counts are lost. */
static inline struct count *count_file_map(const char *counter)
{
	static struct count fallback[COUNT_MAX];
	const char *directory = getenv("COUNT_DIR");
	struct timespec now;
	char path[4096];
	void *page = MAP_FAILED;
	int file;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(path, sizeof(path), "%s/%s.%d.%lld%09ld", directory ? directory : ".", counter,
		 (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file >= 0 && !ftruncate(file, sizeof(fallback)))
		page = mmap(NULL, sizeof(fallback), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	if (page != MAP_FAILED)
		return page;
	fprintf(stderr, "%s cannot be made\n", path);
	return fallback;
}

#endif
