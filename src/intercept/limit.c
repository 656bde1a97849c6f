/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/limit.h"
#include "core/gate.h"
#include "core/lock.h"
#include "core/notice.h"
#include "core/option.h"
#include "core/record.h"
#include "intercept/pool_list.h"
#include "intercept/real.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

enum { DEVICES = 256, GRANULE = 512 };

/*
 * A call that fits but for what others claim waits until they have got it or not,
 * and no longer than this: one of them may stand in the driver behind a free
 * that waits for what this very thread does next.
 */
enum { YIELDS = 50, NAPS = 100, NAP_NS = 100000 };

_Atomic uint64_t limit_bytes;

/* Held across questions to the driver, which wait for nothing, and never across a call. */
static struct lock asking;
static _Atomic uint64_t claimed[DEVICES];

/* Of the call in flight on this thread. */
static __thread struct {
	int device;
	uint64_t bytes;
} claim __attribute__((tls_model("initial-exec")));

/* What is known of a device at the moment of a check. */
struct state {
	uint64_t used;
	uint64_t left;	 /* of the limit */
	uint64_t claims; /* of others */
	uint64_t cached; /* in the pool that is asked */
	bool is_blind;	 /* the pool must not be asked now */
};

enum verdict { FITS, CROWDED, FULL };

bool limit_start(void)
{
	uint64_t bytes = option_number(OPTION_LIMIT) / LIMIT_PAGE * LIMIT_PAGE;

	atomic_store_explicit(&limit_bytes, bytes, memory_order_relaxed);
	return bytes;
}

uint64_t limit_free(uint64_t is_free, uint64_t total)
{
	uint64_t limit = limit_total(total), used = total - is_free;

	return used < limit ? limit - used : 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	uint64_t more = bytes + unit - 1;

	return more < bytes ? UINT64_MAX : more / unit * unit;
}

/* Whether `bytes` more go into `left`; neither is near the end of the numbers by itself. */
static bool goes_into(uint64_t bytes, uint64_t claims, uint64_t left)
{
	return bytes <= left && claims <= left - bytes;
}

/* Inside the gate.  A pool of the device that cannot be asked keeps nothing. */
static uint64_t ask_cached(const struct limit_need *need)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)need->pool;
	uint64_t bytes = 0;

	if (!pool && (!real_has(API_cuDeviceGetMemPool) ||
		      REAL(driver, cuDeviceGetMemPool)(&pool, need->device) != CUDA_SUCCESS))
		return 0;
	/* The default one is listed by the first question about all. */
	if (!pool_list_cached((uintptr_t)pool, &bytes) &&
	    pool_list_reserved(need->device) != READING_UNKNOWN)
		pool_list_cached((uintptr_t)pool, &bytes);
	return bytes;
}

static void do_relaxed(void (*work)(const struct limit_need *, uint64_t *),
		       const struct limit_need *need, uint64_t *bytes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult exchanged = CUDA_ERROR_NOT_FOUND;

	if (real_has(API_cuThreadExchangeStreamCaptureMode))
		exchanged = REAL(driver, cuThreadExchangeStreamCaptureMode)(&mode);
	work(need, bytes);
	if (exchanged == CUDA_SUCCESS)
		REAL(driver, cuThreadExchangeStreamCaptureMode)(&mode);
}

static void find_cached(const struct limit_need *need, uint64_t *bytes)
{
	*bytes = ask_cached(need);
}

static void trim(const struct limit_need *need, uint64_t *bytes)
{
	(void)bytes;
	pool_list_trim(need->device);
}

/* Pools are asked while no capture is live: one question would spoil it. */
static bool ask_pools(void (*work)(const struct limit_need *, uint64_t *),
		      const struct limit_need *need, uint64_t *bytes)
{
	if (!gate_enter())
		return false;
	do_relaxed(work, need, bytes);
	gate_leave();
	return true;
}

/*
 * Claims first: a call that has its memory when the driver is asked is then
 * counted twice rather than not at all.  False: nothing can be told, or the device
 * is no larger, and the driver knows best.
 */
