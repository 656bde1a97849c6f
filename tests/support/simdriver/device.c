/* SPDX-License-Identifier: Apache-2.0 */
/* The devices: how many, what they say of themselves, how full they are. */
#include <stdio.h>

#include "sim.h"
#include "account.h"
#include "entries.h"
#include "vmm.h"

static struct device devices[SIM_DEVICES_MAX];

struct device *device_at(int index)
{
	return &devices[index];
}

CUresult device_find(CUdevice index, struct device **device)
{
	if (index < 0 || index >= settings.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = &devices[index];
	return CUDA_SUCCESS;
}

bool device_charge(struct device *device, size_t bytes)
{
	size_t used;

	vmm_sweep();
	used = atomic_load(&device->used);
	do {
		if (bytes > device->total - used)
			return false;
	} while (!atomic_compare_exchange_weak(&device->used, &used, used + bytes));
	if (account_take(device, bytes))
		return true;
	atomic_fetch_sub(&device->used, bytes);
	return false;
}

void device_discharge(struct device *device, size_t bytes)
{
	atomic_fetch_sub(&device->used, bytes);
	account_give(device, bytes);
}

CUresult device_start(void)
{
	CUresult error;

	account_open();
	for (int i = 0; i < settings.devices; i++) {
		struct device *device = &devices[i];

		device->index = i;
		device->total = settings.memory;
		if (settings.others > device->total)
			config_die("SIMCUDA_OTHERS is more than SIMCUDA_MEMORY");
		if (!settings.shared)
			device_charge(device, settings.others);
		pthread_mutex_init(&device->lock, NULL);
		pthread_mutex_init(&device->primary_lock, NULL);
		if (!space_start(device))
			return CUDA_ERROR_OUT_OF_MEMORY;
		error = pool_start(device);
		if (error)
			return error;
	}
	return CUDA_SUCCESS;
}

CUresult device_get(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (ordinal < 0 || ordinal >= settings.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult device_count(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = settings.devices;
	return CUDA_SUCCESS;
}

CUresult device_name(char *name, int len, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "Simulated GPU");
	return CUDA_SUCCESS;
}

CUresult device_total(size_t *bytes, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = device->total;
	return CUDA_SUCCESS;
}

CUresult device_total_old(unsigned int *bytes, CUdevice dev)
{
	size_t total;
	CUresult error = device_total(&total, dev);

	if (!error && !bytes)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return error;
}

CUuuid device_identity(const struct device *device)
{
	CUuuid uuid;

	memcpy(uuid.bytes, "simulated-gpu-\0\0", sizeof(uuid.bytes));
	uuid.bytes[15] = (char)device->index;
	return uuid;
}

CUresult device_uuid(CUuuid *uuid, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	*uuid = device_identity(device);
	return CUDA_SUCCESS;
}

CUresult device_luid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	(void)luid;
	(void)deviceNodeMask;
	(void)dev;
	return CUDA_ERROR_NOT_SUPPORTED;	/* as on every Linux */
}

CUresult device_capability(int *major, int *minor, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = settings.capability / 10;
	*minor = settings.capability % 10;
	return CUDA_SUCCESS;
}

CUresult device_properties(CUdevprop *prop, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = {1024, 1024, 64},
		.maxGridSize = {INT32_MAX, 65535, 65535},
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = INT32_MAX,
		.regsPerBlock = 65536,
		.clockRate = 1980000,
		.textureAlign = 512,
	};
	return CUDA_SUCCESS;
}

CUresult device_pci(char *pciBusId, int len, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!pciBusId || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", device->index + 1);
	return CUDA_SUCCESS;
}

