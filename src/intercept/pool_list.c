/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots are written under a lock and read without one.  A pool that is destroyed
 * leaves its slot first; then whoever may have read the slot is waited for.
 */
#include "intercept/pool_list.h"
#include "core/lock.h"
#include "core/record.h"
#include "intercept/real.h"

#include <sched.h>

enum { POOLS = 256, DEVICES = 256, DEVICE_BITS = 16 };

/* Handle and device in one word, 0 for an empty slot; handles are addresses. */
static _Atomic uint64_t slots[POOLS];
static _Atomic uint32_t used; /* slots that were ever filled */
static _Atomic bool is_full;  /* a pool found no slot: sums would lack it */
static _Atomic uint32_t readers;
static struct lock writing;

/* The default pool of a device is in the list, or there is none. */
static _Atomic bool is_default_known[DEVICES];

/* Blocks of a pool on this device were left when it was destroyed. */
static _Atomic bool is_outlived[DEVICES];

static bool is_same(uint64_t slot, uint64_t pool)
{
	return slot >> DEVICE_BITS == pool;
}

/* Under the lock: the slot of a pool, or of none; -1: there is none. */
static int find_slot(uint64_t pool)
{
	uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (is_same(atomic_load_explicit(&slots[i], memory_order_relaxed), pool))
			return (int)i;
	return -1;
}

/* Under the lock. */
static int take_slot(void)
{
	uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);
	int slot = find_slot(0);

	if (slot >= 0 || count == POOLS)
		return slot;
	atomic_store_explicit(&used, count + 1, memory_order_release);
	return (int)count;
}

/* Under the lock. */
static void add(uint64_t pool, int device)
{
	int slot = find_slot(pool);

	if (slot < 0)
		slot = take_slot();
	if (slot < 0 || pool >> (64 - DEVICE_BITS))
		atomic_store_explicit(&is_full, true, memory_order_relaxed);
	else
		atomic_store_explicit(&slots[slot], pool << DEVICE_BITS | (uint16_t)device,
				      memory_order_release);
}

void pool_list_add(uint64_t pool, int device)
{
	if (!pool || device < 0)
		return;
	lock_take(&writing);
	add(pool, device);
	lock_give(&writing);
}

/* Under the lock. */
static bool take_out(uint64_t pool, int *device)
{
	int slot = find_slot(pool);

	if (slot < 0)
		return false;
	*device = (uint16_t)atomic_exchange_explicit(&slots[slot], 0, memory_order_seq_cst);
	return true;
}

bool pool_list_remove(uint64_t pool, int *device)
{
	bool was_listed;

	if (!pool)
		return false;
	lock_take(&writing);
	was_listed = take_out(pool, device);
	lock_give(&writing);
	while (was_listed && atomic_load_explicit(&readers, memory_order_seq_cst))
		sched_yield();
	return was_listed;
}

/* False: the driver did not answer this time.  No pool: it has none. */
static bool ask_default(CUdevice device, CUmemoryPool *pool)
{
	int has = 0;

	if (!real_has(API_cuDeviceGetDefaultMemPool) || !real_has(API_cuMemPoolGetAttribute))
		return true;
	if (REAL(driver, cuDeviceGetAttribute)(&has, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
					       device) != CUDA_SUCCESS)
		return false;
	return !has || REAL(driver, cuDeviceGetDefaultMemPool)(pool, device) == CUDA_SUCCESS;
}

/*
 * Stream-ordered memory comes from this pool without the program asking for it by
 * name.  Threads that come at once all ask, and list the same pool.
 */
static void list_default(CUdevice device)
{
	CUmemoryPool pool = NULL;

	if (atomic_load_explicit(&is_default_known[device], memory_order_acquire) ||
	    !ask_default(device, &pool))
		return;
	pool_list_add((uintptr_t)pool, device);
	atomic_store_explicit(&is_default_known[device], true, memory_order_release);
}

static bool ask(CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t *bytes)
{
	return REAL(driver, cuMemPoolGetAttribute)(pool, attribute, bytes) == CUDA_SUCCESS;
}

