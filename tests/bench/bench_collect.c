/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records a second, bytes of trace a record and memory of the collector, end to
 * end into an indexed trace:
 *
 *	bench_collect [MILLIONS OF RECORDS] [copy|pool|deferred|mixed] [THREADS]
 *
 * The session is written first (it may need some room in /tmp or $TMPDIR), then
 * collected by a child, whose time and memory are told apart from ours.
 */
#include "report/collect.h"
#include "session_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GONE = 0x3ffffff, LIVE_BLOCKS = 2000, POOL_LIVE = 64, PENDING = 10 };

static struct session_writer writer;
static uint64_t now = UINT64_C(90000000000000); /* a day of uptime */
static uint64_t ids;
static uint64_t records;

static uint64_t draw(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void put(uint32_t thread, struct record record)
{
	record.start = now;
	record.caller_context = (UINT64_C(0x7f1234560000) + (draw() & 7) * 64) |
				UINT64_C(1) << RECORD_CALLER_BITS;
	now += record.duration + 300;
	session_writer_put(&writer, thread, record);
	records++;
}

static uint64_t address_of(uint64_t slot)
{
	return UINT64_C(0x7e0000000000) + slot * (UINT64_C(2) << 20);
}

static void put_copy(uint32_t thread)
{
	enum transfer_kind kind = draw() & 1 ? TRANSFER_H2D : TRANSFER_D2H;
	/* Half of them into addresses that are used again and again. */
	uint64_t block = draw() & 1 ? draw() % LIVE_BLOCKS : LIVE_BLOCKS + draw() % POOL_LIVE * 8;
	uint64_t device = address_of(block) + (draw() & 0xff00);
	uint64_t host = UINT64_C(0x7f5500000000) + (draw() & 0xffffff00);
	bool is_up = kind == TRANSFER_H2D;
	struct record copy = session_writer_copy(0, (uint32_t)(draw() % 5000) + 1000, kind,
						 is_up ? host : device, is_up ? device : host,
						 UINT64_C(1) << (draw() % 24));

	copy.stream = 0x555500001000 + (draw() & 3) * 0x1000;
	copy.api = (uint16_t)(10 + (draw() & 3));
	put(thread, copy);
}

/* A pool's life: blocks come and go, a few are live at any time. */
static void put_pool_pair(uint32_t thread)
{
	static uint64_t live[POOL_LIVE];
	uint64_t slot = draw() % POOL_LIVE;
	struct record record;

	if (live[slot]) {
		record = session_writer_free(0, 700, live[slot]);
		record.api = 21;
		record.stream = 0x555500001000;
		put(thread, record);
	}
	live[slot] = ++ids;
	record = session_writer_alloc(0, 550, live[slot], address_of(LIVE_BLOCKS + slot * 8),
				      (draw() & 0xffffff) + 1, BLOCK_POOL);
	record.api = 20;
	record.stream = 0x555500001000;
	put(thread, record);
}

/* A program whose frees are put off: the eleventh that waits sends all away. */
static void put_deferred_pair(uint32_t thread)
{
	static uint64_t pending[PENDING + 1];
	static unsigned int count;
	struct record record;

	ids++;
	record = session_writer_alloc(0, 4000, ids, address_of(LIVE_BLOCKS + ids % POOL_LIVE * 8),
				      (draw() & 0xffffff) + 1, BLOCK_DEVICE);
	record.api = 20;
	put(thread, record);
	record = session_writer_defer(now, 900, 0, ids);
	record.api = 21;
	put(thread, record);
	pending[count++] = ids;
	if (count <= PENDING)
		return;
	while (count)
		put(thread, session_writer_release(now, pending[--count], now - 100,
						   RELEASE_COUNT));
	put(thread, session_writer_flush(now, 4000, PENDING + 1, 1 << 20, RELEASE_COUNT));
}

static void put_operation(uint32_t thread)
{
	struct record record = { .kind = RECORD_OPERATION, .duration = 400, .api = 30,
				 .a = 0x555500009000, .stream = 0x555500001000 };

	put(thread, record);
}

static void put_base(void)
{
	struct record context = {
		.kind = RECORD_CONTEXT, .duration = 10, .a = 0xc0, .c = 1, .aux = 1
	};

	put(1, context);
	for (uint64_t i = 0; i < LIVE_BLOCKS; i++)
		put(1, session_writer_alloc(0, 48000, ++ids, address_of(i), UINT64_C(2) << 20,
					    BLOCK_DEVICE));
}

static void write_session(const char *session, uint64_t wanted, const char *what, uint32_t threads)
{
	session_writer_open(&writer, session, GONE, 0);
	writer.control->start = (struct clock_triple){ now, now, now };
	snprintf(writer.control->policy, CONTROL_TEXT_BYTES, "%s",
		 *what == 'd' ? "nowait" : "immediate");
	put_base();
	while (records < wanted) {
		uint32_t thread = 1 + (uint32_t)(records / 7 % threads);
		uint64_t dice = draw() % 10;

		if (*what == 'c' || (*what == 'm' && dice < 6))
			put_copy(thread);
		else if (*what == 'd')
			put_deferred_pair(thread);
		else if (*what == 'p' || dice < 8)
			put_pool_pair(thread);
		else
			put_operation(thread);
	}
	session_writer_close(&writer);
}

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Memory of its own, in KiB: pages of the segments are the traced program's. */
static long own_memory(pid_t child)
{
	char path[64], line[256];
	long kib = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)child);
	stream = fopen(path, "r");
	while (stream && fgets(line, sizeof(line), stream))
		sscanf(line, "RssAnon: %ld", &kib);
	if (stream)
		fclose(stream);
	return kib;
}

static struct rusage collect(const char *directory, long *memory_most)
{
	static const struct collect_link nobody = { -1, -1, false };
	struct rusage usage;
	struct session session;
	int status;
	pid_t child = fork();

	if (!child) {
		if (!session_read(&session, directory) || !session_lock(&session))
			_exit(1);
		_exit(!collect_run(&session, &nobody));
	}
	for (*memory_most = 0; wait4(child, &status, WNOHANG, &usage) == 0; usleep(5000)) {
		long memory = own_memory(child);

		if (memory > *memory_most)
			*memory_most = memory;
	}
	if (status) {
		fprintf(stderr, "bench_collect: the collector failed\n");
		exit(1);
	}
	return usage;
}

int main(int argc, char **argv)
{
	uint64_t wanted = (uint64_t)(atof(argc > 1 ? argv[1] : "1") * 1e6);
	const char *what = argc > 2 ? argv[2] : "mixed";
	char session[PATH_MAX], trace[64];
	struct rusage usage;
	struct stat status;
	double begin, wall, cpu;
	long memory;

	snprintf(trace, sizeof(trace), "/tmp/bench-collect-%d.db", (int)getpid());
	session_writer_session(session, trace);
	write_session(session, wanted, what, argc > 3 ? (uint32_t)atoi(argv[3]) : 4);
	begin = seconds();
	usage = collect(session, &memory);
	wall = seconds() - begin;
	cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
	      (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
	if (stat(trace, &status))
		return 1;
	printf("%s: %llu records, wall %.2f s, cpu %.2f s, %.0f records/s of cpu, "
	       "%.1f bytes/record, %.1f MiB of memory (%.1f with pages of the segments)\n",
	       what, (unsigned long long)records, wall, cpu, (double)records / cpu,
	       (double)status.st_size / (double)records, (double)memory / 1024,
	       (double)usage.ru_maxrss / 1024);
	if (!getenv("KEEP_TRACE"))
		unlink(trace);
	return 0;
}