CUresult device_by_pci(CUdevice *dev, const char *pciBusId)
{
	unsigned domain, bus, slot;

	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
	    sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)
		return CUDA_ERROR_INVALID_VALUE;
	if (bus < 1 || bus > (unsigned)settings.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

CUresult device_affinity(int *pi, CUexecAffinityType type, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	(void)type;
	if (error)
		return error;
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult device_texture_width(size_t *maxWidthInElements, CUarray_format format,
			      unsigned numChannels, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	(void)format;
	if (error)
		return error;
	if (!maxWidthInElements || numChannels == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*maxWidthInElements = ((size_t)1 << 28) / numChannels;
	return CUDA_SUCCESS;
}

static CUresult no_atomics(unsigned int *capabilities, unsigned int count)
{
	if (!capabilities)
		return CUDA_ERROR_INVALID_VALUE;
	memset(capabilities, 0, count * sizeof(*capabilities));
	return CUDA_SUCCESS;
}

CUresult device_host_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
			     unsigned int count, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (!error && !operations)
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : no_atomics(capabilities, count);
}

CUresult device_peer_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
			     unsigned int count, CUdevice srcDevice, CUdevice dstDevice)
{
	CUresult error = device_host_atomics(capabilities, operations, count, srcDevice);
	struct device *device;

	return error ? error : device_find(dstDevice, &device);
}

/* ------------------------------------------------------------------ attributes */

struct attribute {
	CUdevice_attribute name;
	int value;
};

#define A(name) CU_DEVICE_ATTRIBUTE_##name

/* What is not listed here is 0. */
static const struct attribute attributes[] = {
	{A(MAX_THREADS_PER_BLOCK), 1024},
	{A(MAX_BLOCK_DIM_X), 1024},
	{A(MAX_BLOCK_DIM_Y), 1024},
	{A(MAX_BLOCK_DIM_Z), 64},
	{A(MAX_GRID_DIM_X), INT32_MAX},
	{A(MAX_GRID_DIM_Y), 65535},
	{A(MAX_GRID_DIM_Z), 65535},
	{A(MAX_SHARED_MEMORY_PER_BLOCK), 49152},
	{A(TOTAL_CONSTANT_MEMORY), 65536},
	{A(WARP_SIZE), 32},
	{A(MAX_PITCH), INT32_MAX},
	{A(MAX_REGISTERS_PER_BLOCK), 65536},
	{A(CLOCK_RATE), 1980000},
	{A(TEXTURE_ALIGNMENT), 512},
	{A(GPU_OVERLAP), 1},
	{A(MULTIPROCESSOR_COUNT), DEVICE_PROCESSORS},
	{A(CAN_MAP_HOST_MEMORY), 1},
	{A(MAXIMUM_TEXTURE1D_WIDTH), 131072},
	{A(MAXIMUM_TEXTURE2D_WIDTH), 131072},
	{A(MAXIMUM_TEXTURE2D_HEIGHT), 65536},
	{A(MAXIMUM_TEXTURE3D_WIDTH), 16384},
	{A(MAXIMUM_TEXTURE3D_HEIGHT), 16384},
	{A(MAXIMUM_TEXTURE3D_DEPTH), 16384},
	{A(SURFACE_ALIGNMENT), 512},
	{A(CONCURRENT_KERNELS), 1},
	{A(PCI_DEVICE_ID), 0},
	{A(MEMORY_CLOCK_RATE), 2619000},
	{A(GLOBAL_MEMORY_BUS_WIDTH), 6144},
	{A(L2_CACHE_SIZE), 62914560},
	{A(MAX_THREADS_PER_MULTIPROCESSOR), DEVICE_PROCESSOR_THREADS},
	{A(ASYNC_ENGINE_COUNT), 3},
	{A(UNIFIED_ADDRESSING), 1},
	{A(TEXTURE_PITCH_ALIGNMENT), 32},
	{A(STREAM_PRIORITIES_SUPPORTED), 1},
	{A(GLOBAL_L1_CACHE_SUPPORTED), 1},
	{A(LOCAL_L1_CACHE_SUPPORTED), 1},
	{A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR), 233472},
	{A(MAX_REGISTERS_PER_MULTIPROCESSOR), 65536},
	{A(COMPUTE_PREEMPTION_SUPPORTED), 1},
	{A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1},
	{A(CAN_USE_STREAM_MEM_OPS_V1), 1},
	{A(CAN_USE_64_BIT_STREAM_MEM_OPS), 1},
	{A(CAN_USE_64_BIT_STREAM_MEM_OPS_V1), 1},
	{A(CAN_USE_STREAM_WAIT_VALUE_NOR), 1},
	{A(CAN_USE_STREAM_WAIT_VALUE_NOR_V1), 1},
	{A(COOPERATIVE_LAUNCH), 1},
	{A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 232448},
	{A(HOST_REGISTER_SUPPORTED), 1},
	{A(MAX_BLOCKS_PER_MULTIPROCESSOR), 32},
	{A(RESERVED_SHARED_MEMORY_PER_BLOCK), 1024},
	{A(READ_ONLY_HOST_REGISTER_SUPPORTED), 1},
};

static int attribute_value(const struct device *device, CUdevice_attribute attribute)
{
	switch ((int)attribute) {
	case A(COMPUTE_CAPABILITY_MAJOR):
		return settings.capability / 10;
	case A(COMPUTE_CAPABILITY_MINOR):
		return settings.capability % 10;
	case A(PCI_BUS_ID):
		return device->index + 1;
	case A(MANAGED_MEMORY):
		return settings.managed != 0;
	case A(CONCURRENT_MANAGED_ACCESS):
		return settings.managed && settings.managed_access;
	case A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED):
	case A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED):
	case A(MULTICAST_SUPPORTED):
		return settings.vmm;
	case A(MEMORY_POOLS_SUPPORTED):
	case A(MEMPOOL_SUPPORTED_HANDLE_TYPES):
	case A(HOST_MEMORY_POOLS_SUPPORTED):
	case A(HOST_NUMA_MEMORY_POOLS_SUPPORTED):
		return settings.pools;
	}
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].name == attribute)
			return attributes[i].value;
	return 0;
}

CUresult device_attribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = attribute_value(device, attrib);
	return CUDA_SUCCESS;
}
