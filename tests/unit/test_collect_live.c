/* SPDX-License-Identifier: Apache-2.0 */
/* The collector beside a process that lives, after one of its own has died, and amid damage. */
#include "report/collect.h"
#include "report/store.h"
#include "session_writer.h"

#include "core/clock.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GONE = 0x3ffffff };

static char session[PATH_MAX];
static char trace[64];
static struct session_writer writer;

static void make_session(void)
{
	snprintf(trace, sizeof(trace), "/tmp/custody-unit-%d.db", (int)getpid());
	unlink(trace);
	session_writer_session(session, trace);
}

static void remove_session(void)
{
	char command[PATH_MAX + 128];

	snprintf(command, sizeof(command), "rm -rf %s %s*", session, trace);
	ck_assert_int_eq(system(command), 0);
}

static int64_t ask(const char *sql)
{
	sqlite3 *db = store_reader_open(trace);
	sqlite3_stmt *query;
	int64_t number = INT64_MIN;

	ck_assert_msg(!sqlite3_prepare_v2(db, sql, -1, &query, NULL), "%s", sqlite3_errmsg(db));
	if (sqlite3_step(query) == SQLITE_ROW && sqlite3_column_type(query, 0) != SQLITE_NULL)
		number = sqlite3_column_int64(query, 0);
	sqlite3_finalize(query);
	sqlite3_close(db);
	return number;
}

static pid_t start_collector(void)
{
	static const struct collect_link nobody = { -1, -1, false };
	struct session opened;
	pid_t child = fork();

	if (child)
		return child;
	if (!session_read(&opened, session) || !session_lock(&opened))
		_exit(9);
	_exit(!collect_run(&opened, &nobody));
}

