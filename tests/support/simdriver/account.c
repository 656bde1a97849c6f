/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How full a device is.  Each process has devices of its own, unless SIMCUDA_SHARED
 * names a file: then all processes that name it fill the same ones.  The file begins
 * with a line "UUID FREE" for each device, for whoever asks without being a client.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"

enum { SLOTS = 128, TEXT_BYTES = 4096, LINE_BYTES = 64 };

/* What one process has taken; zeros, or a dead one's last words, where it is nobody's. */
struct slot {
	atomic_size_t used[SIM_DEVICES_MAX];
};

/* Behind the text. */
struct account {
	struct slot slots[SLOTS];
};

static int file = -1;
static struct account *account;	/* NULL: this process is alone */
static struct slot *own;

/* A slot's owner has its byte of the file locked, as long as it lives. */
static struct flock lock_of(const struct slot *slot)
{
	return (struct flock){
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = slot - account->slots,
		.l_len = 1,
	};
}

static bool is_taken(const struct slot *slot)
{
	struct flock lock = lock_of(slot);

	return slot == own || fcntl(file, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static struct slot *find_slot(void)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &account->slots[i];
		struct flock lock = lock_of(slot);

		if (fcntl(file, F_OFD_SETLK, &lock))
			continue;
		for (int d = 0; d < SIM_DEVICES_MAX; d++)
			atomic_store(&slot->used[d], 0);
		return slot;
	}
	config_die("SIMCUDA_SHARED: more than %d processes", SLOTS);
}

static bool map_file(void)
{
	const size_t bytes = TEXT_BYTES + sizeof(*account);
	struct stat status;
	char *base;

	file = open(settings.shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || fstat(file, &status))
		return false;
	if ((size_t)status.st_size < bytes && ftruncate(file, (off_t)bytes))
		return false;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	account = base == MAP_FAILED ? NULL : (struct account *)(void *)(base + TEXT_BYTES);
	return account != NULL;
}

static void tell(const struct device *device)
{
	char line[LINE_BYTES + 1];
	CUuuid uuid = device_identity(device);
	const unsigned char *b = (const unsigned char *)uuid.bytes;

	snprintf(line, sizeof(line),
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x %22zu\n",
		 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
		 b[12], b[13], b[14], b[15], device->total - account_used(device));
	if (pwrite(file, line, LINE_BYTES, (off_t)device->index * LINE_BYTES) != LINE_BYTES)
		config_die("%s cannot be written", settings.shared);
}

void account_open(void)
{
	if (!settings.shared)
		return;
	if (!map_file())
		config_die("SIMCUDA_SHARED: %s: %s", settings.shared, strerror(errno));
	own = find_slot();
}

/* The child of a fork has no driver; the lock must not last as long as it does. */
void account_forget(void)
{
	if (account)
		close(file);
	account = NULL;
}

void account_close(void)
{
	if (!account)
		return;
	for (int d = 0; d < settings.devices; d++) {
		atomic_store(&own->used[d], 0);
		tell(device_at(d));
	}
}

/* Of all processes; may be more than there is while one finds that out. */
static size_t sum_up(const struct device *device)
{
	size_t used = settings.others;

	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &account->slots[i];
		size_t bytes = atomic_load(&slot->used[device->index]);

		if (bytes && is_taken(slot))
			used += bytes;
	}
	return used;
}

size_t account_used(const struct device *device)
{
	size_t used = account ? sum_up(device) : atomic_load(&device->used);

	return used < device->total ? used : device->total;
}

bool account_take(struct device *device, size_t bytes)
{
	if (!account)
		return true;
	atomic_fetch_add(&own->used[device->index], bytes);
	if (sum_up(device) > device->total) {
		atomic_fetch_sub(&own->used[device->index], bytes);
		return false;
	}
	tell(device);
	return true;
}

void account_give(struct device *device, size_t bytes)
{
	if (!account)
		return;
	atomic_fetch_sub(&own->used[device->index], bytes);
	tell(device);
}
