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

bool session_dir_escape(const char *value, char *text, size_t bytes)
{
	size_t used = 0;

	for (; *value && used + 2 < bytes; value++) {
		bool is_special = *value == '\n' || *value == '\\';

		if (is_special)
			text[used++] = '\\';
		text[used++] = *value == '\n' ? 'n' : *value;
	}
	text[used] = '\0';
	return !*value;
}

void session_dir_unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text != '\\' || !text[1]) {
			*to++ = *text;
			continue;
		}
		text++;
		*to++ = *text == 'n' ? '\n' : *text;
	}
	*to = '\0';
}

static void add_line(char *text, const char *key, const char *value)
{
	size_t used = strlen(text);

	used += (size_t)snprintf(text + used, DESCRIPTION_BYTES - used, "%s=", key);
	session_dir_escape(value, text + used, DESCRIPTION_BYTES - used - 1);
	strcat(text, "\n");
}

/* Behind what is there, with a blank between. */
static void add_option(char *text, size_t bytes, const char *key, enum option_id id)
{
	size_t used = strlen(text);

	snprintf(text + used, bytes - used, "%s%s=%s", used ? " " : "", key, option_text(id));
}

void session_dir_limits(char *text, size_t bytes)
{
	*text = '\0';
	if (strcmp(option_text(OPTION_FREES), "immediate")) {
		add_option(text, bytes, "max-pending", OPTION_MAX_PENDING);
		add_option(text, bytes, "max-pending-ratio", OPTION_MAX_PENDING_RATIO);
		add_option(text, bytes, "meminfo", OPTION_MEMINFO);
	}
	if (option_number(OPTION_LIMIT))
		add_option(text, bytes, "limit", OPTION_LIMIT);
	if (option_number(OPTION_FAIL_NTH))
		add_option(text, bytes, "fail-nth", OPTION_FAIL_NTH);
}

/* The program's own file is for people who look, and comes last: it may be cut. */
static int describe(const char *directory, const char *output)
{
	char path[PATH_MAX + 16], text[DESCRIPTION_BYTES], limits[SESSION_DIR_LIMITS];
	ssize_t length;
	int fd, failed;

	snprintf(text, sizeof(text), "mode=preload\npid=%d\nbuffer=%llu\n", (int)getpid(),
		 (unsigned long long)option_number(OPTION_BUFFER));
	add_line(text, "output", output);
	add_line(text, "frees", option_text(OPTION_FREES));
	add_line(text, "children", option_text(OPTION_CHILDREN));
	session_dir_limits(limits, sizeof(limits));
	add_line(text, "limits", limits);
	length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	add_line(text, "executable", path);
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