static int await(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

/* A kill may hit the last step of all, when the session is being removed. */
static bool has_session(void)
{
	struct session opened;

	return session_read(&opened, session);
}

static void sleep_us(long us)
{
	struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

static void read_boot_id(char *text, size_t bytes)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
	ssize_t got = read(fd, text, bytes - 1);

	close(fd);
	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

/* A process of its own that writes as fast as it can into two segments, then dies at once. */
static void write_and_die(uint64_t rounds)
{
	enum clock_mode clock = clock_choose();
	uint64_t id = 0;

	session_writer_open(&writer, session, (int)getpid(), 0);
	writer.segments_most = 2;
	writer.tid = (uint32_t)getpid();
	writer.clock = writer.control->clock = clock;
	clock_read_triple(&writer.control->start, clock);
	read_boot_id(writer.control->boot_id, CONTROL_TEXT_BYTES);
	for (uint64_t i = 0; i < rounds; i++) {
		uint32_t thread = 1 + i % 3;
		uint64_t address = 0x100000 + i % 50 * 0x1000;
		uint64_t now = clock_ticks(clock);

		id++;
		session_writer_put(&writer, thread,
				   session_writer_alloc(now, 10, id, address, 4096, BLOCK_DEVICE));
		session_writer_put(&writer, thread,
				   session_writer_copy(now + 20, 10, TRANSFER_H2D, 1, address, 64));
		session_writer_put(&writer, thread, session_writer_free(now + 40, 10, id));
	}
	raise(SIGKILL);
}

/* The control page appears with the name only when it is complete; here it is written in place. */
static void await_control(pid_t program)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%d-0/control", session, (int)program);
	while (access(path, F_OK))
		sleep_us(1000);
	sleep_us(20000);
}

/* One collector after the other; so many of them are killed, each a step later. */
static void collect_killed(int kills, long step_us)
{
	int status, killed = 0;

	do {
		pid_t collector = start_collector();

		if (killed++ < kills) {
			sleep_us(20000 + killed * step_us);
			kill(collector, SIGKILL);
		}
		status = await(collector);
	} while (WIFSIGNALED(status) && has_session());
	if (!WIFSIGNALED(status))
		ck_assert_int_eq(status, 0);
}

START_TEST(living_process_reuses_the_chunks_that_were_read)
{
	enum { ROUNDS = 60000 };
	pid_t program = fork();

	if (!program)
		write_and_die(ROUNDS);
	await_control(program);
	pid_t collector = start_collector();
	ck_assert_int_eq(WTERMSIG(await(program)), SIGKILL);
	ck_assert_int_eq(await(collector), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation"), ROUNDS);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE released_ns IS NULL"), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM transfer"), ROUNDS);
	ck_assert_int_eq(ask("SELECT count(*) FROM transfer t JOIN allocation a "
			     "ON a.id = t.target_allocation_id AND a.thread_id = t.thread_id "
			     "AND t.start_ns BETWEEN a.alloc_ns AND a.released_ns"), ROUNDS);
	ck_assert_int_eq(ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4096);
	ck_assert_int_eq(ask("SELECT count(*) FROM gap"), 0);
}
END_TEST

START_TEST(collector_that_is_killed_loses_and_doubles_nothing)
{
	enum { RECORDS = 300000, KILLS = 12 };

	session_writer_open(&writer, session, GONE, 0);
	session_writer_put(&writer, 1,
			   session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	for (uint64_t i = 0; i < RECORDS; i++) {
		uint64_t start = 3000 + i * 100;
		uint32_t thread = 1 + i / 5 % 4;

		if (i % 3 == 0)
			session_writer_put(&writer, thread,
					   session_writer_alloc(start, 10, 2 + i, 0x100000 + i * 64,
								64, BLOCK_POOL));
		else if (i % 3 == 1)
			session_writer_put(&writer, thread,
					   session_writer_copy(start, 10, TRANSFER_H2D, 1, 0x7000,
							       8));
		else if (i % 30 != 29)
			session_writer_put(&writer, thread, session_writer_free(start, 10, i));
	}
	session_writer_close(&writer);
	collect_killed(KILLS, 30000);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation"), RECORDS / 3 + 1);
	ck_assert_int_eq(ask("SELECT count(DISTINCT number) FROM allocation"), RECORDS / 3 + 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE released_ns IS NULL"),
			 RECORDS / 30 + 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM transfer WHERE target_allocation_id = 1"),
			 RECORDS / 3);
	ck_assert_int_eq(ask("SELECT sum(count) FROM transfer_total"), RECORDS / 3);
	ck_assert_int_eq(ask("SELECT sum(bytes) FROM transfer_total"), RECORDS / 3 * 8);
	ck_assert_int_eq(ask("SELECT sum(calls) FROM api_call"), RECORDS - RECORDS / 30 + 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM thread"), 4);
	ck_assert_int_eq(ask("SELECT count(*) FROM process"), 1);
	ck_assert_int_eq(ask("SELECT bytes FROM peak WHERE process_id IS NULL"),
			 ask("SELECT sum(bytes) FROM live_at_peak WHERE peak_process_id IS NULL"));
}
END_TEST

/*
 * Every third block is freed at once; of the others one is pending for nine
 * rounds, and one has its release met nine rounds before its free.
 */
static void write_deferred(uint64_t rounds)
{
	enum { LATER = 9 };

	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t start = 3000 + i * 1000, id = i + 1;
		uint32_t thread = 1 + i % 4;

		session_writer_put(&writer, thread,
				   session_writer_alloc(start, 10, id, 0x100000 + i * 64, 64,
							BLOCK_DEVICE));
		if (i % 3 == 0)
			session_writer_put(&writer, thread,
					   session_writer_defer(start + 100, 10, 0, id));
		else if (i % 3 == 1)
			session_writer_put(&writer, thread,
					   session_writer_release(start + 100, id, start + 90,
								  RELEASE_COUNT));
		else
			session_writer_put(&writer, thread,
					   session_writer_free(start + 100, 10, id));
		if (i < LATER)
			continue;
		if (i % 3 == 0)
			session_writer_put(&writer, thread,
					   session_writer_release(start + 500, id - LATER,
								  start + 400, RELEASE_IDLE));
		else if (i % 3 == 1)
			session_writer_put(&writer, thread,
					   session_writer_defer(start - 1000 * LATER + 50, 10, 0,
								id - LATER));
	}
}

START_TEST(collector_that_is_killed_knows_what_is_pending)
{
	enum { ROUNDS = 60000, KILLS = 10 };

	session_writer_open(&writer, session, GONE, 0);
	write_deferred(ROUNDS);
	session_writer_close(&writer);
	collect_killed(KILLS, 20000);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation"), ROUNDS);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE released_ns IS NULL"), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE release_cause = 'exit'"), 3);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE release_cause = 'idle' "
			     "AND free_waited_ns = 0 AND free_requested_ns = alloc_ns + 100 "
			     "AND ready_ns = alloc_ns + 9400 AND released_ns = alloc_ns + 9500"),
			 ROUNDS / 3 - 3);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE release_cause = 'count' "
			     "AND free_waited_ns = 0 AND free_requested_ns = alloc_ns + 50 "
			     "AND ready_ns = alloc_ns + 90 AND released_ns = alloc_ns + 100"),
			 ROUNDS / 3 - 3);
	ck_assert_int_eq(ask("SELECT pending_peak_bytes FROM peak WHERE process_id IS NULL"),
			 4 * 64);
}
END_TEST

