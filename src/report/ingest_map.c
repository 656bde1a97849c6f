/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_map.h"

#include "report/ingest_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool make_path(const char *directory, const char *name, char *path)
{
	return snprintf(path, CONTROL_PATH_BYTES, "%s/%s", directory, name) < CONTROL_PATH_BYTES;
}

/* Read and write where we may, else a private copy that only we see. */
static int open_shared(const char *path, bool *is_private)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0 || (errno != EACCES && errno != EROFS))
		return fd;
	*is_private = true;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Map a regular file of at least `bytes`; NULL with errno, EINVAL for one that is shorter. */
static void *map_file(const char *path, size_t bytes, bool *is_private)
{
	struct stat status;
	void *memory = MAP_FAILED;
	int fd = open_shared(path, is_private);
	int error;

	if (fd < 0)
		return NULL;
	errno = EINVAL;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && (size_t)status.st_size >= bytes)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      *is_private ? MAP_PRIVATE : MAP_SHARED, fd, 0);
	error = errno;
	close(fd);
	errno = error;
	return memory == MAP_FAILED ? NULL : memory;
}

static const char *explain(int error)
{
	return error == EINVAL ? "it is cut short or no regular file" : strerror(error);
}

static const char *judge(const struct trace_control *control)
{
	if (control->magic != TRACE_MAGIC)
		return "it is no control page of custody";
	if (control->layout != TRACE_LAYOUT)
		return "it was written by another version of custody";
	if (control->clock != CLOCK_TICKS_TSC && control->clock != CLOCK_TICKS_MONOTONIC)
		return "it is damaged";
	return NULL;
}

int ingest_map_open(struct ingest_map *map, const char *directory, char *why, size_t bytes)
{
	char path[CONTROL_PATH_BYTES];
	const char *fault;

	*map = (struct ingest_map){ 0 };
	if (!make_path(directory, "control", path))
		return 1;
	map->control = map_file(path, sizeof(struct trace_control), &map->is_private);
	if (!map->control && errno == ENOENT)
		return 1;
	fault = map->control ? judge(map->control) : explain(errno);
	if (fault) {
		snprintf(why, bytes, "%s: %s", path, fault);
		ingest_map_close(map);
		return -1;
	}
	map->directory = strdup(directory);
	return map->directory ? 0 : 1;
}

bool ingest_map_refresh(struct ingest_map *map, char *why, size_t bytes)
{
	uint32_t segments = atomic_load_explicit(&map->control->segments, memory_order_acquire);
	char path[CONTROL_PATH_BYTES];
	char name[32];
	bool is_good = true;

	if (segments > INGEST_MAP_SEGMENTS)
		segments = INGEST_MAP_SEGMENTS;
	if (segments <= map->segments)
		return true;
	map->segment = ingest_table_memory(map->segment, segments, sizeof(*map->segment));
	for (; map->segments < segments; map->segments++) {
		unsigned char **segment = &map->segment[map->segments];

		*segment = NULL;
		snprintf(name, sizeof(name), "segment.%u", map->segments);
		if (make_path(map->directory, name, path))
			*segment = map_file(path, SEGMENT_BYTES, &map->is_private);
		if (*segment || !is_good)
			continue;
		snprintf(why, bytes, "%s: %s", path, explain(errno));
		is_good = false;
	}
	return is_good;
}

void ingest_map_close(struct ingest_map *map)
{
	for (uint32_t i = 0; i < map->segments; i++)
		if (map->segment[i])
			munmap(map->segment[i], SEGMENT_BYTES);
	if (map->control)
		munmap(map->control, sizeof(struct trace_control));
	free(map->segment);
	free(map->directory);
	*map = (struct ingest_map){ 0 };
}

void ingest_map_remove(const char *directory)
{
	char path[CONTROL_PATH_BYTES];
	DIR *stream = opendir(directory);
	struct dirent *entry;

	if (!stream)
		return;
	while ((entry = readdir(stream)))
		if (!strncmp(entry->d_name, "segment.", 8) ||
		    !strncmp(entry->d_name, "control", 7))
			if (make_path(directory, entry->d_name, path))
				unlink(path);
	closedir(stream);
	rmdir(directory);
}
