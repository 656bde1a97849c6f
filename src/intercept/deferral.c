/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/deferral.h"
#include "core/gate.h"
#include "core/lock.h"
#include "core/memory_limit.h"
#include "core/option.h"
#include "core/process.h"
#include "intercept/current.h"
#include "intercept/deferral_error.h"
#include "intercept/exclude.h"
#include "intercept/hook.h"
#include "intercept/limit.h"
#include "intercept/real.h"

#include <errno.h>
#include <string.h>
#include <sys/sysinfo.h>

_Atomic uint32_t deferral_policy;
_Atomic uint32_t deferral_forwarded;
__thread bool deferral_is_library __attribute__((tls_model("initial-exec")));

/* Under the lock; what was configured holds in a child of fork too. */
static bool is_configured;
static struct deferq_limits limits;
static bool has_limits;
static struct lock configuring;

static enum deferral_policy policy_of(const char *name)
{
	if (!strcmp(name, "nowait"))
		return DEFERRAL_NOWAIT;
	return strcmp(name, "deferred") ? DEFERRAL_IMMEDIATE : DEFERRAL_DEFERRED;
}

/* The option is for programs that know nothing of libcustody, which has its own promise. */
void deferral_start(void)
{
	if (process_is_library())
		option_set(OPTION_FREES, "nowait");
	atomic_fetch_or_explicit(&deferral_policy, policy_of(option_text(OPTION_FREES)),
				 memory_order_relaxed);
}

void deferral_serve_library(void)
{
	atomic_fetch_or(&deferral_policy, DEFERRAL_FOR_LIBRARY);
}

/* Of frees that are not the library's. */
static enum deferral_policy policy(void)
{
	return atomic_load_explicit(&deferral_policy, memory_order_relaxed) &
	       ~(uint32_t)DEFERRAL_FOR_LIBRARY;
}

/* Under the lock. */
static void load_limits(void)
{
	if (!has_limits)
		limits = (struct deferq_limits){
			.max_count = option_integer(OPTION_MAX_PENDING),
			.max_ratio = option_ratio(OPTION_MAX_PENDING_RATIO),
		};
	has_limits = true;
}

void deferral_limits(struct deferq_limits *copied)
{
	lock_take(&configuring);
	load_limits();
	*copied = limits;
	lock_give(&configuring);
}

void deferral_set_limits(const struct deferq_limits *given)
{
	lock_take(&configuring);
	limits = *given;
	has_limits = true;
	if (is_configured)
		deferq_limit(&limits);
	lock_give(&configuring);
}

/* Memory of the machine, or of the control group where that is less. */
static uint64_t host_bytes(void)
{
	uint64_t limit = memory_limit_bytes();
	struct sysinfo machine;
	uint64_t bytes;

	if (sysinfo(&machine))
		return limit;
	bytes = (uint64_t)machine.totalram * machine.mem_unit;
	return bytes < limit ? bytes : limit;
}

/*
 * Where the driver has no events of a context, a free that waits as bare can only
 * be the driver's: then nothing is put off, and nothing asks any more.
 */
static void configure(void)
{
	const struct driver *driver = deferral_driver();
	bool does_wait = policy() == DEFERRAL_DEFERRED;

	load_limits();
	deferq_configure(&(struct deferq_settings){
		.driver = driver,
		.max_count = limits.max_count,
		.max_ratio = limits.max_ratio,
		.is_strict = limits.is_strict,
		.host_bytes = host_bytes(),
		.does_wait = does_wait,
	});
	if (does_wait && !driver->ctx_record_event)
		atomic_fetch_and(&deferral_policy, DEFERRAL_FOR_LIBRARY);
}

static void configure_once(void)
{
	lock_take(&configuring);
	if (!is_configured)
		configure();
	is_configured = true;
	lock_give(&configuring);
}

/* Where it is not known how much a share of the device's memory is, nothing is put off. */
void deferral_meet(uint64_t handle, uint32_t number, int device)
{
	size_t total = 0;

	if (!deferral_is_on() || !number || deferq_find(number))
		return;
	configure_once();
	if (deferral_is_on() && REAL(driver, cuDeviceTotalMem_v2)(&total, device) == CUDA_SUCCESS &&
	    total)
		deferq_open((CUcontext)(uintptr_t)handle, number, device, limit_total(total));
}