/* A block names a green context, which is made first and ends last; it lives on. */
START_TEST(collector_that_is_killed_knows_green_contexts)
{
	enum { COPIES = 300000, KILLS = 6, END = 3000 + COPIES * 100 };
	struct record context = session_writer_context(1000, 1, 0xc0), end = context;
	struct record block = session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE);

	context.c = CONTEXT_IS_GREEN;
	block.caller_context = context.caller_context;
	end.kind = RECORD_CONTEXT_END;
	end.start = END;
	end.c = 0;
	end.aux = RELEASE_CONTEXT;
	session_writer_open(&writer, session, GONE, 0);
	session_writer_put(&writer, 1, context);
	session_writer_put(&writer, 1, block);
	for (uint64_t i = 0; i < COPIES; i++)
		session_writer_put(&writer, 1, session_writer_copy(3000 + i * 100, 10, TRANSFER_H2D,
								   1, 0x7000, 8));
	session_writer_put(&writer, 1, end);
	session_writer_close(&writer);
	collect_killed(KILLS, 30000);
	ck_assert_int_eq(ask("SELECT destroyed_ns FROM context"), END);
	ck_assert_int_eq(ask("SELECT is_green FROM context"), 1);
	ck_assert_int_eq(ask("SELECT released_ns FROM allocation"), INT64_MIN);
}
END_TEST

#define MIB (UINT64_C(1) << 20)

/*
 * A context, then rounds of a block of 4 MiB that lives for eight of them, and now and
 * then a load that makes the driver keep 2 MiB; what is in use is always explained.
 */
static void write_readings(uint64_t rounds)
{
	const uint64_t total = 1 << 20;
	uint64_t used = 500;

	session_writer_put(&writer, 1, session_writer_context(2000, 1, 0x77));
	session_writer_put(&writer, 1, session_writer_reading(2500, READING_AFTER, WEIGHED_CONTEXT,
							      (total - used) * MIB, total * MIB, 0,
							      0));
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t start = 3000 + i * 1000;
		bool loads = i % (rounds / 50) == 0;
		struct record alloc = session_writer_alloc(start, 10, i + 1, (i + 1) << 24,
							   4 * MIB, BLOCK_DEVICE);

		alloc.caller_context = UINT64_C(1) << RECORD_CALLER_BITS;
		session_writer_put(&writer, 1, alloc);
		used += 4;
		if (i >= 8)
			session_writer_put(&writer, 2, session_writer_free(start + 50, 10, i - 7));
		used -= i >= 8 ? 4 : 0;
		session_writer_put(&writer, 1,
				   session_writer_reading(start + 100,
							  loads ? READING_BEFORE : READING_QUIET,
							  loads ? WEIGHED_CODE : WEIGHED_NOTHING,
							  (total - used) * MIB, total * MIB, 0, 0));
		if (!loads)
			continue;
		used += 2;
		session_writer_put(&writer, 1,
				   session_writer_reading(start + 200, READING_AFTER, WEIGHED_CODE,
							  (total - used) * MIB, total * MIB, 0, 0));
	}
}

