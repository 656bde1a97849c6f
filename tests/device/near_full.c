/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near_full.c - keeps the device nearly full: random blocks are allocated, set,
 * copied into each other, read back and freed, most of them while work on them is
 * under way.  What bytes a block must hold is known, so a block that was released
 * too early, and handed out again, is found out.
 *
 *	near_full [SEED [OPERATIONS [PERCENT]]]
 *
 * What is printed depends on these and on the device's size alone.  A request
 * that fails is printed, so that a run that goes out of memory where another does
 * not is seen by comparing the two; now and then one is made that cannot be met.
 */
#include "client.h"

enum {
	STREAMS = 4,
	BLOCKS_MAX = 4096,
	PAGE = 2 << 20,
	SPOT = 1024, /* words */
	LEAST_SHIFT = 10,
	DOT = 500, /* operations between two lines of the output */
};

/* The first `head` bytes hold one word over and over, the rest another. */
struct block {
	CUdeviceptr address;
	size_t bytes;
	size_t head;
	uint32_t head_word;
	uint32_t word;
	int stream;
};

static struct block block[BLOCKS_MAX];
static int blocks;
static CUstream stream[STREAMS];
static CUevent event[STREAMS];
static size_t budget, in_use, live_bytes, device_bytes, free_at_start, busy_bytes;
static uint64_t seed = 1;
static uint32_t *staging;
static CUdeviceptr busy_block;
static unsigned long allocations, refusals, unmet, frees, copies, spots, wrong;
static uint32_t sum = 2166136261u;

