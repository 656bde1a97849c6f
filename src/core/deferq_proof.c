/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether plain blocks go by cuMemFreeAsync here, which no manual promises: a
 * block of our own is sent that way and looked after.
 */
#include "core/deferq_queue.h"
#include "core/gate.h"

enum {
	PROOFS = 8, /* attempts to tell */
	PROOF_BYTES = 4096,
};

/*
 * Whether the driver knows the block still.  Another thread may have been given
 * the address again, so that one yes proves nothing.
 */
static bool is_known(CUdeviceptr address)
{
	unsigned int type;

	return deferq_driver()->pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						      address) == CUDA_SUCCESS;
}

/* With the context current: a block of our own goes the way that is to be proven. */
static enum plain_release try_plain(struct deferq *queue)
{
	const struct driver *driver = deferq_driver();
	CUdeviceptr address;

	if (!queue->stream &&
	    driver->stream_create(&queue->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
		queue->stream = NULL;
		return PLAIN_UNKNOWN;
	}
	if (driver->mem_alloc(&address, PROOF_BYTES) != CUDA_SUCCESS)
		return PLAIN_UNKNOWN;
	if (driver->mem_free_async(address, queue->stream) != CUDA_SUCCESS) {
		queue->leftover = address;
		return PLAIN_FAILS;
	}
	if (driver->stream_synchronize(queue->stream) != CUDA_SUCCESS || is_known(address))
		return PLAIN_UNKNOWN;
	return PLAIN_WORKS;
}

static enum plain_release prove(struct deferq *queue)
{
	enum plain_release answer;
	bool was_pushed;

	if (!deferq_driver()->mem_free_async || !deferq_driver()->ctx_record_event)
		return PLAIN_FAILS;
	if (deferq_event_push_context(queue, &was_pushed) != CUDA_SUCCESS)
		return PLAIN_UNKNOWN;
	answer = try_plain(queue);
	deferq_event_pop_context(was_pushed);
	if (answer == PLAIN_UNKNOWN && ++queue->proofs >= PROOFS)
		answer = PLAIN_FAILS;
	return answer;
}

void deferq_proof_try(struct deferq *queue)
{
	if (atomic_load(&queue->plain) == PLAIN_UNKNOWN)
		atomic_store(&queue->plain, prove(queue));
}

/*
 * Under a policy whose frees wait nothing is put off where the proof has failed,
 * so no idle moment comes for the block of it: it goes here, where the program's
 * own free is about to wait as long.  Outside the gate, in the mode in which no
 * capture minds.
 */
static void free_leftover(struct deferq *queue)
{
	const struct driver *driver = deferq_driver();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult exchanged = driver->thread_exchange_capture_mode(&mode);

	driver->mem_free(queue->leftover);
	queue->leftover = 0;
	if (exchanged == CUDA_SUCCESS)
		driver->thread_exchange_capture_mode(&mode);
}

bool deferq_proof_holds(struct deferq *queue)
{
	if (atomic_load(&queue->plain) == PLAIN_UNKNOWN && lock_try(&queue->claim)) {
		if (gate_enter()) {
			deferq_proof_try(queue);
			gate_leave();
		}
		if (queue->leftover && deferq_settings.does_wait)
			free_leftover(queue);
		lock_give(&queue->claim);
	}
	return atomic_load(&queue->plain) == PLAIN_WORKS;
}
