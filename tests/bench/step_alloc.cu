/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_alloc.cu - a program of CUDA's runtime that allocates what a step needs and
 * frees it as soon as the last kernel that uses it has been launched, as much
 * code does that was never made fast.
 *
 * Prints, with tabs: median, mean and 90th percentile of a step in nanoseconds,
 * the most device memory in use, a hash of all results.
 */
#include "client.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <vector>

enum { STEPS = 500, WARM_UP = 50, WATCHED = 20, LAYERS = 6, WORDS = 1 << 20 };

static float *source;
static cudaStream_t stream;
static uint64_t most_in_use;

static void check(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "step_alloc: %s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}

#define CHECK(call) check(call, #call)

/* Some work on each word: about as long as a small layer. */
__global__ void transform(float *to, const float *from, float weight, int words)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i >= words)
		return;
	float value = from[i];

	for (int round = 0; round < 64; round++)
		value = value * weight + 0.25f - value * value * 0.125f;
	to[i] = value;
}

__global__ void add_up(double *sum, const float *from, int words)
{
	double mine = 0;

	for (int i = (int)threadIdx.x; i < words; i += (int)blockDim.x)
		mine += (double)from[i];
	sum[threadIdx.x] = mine;
}

static void *allocate(size_t bytes)
{
	void *block;

	CHECK(cudaMalloc(&block, bytes));
	return block;
}

/* Layer i works on fewer words than the one before. */
static int words_of(int layer)
{
	return WORDS >> layer / 2;
}

static double run_step(int number, bool is_watched)
{
	double sums[256], total = 0;
	float *data = (float *)allocate(WORDS * sizeof(float));
	double *sum;

	CHECK(cudaMemcpyAsync(data, source + number % 16 * 64, WORDS * sizeof(float),
			      cudaMemcpyHostToDevice, stream));
	for (int i = 0; i < LAYERS; i++) {
		float *next = (float *)allocate((size_t)words_of(i) * sizeof(float));

		transform<<<(words_of(i) + 255) / 256, 256, 0, stream>>>(
			next, data, 0.5f + 0.0625f * (float)i, words_of(i));
		if (is_watched)
			most_in_use = std::max(most_in_use, client_nvml_used());
		CHECK(cudaFree(data));
		data = next;
	}
	sum = (double *)allocate(sizeof(sums));
	add_up<<<1, 256, 0, stream>>>(sum, data, words_of(LAYERS - 1));
	CHECK(cudaMemcpyAsync(sums, sum, sizeof(sums), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaFree(data));
	CHECK(cudaFree(sum));
	for (double one : sums)
		total += one;
	return total;
}

static void print_figures(std::vector<uint64_t> &times, uint64_t hash)
{
	double sum = 0;

	std::sort(times.begin(), times.end());
	for (uint64_t one : times)
		sum += (double)one;
	printf("%llu\t%.0f\t%llu\t%llu\t%016llx\n", (unsigned long long)times[times.size() / 2],
	       sum / (double)times.size(), (unsigned long long)times[times.size() * 9 / 10],
	       (unsigned long long)most_in_use, (unsigned long long)hash);
}

int main()
{
	std::vector<uint64_t> times;
	uint64_t hash = 14695981039346656037u;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&source, (WORDS + 1024) * sizeof(float)));
	for (int i = 0; i < WORDS + 1024; i++)
		source[i] = (float)(i % 1000) / 1000.0f;
	for (int i = 0; i < WARM_UP; i++)
		run_step(i, false);
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = client_now_ns(), bits;
		double total = run_step(i, false);

		times.push_back(client_now_ns() - start);
		memcpy(&bits, &total, sizeof(bits));
		hash = (hash ^ bits) * 1099511628211u;
	}
	for (int i = 0; i < WATCHED; i++)
		run_step(i, true);
	print_figures(times, hash);
	return 0;
}
