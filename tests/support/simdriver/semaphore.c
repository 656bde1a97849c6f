/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External semaphores: a word in a file that can be mapped.  A timeline's value only
 * grows; the other sort is 1 while it is signalled, and a wait takes that away.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "external.h"

CUresult semaphore_import(CUexternalSemaphore *extSem_out,
			  const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	struct external_semaphore *semaphore;
	struct stat status;
	void *value;

	if (!extSem_out || !desc || desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD &&
	    desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fstat(desc->handle.fd, &status) || status.st_size < (off_t)sizeof(uint64_t))
		return CUDA_ERROR_INVALID_HANDLE;
	value = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED,
		     desc->handle.fd, 0);
	if (value == MAP_FAILED)
		return CUDA_ERROR_INVALID_HANDLE;
	semaphore = handle_new(OBJECT_EXTERNAL_SEMAPHORE);
	if (!semaphore) {
		munmap(value, sizeof(uint64_t));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	close(desc->handle.fd);
	semaphore->value = value;
	semaphore->timeline = desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	*extSem_out = (CUexternalSemaphore)semaphore;
	return CUDA_SUCCESS;
}

static CUresult find(CUexternalSemaphore handle, struct external_semaphore **semaphore)
{
	*semaphore = (struct external_semaphore *)handle;
	return handle_check(OBJECT_EXTERNAL_SEMAPHORE, handle);
}

/* Signals and waits must be over, says the header. */
CUresult semaphore_destroy(CUexternalSemaphore extSem)
{
	struct external_semaphore *semaphore;
	CUresult error = find(extSem, &semaphore);

	if (error)
		return error;
	munmap(semaphore->value, sizeof(uint64_t));
	handle_kill(semaphore);
	handle_give(OBJECT_EXTERNAL_SEMAPHORE, semaphore);
	return CUDA_SUCCESS;
}

static CUresult start(struct stream *stream, enum op_kind kind,
		      struct external_semaphore *semaphore, uint64_t value, unsigned flags)
{
	struct op op = {
		.kind = kind, .word = (char *)semaphore->value, .word_value = value,
		.word_bytes = sizeof(uint64_t), .word_flags = flags,
	};

	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}

static CUresult signal_one(struct stream *stream, struct external_semaphore *semaphore,
			   uint64_t value)
{
	return start(stream, OP_WRITE_VALUE, semaphore, semaphore->timeline ? value : 1, 0);
}

static CUresult wait_for_one(struct stream *stream, struct external_semaphore *semaphore,
			     uint64_t value)
{
	CUresult error;

	if (semaphore->timeline)
		return start(stream, OP_WAIT_VALUE, semaphore, value, CU_STREAM_WAIT_VALUE_GEQ);
	error = start(stream, OP_WAIT_VALUE, semaphore, 1, CU_STREAM_WAIT_VALUE_EQ);
	return error ? error : start(stream, OP_WRITE_VALUE, semaphore, 0, 0);
}

static CUresult find_all(const CUexternalSemaphore *list, unsigned count, CUstream handle,
			 struct stream **stream)
{
	struct external_semaphore *semaphore;
	CUresult error = stream_find(handle, stream);

	if (!error)
		error = capture_check_legacy(*stream);
	/* They do not become nodes here. */
	if (!error)
		error = capture_check_stream(*stream);
	for (unsigned i = 0; i < count && !error; i++)
		error = find(list[i], &semaphore);
	return error;
}

CUresult semaphore_signal(const CUexternalSemaphore *extSemArray,
			  const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray,
			  unsigned int numExtSems, CUstream hStream)
{
	struct stream *stream;
	CUresult error;

	if (!extSemArray || !paramsArray || !numExtSems)
		return CUDA_ERROR_INVALID_VALUE;
	error = find_all(extSemArray, numExtSems, hStream, &stream);
	for (unsigned i = 0; i < numExtSems && !error; i++)
		error = signal_one(stream, (struct external_semaphore *)extSemArray[i],
				   paramsArray[i].params.fence.value);
	return error;
}

CUresult semaphore_wait(const CUexternalSemaphore *extSemArray,
			const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray,
			unsigned int numExtSems, CUstream hStream)
{
	struct stream *stream;
	CUresult error;

	if (!extSemArray || !paramsArray || !numExtSems)
		return CUDA_ERROR_INVALID_VALUE;
	error = find_all(extSemArray, numExtSems, hStream, &stream);
	for (unsigned i = 0; i < numExtSems && !error; i++)
		error = wait_for_one(stream, (struct external_semaphore *)extSemArray[i],
				     paramsArray[i].params.fence.value);
	return error;
}