void deferral_reset(void)
{
	deferral_error_reset();
	atomic_store(&deferral_forwarded, 0);
	lock_give(&configuring);
}

void deferral_suspend(uint32_t context, bool is_certain)
{
	struct deferq *queue = deferq_find(context);

	if (queue)
		deferq_dying(queue, is_certain);
}

void deferral_resume(uint32_t context)
{
	struct deferq *queue = deferq_find(context);

	if (queue)
		deferq_revive(queue);
}

void deferral_drop(uint32_t context)
{
	struct deferq *queue = deferq_find(context);

	if (queue)
		deferq_drop(queue);
}

void deferral_part(uint32_t context)
{
	struct deferq *queue = deferq_find(context);

	if (queue)
		deferq_part(queue);
}

struct deferq *deferral_queue(uint32_t context)
{
	if (policy() == DEFERRAL_IMMEDIATE && !deferral_is_library)
		return NULL;
	return context && !exclude_has(context) ? deferq_find(context) : NULL;
}

/* As a free of what is nobody's, which has no bytes. */
static void write_refusal(struct call *call, const struct block *block)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_FREE,
				 .a = block->address,
				 .context = current_number(),
				 .aux = RELEASE_FREED,
				 .flags = RECORD_UNTRACKED,
			 });
}

static void write_free(struct call *call, const struct block *block, uint64_t waited, uint8_t flags)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_FREE,
				 .a = block->address,
				 .b = block->id,
				 .c = block->bytes,
				 .stream = waited,
				 .context = current_number(),
				 .aux = RELEASE_FREED,
				 .flags = flags,
			 });
}

void deferral_write_finding(struct call *call, enum finding_kind kind, uint64_t address,
			    uint64_t id, uint64_t bytes)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_FINDING,
				 .a = address,
				 .b = id,
				 .c = bytes,
				 .context = current_number(),
				 .aux = (uint16_t)kind,
				 .flags = RECORD_MORE,
			 });
}

/* An address that is nobody's is no value, a handle that is nobody's no handle. */
bool deferral_refuse(struct call *call, const struct block *block)
{
	call_returned(call, block->space == SPACE_ADDRESS ? CUDA_ERROR_INVALID_VALUE :
							    CUDA_ERROR_INVALID_HANDLE);
	write_refusal(call, block);
	deferral_write_finding(call, FINDING_DOUBLE_FREE, block->address, block->id, block->bytes);
	return true;
}

/* Others hold what was exported; views and what outlives contexts have owners of their own. */
static bool may_wait(const struct block *block)
{
	return !block->is_exported && !block->parent && block->references == 1;
}

/* The block is marked; true: the call is answered. */
static bool queue_block(struct call *call, const struct block *block, struct deferq *queue,
			enum deferq_kind kind)
{
	const struct deferq_item item = {
		.handle = block->address,
		.bytes = block->bytes,
		.id = block->id,
		.space = block->space,
		.kind = (uint8_t)kind,
		.caller = call->caller,
		.is_nowait = deferral_is_library,
	};
	struct deferq_report report = { 0 };
	int saved_errno = errno;
	uint64_t waited = 0;
	CUresult result;
	enum deferq_answer answer = deferq_add(queue, &item, &result, &waited, &report);

	errno = saved_errno;
	if (answer == DEFERQ_FREED)
		pending_close((enum block_space)block->space, block->address, block->bytes,
			      block->id);
	else if (answer != DEFERQ_QUEUED)
		pending_cancel(block);
	if (answer != DEFERQ_REFUSED) {
		call_returned(call, result);
		write_free(call, block, waited, answer == DEFERQ_QUEUED ? RECORD_PENDING : 0);
	}
	deferral_tell(call, &report);
	return answer != DEFERQ_REFUSED;
}

static bool is_driver_waiting(void)
{
	return atomic_load_explicit(&deferral_forwarded, memory_order_relaxed) &&
	       policy() == DEFERRAL_DEFERRED && !deferral_is_library;
}

