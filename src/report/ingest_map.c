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

/* Open a regular file of at least `bytes`; -1 with errno, EINVAL for one that is shorter. */
static int open_whole(const char *path, size_t bytes, bool *is_private)
{
	struct stat status;
	int fd = open_shared(path, is_private);

	if (fd < 0)
		return -1;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && (size_t)status.st_size >= bytes)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

static void *map_part(int fd, size_t bytes, off_t at, bool is_private)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    is_private ? MAP_PRIVATE : MAP_SHARED, fd, at);

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
	struct stat status;
	int fd;

	*map = (struct ingest_map){ 0 };
	if (!make_path(directory, "control", path))
		return 1;
	fd = open_whole(path, sizeof(struct trace_control), &map->is_private);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd >= 0) {
		map->control = map_part(fd, sizeof(struct trace_control), 0, map->is_private);
		if (!fstat(fd, &status))
			map->inode = status.st_ino;
		close(fd);
	}
	fault = map->control ? judge(map->control) : explain(errno);
	if (fault) {
		snprintf(why, bytes, "%s: %s", path, fault);
		ingest_map_close(map);
		return -1;
	}
	map->directory = strdup(directory);
	return map->directory ? 0 : 1;
}

/* There are only so many mappings; without one of its own a header is seen where it lies. */
static void map_headers(struct ingest_map *map, int fd, uint32_t segment)
{
	for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++) {
		struct chunk_header **header = &map->header[segment * SEGMENT_CHUNKS + i];

		*header = map_part(fd, CHUNK_HEADER_BYTES, (off_t)i * CHUNK_BYTES,
				   map->is_private);
		if (!*header)
			*header = (struct chunk_header *)(map->segment[segment] +
							  (size_t)i * CHUNK_BYTES);
	}
}

static bool map_segment(struct ingest_map *map, uint32_t segment, const char *path)
{
	int fd = open_whole(path, SEGMENT_BYTES, &map->is_private);

	if (fd < 0)
		return false;
	map->segment[segment] = map_part(fd, SEGMENT_BYTES, 0, map->is_private);
	if (map->segment[segment])
		map_headers(map, fd, segment);
	close(fd);
	return map->segment[segment] != NULL;
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
	map->header = ingest_table_memory(map->header, (size_t)segments * SEGMENT_CHUNKS,
					  sizeof(*map->header));
	for (; map->segments < segments; map->segments++) {
		snprintf(name, sizeof(name), "segment.%u", map->segments);
		map->segment[map->segments] = NULL;
		memset(&map->header[(size_t)map->segments * SEGMENT_CHUNKS], 0,
		       SEGMENT_CHUNKS * sizeof(*map->header));
		errno = ENAMETOOLONG;
		if (make_path(map->directory, name, path) && map_segment(map, map->segments, path))
			continue;
		if (is_good)
			snprintf(why, bytes, "%s: %s", path, explain(errno));
		is_good = false;
	}
	return is_good;
}

void ingest_map_let_go(struct trace_chunk *chunk)
{
	madvise(chunk, CHUNK_BYTES, MADV_DONTNEED);
}

static bool is_inside(const struct ingest_map *map, uint32_t segment, const void *header)
{
	const unsigned char *at = header;

	return at >= map->segment[segment] && at < map->segment[segment] + SEGMENT_BYTES;
}

static void unmap_segment(struct ingest_map *map, uint32_t segment)
{
	if (!map->segment[segment])
		return;
	for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++) {
		struct chunk_header *header = ingest_map_header(map, segment, i);

		if (!is_inside(map, segment, header))
			munmap(header, CHUNK_HEADER_BYTES);
	}
	munmap(map->segment[segment], SEGMENT_BYTES);
}

void ingest_map_close(struct ingest_map *map)
{
	for (uint32_t i = 0; i < map->segments; i++)
		unmap_segment(map, i);
	if (map->control)
		munmap(map->control, sizeof(struct trace_control));
	free(map->segment);
	free(map->header);
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
