/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address space of a device.  Device addresses lie in a reservation that nobody
 * can touch; the bytes lie in a second mapping at a constant distance.  Memory is
 * counted in pages of 2 MiB: larger blocks take whole ones, smaller ones share.
 * What was freed last is handed out first, so addresses come back quickly.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"
#include "share.h"

enum { SLAB_GRANULES = 4096, SLAB_WORDS = SLAB_GRANULES / 64, SLAB_RECENT = 32 };

/* A page that small blocks share; one bit per 512 bytes. */
struct slab {
	char *base;
	enum slab_kind kind;
	uint64_t used[SLAB_WORDS];
	unsigned free;
	unsigned hopeless;	/* no run of this many was found since the last free */
	struct { unsigned first, count; } recent[SLAB_RECENT];
	unsigned recent_count;
	struct slab *next, *prev;
};

static void *reserve(size_t bytes, int protection)
{
	void *base = mmap(NULL, bytes + PAGE_BYTES, protection,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	return (void *)round_up((size_t)base, PAGE_BYTES);
}

/* Room for four times the memory, so that holes do no harm; less where it is scarce. */
static bool reserve_both(struct device *device, size_t bytes)
{
	device->base = reserve(bytes, PROT_NONE);
	device->backing = device->base ? reserve(bytes, PROT_READ | PROT_WRITE) : NULL;
	if (device->base && !device->backing)
		munmap(device->base, bytes);
	return device->backing != NULL;
}

bool space_start(struct device *device)
{
	size_t bytes = device->total * 4;

	while (!reserve_both(device, bytes)) {
		if (bytes == device->total)
			return false;
		bytes /= 2;
	}
	device->pages = bytes >> PAGE_BITS;
	device->page_used = calloc((device->pages + 63) / 64, sizeof(uint64_t));
	device->slab_of = calloc(device->pages, sizeof(struct slab *));
	if (!device->page_used || !device->slab_of)
		return false;
	madvise(device->backing, bytes, MADV_DONTDUMP);
	return true;
}

char *space_alias(struct device *device, char *address)
{
	return device->backing + (address - device->base);
}

/* ------------------------------------------------------------------ pages */

static bool page_is_used(const struct device *device, size_t page)
{
	return device->page_used[page / 64] >> (page % 64) & 1;
}

static void mark_pages(struct device *device, size_t page, size_t count, bool used)
{
	for (size_t i = page; i < page + count; i++) {
		uint64_t bit = (uint64_t)1 << (i % 64);

		if (used)
			device->page_used[i / 64] |= bit;
		else
			device->page_used[i / 64] &= ~bit;
	}
}

/* Pages free from `page` on, counted up to `wanted`. */
static size_t free_run(const struct device *device, size_t page, size_t wanted)
{
	size_t count = 0;

	while (count < wanted && page + count < device->pages &&
	       !page_is_used(device, page + count))
		count++;
	return count;
}

static bool find_recent(struct device *device, size_t count, size_t *page)
{
	for (unsigned i = device->recent_count; i-- > 0;) {
		if (device->recent[i].count != count)
			continue;
		*page = device->recent[i].page;
		device->recent_count--;
		memmove(&device->recent[i], &device->recent[i + 1],
			(device->recent_count - i) * sizeof(device->recent[0]));
		if (free_run(device, *page, count) == count)
			return true;
	}
	return false;
}

static bool find_pages(struct device *device, size_t count, size_t *page)
{
	size_t run;

	if (find_recent(device, count, page))
		return true;
	for (size_t i = 0; i + count <= device->pages; i += run + 1) {
		run = free_run(device, i, count);
		if (run == count) {
			*page = i;
			return true;
		}
	}
	return false;
}

static void remember_pages(struct device *device, size_t page, size_t count)
{
	const unsigned room = sizeof(device->recent) / sizeof(device->recent[0]);

	if (device->recent_count == room)
		memmove(&device->recent[0], &device->recent[1],
			--device->recent_count * sizeof(device->recent[0]));
	device->recent[device->recent_count].page = page;
	device->recent[device->recent_count++].count = count;
}

static char *reserve_pages(struct device *device, size_t count)
{
	size_t page;

	if (!find_pages(device, count, &page))
		return NULL;
	mark_pages(device, page, count, true);
	return device->base + (page << PAGE_BITS);
}

void space_forget(struct device *device, char *address, size_t bytes)
{
	if (mmap(space_alias(device, address), bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		config_die("no memory to take a mapping away");
}

/* ------------------------------------------------------------------ pages that are files */

struct shared_pages {
	char *base;
	size_t bytes;
	int fd;
	struct shared_pages *next;
};

static struct shared_pages **find_shared(struct device *device, const char *address)
{
	struct shared_pages **place = &device->shared;

	while (*place && !(address >= (*place)->base && address < (*place)->base + (*place)->bytes))
		place = &(*place)->next;
	return place;
}

/* The pages are free again: no file is left. */
static void end_sharing(struct device *device, const char *address)
{
	struct shared_pages **place = find_shared(device, address), *shared = *place;

	if (!shared)
		return;
	*place = shared->next;
	space_forget(device, shared->base, shared->bytes);
	close(shared->fd);
	free(shared);
}

static bool is_zero(const char *bytes, size_t count)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* What was never written stays a hole. */
static bool copy_to_file(const char *bytes, size_t count, int fd)
{
	const size_t step = 65536;

	for (size_t at = 0; at < count; at += step)
		if (!is_zero(bytes + at, step) &&
		    pwrite(fd, bytes + at, step, (off_t)at) != (ssize_t)step)
			return false;
	return true;
}

static struct shared_pages *make_shared(struct device *device, char *base, size_t bytes)
{
	struct shared_pages *shared = calloc(1, sizeof(*shared));
	char *alias = space_alias(device, base);

	if (!shared)
		return NULL;
	shared->base = base;
	shared->bytes = bytes;
	shared->fd = share_new_file("pages", device->index, bytes);
	if (shared->fd < 0 || !copy_to_file(alias, bytes, shared->fd) ||
	    mmap(alias, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared->fd, 0) ==
	    MAP_FAILED) {
		if (shared->fd >= 0)
			close(shared->fd);
		free(shared);
		return NULL;
	}
	shared->next = device->shared;
	device->shared = shared;
	return shared;
}

bool space_share(struct device *device, char *address, size_t bytes, int *fd, size_t *offset)
{
	size_t gap = (size_t)address % PAGE_BYTES;
	struct shared_pages *shared;

	pthread_mutex_lock(&device->lock);
	shared = *find_shared(device, address);
	if (!shared)
		shared = make_shared(device, address - gap, round_up(gap + bytes, PAGE_BYTES));
	if (shared) {
		*fd = shared->fd;
		*offset = (size_t)(address - shared->base);
	}
	pthread_mutex_unlock(&device->lock);
	return shared != NULL;
}

/* ------------------------------------------------------------------ taking and giving pages */

/* The bytes are forgotten: who still reads them sees zeros. */
static void unreserve_pages(struct device *device, char *address, size_t count)
{
	size_t page = (size_t)(address - device->base) >> PAGE_BITS;

	if (device->shared)
		end_sharing(device, address);
	madvise(space_alias(device, address), count << PAGE_BITS, MADV_DONTNEED);
	mark_pages(device, page, count, false);
	remember_pages(device, page, count);
}

static char *take_pages(struct device *device, size_t count)
{
	char *address;

	if (!device_charge(device, count << PAGE_BITS))
		return NULL;
	address = reserve_pages(device, count);
	if (!address)
		device_discharge(device, count << PAGE_BITS);
	return address;
}

static void give_pages(struct device *device, char *address, size_t count)
{
	unreserve_pages(device, address, count);
	device_discharge(device, count << PAGE_BITS);
}

char *space_reserve_pages(struct device *device, size_t bytes)
{
	char *address;

	if (bytes > device->total)
		return NULL;
	pthread_mutex_lock(&device->lock);
	address = reserve_pages(device, round_up(bytes, PAGE_BYTES) >> PAGE_BITS);
	pthread_mutex_unlock(&device->lock);
	return address;
}

void space_unreserve_pages(struct device *device, char *address, size_t bytes)
{
	pthread_mutex_lock(&device->lock);
	unreserve_pages(device, address, round_up(bytes, PAGE_BYTES) >> PAGE_BITS);
	pthread_mutex_unlock(&device->lock);
}

char *space_take_pages(struct device *device, size_t bytes)
{
	char *address;

	/* Also keeps the rounding from overflowing. */
	if (bytes > device->total)
		return NULL;
	pthread_mutex_lock(&device->lock);
	address = take_pages(device, round_up(bytes, PAGE_BYTES) >> PAGE_BITS);
	pthread_mutex_unlock(&device->lock);
	return address;
}

void space_give_pages(struct device *device, char *address, size_t bytes)
{
	pthread_mutex_lock(&device->lock);
	give_pages(device, address, round_up(bytes, PAGE_BYTES) >> PAGE_BITS);
	pthread_mutex_unlock(&device->lock);
}

/* ------------------------------------------------------------------ small blocks */

static bool granule_is_used(const struct slab *slab, unsigned granule)
{
	return slab->used[granule / 64] >> (granule % 64) & 1;
}

static void mark_granules(struct slab *slab, unsigned first, unsigned count, bool used)
{
	for (unsigned i = first; i < first + count; i++) {
		uint64_t bit = (uint64_t)1 << (i % 64);

		if (used)
			slab->used[i / 64] |= bit;
		else
			slab->used[i / 64] &= ~bit;
	}
	slab->free = used ? slab->free - count : slab->free + count;
}

static unsigned granule_run(const struct slab *slab, unsigned first, unsigned wanted)
{
	unsigned count = 0;

	while (count < wanted && first + count < SLAB_GRANULES &&
	       !granule_is_used(slab, first + count))
		count++;
	return count;
}

static bool find_recent_granules(struct slab *slab, unsigned count, unsigned *first)
{
	for (unsigned i = slab->recent_count; i-- > 0;) {
		if (slab->recent[i].count != count)
			continue;
		*first = slab->recent[i].first;
		slab->recent_count--;
		memmove(&slab->recent[i], &slab->recent[i + 1],
			(slab->recent_count - i) * sizeof(slab->recent[0]));
		if (granule_run(slab, *first, count) == count)
			return true;
	}
	return false;
}

static bool find_granules(struct slab *slab, unsigned count, unsigned *first)
{
	unsigned run;

	if (slab->free < count || (slab->hopeless && count >= slab->hopeless))
		return false;
	if (find_recent_granules(slab, count, first))
		return true;
	for (unsigned i = 0; i + count <= SLAB_GRANULES; i += run + 1) {
		/* A full word is passed over at once. */
		if (i % 64 == 0 && slab->used[i / 64] == UINT64_MAX) {
			run = 63;
			continue;
		}
		run = granule_run(slab, i, count);
		if (run == count) {
			*first = i;
			return true;
		}
	}
	slab->hopeless = count;
	return false;
}

static void link_slab(struct device *device, struct slab *slab)
{
	slab->prev = NULL;
	slab->next = device->slabs[slab->kind];
	if (slab->next)
		slab->next->prev = slab;
	device->slabs[slab->kind] = slab;
}

static void unlink_slab(struct device *device, struct slab *slab)
{
	if (slab->prev)
		slab->prev->next = slab->next;
	else
		device->slabs[slab->kind] = slab->next;
	if (slab->next)
		slab->next->prev = slab->prev;
}

static struct slab *open_slab(struct device *device, enum slab_kind kind)
{
	struct slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return NULL;
	slab->base = take_pages(device, 1);
	if (!slab->base) {
		free(slab);
		return NULL;
	}
	slab->kind = kind;
	slab->free = SLAB_GRANULES;
	link_slab(device, slab);
	device->slab_of[(slab->base - device->base) >> PAGE_BITS] = slab;
	return slab;
}

static void close_slab(struct device *device, struct slab *slab)
{
	device->slab_of[(slab->base - device->base) >> PAGE_BITS] = NULL;
	unlink_slab(device, slab);
	give_pages(device, slab->base, 1);
	free(slab);
}

static char *take_granules(struct device *device, enum slab_kind kind, unsigned count)
{
	struct slab *slab = device->slabs[kind];
	unsigned first = 0;

	while (slab && !find_granules(slab, count, &first))
		slab = slab->next;
	if (!slab) {
		slab = open_slab(device, kind);
		if (!slab)
			return NULL;
		first = 0;
	}
	mark_granules(slab, first, count, true);
	return slab->base + first * GRANULE;
}

char *space_take_small(struct device *device, enum slab_kind kind, size_t bytes)
{
	char *address;

	pthread_mutex_lock(&device->lock);
	address = take_granules(device, kind, (unsigned)(round_up(bytes, GRANULE) / GRANULE));
	pthread_mutex_unlock(&device->lock);
	return address;
}

void space_give_small(struct device *device, char *address, size_t bytes)
{
	unsigned count = (unsigned)(round_up(bytes, GRANULE) / GRANULE);
	struct slab *slab;
	unsigned first;

	pthread_mutex_lock(&device->lock);
	slab = device->slab_of[(address - device->base) >> PAGE_BITS];
	first = (unsigned)((size_t)(address - slab->base) / GRANULE);
	mark_granules(slab, first, count, false);
	slab->hopeless = 0;
	if (slab->recent_count == SLAB_RECENT)
		memmove(&slab->recent[0], &slab->recent[1],
			--slab->recent_count * sizeof(slab->recent[0]));
	slab->recent[slab->recent_count].first = first;
	slab->recent[slab->recent_count++].count = count;
	/* Looked at first by the next block: addresses come back at once. */
	unlink_slab(device, slab);
	link_slab(device, slab);
	if (slab->free == SLAB_GRANULES)
		close_slab(device, slab);
	pthread_mutex_unlock(&device->lock);
}
