/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every public function begins and ends with; and the structs with a size that it
 * takes and fills.
 */
#include "library/library.h"

#include <string.h>

/* ------------------------------------------------------------------ who has called */

enum { FRAMES_MOST = 32, FRAME_BYTES_MOST = 1 << 20 };

/* The linker's: what lies in between is ours. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static bool is_ours(const void *address)
{
	return (uintptr_t)address - (uintptr_t)__ehdr_start <
	       (uintptr_t)etext - (uintptr_t)__ehdr_start;
}

/*
 * Where the program, or whoever it is, has called into this library.  All files of this
 * room are compiled with frame pointers, so the chain holds for as far as it is ours.
 */
static const void *find_caller(void)
{
	void *const *frame = __builtin_frame_address(0), *const *next;

	for (int i = 0; i < FRAMES_MOST; i++) {
		if (!is_ours(frame[1]))
			return frame[1];
		next = frame[0];
		if (next <= frame || (uintptr_t)next - (uintptr_t)frame > FRAME_BYTES_MOST)
			break;
		frame = next;
	}
	return NULL;
}

/* In a trace, and where a release is refused, a block is the program's, not ours. */
static void note_caller(struct library_call *call)
{
	call->from = library_engine->from(find_caller());
	call->has_noted = true;
}

/* ------------------------------------------------------------------ entering and leaving */

int library_enter(struct library_call *call)
{
	int error;

	*call = (struct library_call){ 0 };
	error_forget();
	error = library_init();
	if (!error)
		note_caller(call);
	return error;
}

static bool is_of_a_dead_context(int result)
{
	return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

static int push(struct library_call *call, struct custody_context *context, CUcontext handle)
{
	CUcontext before = NULL;
	CUresult result = library_cuda.cuCtxGetCurrent(&before);

	if (result == CUDA_SUCCESS && before == handle)
		return 0;
	result = library_cuda.cuCtxPushCurrent(handle);
	if (is_of_a_dead_context((int)result))
		context_check(context, handle);
	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the context of device %d cannot be made current",
				 context->device->ordinal);
	call->has_pushed = true;
	return 0;
}

static int enter_context(struct library_call *call, struct custody_context *context)
{
	CUcontext handle;
	int error = context_revive(context, &handle);

	if (!error)
		error = push(call, context, handle);
	if (error)
		return library_leave(call, error);
	call->context = context;
	call->handle = handle;
	return 0;
}

int library_enter_context(struct library_call *call, struct custody_context *context)
{
	int error = library_enter(call);

	return error ? error : enter_context(call, context);
}

static int say_stale(const struct custody_context *context)
{
	return error_say(CUSTODY_E_STALE,
			 "it was made in a context of device %d that was reset since",
			 context->device->ordinal);
}

int library_enter_object(struct library_call *call, struct custody_context *context,
			 uint64_t generation)
{
	int error = library_enter(call);

	if (error)
		return error;
	if (!context_is_fresh(context, generation))
		return library_leave(call, say_stale(context));
	error = enter_context(call, context);
	if (!error && !context_is_fresh(context, generation))
		return library_leave(call, say_stale(context));
	return error;
}

int library_leave(struct library_call *call, int result)
{
	CUcontext popped;

	if (call->context && is_of_a_dead_context(result))
		context_check(call->context, call->handle);
	if (call->has_pushed)
		library_cuda.cuCtxPopCurrent(&popped);
	if (call->has_noted)
		library_engine->from(call->from);
	*call = (struct library_call){ 0 };
	return result;
}

/* ------------------------------------------------------------------ structs with a size */

enum { STRUCT_MOST = 65536 };

static int read_size(const void *given, size_t *bytes)
{
	memcpy(bytes, given, sizeof(*bytes));
	if (*bytes >= sizeof(*bytes) && *bytes <= STRUCT_MOST)
		return 0;
	return error_say(CUSTODY_E_INVALID,
			 "the struct's first field is to be its size in bytes, not %zu", *bytes);
}

int library_options(void *mine, size_t mine_bytes, const void *given)
{
	const unsigned char *bytes = given;
	size_t given_bytes;

	memset(mine, 0, mine_bytes);
	if (!given) {
		memcpy(mine, &mine_bytes, sizeof(mine_bytes));
		return 0;
	}
	if (read_size(given, &given_bytes))
		return CUSTODY_E_INVALID;
	for (size_t i = mine_bytes; i < given_bytes; i++)
		if (bytes[i])
			return error_say(CUSTODY_E_INVALID,
					 "an option at byte %zu is set, which this version of "
					 "libcustody does not know",
					 i);
	memcpy(mine, given, given_bytes < mine_bytes ? given_bytes : mine_bytes);
	memcpy(mine, &mine_bytes, sizeof(mine_bytes));
	return 0;
}

int library_fill(void *given, const void *mine, size_t mine_bytes)
{
	unsigned char *bytes = given;
	size_t given_bytes, common;

	if (!given)
		return error_say(CUSTODY_E_INVALID, "there is no struct to fill");
	if (read_size(given, &given_bytes))
		return CUSTODY_E_INVALID;
	common = given_bytes < mine_bytes ? given_bytes : mine_bytes;
	memset(bytes + sizeof(size_t), 0, given_bytes - sizeof(size_t));
	memcpy(bytes + sizeof(size_t), (const unsigned char *)mine + sizeof(size_t),
	       common - sizeof(size_t));
	return 0;
}