START_TEST(collector_that_is_killed_goes_on_with_readings)
{
	enum { ROUNDS = 60000, KILLS = 8 };

	session_writer_open(&writer, session, GONE, 0);
	write_readings(ROUNDS);
	session_writer_close(&writer);
	collect_killed(KILLS, 20000);
	ck_assert_int_ge(ask("SELECT count(*) FROM reading"), 600);
	ck_assert_int_le(ask("SELECT count(*) FROM reading"), 1200);
	ck_assert_int_eq(ask("SELECT count(*) FROM reading WHERE growth_bytes > 0 "
			     "AND weighed = 'code'"), 50);
	ck_assert_int_eq(ask("SELECT bytes FROM overhead WHERE kind = 'code'"), 100 * MIB);
	ck_assert_int_eq(ask("SELECT count(*) FROM reading WHERE held_bytes IS NULL OR "
			     "total_bytes - free_bytes <> held_bytes + pool_bytes + graph_bytes + "
			     "code_bytes + driver_bytes + recorded_bytes + foreign_bytes"), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM reading r LEFT JOIN reading_kind k "
			     "ON k.reading_id = r.id AND k.kind = 'device' "
			     "WHERE coalesce(k.held_bytes, 0) <> r.held_bytes"), 0);
}
END_TEST

static void defer_and_die(void)
{
	enum clock_mode clock = clock_choose();
	uint64_t now;

	session_writer_open(&writer, session, (int)getpid(), 0);
	writer.tid = (uint32_t)getpid();
	writer.clock = writer.control->clock = clock;
	clock_read_triple(&writer.control->start, clock);
	read_boot_id(writer.control->boot_id, CONTROL_TEXT_BYTES);
	for (uint64_t id = 1; id <= 20; id++) {
		now = clock_ticks(clock);
		session_writer_put(&writer, 1,
				   session_writer_alloc(now, 10, id, id << 20, 4096, BLOCK_DEVICE));
		session_writer_put(&writer, 1, session_writer_defer(now + 20, 10, 0, id));
		sleep_us(3000);
	}
	raise(SIGKILL);
}

START_TEST(what_a_killed_process_had_pending_ends_with_it)
{
	pid_t program = fork();

	if (!program)
		defer_and_die();
	await_control(program);
	pid_t collector = start_collector();
	ck_assert_int_eq(WTERMSIG(await(program)), SIGKILL);
	ck_assert_int_eq(await(collector), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM allocation WHERE release_cause = 'exit' "
			     "AND released_ns = (SELECT end_ns FROM process)"), 20);
	ck_assert_int_eq(ask("SELECT pending_peak_bytes FROM peak WHERE process_id IS NULL"),
			 20 * 4096);
}
END_TEST

/* "GPU-..." of the device below, and what the fake library says is free on it. */
static void say_free(uint64_t mib)
{
	char path[80], draft[96];
	FILE *stream;

	snprintf(path, sizeof(path), "%s.free", trace);
	snprintf(draft, sizeof(draft), "%s.new", path);
	stream = fopen(draft, "w");
	fprintf(stream, "GPU-00000000-0000-0000-0000-000000000001 1\n"
			"GPU-11110000-0000-0000-2222-000000000000 %llu\n",
		(unsigned long long)(mib * MIB));
	fclose(stream);
	rename(draft, path);
}

