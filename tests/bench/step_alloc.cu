/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_alloc.cu - a program of CUDA's runtime that allocates what a step needs and
 * frees it as soon as the last kernel that uses it has been launched, as much
 * code does that was never made fast.
 *
 *	step_alloc		500 steps
 *	step_alloc switch N	N pairs of medians of 25 steps, with the interposer out
 *				of the way and with it (switch_preload.c)
 *
 * The first prints, with tabs: median, mean and 90th percentile of a step in nanoseconds,
 * the most device memory in use, a hash of all results.
 */
#include "client.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <vector>

enum { SHORT = 25, STEPS = 500, WARM_UP = 50, WATCHED = 20, LAYERS = 6, WORDS = 1 << 20 };

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

static uint64_t median_of_steps(void)
{
	std::vector<uint64_t> times;

	for (int i = 0; i < SHORT; i++) {
		uint64_t start = client_now_ns();

		run_step(i, false);
		times.push_back(client_now_ns() - start);
	}
	std::sort(times.begin(), times.end());
	return times[times.size() / 2];
}

/* Nothing is pending when the interposer comes or goes. */
static int switch_steps(int pairs)
{
	void (*switch_set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "switch_set");

	if (!switch_set) {
		fprintf(stderr, "step_alloc: no switch_set\n");
		return 1;
	}
	for (int pair = 0; pair < pairs; pair++) {
		uint64_t median[2];

		for (int turn = 0; turn < 2; turn++) {
			int is_on = turn ^ (pair & 1);

			CHECK(cudaDeviceSynchronize());
			switch_set(is_on);
			median[is_on] = median_of_steps();
			CHECK(cudaDeviceSynchronize());
		}
		switch_set(1);
		printf("%s%llu,%llu", pair ? " " : "", (unsigned long long)median[0],
		       (unsigned long long)median[1]);
	}
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	std::vector<uint64_t> times;
	uint64_t hash = 14695981039346656037u;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&source, (WORDS + 1024) * sizeof(float)));
	for (int i = 0; i < WORDS + 1024; i++)
		source[i] = (float)(i % 1000) / 1000.0f;
	for (int i = 0; i < WARM_UP; i++)
		run_step(i, false);
	if (argc == 3)
		return switch_steps(atoi(argv[2]));
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
