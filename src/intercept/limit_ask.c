/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver tells of the device of the current context only.  Elsewhere one of
 * the program's other contexts is made current for the question; it must not
 * die meanwhile, which limit_stay_home() sees to.
 */
#include "core/context.h"
#include "core/lock.h"
#include "core/tracker.h"
#include "intercept/current.h"
#include "intercept/limit.h"
#include "intercept/real.h"

#include <errno.h>

enum { SHARED_PAGES = 1024, GRANULE = 512, PAGE_SHIFT = 21 };

static struct lock outside; /* held by who uses another context than the current one */
static uint32_t deaths;	    /* calls in flight that may end a context; under that lock */

bool limit_ask_current(struct limit_memory *memory)
{
	size_t is_free = 0, total = 0;

	if (!real_has(API_cuMemGetInfo_v2) ||
	    REAL(driver, cuMemGetInfo_v2)(&is_free, &total) != CUDA_SUCCESS || is_free > total)
		return false;
	memory->total = total;
	memory->used = total - is_free;
	return true;
}

void limit_stay_home(void)
{
	if (!limit_is_on())
		return;
	lock_take(&outside);
	deaths++;
	lock_give(&outside);
}

void limit_go_out(void)
{
	if (!limit_is_on())
		return;
	lock_take(&outside);
	deaths--;
	lock_give(&outside);
}

static bool ask_in(uint64_t handle, struct limit_memory *memory)
{
	CUcontext context = (CUcontext)(uintptr_t)handle;
	bool is_known;

	if (REAL(driver, cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	is_known = limit_ask_current(memory);
	REAL(driver, cuCtxPopCurrent_v2)(&context);
	current_forget();
	return is_known;
}

/* Under the lock. */
static bool ask_outside(int device, struct limit_memory *memory)
{
	struct context context;

	for (uint32_t number = 1; !deaths && context_get(number, &context); number++)
		if (!context.is_dead && context.device == device &&
		    ask_in(context.handle, memory))
			return true;
	return false;
}

struct own {
	int device;
	uint64_t bytes;
};

/* Pages that small blocks share are counted by their bytes. */
static void add_own(const struct block *block, void *argument)
{
	struct own *own = argument;

	if (block->device != own->device || block->parent)
		return;
	switch ((enum block_kind)block->kind) {
	case BLOCK_DEVICE:
	case BLOCK_PITCH:
	case BLOCK_ARRAY:
	case BLOCK_VMM:
	case BLOCK_POOL:
		own->bytes += block->bytes;
		break;
	default:
		break;
	}
}

uint64_t limit_own_bytes(int device)
{
	struct own own = { .device = device };

	tracker_walk(add_own, &own);
	return own.bytes;
}

/* A device without a context can have been asked for virtual memory, and no more. */
static bool estimate(int device, struct limit_memory *memory)
{
	size_t total = 0;

	if (REAL(driver, cuDeviceTotalMem_v2)(&total, device) != CUDA_SUCCESS)
		return false;
	memory->total = total;
	memory->used = limit_own_bytes(device);
	return true;
}

bool limit_ask(int device, struct limit_memory *memory)
{
	const struct current *now = current_ask();
	int saved_errno = errno;
	bool is_known;

	if (now->handle && now->device == device && limit_ask_current(memory))
		return true;
	lock_take(&outside);
	is_known = ask_outside(device, memory);
	lock_give(&outside);
	is_known = is_known || estimate(device, memory);
	errno = saved_errno;
	return is_known;
}

/*
 * What linear blocks take of pages that they do not fill, by page in open
 * addressing; and small arrays, whose addresses nobody knows, in all.
 */
struct shared {
	int device;
	uint32_t context;
	uint32_t count;
	bool is_known;
	uint64_t array_bytes;
	struct {
		uint64_t page;
		uint64_t bytes;
	} pages[SHARED_PAGES];
};

static void take_of_page(struct shared *shared, uint64_t page, uint64_t bytes)
{
	uint64_t at = page * UINT64_C(0x9e3779b97f4a7c15) >> 54;

	while (shared->pages[at].page && shared->pages[at].page != page)
		at = (at + 1) % SHARED_PAGES;
	if (!shared->pages[at].page && shared->count++ > SHARED_PAGES / 2)
		return; /* so many pages are enough to tell */
	shared->pages[at].page = page;
	shared->pages[at].bytes += bytes;
}

/* The first and the last page; those between are the block's own. */
static void take_of_pages(struct shared *shared, const struct block *block)
{
	uint64_t bytes = (block->bytes + GRANULE - 1) / GRANULE * GRANULE;
	uint64_t end = block->address + bytes, first = block->address >> PAGE_SHIFT;
	uint64_t last = (end - 1) >> PAGE_SHIFT;

	if (!bytes)
		return;
	if (first == last) {
		take_of_page(shared, first, bytes);
		return;
	}
	take_of_page(shared, first, LIMIT_PAGE - block->address % LIMIT_PAGE);
	take_of_page(shared, last, end - (last << PAGE_SHIFT));
}

static void add_shared(const struct block *block, void *argument)
{
	struct shared *shared = argument;

	if (block->device != shared->device || block->context != shared->context)
		return;
	if (block->kind == BLOCK_DEVICE || block->kind == BLOCK_PITCH)
		take_of_pages(shared, block);
	else if (block->kind == BLOCK_ARRAY && block->bytes < LIMIT_PAGE && !block->parent)
		shared->array_bytes += block->bytes;
}

/* What was found; what has been promised since then is taken of it. */
static struct shared found;

void limit_forget_shared(void)
{
	found.is_known = false;
}

static void look_for_shared(int device, uint32_t context)
{
	found = (struct shared){ .device = device, .context = context, .is_known = true };
	tracker_walk(add_shared, &found);
}

static bool take_room(bool is_array, uint64_t bytes)
{
	if (is_array) {
		found.array_bytes %= LIMIT_PAGE;
		if (!found.array_bytes || found.array_bytes + bytes > LIMIT_PAGE)
			return false;
		found.array_bytes += bytes;
		return true;
	}
	for (int i = 0; i < SHARED_PAGES; i++) {
		if (!found.pages[i].page || found.pages[i].bytes + bytes > LIMIT_PAGE)
			continue;
		found.pages[i].bytes += bytes;
		return true;
	}
	return false;
}

/* All blocks are looked at once for many calls: there may be very many. */
bool limit_can_share(int device, bool is_array, uint64_t bytes)
{
	uint32_t context = current_number();

	bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	if (found.is_known && found.device == device && found.context == context &&
	    take_room(is_array, bytes))
		return true;
	look_for_shared(device, context);
	return take_room(is_array, bytes);
}

void limit_ask_reset(void)
{
	deaths = 0;
	lock_give(&outside);
	limit_forget_shared();
}