static bool use_fake_nvml(void)
{
	const char *build = getenv("top_builddir");
	char path[PATH_MAX], state[80];

	snprintf(path, sizeof(path), "%s/tests/support/fake/libnvidia-ml.so.1",
		 build ? build : ".");
	snprintf(state, sizeof(state), "%s.free", trace);
	setenv("CUSTODY_NVML", path, 1);
	setenv("FAKE_NVML", state, 1);
	return !access(path, R_OK);
}

/*
 * Its call that makes the context takes a while, and meanwhile less is free already.  At
 * once: the call begins before anybody can have sampled.
 */
static void make_context_and_die(uint64_t total, uint64_t used, bool at_once)
{
	const struct record device = { .kind = RECORD_DEVICE, .a = 0x1111, .b = 0x2222,
				       .c = total * MIB, .aux = 1 };
	enum clock_mode clock = clock_choose();
	struct record context, read, said = device;
	uint64_t start;

	session_writer_open(&writer, session, (int)getpid(), 0);
	writer.tid = (uint32_t)getpid();
	writer.clock = writer.control->clock = clock;
	clock_read_triple(&writer.control->start, clock);
	read_boot_id(writer.control->boot_id, CONTROL_TEXT_BYTES);
	start = clock_ticks(clock);
	sleep_us(900000);
	if (!at_once)
		start = clock_ticks(clock);
	said.start = start;
	say_free(total - used - 100);
	sleep_us(200000);
	context = session_writer_context(start, 1, 0x77);
	read = session_writer_reading(start, READING_AFTER, WEIGHED_CONTEXT, (total - used) * MIB,
				      total * MIB, 0, 0);
	read.duration = (uint32_t)((clock_ticks(clock) - start) >> 10);
	read.flags |= RECORD_LONG;
	session_writer_put_text(&writer, 1, said, "GPU");
	session_writer_put(&writer, 1, context);
	session_writer_put(&writer, 1, read);
	sleep_us(700000); /* until a sample comes that is taken seldom */
	raise(SIGKILL);
}

START_TEST(context_is_told_from_what_others_have)
{
	enum { ALL = 8000, OTHERS = 1000, CONTEXT = 500 };
	pid_t program, collector;

	ck_assert(use_fake_nvml());
	say_free(ALL - OTHERS);
	program = fork();
	if (!program)
		make_context_and_die(ALL, OTHERS + CONTEXT, _i);
	await_control(program);
	collector = start_collector();
	ck_assert_int_eq(WTERMSIG(await(program)), SIGKILL);
	ck_assert_int_eq(await(collector), 0);
	ck_assert_int_eq(ask("SELECT bytes FROM overhead WHERE kind = 'context'"), CONTEXT * MIB);
	ck_assert_int_eq(ask("SELECT context_bytes FROM reading"), CONTEXT * MIB);
	ck_assert_int_eq(ask("SELECT foreign_bytes FROM reading"), OTHERS * MIB);
	ck_assert_int_eq(ask("SELECT count(*) FROM device_sample WHERE free_bytes = 1"), 1);
	ck_assert_int_ge(ask("SELECT count(*) FROM device_sample"), 2);
	ck_assert_int_le(ask("SELECT count(*) FROM device_sample"), 4);
}
END_TEST

START_TEST(library_that_is_not_there_is_no_trouble)
{
	pid_t program, collector;

	setenv("CUSTODY_NVML", "/nowhere/libnvidia-ml.so.1", 1);
	program = fork();
	if (!program)
		make_context_and_die(8000, 1500, false);
	await_control(program);
	collector = start_collector();
	await(program);
	ck_assert_int_eq(await(collector), 0);
	ck_assert_int_eq(ask("SELECT bytes FROM overhead WHERE kind = 'context'"), INT64_MIN);
	ck_assert_int_eq(ask("SELECT foreign_bytes FROM reading"), 1500 * MIB);
	ck_assert_int_eq(ask("SELECT count(*) FROM device_sample"), 0);
}
END_TEST

