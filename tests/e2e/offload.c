/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offload.c - OpenMP's way to a device: its memory, its data regions and, where the
 * compiler makes code for devices (-DOFFLOADED), target regions.
 *
 * Built when its test runs, for what libgomp does below it is what is looked at.
 * Says what it did: "block BYTES", "H2D BYTES", "D2H BYTES", "D2D BYTES", and
 * "region" for each one that was launched.  77: there is no device.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 100000, NUMBERS = 20000 };

static const int device; /* the first */
static int host;

static void require(int is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "offload: this failed: %s\n", what);
	exit(1);
}

static void copy(void *target, const void *source, size_t bytes, int to, int from)
{
	require(!omp_target_memcpy(target, source, bytes, 0, 0, to, from), "a copy succeeds");
	printf("%s %zu\n", to == host ? "D2H" : from == host ? "H2D" : "D2D", bytes);
}

static void *allocate(size_t bytes)
{
	void *block = omp_target_alloc(bytes, device);

	require(block != NULL, "an allocation succeeds");
	printf("block %zu\n", bytes);
	return block;
}

/* The functions that take an address of the device. */
static void move_blocks(unsigned char *there, unsigned char *back)
{
	unsigned char *a = allocate(BYTES), *b = allocate(BYTES / 2);

	copy(a, there, BYTES, device, host);
	copy(b, a + 1000, BYTES / 4, device, device);
	copy(back, b, BYTES / 4, host, device);
	require(!memcmp(back, there + 1000, BYTES / 4), "bytes come back as they went");
	omp_target_free(a, device);
	omp_target_free(b, device);
}

/* A block of ours serves for a variable of the host. */
static void associate(unsigned char *there)
{
	unsigned char *block = allocate(BYTES);

	require(!omp_target_associate_ptr(there, block, BYTES, 0, device), "it is associated");
	require(omp_target_is_present(there, device), "it is there");
#pragma omp target update to(there[0:7777])
	printf("H2D 7777\n");
	/* It is there already: no block, no copy. */
#pragma omp target data map(tofrom : there[0:BYTES])
	require(omp_target_is_present(there + 5, device), "a part of it is there");
	require(!omp_target_disassociate_ptr(there, device), "it is not any more");
	require(!omp_target_is_present(there, device), "it is not there");
	omp_target_free(block, device);
}

static void map_data(int *numbers)
{
#pragma omp target enter data map(to : numbers[0:NUMBERS])
	printf("mapped\nH2D %zu\n", NUMBERS * sizeof(*numbers));
	numbers[0] = 0;
#pragma omp target update from(numbers[0:10])
	printf("D2H %zu\n", 10 * sizeof(*numbers));
	require(numbers[0] == 42, "the device has kept it");
#pragma omp target exit data map(from : numbers[0:NUMBERS])
	printf("D2H %zu\n", NUMBERS * sizeof(*numbers));
#pragma omp target data map(tofrom : numbers[0:300])
	printf("mapped\nH2D %zu\n", 300 * sizeof(*numbers));
	printf("D2H %zu\n", 300 * sizeof(*numbers));
	require(numbers[299] == 299 + 42, "it is what it was");
}

#ifdef OFFLOADED
#pragma omp declare target
int counter;
#pragma omp end declare target

/* Code does nothing on the simulated device: what a region sets stays as it was. */
static void run_regions(int *numbers)
{
	int is_host = -1;

#pragma omp target map(tofrom : is_host)
	is_host = omp_is_initial_device();
	printf("region\n");
	require(is_host == -1, "the region ran on the device");
	for (int round = 0; round < 3; round++) {
#pragma omp target teams distribute parallel for map(tofrom : numbers[0:NUMBERS])
		for (int i = 0; i < NUMBERS; i++)
			numbers[i]++;
		printf("region\nH2D %zu\nD2H %zu\n", NUMBERS * sizeof(*numbers),
		       NUMBERS * sizeof(*numbers));
	}
#pragma omp target nowait map(to : numbers[0:NUMBERS])
	counter += numbers[1];
#pragma omp taskwait
	printf("region\nH2D %zu\n", NUMBERS * sizeof(*numbers));
	require(numbers[5] == 5 + 42, "the device has counted nothing");
	counter = 9;
#pragma omp target update to(counter)
	counter = 0;
#pragma omp target update from(counter)
	require(counter == 9, "a variable of the device keeps its value");
}
#endif

int main(void)
{
	unsigned char *there = malloc(BYTES), *back = malloc(BYTES);
	int *numbers = malloc(NUMBERS * sizeof(*numbers));

	if (!omp_get_num_devices())
		return 77;
	host = omp_get_initial_device();
	for (int i = 0; i < BYTES; i++)
		there[i] = (unsigned char)(i % 251);
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i + 42;
	move_blocks(there, back);
	associate(there);
	map_data(numbers);
#ifdef OFFLOADED
	run_regions(numbers);
#endif
	free(there);
	free(back);
	free(numbers);
	return 0;
}
