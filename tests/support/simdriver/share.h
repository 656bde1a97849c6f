/* SPDX-License-Identifier: Apache-2.0 */
/* Private: memory that other processes see, as files that exist in memory only. */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include "sim.h"

/* What lies in an IPC handle or in the export data of a pool's block. */
struct share_ticket {
	uint32_t magic;
	int32_t process;
	int32_t fd;		/* of that process */
	int32_t device;
	uint64_t inode;		/* the descriptor may be another file's by now */
	uint64_t offset, size;	/* of the block in the file */
	uint64_t object, id;
};

/* A new file of so many zeros, which says what it is; -1 when there can be none. */
int share_new_file(const char *what, int device, size_t bytes);
/* Whether the descriptor is such a file, and then of which device. */
bool share_is_file(int fd, const char *what, int *device);
/* A descriptor for others; whether any that was made so is still open, wherever it went. */
int share_hand_out(int fd);
bool share_is_handed_out(int fd);
/* Where the block's bytes are in a file; makes one of its pages at first. */
CUresult share_write_ticket(struct share_ticket *ticket, uint32_t magic, struct block *block);
/* A descriptor of the ticket's file; -1 when its process or the file is gone. */
int share_open(const struct share_ticket *ticket);
/* Bytes of a file under a device address of their own, which count nowhere. */
char *share_map(struct device *device, int fd, size_t offset, size_t bytes);
void share_unmap(struct device *device, char *address, size_t bytes);

/*
 * An event of several processes: records are numbered, and the last to have passed
 * is told.  The page stays mapped, since streams may still look at it.
 */
struct shared_event {
	_Atomic uint64_t recorded, passed;
};

/* The page of a file of its own, or of one that another process has. */
struct shared_event *share_map_event(int fd);
/* A ticket to any file; `id` tells its things apart. */
CUresult share_write_file_ticket(struct share_ticket *ticket, uint32_t magic, int fd, int device);

/* event.c: an event of the current context on a file that is there. */
CUresult event_open_shared(int fd, struct event **out);

#endif