static bool look(const struct limit_need *need, struct state *state)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	struct limit_memory memory;

	state->claims = atomic_load_explicit(&claimed[need->device], memory_order_seq_cst);
	if (!limit_ask(need->device, &memory) || memory.total <= limit)
		return false;
	state->used = memory.used;
	state->left = memory.used < limit ? limit - memory.used : 0;
	state->cached = 0;
	state->is_blind = need->is_pooled && !ask_pools(find_cached, need, &state->cached);
	return true;
}

/* A pool that has so much may still grow, but then keeps what it had for the next. */
static uint64_t pool_room(const struct state *state)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	uint64_t in_use = state->used > state->cached ? state->used - state->cached : 0;
	uint64_t room = limit > in_use ? limit - in_use : 0;

	return room < state->cached ? room : state->cached;
}

/* A page that is begun need not be paid for; only at the end does it matter which are. */
static bool is_shared(const struct limit_need *need, const struct state *state)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);

	if (!need->may_share || need->bytes >= LIMIT_PAGE)
		return false;
	if (state->left < LIMIT_PAGE)
		return state->used <= limit &&
		       limit_share_take(need->device, need->is_array, need->bytes);
	limit_share_forget();
	return false;
}

/* What the call takes at most; `*left` becomes what it may take from. */
static uint64_t price(const struct limit_need *need, const struct state *state, uint64_t *left)
{
	uint64_t pages = round_up(need->bytes, LIMIT_PAGE);

	*left = state->left;
	if (need->is_pooled && !goes_into(pages, state->claims, state->left)) {
		*left = pool_room(state);
		return round_up(need->bytes, GRANULE);
	}
	return is_shared(need, state) ? 0 : pages;
}

/* Under the lock; what fits is claimed. */
static enum verdict judge(const struct limit_need *need)
{
	struct state state;
	uint64_t bytes = 0, left;

	if (look(need, &state) && !state.is_blind) {
		bytes = price(need, &state, &left);
		if (!goes_into(bytes, 0, left))
			return FULL;
		if (!goes_into(bytes, state.claims, left))
			return CROWDED;
	}
	claim.device = need->device;
	claim.bytes = bytes;
	atomic_fetch_add_explicit(&claimed[need->device], bytes, memory_order_seq_cst);
	return FITS;
}

static enum verdict judge_alone(const struct limit_need *need)
{
	enum verdict verdict;

	lock_take(&asking);
	verdict = judge(need);
	lock_give(&asking);
	return verdict;
}

static enum verdict judge_patiently(const struct limit_need *need)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	enum verdict verdict = judge_alone(need);

	for (int i = 0; verdict == CROWDED && i < YIELDS + NAPS; i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		verdict = judge_alone(need);
	}
	return verdict;
}

/* Nothing of the program lies there, and there is no room: that is worth a word. */
static void complain(int device)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	struct limit_memory memory;

	if (!notice_is_spent() && limit_ask(device, &memory) && memory.used >= limit &&
	    !limit_ask_own_bytes(device))
		notice_once("the limit of %s leaves nothing to allocate: contexts, code and other "
			    "processes take %llu MiB of the device",
			    option_text(OPTION_LIMIT), (unsigned long long)(memory.used >> 20));
}

/* As a full device would, pools first give back what they keep for later. */
bool limit_admit(const struct limit_need *need)
{
	int saved_errno = errno;
	enum verdict verdict;

	claim.bytes = 0;
	claim.device = 0;
	if (!need->bytes || need->device < 0 || need->device >= DEVICES)
		return true;
	verdict = judge_patiently(need);
	if (verdict != FITS && ask_pools(trim, need, NULL))
		verdict = judge_patiently(need);
	if (verdict != FITS)
		complain(need->device);
	errno = saved_errno;
	return verdict == FITS;
}

void limit_leave(void)
{
	atomic_fetch_sub_explicit(&claimed[claim.device], claim.bytes, memory_order_seq_cst);
	claim.bytes = 0;
}

void limit_reset(void)
{
	for (int i = 0; i < DEVICES; i++)
		atomic_store_explicit(&claimed[i], 0, memory_order_relaxed);
	lock_give(&asking);
	limit_share_forget();
}
