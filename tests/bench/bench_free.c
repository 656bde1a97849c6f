/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_free.c - what a release costs: the call itself, with nothing to do and
 * behind copies that are under way, and what it leaves to the program's next
 * synchronise.  Run it bare and under each policy of frees by turns.
 *
 *	bench_free [-r REPEATS] [-m MIB]
 *
 * Ten copies of MIB from pinned memory, or as many bytes on more streams, are
 * what is under way; where a synchronise is timed, the program first polls until
 * they are over, so that only what the synchronise adds is seen.
 *
 * Prints for each case and figure a line of numbers, nanoseconds: `free` and
 * `alloc` each call, `ctx` and `stream` a cuCtxSynchronize and a
 * cuStreamSynchronize after the work was over, `total` a free and a
 * cuCtxSynchronize without polling.  `back-ctx` and `back-stream`: 1 where the
 * driver, asked past any interposer, and NVML had all memory back after it.
 * "event alone": an event of the context is recorded in place of a free, as is done
 * in every free that is put off; what that costs is the driver's.
 */
#include "client.h"
#include "libcuda_symbol.h"

#include <stdbool.h>
#include <unistd.h>

enum { STREAMS_MAX = 16, COPIES = 10, BURST_MAX = 16, SAMPLES_MAX = 4096, HELD = 4 };

enum kind { DEVICE, MANAGED, PINNED, ARRAY, EVENT };
enum figure { FREE, ALLOC, CTX, STREAM, TOTAL, BACK_CTX, BACK_STREAM, FIGURES };

static const char *const figure_name[FIGURES] = { "free",  "alloc",    "ctx",	     "stream",
						  "total", "back-ctx", "back-stream" };

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const struct trial {
	const char *name;
	enum kind kind;
	size_t bytes;
	int streams; /* busy; 0: idle */
	int blocks;  /* freed in a row */
} trial[] = {
	{ "4 KiB, 1 busy stream", DEVICE, 4 * KIB, 1, 1 },
	{ "4 MiB, 1 busy stream", DEVICE, 4 * MIB, 1, 1 },
	{ "256 MiB, 1 busy stream", DEVICE, 256 * MIB, 1, 1 },
	{ "4 KiB, 4 busy streams", DEVICE, 4 * KIB, 4, 1 },
	{ "4 MiB, 4 busy streams", DEVICE, 4 * MIB, 4, 1 },
	{ "256 MiB, 4 busy streams", DEVICE, 256 * MIB, 4, 1 },
	{ "4 KiB, 16 busy streams", DEVICE, 4 * KIB, 16, 1 },
	{ "4 MiB, 16 busy streams", DEVICE, 4 * MIB, 16, 1 },
	{ "256 MiB, 16 busy streams", DEVICE, 256 * MIB, 16, 1 },
	{ "sixteen of 4 KiB, 1 busy stream", DEVICE, 4 * KIB, 1, 16 },
	{ "sixteen of 4 MiB, 1 busy stream", DEVICE, 4 * MIB, 1, 16 },
	{ "sixteen of 256 MiB, 1 busy stream", DEVICE, 256 * MIB, 1, 16 },
	{ "managed 4 MiB, 1 busy stream", MANAGED, 4 * MIB, 1, 1 },
	{ "pinned 1 MiB, 1 busy stream", PINNED, 1 * MIB, 1, 1 },
	{ "array 4 MiB, 1 busy stream", ARRAY, 4 * MIB, 1, 1 },
	{ "event alone, 1 busy stream", EVENT, 0, 1, 1 },
	{ "event alone, 4 busy streams", EVENT, 0, 4, 1 },
	{ "event alone, 16 busy streams", EVENT, 0, 16, 1 },
	{ "sixteen events alone, 1 busy stream", EVENT, 0, 1, 16 },
	{ "event alone, idle", EVENT, 0, 0, 1 },
	{ "4 KiB, idle", DEVICE, 4 * KIB, 0, 1 },
	{ "4 MiB, idle", DEVICE, 4 * MIB, 0, 1 },
	{ "256 MiB, idle", DEVICE, 256 * MIB, 0, 1 },
	{ "sixteen of 4 MiB, idle", DEVICE, 4 * MIB, 0, 16 },
	{ "managed 4 MiB, idle", MANAGED, 4 * MIB, 0, 1 },
	{ "pinned 1 MiB, idle", PINNED, 1 * MIB, 0, 1 },
	{ "array 4 MiB, idle", ARRAY, 4 * MIB, 0, 1 },
};

enum { TRIALS = sizeof(trial) / sizeof(trial[0]) };

struct block {
	CUdeviceptr address;
	void *pinned;
	CUarray array;
};

static int repeats = 12;
static size_t copy_bytes = 256 * MIB;
static CUstream stream[STREAMS_MAX];
static CUevent done[STREAMS_MAX];
static CUdeviceptr sink;
static CUcontext context;
static CUevent context_event;
static void *source;
static uint64_t sample[FIGURES][SAMPLES_MAX];
static int samples[FIGURES];
static __typeof__(&cuMemGetInfo) ask_driver;

static void note(enum figure figure, uint64_t value)
{
	if (samples[figure] < SAMPLES_MAX)
		sample[figure][samples[figure]++] = value;
}

/* ---------------------------------------------------------------- a block */

