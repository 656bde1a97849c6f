/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing between processes.  A file in memory holds the bytes; another process opens
 * it by the descriptor of the one that made it, so nothing is left behind when that
 * ends.  Memory becomes such a file when it is first shared.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

/* Growing a file beyond RLIMIT_FSIZE would end the process by a signal. */
int share_new_file(const char *what, int device, size_t bytes)
{
	struct rlimit limit;
	char name[64];
	int fd;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		return -1;
	snprintf(name, sizeof(name), "simdriver.%s.%d", what, device);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool share_is_file(int fd, const char *what, int *device)
{
	char link[64], target[128], start[64];
	ssize_t length;
	int skip;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	skip = snprintf(start, sizeof(start), "/memfd:simdriver.%s.", what);
	if (strncmp(target, start, (size_t)skip) != 0)
		return false;
	*device = atoi(target + skip);
	return *device >= 0 && *device < settings.devices;
}

/*
 * A file opened anew, not a copy of the descriptor: its lock lasts until all copies
 * of it are closed, in whichever process.
 */
int share_hand_out(int fd)
{
	char path[64];
	int out;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	out = open(path, O_RDWR | O_CLOEXEC);
	if (out >= 0 && flock(out, LOCK_SH)) {
		close(out);
		return -1;
	}
	return out;
}

bool share_is_handed_out(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB))
		return true;
	flock(fd, LOCK_UN);
	return false;
}

CUresult share_write_file_ticket(struct share_ticket *ticket, uint32_t magic, int fd, int device)
{
	struct stat status;

	if (fstat(fd, &status))
		return CUDA_ERROR_OPERATING_SYSTEM;
	*ticket = (struct share_ticket){
		.magic = magic,
		.process = getpid(),
		.fd = fd,
		.device = device,
		.inode = status.st_ino,
	};
	return CUDA_SUCCESS;
}

struct shared_event *share_map_event(int fd)
{
	void *page = mmap(NULL, sizeof(struct shared_event), PROT_READ | PROT_WRITE, MAP_SHARED,
			  fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

CUresult share_write_ticket(struct share_ticket *ticket, uint32_t magic, struct block *block)
{
	CUresult error;
	size_t offset;
	int fd;

	if (!space_share(block->device, block->base, block->span, &fd, &offset))
		return CUDA_ERROR_OPERATING_SYSTEM;
	error = share_write_file_ticket(ticket, magic, fd, block->device->index);
	ticket->offset = offset;
	ticket->size = block->size;
	ticket->object = (uintptr_t)block->base;
	ticket->id = block->id;
	return error;
}

int share_open(const struct share_ticket *ticket)
{
	struct stat status;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ticket->process, ticket->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) || status.st_ino != ticket->inode ||
	    ticket->offset + ticket->size > (uint64_t)status.st_size) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A file is mapped from a page of the processor on, whatever the offset is. */
char *share_map(struct device *device, int fd, size_t offset, size_t bytes)
{
	size_t gap = offset % 4096, whole = round_up(gap + bytes, 4096);
	char *address = space_reserve_pages(device, whole);

	if (!address)
		return NULL;
	if (mmap(space_alias(device, address), whole, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, (off_t)(offset - gap)) == MAP_FAILED) {
		space_unreserve_pages(device, address, whole);
		return NULL;
	}
	return address + gap;
}

void share_unmap(struct device *device, char *address, size_t bytes)
{
	size_t gap = (size_t)address % PAGE_BYTES, whole = round_up(gap + bytes, PAGE_BYTES);
	char *start = address - gap;

	space_forget(device, start, whole);
	space_unreserve_pages(device, start, whole);
}
