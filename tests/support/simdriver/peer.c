/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of one device to the memory of another.  Copies find their way in any case,
 * as long as the client has not kept a mapping or a pool to some devices; kernels need
 * the access itself.
 */
#include "sim.h"
#include "entries.h"
#include "pool.h"

bool peer_reaches(const struct block *block, const struct context *context)
{
	const int index = context->device->index;

	switch (block->kind) {
	case BLOCK_HOST:
	case BLOCK_REGISTERED:
	case BLOCK_MANAGED:
		return true;
	case BLOCK_MAPPED:
		return block->access[index] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	case BLOCK_POOL:
	case BLOCK_IMPORTED:
		return block->pool->access[index] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	default:
		return block->device == context->device ||
		       (atomic_load(&context->peers) >> block->device->index & 1);
	}
}

static bool can_reach(CUdevice from, CUdevice to)
{
	return settings.peer && from != to;
}

CUresult peer_can(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (!error)
		error = device_find(peerDev, &device);
	if (error)
		return error;
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	*canAccessPeer = can_reach(dev, peerDev);
	return CUDA_SUCCESS;
}

CUresult peer_link(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
		   CUdevice dstDevice)
{
	CUresult error;

	if (srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	error = peer_can(value, srcDevice, dstDevice);
	if (error)
		return error;
	switch ((int)attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult peer_enable(CUcontext peerContext, unsigned int Flags)
{
	struct context *context = context_current(), *peer = (struct context *)peerContext;
	CUresult error = context_check(peerContext);
	unsigned bit;

	if (error || Flags)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	if (peer == context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!can_reach(context->device->index, peer->device->index))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1u << peer->device->index;
	if (atomic_fetch_or(&context->peers, bit) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}

CUresult peer_disable(CUcontext peerContext)
{
	struct context *peer = (struct context *)peerContext;
	CUresult error = context_check(peerContext);
	unsigned bit;

	if (error)
		return error;
	bit = 1u << peer->device->index;
	if (!(atomic_fetch_and(&context_current()->peers, ~bit) & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	return CUDA_SUCCESS;
}
