/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATE_FIELD = 3, START_TIME_FIELD = 22 };

/* Fields of /proc/<pid>/stat behind the name, which may hold anything: from the last ')'. */
static bool read_stat(int pid, char *state, uint64_t *start_time)
{
	char path[64], text[2048];
	const char *field;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	field = strrchr(text, ')');
	if (!field || !field[1] || !field[2])
		return false;
	field += 2;
	*state = *field;
	for (int i = STATE_FIELD; field && i < START_TIME_FIELD; i++) {
		field = strchr(field, ' ');
		field += !!field;
	}
	*start_time = field ? strtoull(field, NULL, 10) : 0;
	return true;
}

/* A zombie whose other threads run on: its first thread has ended before them. */
static bool has_other_threads(int pid)
{
	char path[64];
	struct dirent *entry;
	DIR *stream;
	int threads = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	stream = opendir(path);
	if (!stream)
		return false;
	while ((entry = readdir(stream)))
		threads += entry->d_name[0] != '.';
	closedir(stream);
	return threads > 1;
}

/* After exec the old image's files are mapped no more.  In doubt they are. */
static bool maps_our_files(const struct ingest_process *process)
{
	char path[64];
	char *line = NULL;
	size_t bytes = 0;
	bool is_found = false;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%d/maps", process->pid);
	stream = fopen(path, "re");
	if (!stream)
		return errno != ENOENT;
	while (!is_found && getline(&line, &bytes, stream) > 0)
		is_found = strstr(line, process->map.directory) != NULL;
	is_found |= ferror(stream) != 0;
	free(line);
	fclose(stream);
	return is_found;
}

/* Cheap, and true for every exec of another program; a file replaced on disk looks the same. */
static bool runs_another_file(const struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	char path[64], file[CONTROL_PATH_BYTES];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", process->pid);
	length = readlink(path, file, sizeof(file));
	return length > 0 && length < CONTROL_PATH_BYTES &&
	       ((size_t)length != strnlen(control->executable, CONTROL_PATH_BYTES) ||
		memcmp(file, control->executable, (size_t)length));
}

bool collect_process_is_alive(const struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	uint64_t start_time;
	char state;

	if (!process->is_local || process->pid <= 0)
		return false;
	if (!read_stat(process->pid, &state, &start_time))
		return false;
	if (control->start_time && start_time && control->start_time != start_time)
		return false;
	if (state == 'X' || (state == 'Z' && !has_other_threads(process->pid)))
		return false;
	if (atomic_load_explicit(&control->end_state, memory_order_acquire) == CONTROL_EXECED ||
	    runs_another_file(process))
		return maps_our_files(process);
	return true;
}

bool collect_process_has_lost(const struct ingest_process *process, uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%u", process->pid, tid);
	return access(path, F_OK) && errno == ENOENT;
}