static void make_block(const struct trial *one, struct block *block)
{
	const CUDA_ARRAY_DESCRIPTOR shape = { .Width = 1024,
					      .Height = one->bytes / 4096,
					      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					      .NumChannels = 4 };
	uint64_t start = client_now_ns();

	switch (one->kind) {
	case DEVICE:
		CALL(cuMemAlloc, &block->address, one->bytes);
		break;
	case MANAGED:
		CALL(cuMemAllocManaged, &block->address, one->bytes, CU_MEM_ATTACH_GLOBAL);
		break;
	case PINNED:
		CALL(cuMemAllocHost, &block->pinned, one->bytes);
		break;
	case ARRAY:
		CALL(cuArrayCreate, &block->array, &shape);
		break;
	case EVENT:
		break;
	}
	note(ALLOC, client_now_ns() - start);
	if (one->kind == DEVICE || one->kind == MANAGED)
		CALL(cuMemsetD8Async, block->address, 1, 64, stream[0]);
}

static void free_block(const struct trial *one, const struct block *block)
{
	uint64_t start = client_now_ns();

	if (one->kind == PINNED)
		CALL(cuMemFreeHost, block->pinned);
	else if (one->kind == ARRAY)
		CALL(cuArrayDestroy, block->array);
	else if (one->kind == EVENT)
		CALL(cuCtxRecordEvent, context, context_event);
	else
		CALL(cuMemFree, block->address);
	note(FREE, client_now_ns() - start);
}

/* ------------------------------------------------------- work that is under way */

/* As many bytes whatever the number of streams. */
static void start_work(int streams)
{
	int copies = streams > COPIES ? streams : COPIES;
	size_t bytes = copy_bytes * COPIES / (size_t)copies;

	if (!streams)
		return;
	for (int i = 0; i < copies; i++)
		CALL(cuMemcpyHtoDAsync, sink, source, bytes, stream[i % streams]);
	for (int i = 0; i < streams; i++)
		CALL(cuEventRecord, done[i], stream[i]);
}

static void poll_until_over(int streams)
{
	for (int i = 0; i < streams; i++) {
		CUresult state;

		while ((state = cuEventQuery(done[i])) == CUDA_ERROR_NOT_READY)
			usleep(50);
		client_must(state, "cuEventQuery");
	}
}

/* Bytes in use as the driver says, and as NVML does where it is there. */
struct use {
	size_t driver;
	uint64_t nvml;
};

static struct use ask_use(void)
{
	size_t free_bytes, total;
	struct use use;

	client_must(ask_driver(&free_bytes, &total), "cuMemGetInfo");
	use.driver = total - free_bytes;
	use.nvml = client_nvml_used();
	return use;
}

static bool is_back(const struct use *before)
{
	struct use now = ask_use();

	return now.driver <= before->driver && now.nvml <= before->nvml;
}

/* ------------------------------------------------------------------ one repeat */

static void time_context(enum figure figure, uint64_t start)
{
	CALL(cuCtxSynchronize);
	note(figure, client_now_ns() - start);
}

static void time_stream(void)
{
	uint64_t start = client_now_ns();

	CALL(cuStreamSynchronize, stream[0]);
	note(STREAM, client_now_ns() - start);
}

static void repeat_once(const struct trial *one, int number)
{
	struct use before = ask_use();
	struct block block[BURST_MAX];
	uint64_t start;

	for (int i = 0; i < one->blocks; i++)
		make_block(one, &block[i]);
	CALL(cuStreamSynchronize, stream[0]);
	start_work(one->streams);
	start = client_now_ns();
	for (int i = 0; i < one->blocks; i++)
		free_block(one, &block[i]);
	if (number % 3 == 2) {
		time_context(TOTAL, start);
		return;
	}
	poll_until_over(one->streams);
	if (number % 3 == 0) {
		time_context(CTX, client_now_ns());
		note(BACK_CTX, is_back(&before));
	} else {
		time_stream();
		note(BACK_STREAM, is_back(&before));
	}
	CALL(cuCtxSynchronize);
}

static void print_samples(const struct trial *one)
{
	for (int i = 0; i < FIGURES; i++) {
		printf("%s\t%s\t", one->name, figure_name[i]);
		for (int j = 0; j < samples[i]; j++)
			printf("%s%llu", j ? " " : "", (unsigned long long)sample[i][j]);
		putchar('\n');
	}
	fflush(stdout);
}

static void run_trial(const struct trial *one)
{
	int count = one->streams ? repeats : repeats * 4;

	for (int i = -3; i < count; i++) {
		if (i == 0)
			memset(samples, 0, sizeof(samples));
		repeat_once(one, (i + 3) % 3);
	}
	print_samples(one);
}

static void open_device(void)
{
	CUdeviceptr held;

	context = client_open();
	CALL(cuEventCreate, &context_event, CU_EVENT_DISABLE_TIMING);
	*(void **)&ask_driver = libcuda_symbol("cuMemGetInfo_v2");
	if (!ask_driver) {
		fprintf(stderr, "bench_free: cuMemGetInfo_v2 is not in the symbol table\n");
		exit(1);
	}
	CALL(cuMemAllocHost, &source, copy_bytes);
	memset(source, 1, copy_bytes);
	CALL(cuMemAlloc, &sink, copy_bytes);
	for (int i = 0; i < HELD; i++) /* the page of the small blocks */
		CALL(cuMemAlloc, &held, 4 * KIB);
	for (int i = 0; i < STREAMS_MAX; i++) {
		CALL(cuStreamCreate, &stream[i], CU_STREAM_NON_BLOCKING);
		CALL(cuEventCreate, &done[i], CU_EVENT_DISABLE_TIMING);
	}
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "r:m:")) != -1) {
		if (option == 'r')
			repeats = atoi(optarg);
		else if (option == 'm')
			copy_bytes = (size_t)atoi(optarg) * MIB;
		else
			return 2;
	}
	if (repeats < 3 || !copy_bytes || optind < argc) {
		fprintf(stderr, "usage: bench_free [-r REPEATS] [-m MIB], 3 repeats at least\n");
		return 2;
	}
	open_device();
	for (int i = 0; i < TRIALS; i++)
		run_trial(&trial[i]);
	return 0;
}
