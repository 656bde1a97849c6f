/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "core/control.h"
#include "core/clock.h"
#include "core/option.h"
#include "core/raw_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
	PATH_BYTES = CONTROL_PATH_BYTES + 32,
	STAT_BYTES = 1024,
	STAT_START_TIME = 22, /* field of /proc/<pid>/stat, counted from 1 */
	STAT_STATE = 3,	      /* the first one behind the name, which may hold anything */
};

static uint64_t read_start_time(void)
{
	char text[STAT_BYTES];
	char *at;

	if (raw_file_read("/proc/self/stat", text, sizeof(text)) <= 0)
		return 0;
	at = strrchr(text, ')');
	for (int field = STAT_STATE - 1; at && field < STAT_START_TIME; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static void read_boot_id(char *boot_id, size_t bytes)
{
	raw_file_read("/proc/sys/kernel/random/boot_id", boot_id, bytes);
	boot_id[strcspn(boot_id, "\n")] = '\0';
}

static void read_names(struct trace_control *control)
{
	struct utsname system;
	ssize_t length;

	length = readlink("/proc/self/exe", control->executable, CONTROL_PATH_BYTES - 1);
	control->executable[length > 0 ? length : 0] = '\0';
	length = raw_file_read("/proc/self/cmdline", control->arguments, CONTROL_ARGUMENT_BYTES);
	control->argument_bytes = length > 0 ? (uint32_t)length : 0;
	if (!uname(&system))
		snprintf(control->host, sizeof(control->host), "%.63s", system.nodename);
}

static void fill_control(struct trace_control *control, const struct control_facts *facts)
{
	control->magic = TRACE_MAGIC;
	control->layout = TRACE_LAYOUT;
	control->clock = clock_choose();
	control->pid = getpid();
	control->parent_pid = getppid();
	control->exec_serial = facts->exec_serial;
	control->apis = facts->apis;
	control->notes = facts->notes;
	control->start_time = read_start_time();
	control->buffer_bytes = option_number(OPTION_BUFFER);
	snprintf(control->version, sizeof(control->version), "%s", PACKAGE_VERSION);
	snprintf(control->policy, sizeof(control->policy), "%s", facts->policy);
	snprintf(control->parent, sizeof(control->parent), "%s", facts->parent);
	read_boot_id(control->boot_id, sizeof(control->boot_id));
	read_names(control);
	clock_read_triple(&control->start, (enum clock_mode)control->clock);
}

static struct trace_control *map_control(const char *path)
{
	int fd = raw_file_create(path), error;
	void *map = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (!raw_file_reserve(fd, CONTROL_BYTES))
		map = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, fd, 0);
	error = errno;
	close(fd);
	errno = error;
	return map == MAP_FAILED ? NULL : map;
}

/* Take back what a failed start has left, the directory included: nobody will read it. */
static void remove_remains(const char *directory, const char *draft)
{
	int error = errno;

	unlink(draft);
	rmdir(directory);
	errno = error;
}

struct trace_control *control_create(const char *directory, const struct control_facts *facts)
{
	char draft[PATH_BYTES], path[PATH_BYTES];
	struct trace_control *control;

	snprintf(draft, sizeof(draft), "%s/control.new", directory);
	snprintf(path, sizeof(path), "%s/control", directory);
	control = map_control(draft);
	if (!control) {
		remove_remains(directory, draft);
		return NULL;
	}
	fill_control(control, facts);
	if (!rename(draft, path))
		return control;
	munmap(control, CONTROL_BYTES);
	remove_remains(directory, draft);
	return NULL;
}