static void fill_for_damage(void)
{
	struct record module = { .kind = RECORD_MODULE, .start = 2500, .a = 0x400000, .b = 8192 };

	session_writer_open(&writer, session, GONE, 0);
	for (uint64_t i = 0; i < 400; i++) {
		uint32_t thread = 1 + i % 5;

		session_writer_put(&writer, thread,
				   session_writer_alloc(2000 + i * 100, 10, i + 1,
							0x7000 + i * 4096, 4096, 1 + i % 12));
		session_writer_put(&writer, thread,
				   session_writer_copy(2050 + i * 100, 10, TRANSFER_D2H,
						       0x7000 + i * 4096, 5, 100));
		if (i % 2)
			session_writer_put(&writer, thread,
					   session_writer_free(2060 + i * 100, 10, i));
		if (i % 7 == 0)
			session_writer_put(&writer, thread,
					   session_writer_defer(2070 + i * 100, 10, 5, i + 1));
		if (i % 14 == 0)
			session_writer_put(&writer, thread,
					   session_writer_release(2080 + i * 100, i + 1, 2075,
								  RELEASE_IDLE));
		if (i % 10 == 0)
			session_writer_put(&writer, thread,
					   session_writer_reading(2085 + i * 100, 1 + i / 10 % 6,
								  i / 10 % 6, 1000, 9000, i, i));
		if (i % 20 == 0)
			session_writer_put(&writer, thread,
					   session_writer_finding(2090 + i * 100, i, 0x7000,
								  FINDING_DOUBLE_FREE));
		if (i % 50 == 0)
			session_writer_put_text(&writer, thread, module, "/usr/lib/libx.so");
	}
	session_writer_counters(&writer, 2);
}

/* Bytes anywhere, but mostly where something lies. */
static void damage(unsigned int *seed)
{
	unsigned char *places[] = { (unsigned char *)writer.control, writer.segment[0] };
	size_t sizes[] = { sizeof(struct trace_control), SEGMENT_BYTES };
	int count = 1 + rand_r(seed) % 200;

	for (int i = 0; i < count; i++) {
		int where = rand_r(seed) % 8 == 0 ? 0 : 1;
		size_t at = (size_t)rand_r(seed) % sizes[where];

		if (where == 1 && rand_r(seed) % 2)
			at = (size_t)(rand_r(seed) % SEGMENT_CHUNKS) * CHUNK_BYTES +
			     (size_t)rand_r(seed) % 2048;
		/* Another layout or no magic is refused at once: that has a test of its own. */
		if (where == 0 && at < 16)
			continue;
		places[where][at] = (unsigned char)rand_r(seed);
	}
}

START_TEST(damaged_bytes_never_crash_the_collector)
{
	unsigned int seed = 4711 + (unsigned int)_i;
	int status;

	fill_for_damage();
	damage(&seed);
	session_writer_close(&writer);
	status = await(start_collector());
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "seed %u: status %x",
		      4711 + (unsigned int)_i, (unsigned int)status);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect_live");
	TCase *live = tcase_create("live"), *amid = tcase_create("damage");

	tcase_add_checked_fixture(live, make_session, remove_session);
	tcase_add_checked_fixture(amid, make_session, remove_session);
	tcase_set_timeout(live, 300);
	tcase_set_timeout(amid, 60);
	tcase_add_test(live, living_process_reuses_the_chunks_that_were_read);
	tcase_add_test(live, collector_that_is_killed_loses_and_doubles_nothing);
	tcase_add_test(live, collector_that_is_killed_knows_what_is_pending);
	tcase_add_test(live, collector_that_is_killed_knows_green_contexts);
	tcase_add_test(live, collector_that_is_killed_goes_on_with_readings);
	tcase_add_test(live, what_a_killed_process_had_pending_ends_with_it);
	tcase_add_loop_test(live, context_is_told_from_what_others_have, 0, 2);
	tcase_add_test(live, library_that_is_not_there_is_no_trouble);
	tcase_add_loop_test(amid, damaged_bytes_never_crash_the_collector, 0, 60);
	suite_add_tcase(suite, live);
	suite_add_tcase(suite, amid);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(make_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
