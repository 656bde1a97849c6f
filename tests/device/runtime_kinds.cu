/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_kinds.cu - a program of CUDA's runtime, built by nvcc with the static
 * runtime, with the shared one, and with per-thread default streams.  Four
 * threads allocate, copy and compute; each keeps to data of its own, so what is
 * printed is the same on every run.  The journal holds the bytes that the
 * program itself asked for.
 *
 *	runtime_kinds [STATUS]	ends with this status
 */
#include "journal.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum {
	THREADS = 4,
	ROUNDS = 20,
	WORDS = 1 << 16,
	BYTES = WORDS * 4,
	LEAK = 54321,
};

__constant__ uint32_t factor[4];

__global__ void scramble(uint32_t *word, uint32_t seed)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < WORDS)
		word[i] = word[i] * factor[i & 3] + seed + i;
}

static void check(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "runtime_kinds: %s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}

#define CHECK(call) check(call, #call)

static uint32_t sum_of(const uint32_t *word, size_t words)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < words; i++)
		sum = (sum ^ word[i]) * 16777619u;
	return sum;
}

static void copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	static const char *const name[] = { "H2H", "H2D", "D2H", "D2D" };

	CHECK(cudaMemcpy(to, from, bytes, kind));
	journal_transfer(NULL, name[kind], bytes);
}

static void *allocate(size_t bytes)
{
	void *block;

	CHECK(cudaMalloc(&block, bytes));
	journal_allocation(NULL, "device", bytes);
	return block;
}

/* Ordinary memory, the default stream. */
static uint32_t compute_plain(uint32_t seed)
{
	uint32_t *host = (uint32_t *)malloc(BYTES);
	uint32_t *device = (uint32_t *)allocate(BYTES), *other = (uint32_t *)allocate(BYTES);
	uint32_t sum;

	for (uint32_t i = 0; i < WORDS; i++)
		host[i] = i ^ seed;
	copy(device, host, BYTES, cudaMemcpyHostToDevice);
	scramble<<<WORDS / 256, 256>>>(device, seed);
	CHECK(cudaGetLastError());
	copy(other, device, BYTES, cudaMemcpyDeviceToDevice);
	copy(host, other, BYTES, cudaMemcpyDeviceToHost);
	sum = sum_of(host, WORDS);
	CHECK(cudaFree(device));
	CHECK(cudaFree(other));
	free(host);
	return sum;
}

/* Pinned memory, a stream of its own, a block of the stream's pool. */
static uint32_t compute_streamed(uint32_t seed)
{
	cudaStream_t stream;
	uint32_t *host, *device, sum;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&host, BYTES));
	journal_allocation(NULL, "pinned", BYTES);
	CHECK(cudaMallocAsync((void **)&device, BYTES, stream));
	journal_allocation(NULL, "pool", BYTES);
	CHECK(cudaMemsetAsync(device, (int)(seed & 255), BYTES, stream));
	journal_transfer(NULL, "MEMSET", BYTES);
	scramble<<<WORDS / 256, 256, 0, stream>>>(device, seed);
	CHECK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
	journal_transfer(NULL, "D2H", BYTES);
	CHECK(cudaFreeAsync(device, stream));
	CHECK(cudaStreamSynchronize(stream));
	sum = sum_of(host, WORDS);
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	return sum;
}

static uint32_t compute_managed(uint32_t seed)
{
	uint32_t *managed, sum;

	CHECK(cudaMallocManaged((void **)&managed, BYTES));
	journal_allocation(NULL, "managed", BYTES);
	CHECK(cudaMemset(managed, 1, BYTES));
	journal_transfer(NULL, "MEMSET", BYTES);
	scramble<<<WORDS / 256, 256>>>(managed, seed);
	CHECK(cudaDeviceSynchronize());
	sum = sum_of(managed, WORDS);
	CHECK(cudaFree(managed));
	return sum;
}

static uint32_t compute_pitched(uint32_t seed)
{
	enum { ROW = 1000, ROWS = 64 };
	static unsigned char zero[ROW * ROWS];
	uint32_t *host = (uint32_t *)calloc(ROW * ROWS, 1);
	void *block;
	size_t pitch;
	uint32_t sum;

	memset(host, (int)(seed & 127), ROW * ROWS);
	CHECK(cudaMallocPitch(&block, &pitch, ROW, ROWS));
	journal_allocation(NULL, "pitch", pitch * ROWS);
	CHECK(cudaMemcpy2D(block, pitch, host, ROW, ROW, ROWS, cudaMemcpyHostToDevice));
	journal_transfer(NULL, "H2D", ROW * ROWS);
	memcpy(host, zero, ROW * ROWS);
	CHECK(cudaMemcpy2D(host, ROW, block, pitch, ROW, ROWS, cudaMemcpyDeviceToHost));
	journal_transfer(NULL, "D2H", ROW * ROWS);
	sum = sum_of(host, ROW * ROWS / 4);
	CHECK(cudaFree(block));
	free(host);
	return sum;
}

static uint32_t compute_registered(uint32_t seed)
{
	uint32_t *host = (uint32_t *)aligned_alloc(4096, BYTES),
		 *device = (uint32_t *)allocate(BYTES);
	uint32_t sum;

	for (uint32_t i = 0; i < WORDS; i++)
		host[i] = seed - i;
	CHECK(cudaHostRegister(host, BYTES, cudaHostRegisterDefault));
	journal_allocation(NULL, "registered", BYTES);
	CHECK(cudaMemcpy(device, host, BYTES, cudaMemcpyDefault));
	journal_transfer(NULL, "H2D", BYTES);
	scramble<<<WORDS / 256, 256>>>(device, seed);
	CHECK(cudaMemcpy(host, device, BYTES, cudaMemcpyDefault));
	journal_transfer(NULL, "D2H", BYTES);
	sum = sum_of(host, WORDS);
	CHECK(cudaHostUnregister(host));
	CHECK(cudaFree(device));
	free(host);
	return sum;
}

struct worker {
	pthread_t thread;
	uint32_t number;
	uint32_t sum;
};

static void *work(void *data)
{
	struct worker *self = (struct worker *)data;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t seed = self->number * 1000 + i;

		self->sum = self->sum * 31 + compute_plain(seed);
		self->sum = self->sum * 31 + compute_streamed(seed);
		self->sum = self->sum * 31 + compute_managed(seed);
		self->sum = self->sum * 31 + compute_pitched(seed);
		self->sum = self->sum * 31 + compute_registered(seed);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const uint32_t constants[4] = { 3, 5, 7, 11 };
	struct worker worker[THREADS] = {};
	void *none = NULL;

	CHECK(cudaMemcpyToSymbol(factor, constants, sizeof(constants)));
	journal_transfer(NULL, "H2D", sizeof(constants));
	for (uint32_t i = 0; i < THREADS; i++) {
		worker[i].number = i;
		pthread_create(&worker[i].thread, NULL, work, &worker[i]);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(worker[i].thread, NULL);
		printf("thread %u %08x\n", (unsigned int)i, (unsigned int)worker[i].sum);
	}
	if (cudaMalloc(&none, (size_t)1 << 44) != cudaErrorMemoryAllocation)
		puts("16 TiB were had");
	cudaGetLastError();
	journal_add("failure", "api", "cuMemAlloc_v2", (size_t)1 << 44);
	allocate(LEAK);
	journal_live("device", LEAK);
	journal_close();
	return argc > 1 ? atoi(argv[1]) : 0;
}