/* Of two threads that free one block at once, one frees it a second time. */
bool deferral_free(struct call *call, const struct block *block, enum deferq_kind kind)
{
	struct deferq *queue;
	struct block again;

	if (block->is_pending)
		return deferral_refuse(call, block);
	queue = deferral_queue(block->context);
	if (!queue || !may_wait(block) || is_driver_waiting())
		return false;
	if (pending_begin(block))
		return queue_block(call, block, queue, kind);
	return pending_find((enum block_space)block->space, block->address, &again) &&
	       deferral_refuse(call, &again);
}

/* The driver's function that has released, or refused to. */
static enum api release_api(const struct deferq_item *item)
{
	switch ((enum deferq_kind)item->kind) {
	case DEFERQ_HOST:
		return API_cuMemFreeHost;
	case DEFERQ_ARRAY:
		return API_cuArrayDestroy;
	case DEFERQ_MIPMAPPED_ARRAY:
		return API_cuMipmappedArrayDestroy;
	case DEFERQ_MODULE:
		return API_cuModuleUnload;
	case DEFERQ_STREAM:
		return API_cuStreamDestroy_v2;
	case DEFERQ_EVENT:
		return API_cuEventDestroy_v2;
	default:
		return item->is_issued ? API_cuMemFreeAsync : API_cuMemFree_v2;
	}
}

static void put(const struct record *record, const void *caller, uint32_t context)
{
	struct record *slot = segment_reserve(&thread_segment, 1);

	if (!slot)
		return;
	*slot = *record;
	slot->flags |= RECORD_BY_CUSTODY | RECORD_MORE;
	slot->caller_context =
		((uint64_t)(uintptr_t)caller & ((UINT64_C(1) << RECORD_CALLER_BITS) - 1)) |
		(uint64_t)context << RECORD_CALLER_BITS;
	segment_publish(&thread_segment, 1);
}

/* What is no block ends none: only that it could not be released is worth a record. */
static void write_release(const struct deferq_item *item)
{
	const struct record record = {
		.start = item->closed,
		.api = (uint16_t)release_api(item),
		.kind = RECORD_RELEASE,
		.a = item->handle,
		.b = item->id,
		.c = item->bytes,
		.stream = item->ready,
		.result = item->result,
		.aux = item->cause,
	};

	if (item->id || item->result)
		put(&record, item->caller, item->context);
}

static void write_flush(const struct call *call, const struct deferq_flush *flush)
{
	struct record record = {
		.start = flush->start,
		.api = call ? call->api : 0,
		.kind = RECORD_FLUSH,
		.a = flush->count,
		.b = flush->bytes,
		.c = flush->waited,
		.stream = flush->failed,
		.aux = (uint16_t)(flush->cause | flush->queue << 8),
	};

	if (call)
		caller_note(call->caller);
	call_set_duration(&record, flush->duration);
	put(&record, call ? call->caller : NULL, flush->context);
}

void deferral_write(struct call *call, struct deferq_report *report)
{
	for (const struct deferq_item *item = report->items; item; item = item->next) {
		if (item->result)
			deferral_error_note(item);
		write_release(item);
	}
	for (const struct deferq_flush *flush = report->flushes; flush; flush = flush->next)
		write_flush(call, flush);
	deferq_told(report);
}

void deferral_collect(struct call *call)
{
	struct deferq *queue = deferq_find(current_ask()->number);
	struct deferq_report report = { 0 };
	int saved_errno = errno;

	if (!queue || call->result != CUDA_SUCCESS)
		return;
	deferq_collect(queue, &report);
	errno = saved_errno;
	deferral_tell(call, &report);
}

/* The call of the program begins behind it. */
static void collect_inside(struct call *call)
{
	struct deferq_report report = { 0 };
	int saved_errno = errno;

	deferq_collect_inside(&report);
	errno = saved_errno;
	deferral_tell(call, &report);
	call->start = clock_ticks(call->self->clock);
	segment_mark_busy(call->self, call->start);
}

void deferral_shut_gate(struct call *call)
{
	gate_shut();
	if (!deferral_is_on() || !gate_stay())
		return;
	if (deferq_has_pending(-1))
		collect_inside(call);
	gate_leave();
}

void deferral_reuse(struct call *call, uint64_t address, uint64_t bytes)
{
	struct deferq_report report = { 0 };

	deferq_reuse(address, bytes, call->start + call->ticks, &report);
	deferral_tell(call, &report);
}
