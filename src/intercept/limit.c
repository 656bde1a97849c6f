/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/limit.h"
#include "core/gate.h"
#include "core/lock.h"
#include "core/notice.h"
#include "core/option.h"
#include "core/record.h"
#include "intercept/capture.h"
#include "intercept/pool_list.h"
#include "intercept/real.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

/* A pool that has to grow does so by whole chunks, as far as the device has them. */
enum { DEVICES = 256, GRANULE = 512, CHUNK = 32 << 20 };

/* So far beyond the limit, pools are asked for nothing: chunks that could not be given back. */
enum { TOO_FAR = 4 * CHUNK };

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

/* What pools may take beside that, and calls in flight after which they may be too large. */
static _Atomic uint64_t chunks[DEVICES];
static _Atomic uint32_t growing[DEVICES];

/* Of the call in flight on this thread. */
static __thread struct {
	int device;
	bool may_outgrow; /* the limit; the rest is only known then */
	uint64_t bytes;	  /* of claimed */
	uint64_t more;	  /* of chunks */
	uint64_t used;	  /* of the device, before it */
	CUdeviceptr before; /* where the block is told */
	struct limit_need need;
} claim __attribute__((tls_model("initial-exec")));

/* What is known of a device at the moment of a check. */
struct state {
	uint64_t used;
	uint64_t left;	 /* of the limit */
	uint64_t claims; /* of others */
	uint64_t cached; /* in the pool that is asked */
	bool is_blind;	 /* the pool must not be asked now */
	bool is_hasty;	 /* enough was waited for others */
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

static void find_cached(const struct limit_need *need, uint64_t *bytes)
{
	*bytes = ask_cached(need);
}

static bool is_over_soon(CUevent event)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	CUresult result = REAL(driver, cuEventQuery)(event);

	for (int i = 0; i < YIELDS && result == CUDA_ERROR_NOT_READY; i++) {
		if (i < YIELDS / 2)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		result = REAL(driver, cuEventQuery)(event);
	}
	return result == CUDA_SUCCESS;
}

/*
 * A pool gives back what the host has seen to be over, by waiting for it: when it
 * is, which other work on the stream may put off too long.  A full device would
 * take what is over, seen or not.
 */
static void see_frees(CUstream stream)
{
	CUevent event;

	if (REAL(driver, cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return;
	if (REAL(driver, cuEventRecord)(event, stream) == CUDA_SUCCESS && is_over_soon(event))
		REAL(driver, cuEventSynchronize)(event);
	REAL(driver, cuEventDestroy_v2)(event);
}

static void trim(const struct limit_need *need, uint64_t *bytes)
{
	(void)bytes;
	if (need->is_pooled)
		see_frees((CUstream)(uintptr_t)need->stream);
	pool_list_trim(need->device);
}

/* Pools are asked while no capture is live: one question would spoil it. */
static bool ask_pools(void (*work)(const struct limit_need *, uint64_t *),
		      const struct limit_need *need, uint64_t *bytes)
{
	int before;

	if (!gate_enter())
		return false;
	before = capture_ignore();
	work(need, bytes);
	capture_mind(before);
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
	if (!state->is_hasty)
		state->claims += atomic_load_explicit(&chunks[need->device], memory_order_seq_cst);
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

static enum verdict weigh(uint64_t bytes, const struct state *state, uint64_t left)
{
	if (!goes_into(bytes, 0, left))
		return FULL;
	return goes_into(bytes, state->claims, left) ? FITS : CROWDED;
}

/*
 * Near the limit a pool takes from what it has, or grows beyond: nobody but the
 * driver knows which, so limit_leave() looks.  One call at a time, so that it
 * finds its own growth.
 */
static enum verdict judge_near(const struct limit_need *need, const struct state *state)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	uint64_t bytes = round_up(need->bytes, LIMIT_PAGE), left = state->left;
	enum verdict verdict;

	if (!goes_into(bytes, state->claims, left)) {
		bytes = round_up(need->bytes, GRANULE);
		left = pool_room(state);
	}
	verdict = state->used > limit + TOO_FAR ? FULL : weigh(bytes, state, left);
	if (verdict == FITS && !state->is_hasty &&
	    atomic_load_explicit(&growing[need->device], memory_order_seq_cst))
		return CROWDED;
	claim.bytes = bytes;
	claim.may_outgrow = true;
	claim.used = state->used;
	claim.need = *need;
	return verdict;
}

/* Where whole chunks fit, that is all. */
static enum verdict judge_pool(const struct limit_need *need, const struct state *state)
{
	uint64_t most = round_up(need->bytes, CHUNK);

	if (state->is_hasty || !goes_into(most, 0, state->left))
		return judge_near(need, state);
	claim.bytes = round_up(need->bytes, LIMIT_PAGE);
	claim.more = most - claim.bytes;
	return weigh(most, state, state->left);
}

static enum verdict judge_pages(const struct limit_need *need, const struct state *state)
{
	claim.bytes = is_shared(need, state) ? 0 : round_up(need->bytes, LIMIT_PAGE);
	return weigh(claim.bytes, state, state->left);
}

static void forget_claim(void)
{
	claim.bytes = 0;
	claim.more = 0;
	claim.may_outgrow = false;
}

/* Under the lock; what fits is claimed. */
static enum verdict judge(const struct limit_need *need, bool is_hasty)
{
	struct state state = { .is_hasty = is_hasty };
	enum verdict verdict = FITS;

	forget_claim();
	if (look(need, &state) && !state.is_blind)
		verdict = need->is_pooled ? judge_pool(need, &state) : judge_pages(need, &state);
	if (verdict != FITS) {
		forget_claim();
		return verdict;
	}
	claim.device = need->device;
	atomic_fetch_add_explicit(&claimed[need->device], claim.bytes, memory_order_seq_cst);
	atomic_fetch_add_explicit(&chunks[need->device], claim.more, memory_order_seq_cst);
	atomic_fetch_add_explicit(&growing[need->device], claim.may_outgrow, memory_order_seq_cst);
	return FITS;
}

static enum verdict judge_alone(const struct limit_need *need, bool is_hasty)
{
	enum verdict verdict;

	lock_take(&asking);
	verdict = judge(need, is_hasty);
	lock_give(&asking);
	return verdict;
}

static enum verdict judge_patiently(const struct limit_need *need)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	enum verdict verdict = judge_alone(need, false);

	for (int i = 0; verdict == CROWDED && i < YIELDS + NAPS; i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		verdict = judge_alone(need, false);
	}
	return verdict == CROWDED ? judge_alone(need, true) : verdict;
}

/* Nothing of the program lies there, and there is no room: that is worth a word. */
static void complain(int device)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	struct limit_memory memory;

	if (!notice_is_spent() && limit_ask(device, &memory) && memory.used >= limit &&
	    !limit_ask_has_own(device))
		notice_once("the limit of %s leaves nothing to allocate: contexts, code and other "
			    "processes take %llu MiB of the device",
			    option_text(OPTION_LIMIT), (unsigned long long)(memory.used >> 20));
}

