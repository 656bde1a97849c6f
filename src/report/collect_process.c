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

/* A line of maps that shows the control page: by its inode, as paths differ between namespaces. */
static bool shows_control(const char *line, const struct ingest_process *process)
{
	unsigned long long inode;
	const char *name;

	if (sscanf(line, "%*s %*s %*s %*s %llu", &inode) != 1 || inode != process->map.inode)
		return false;
	name = strrchr(line, '/');
	return name && !strncmp(name, "/control", 8);
}

/* Whether the files of this image are mapped there; -1: cannot be told. */
static int maps_our_files(const struct ingest_process *process, int pid)
{
	char path[64];
	char *line = NULL;
	size_t bytes = 0;
	int is_found = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	stream = fopen(path, "re");
	if (!stream)
		return errno == ENOENT ? 0 : -1;
	while (!is_found && getline(&line, &bytes, stream) > 0)
		is_found = shows_control(line, process);
	if (!is_found && ferror(stream))
		is_found = -1;
	free(line);
	fclose(stream);
	return is_found;
}

static int search(const struct ingest_process *process)
{
	DIR *stream = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	while (stream && !found && (entry = readdir(stream))) {
		int pid = atoi(entry->d_name);

		/* We map them too. */
		if (pid > 0 && pid != (int)getpid() && maps_our_files(process, pid) == 1)
			found = pid;
	}
	if (stream)
		closedir(stream);
	return found;
}

static bool is_it(const struct ingest_process *process, int pid, char *state)
{
	const struct trace_control *control = process->map.control;
	uint64_t start_time;

	return read_stat(pid, state, &start_time) &&
	       (!control->start_time || !start_time || control->start_time == start_time);
}

void collect_process_find(struct ingest_process *process)
{
	char state;

	if (!process->is_local || process->pid <= 0)
		return;
	/* Number 1 is another process in every namespace, and starts soon after its machine. */
	process->our_pid = process->pid != 1 && is_it(process, process->pid, &state) ?
				   process->pid :
				   search(process);
}

/* Cheap, and true for every exec of another program; a file replaced on disk looks the same. */
static bool runs_another_file(const struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	char path[64], file[CONTROL_PATH_BYTES];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", process->our_pid);
	length = readlink(path, file, sizeof(file));
	return length > 0 && length < CONTROL_PATH_BYTES &&
	       ((size_t)length != strnlen(control->executable, CONTROL_PATH_BYTES) ||
		memcmp(file, control->executable, (size_t)length));
}

bool collect_process_is_alive(const struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	char state;

	if (!process->our_pid || !is_it(process, process->our_pid, &state))
		return false;
	if (state == 'X' || (state == 'Z' && !has_other_threads(process->our_pid)))
		return false;
	if (atomic_load_explicit(&control->end_state, memory_order_acquire) == CONTROL_EXECED ||
	    runs_another_file(process))
		return maps_our_files(process, process->our_pid) != 0;
	return true;
}

bool collect_process_has_lost(const struct ingest_process *process, uint32_t tid)
{
	char path[64];

	/* In another namespace threads have other numbers. */
	if (process->our_pid != process->pid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", process->our_pid, tid);
	return access(path, F_OK) && errno == ENOENT;
}