static size_t footprint(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void add_to_sum(uint64_t value)
{
	for (int i = 0; i < 8; i++)
		sum = (sum ^ (uint32_t)(value >> 8 * i & 255)) * 16777619u;
}

/* Any power of two from 1 KiB up to a sixteenth of the budget is as likely as another. */
static size_t random_size(void)
{
	int shifts = 1;
	size_t bytes;

	while ((size_t)1 << (LEAST_SHIFT + shifts) < budget / 16)
		shifts++;
	bytes = (size_t)1 << (LEAST_SHIFT + client_random(&seed) % (uint32_t)shifts);
	bytes += bytes / 1024 * (client_random(&seed) % 1024);
	return bytes / 4 * 4;
}

/* ------------------------------------------------------------ work on blocks */

static void fill_block(struct block *one)
{
	one->word = client_random(&seed);
	one->head = 0;
	CALL(cuMemsetD32Async, one->address, one->word, one->bytes / 4, stream[one->stream]);
}

/* `to` gets the first bytes of `from`, whose stream is waited for and waits. */
static void copy_block(struct block *to, struct block *from)
{
	size_t bytes = from->head ? from->head : from->bytes;

	if (to == from)
		return;
	if (bytes > to->bytes)
		bytes = to->bytes;
	if (to->head)
		fill_block(to);
	CALL(cuEventRecord, event[from->stream], stream[from->stream]);
	CALL(cuStreamWaitEvent, stream[to->stream], event[from->stream], 0);
	CALL(cuMemcpyDtoDAsync, to->address, from->address, bytes, stream[to->stream]);
	CALL(cuEventRecord, event[to->stream], stream[to->stream]);
	CALL(cuStreamWaitEvent, stream[from->stream], event[to->stream], 0);
	to->head = bytes;
	to->head_word = from->head ? from->head_word : from->word;
	copies++;
}

static void check_spot(const struct block *one, size_t from)
{
	size_t words = (one->bytes - from) / 4 < SPOT ? (one->bytes - from) / 4 : SPOT;

	CALL(cuMemcpyDtoHAsync, staging, one->address + from, words * 4, stream[one->stream]);
	CALL(cuStreamSynchronize, stream[one->stream]);
	for (size_t i = 0; i < words; i++) {
		size_t at = from + i * 4;
		uint32_t expected = at < one->head ? one->head_word : one->word;

		if (staging[i] == expected)
			continue;
		printf("block of %zu bytes, at %zu: %08x, not %08x\n", one->bytes, at,
		       (unsigned int)staging[i], (unsigned int)expected);
		wrong++;
		break;
	}
	add_to_sum(words ? staging[words - 1] : 0);
	spots++;
}

/* The two ends, and where the two words meet. */
static void check_block(const struct block *one)
{
	check_spot(one, 0);
	if (one->bytes > SPOT * 8)
		check_spot(one, (one->bytes - SPOT * 4) / 4 * 4);
	if (one->head > SPOT * 2 && one->bytes - one->head > SPOT * 2)
		check_spot(one, (one->head - SPOT * 2) / 4 * 4);
}

/* Copies from host memory, which take their time. */
static void keep_busy(int on)
{
	for (int i = 0; i < 4; i++)
		CALL(cuMemcpyHtoDAsync, busy_block, staging + SPOT, busy_bytes, stream[on]);
}

/* --------------------------------------------------------- blocks come and go */

static void free_block(struct block *one)
{
	if (client_random(&seed) % 16 == 0)
		check_block(one);
	CALL(cuMemFree, one->address);
	in_use -= footprint(one->bytes);
	live_bytes -= one->bytes;
	*one = block[--blocks];
	frees++;
}

static struct block *random_block(void)
{
	return &block[client_random(&seed) % (uint32_t)blocks];
}

static void make_block(void)
{
	struct block *one = &block[blocks];
	CUresult result;

	one->bytes = random_size();
	while (blocks && (in_use + footprint(one->bytes) > budget || blocks == BLOCKS_MAX - 1)) {
		size_t bytes = one->bytes;

		free_block(random_block());
		one = &block[blocks];
		one->bytes = bytes;
	}
	result = cuMemAlloc(&one->address, one->bytes);
	add_to_sum(one->bytes);
	if (result != CUDA_SUCCESS) {
		printf("%zu bytes beside %zu: %d\n", one->bytes, in_use, (int)result);
		refusals++;
		return;
	}
	one->stream = (int)(client_random(&seed) % STREAMS);
	in_use += footprint(one->bytes);
	live_bytes += one->bytes;
	blocks++;
	allocations++;
	fill_block(one);
}

static void ask_too_much(void)
{
	CUdeviceptr address;
	CUresult result = cuMemAlloc(&address, device_bytes);

	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		printf("%zu bytes: %d\n", device_bytes, (int)result);
	unmet++;
}

/* What the program has freed is free to it, whoever has it. */
static const char *judge_free_memory(void)
{
	size_t slack = device_bytes / 64, free_bytes;

	CALL(cuMemGetInfo, &free_bytes, &device_bytes);
	if (free_bytes + in_use + slack < free_at_start)
		return "too little is free";
	return free_bytes + live_bytes > free_at_start + slack ? "too much is free" :
								 "free as freed";
}

static void do_one(unsigned long number)
{
	uint32_t choice = client_random(&seed) % 64;

	if (choice == 0)
		keep_busy((int)(number % STREAMS));
	if (choice == 1 && number % 8 == 0)
		ask_too_much();
	if (choice < 40 || blocks < 2)
		make_block();
	else if (choice < 62)
		copy_block(random_block(), random_block());
	else
		check_block(random_block());
	if (number % DOT == DOT - 1)
		printf("%lu: %d blocks, %08x, %s\n", number + 1, blocks, (unsigned int)sum,
		       judge_free_memory());
}

static void open_device(unsigned int percent)
{
	size_t free_bytes;

	client_open();
	CALL(cuMemGetInfo, &free_bytes, &device_bytes);
	busy_bytes = device_bytes / 512 / PAGE * PAGE;
	if (busy_bytes > (size_t)64 << 20)
		busy_bytes = (size_t)64 << 20;
	if (!busy_bytes)
		busy_bytes = PAGE;
	budget = (device_bytes / 100 * percent - busy_bytes) / PAGE * PAGE;
	CALL(cuMemAllocHost, (void **)&staging, SPOT * 4 + busy_bytes);
	memset(staging, 1, SPOT * 4 + busy_bytes);
	CALL(cuMemAlloc, &busy_block, busy_bytes);
	for (int i = 0; i < STREAMS; i++) {
		CALL(cuStreamCreate, &stream[i], CU_STREAM_NON_BLOCKING);
		CALL(cuEventCreate, &event[i], CU_EVENT_DISABLE_TIMING);
	}
	CALL(cuMemGetInfo, &free_at_start, &device_bytes);
}

int main(int argc, char **argv)
{
	unsigned long operations = argc > 2 ? strtoul(argv[2], NULL, 10) : 3000;
	unsigned int percent = argc > 3 ? (unsigned int)atoi(argv[3]) : 95;

	if (argc > 1)
		seed = strtoul(argv[1], NULL, 10);
	if (argc > 4 || !operations || !percent || percent > 100) {
		fprintf(stderr, "usage: near_full [SEED [OPERATIONS [PERCENT]]]\n");
		return 2;
	}
	open_device(percent);
	for (unsigned long i = 0; i < operations; i++)
		do_one(i);
	for (int i = 0; i < blocks; i++)
		check_block(&block[i]);
	while (blocks)
		free_block(&block[blocks - 1]);
	printf("%lu allocated, %lu refused, %lu could not be met, %lu freed, %lu copied\n",
	       allocations, refusals, unmet, frees, copies);
	printf("%lu spots read, %lu wrong, %08x\n", spots, wrong, (unsigned int)sum);
	return wrong != 0;
}