static bool ask_cached(CUmemoryPool pool, uint64_t *bytes)
{
	cuuint64_t reserved = 0, in_use = 0;

	if (!ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ||
	    !ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &in_use))
		return false;
	*bytes = reserved > in_use ? reserved - in_use : 0;
	return true;
}

static bool ask_reserved(CUmemoryPool pool, uint64_t *bytes)
{
	cuuint64_t reserved = 0;
	bool is_told = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);

	*bytes = reserved;
	return is_told;
}

static uint64_t sum_up(CUdevice device, bool (*ask_pool)(CUmemoryPool pool, uint64_t *bytes))
{
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t slot = atomic_load_explicit(&slots[i], memory_order_seq_cst);
		CUmemoryPool pool = (CUmemoryPool)(uintptr_t)(slot >> DEVICE_BITS);
		uint64_t bytes = 0;

		if (!slot || (uint16_t)slot != device)
			continue;
		if (!ask_pool(pool, &bytes))
			return READING_UNKNOWN;
		sum += bytes;
	}
	return sum;
}

uint64_t pool_list_reserved(CUdevice device)
{
	bool is_cached;
	uint64_t sum;

	if (device < 0 || device >= DEVICES || atomic_load_explicit(&is_full, memory_order_relaxed))
		return READING_UNKNOWN;
	list_default(device);
	is_cached = atomic_load_explicit(&is_outlived[device], memory_order_relaxed);
	atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst);
	sum = sum_up(device, is_cached ? ask_cached : ask_reserved);
	atomic_fetch_sub_explicit(&readers, 1, memory_order_release);
	return is_cached && sum != READING_UNKNOWN ? sum | READING_CACHED : sum;
}

/* Who is counted among the readers finds that a listed pool stays. */
static bool is_listed(uint64_t pool)
{
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		if (is_same(atomic_load_explicit(&slots[i], memory_order_seq_cst), pool))
			return true;
	return false;
}

bool pool_list_cached(uint64_t pool, uint64_t *bytes)
{
	bool is_known;

	atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst);
	is_known = pool && is_listed(pool) && ask_cached((CUmemoryPool)(uintptr_t)pool, bytes);
	atomic_fetch_sub_explicit(&readers, 1, memory_order_release);
	return is_known;
}

bool pool_list_has_blocks(uint64_t pool)
{
	cuuint64_t in_use = 0;
	bool has_blocks;

	atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst);
	has_blocks = pool && is_listed(pool) &&
		     ask((CUmemoryPool)(uintptr_t)pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
			 &in_use) && in_use;
	atomic_fetch_sub_explicit(&readers, 1, memory_order_release);
	return has_blocks;
}

void pool_list_outlived(int device)
{
	if (device >= 0 && device < DEVICES)
		atomic_store_explicit(&is_outlived[device], true, memory_order_relaxed);
}

void pool_list_trim(CUdevice device)
{
	uint32_t count;

	if (device < 0 || device >= DEVICES)
		return;
	list_default(device);
	atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst);
	count = atomic_load_explicit(&used, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t slot = atomic_load_explicit(&slots[i], memory_order_seq_cst);

		if (slot && (uint16_t)slot == device)
			REAL(driver, cuMemPoolTrimTo)
			((CUmemoryPool)(uintptr_t)(slot >> DEVICE_BITS), 0);
	}
	atomic_fetch_sub_explicit(&readers, 1, memory_order_release);
}

void pool_list_reset(void)
{
	lock_give(&writing);
	for (int i = 0; i < POOLS; i++)
		atomic_store_explicit(&slots[i], 0, memory_order_relaxed);
	for (int i = 0; i < DEVICES; i++) {
		atomic_store_explicit(&is_default_known[i], false, memory_order_relaxed);
		atomic_store_explicit(&is_outlived[i], false, memory_order_relaxed);
	}
	atomic_store_explicit(&used, 0, memory_order_relaxed);
	atomic_store_explicit(&is_full, false, memory_order_relaxed);
	atomic_store_explicit(&readers, 0, memory_order_relaxed);
}
