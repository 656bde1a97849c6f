/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_share.c - IPC handles, and memory that another interface owns. */
#include "pitfall.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void give_block(void)
{
	CUdeviceptr block = new_block(4 * MIB), pooled;
	CUipcMemHandle handle;

	need(cuMemsetD32(block, 31, 16));
	need(cuCtxSynchronize());
	need(cuMemAllocAsync(&pooled, MIB, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("handle of a pool's block", cuIpcGetMemHandle(&handle, pooled));
	tell("handle of an interior address",
	     cuIpcGetMemHandle(&handle, block + MIB) != CUDA_SUCCESS);
	need(cuMemFreeAsync(pooled, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuIpcGetMemHandle(&handle, block));
	send_bytes(&handle, sizeof(handle), -1);
	wait_for_turn();
	tell("word as the other process left it", read_word(block));
	/* It has closed the handle: only now may the block go. */
	need(cuMemFree(block));
	hand_over();
}

static void take_block(void)
{
	CUdeviceptr block, again;
	CUipcMemHandle handle;
	size_t before;

	receive_bytes(&handle, sizeof(handle));
	before = used_bytes();
	need(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	need(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	tell("the same address", block == again);
	tell("MiB it takes here", (long long)(used_bytes() - before) / MIB);
	tell("word of the other process", read_word(block));
	tell("freeing it", cuMemFree(block));
	need(cuMemsetD32(block, 32, 16));
	need(cuCtxSynchronize());
	need(cuIpcCloseMemHandle(block));
	tell("word behind the first close", read_word(block));
	need(cuIpcCloseMemHandle(block));
	tell("a third close", cuIpcCloseMemHandle(block));
	hand_over();
	wait_for_turn();
}

static void ipc(void)
{
	run_two(give_block, take_block);
}

/* ---------------------------------------------------------------- external memory */

enum { FILE_BYTES = 4 * MIB };

static CUresult import_file(CUexternalMemory *memory, int *own)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC file = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.size = FILE_BYTES,
	};
	int fd = memfd_create("pitfall", 0);

	*own = dup(fd);
	if (ftruncate(fd, FILE_BYTES))
		return CUDA_ERROR_OPERATING_SYSTEM;
	file.handle.fd = fd;
	return cuImportExternalMemory(memory, &file);
}

static CUdeviceptr map_buffer(CUexternalMemory memory)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = 2 * MIB, .size = MIB };
	CUdeviceptr buffer;

	need(cuExternalMemoryGetMappedBuffer(&buffer, memory, &part));
	return buffer;
}

static CUmipmappedArray map_array(CUexternalMemory memory)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC whole = {
		.arrayDesc = { .Width = 256, .Height = 256, .NumChannels = 1,
			       .Format = CU_AD_FORMAT_UNSIGNED_INT8 },
		.numLevels = 1,
	};
	CUmipmappedArray mipmap;

	need(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &whole));
	return mipmap;
}

/* Buffers and arrays end by calls of their own; a GPU wants a graphics interface's. */
static void external(void)
{
	CUexternalMemory memory;
	CUmipmappedArray mipmap;
	CUdeviceptr buffer;
	uint32_t word = 0;
	size_t before;
	int own;

	pitfall_start();
	before = used_bytes();
	if (import_file(&memory, &own)) {
		tell("no file in memory is external memory", 1);
		return;
	}
	buffer = map_buffer(memory);
	mipmap = map_array(memory);
	tell("bytes they take", (long long)(used_bytes() - before));
	need(cuDestroyExternalMemory(memory));
	need(cuMemsetD32(buffer, 41, 16));
	need(cuCtxSynchronize());
	tell("free of the buffer", cuMemFree(buffer));
	tell("free of it again", cuMemFree(buffer));
	need(cuMipmappedArrayDestroy(mipmap));
	if (pread(own, &word, sizeof(word), 2 * MIB) == sizeof(word))
		tell("word in the file", word);
}

const struct pitfall_case pitfall_share_cases[] = {
	{ "ipc", ipc },
	{ "external", external },
	{ NULL, NULL },
};
