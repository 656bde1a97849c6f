/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_dir.h"
#include "core/clock.h"
#include "core/option.h"
#include "core/raw_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAME_TRIES = 100,
	SUFFIX_LETTERS = 6,
	DESCRIPTION_BYTES = 4 * PATH_MAX,
};

#define ROOM_LEAST (UINT64_C(8) << 20)

bool session_dir_exists(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISDIR(status.st_mode);
}

static void make_suffix(char *suffix)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint64_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = clock_system_ns(CLOCK_MONOTONIC) * UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < SUFFIX_LETTERS; i++, number /= sizeof(letters) - 1)
		suffix[i] = letters[number % (sizeof(letters) - 1)];
	suffix[SUFFIX_LETTERS] = '\0';
}

/* mkdir() follows no link and fails where anything has the name already. */
static int make_in(const char *place, char *path, size_t bytes)
{
	char suffix[SUFFIX_LETTERS + 1];
	uint64_t room;

	if (!place || place[0] != '/') {
		errno = ENOENT;
		return -1;
	}
	if (raw_file_room(place, &room))
		return -1;
	if (room < ROOM_LEAST) {
		errno = ENOSPC;
		return -1;
	}
	for (int i = 0; i < NAME_TRIES; i++) {
		int length;

		make_suffix(suffix);
		length = snprintf(path, bytes, "%s/custody-%u-%d-%s", place,
				  (unsigned int)geteuid(), (int)getpid(), suffix);
		if (length >= (int)bytes) {
			errno = ENAMETOOLONG;
			return -1;
		}
		if (!mkdir(path, 0700))
			return 0;
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

int session_dir_make(char *path, size_t bytes, const char *beside)
{
	if (!make_in(option_environment("XDG_RUNTIME_DIR"), path, bytes) ||
	    !make_in("/dev/shm", path, bytes))
		return 0;
	return make_in(beside, path, bytes);
}

/* The name of the trace from the root on: the collector works in no directory of the program. */
static int find_output(char *output, size_t bytes)
{
	const char *name = option_text(OPTION_OUTPUT);
	char here[PATH_MAX] = "";

	if (name[0] != '/' && !getcwd(here, sizeof(here)))
		return -1;
	if (snprintf(output, bytes, "%s%s%s", here, name[0] == '/' ? "" : "/", name) <
	    (int)bytes)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

/* The directory of the trace, up to the first part whose name is not known yet. */
static void find_beside(const char *output, char *beside, size_t bytes)
{
	size_t known = strcspn(output, "%");

	while (known > 1 && output[known - 1] != '/')
		known--;
	snprintf(beside, bytes, "%.*s", known > 1 ? (int)known - 1 : 1, output);
}

static int describe(const char *directory, const char *output)
{
	char path[PATH_MAX + 16], text[DESCRIPTION_BYTES], program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	int fd, failed;

	program[length > 0 ? length : 0] = '\0';
	snprintf(text, sizeof(text),
		 "mode=preload\npid=%d\nexecutable=%s\noutput=%s\nfrees=%s\nchildren=%s\n"
		 "buffer=%llu\n",
		 (int)getpid(), program, output, option_text(OPTION_FREES),
		 option_text(OPTION_CHILDREN),
		 (unsigned long long)option_number(OPTION_BUFFER));
	snprintf(path, sizeof(path), "%s/session", directory);
	fd = raw_file_create(path);
	if (fd < 0)
		return -1;
	failed = raw_file_write(fd, text, strlen(text));
	close(fd);
	if (failed)
		unlink(path);
	return failed;
}

int session_dir_create(char *path, size_t bytes)
{
	char output[PATH_MAX], beside[PATH_MAX];

	if (find_output(output, sizeof(output)))
		return -1;
	find_beside(output, beside, sizeof(beside));
	if (session_dir_make(path, bytes, beside))
		return -1;
	if (describe(path, output)) {
		int error = errno;

		rmdir(path);
		errno = error;
		return -1;
	}
	return 0;
}