/* As a full device would, pools first give back what they keep for later. */
bool limit_admit(const struct limit_need *need)
{
	int saved_errno = errno;
	enum verdict verdict;

	forget_claim();
	claim.device = 0;
	if (!need->bytes || need->device < 0 || need->device >= DEVICES)
		return true;
	verdict = judge_patiently(need);
	if (verdict != FITS && ask_pools(trim, need, NULL))
		verdict = judge_patiently(need);
	if (verdict != FITS)
		complain(need->device);
	else if (claim.may_outgrow && need->block)
		claim.before = *need->block;
	errno = saved_errno;
	return verdict == FITS;
}

/*
 * Whether the device's use has gone beyond the limit by the call of this thread,
 * and by more than what a chunk has beside what was asked for: that much, a device
 * that is full would have left out.
 */
static bool is_outgrown(void)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
	uint64_t bytes = claim.need.bytes;
	struct limit_memory memory;

	limit += round_up(bytes, CHUNK) - round_up(bytes, LIMIT_PAGE);
	return limit_ask(claim.device, &memory) && memory.used > claim.used && memory.used > limit;
}

static void take_back(const struct limit_need *need, uint64_t *is_back)
{
	CUstream stream = (CUstream)(uintptr_t)need->stream;

	trim(need, NULL);
	if (!is_outgrown() || REAL(next, cuMemFreeAsync)(*need->block, stream) != CUDA_SUCCESS)
		return;
	*is_back = 1;
	*need->block = claim.before;
	trim(need, NULL);
}

bool limit_leave(bool has_succeeded)
{
	int saved_errno = errno;
	uint64_t is_back = 0;

	if (has_succeeded && claim.may_outgrow && real_has(API_cuMemFreeAsync) && is_outgrown())
		ask_pools(take_back, &claim.need, &is_back);
	atomic_fetch_sub_explicit(&growing[claim.device], claim.may_outgrow, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&chunks[claim.device], claim.more, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&claimed[claim.device], claim.bytes, memory_order_seq_cst);
	forget_claim();
	errno = saved_errno;
	return !is_back;
}

void limit_reset(void)
{
	for (int i = 0; i < DEVICES; i++) {
		atomic_store_explicit(&claimed[i], 0, memory_order_relaxed);
		atomic_store_explicit(&chunks[i], 0, memory_order_relaxed);
		atomic_store_explicit(&growing[i], 0, memory_order_relaxed);
	}
	lock_give(&asking);
	limit_share_forget();
}
