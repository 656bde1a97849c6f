/* SPDX-License-Identifier: Apache-2.0 */
#include "core/raw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

ssize_t raw_file_read(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t got;

	text[0] = '\0';
	if (fd < 0)
		return -1;
	do {
		got = read(fd, text + have, bytes - 1 - have);
		if (got > 0)
			have += (size_t)got;
	} while ((got > 0 && have < bytes - 1) || (got < 0 && errno == EINTR));
	close(fd);
	text[have] = '\0';
	return got < 0 ? -1 : (ssize_t)have;
}

int raw_file_create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int low = fd;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(low);
	return fd;
}

/* Whether a file may grow to `bytes` without a signal. */
static bool is_within_limit(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

int raw_file_write(int fd, const void *data, size_t bytes)
{
	const char *from = data;
	off_t at = lseek(fd, 0, SEEK_CUR);

	if (at >= 0 && !is_within_limit((uint64_t)at + bytes)) {
		errno = EFBIG;
		return -1;
	}
	while (bytes) {
		ssize_t done = write(fd, from, bytes);

		if (done < 0 && errno != EINTR)
			return -1;
		if (done > 0) {
			from += done;
			bytes -= (size_t)done;
		}
	}
	return 0;
}

/* For file systems that cannot reserve: what is written is there. */
static int write_zeros(int fd, size_t bytes)
{
	static const char zeros[4096];

	for (size_t done = 0; done < bytes; done += sizeof(zeros)) {
		size_t left = bytes - done;

		if (raw_file_write(fd, zeros, left < sizeof(zeros) ? left : sizeof(zeros)))
			return -1;
	}
	return 0;
}

int raw_file_reserve(int fd, size_t bytes)
{
	int failed;

	if (!is_within_limit(bytes)) {
		errno = EFBIG;
		return -1;
	}
	do
		failed = fallocate(fd, 0, 0, (off_t)bytes);
	while (failed && errno == EINTR);
	if (failed && (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS))
		return write_zeros(fd, bytes);
	return failed;
}

int raw_file_room(const char *path, uint64_t *bytes)
{
	struct statfs room;

	if (statfs(path, &room))
		return -1;
	*bytes = (uint64_t)room.f_bavail * (uint64_t)room.f_bsize;
	return 0;
}
