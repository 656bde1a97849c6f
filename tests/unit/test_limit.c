/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limit.c - what happens when there is no room: records are lost, counted
 * and told of, and the program never notices.
 */
#include "core/notice.h"
#include "core/segment.h"
#include "trace_reader.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MIB_CHUNKS = SEGMENT_CHUNKS };

static const char *session;
static struct trace_reader reader;
static int said; /* what the process says on standard error can be read here */

/* Standard error becomes a pipe, for as long as the test lasts. */
static void open_session(void)
{
	int pipes[2];

	session = trace_reader_session();
	ck_assert_int_eq(pipe(pipes), 0);
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	dup2(pipes[1], STDERR_FILENO);
	close(pipes[1]);
	notice_remember_stderr();
	said = pipes[0];
}

static void remove_session(void)
{
	trace_reader_remove(session);
}

static void read_said(char *text, size_t bytes)
{
	ssize_t length = read(said, text, bytes - 1);

	text[length > 0 ? length : 0] = '\0';
}

/* One line, no more, that holds `words`. */
static void expect_one_line(const char *words)
{
	char text[4096];
	const char *end;

	read_said(text, sizeof(text));
	ck_assert_msg(strstr(text, words) != NULL, "said: %s", text);
	ck_assert_int_eq(strncmp(text, "custody: ", 9), 0);
	end = strchr(text, '\n');
	ck_assert_ptr_nonnull(end);
	ck_assert_str_eq(end, "\n");
}

static void expect_silence(void)
{
	char text[4096];

	read_said(text, sizeof(text));
	ck_assert_str_eq(text, "");
}

static bool write_one(uint64_t number)
{
	struct thread_segment *self = &thread_segment;
	struct record *record;

	if (!segment_is_ready(self))
		segment_enter();
	record = segment_reserve(self, 1);
	if (!record)
		return false;
	*record = (struct record){
		.start = clock_ticks(self->clock), .kind = RECORD_TRANSFER, .a = number };
	segment_publish(self, 1);
	return true;
}

/* Write `count` records; returns how many were lost. */
static uint64_t write_many(uint64_t count)
{
	uint64_t lost = 0;

	for (uint64_t i = 0; i < count; i++)
		lost += !write_one(i);
	return lost;
}

struct gaps {
	uint64_t count, lost;
};

static void add_gap(const struct record *record, const char *text, void *argument)
{
	struct gaps *gaps = argument;

	(void)text;
	if (record->kind != RECORD_GAP)
		return;
	ck_assert_uint_le(record->b, record->c);
	gaps->count++;
	gaps->lost += record->a;
}

static void wait_ms(long ms)
{
	struct timespec nap = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&nap, NULL);
}

START_TEST(full_buffer_loses_and_tells)
{
	const uint64_t count = 20 * CHUNK_RECORDS;
	struct gaps gaps = { 0 };
	uint64_t lost;

	setenv("CUSTODY_BUFFER", "1MiB", 1);
	lost = write_many(count);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_gt(lost, 4 * CHUNK_RECORDS);
	ck_assert_uint_eq(reader.control->segments, 1);
	ck_assert_uint_eq(thread_segment.counters->lost, lost);
	ck_assert_uint_eq(trace_reader_count_kind(&reader, 1, RECORD_TRANSFER), count - lost);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_CLOSED), MIB_CHUNKS - 1);
	expect_one_line("CUSTODY_BUFFER");
	/* The collector comes, and the thread goes on where there is room again. */
	ck_assert_uint_eq(trace_reader_free_closed(&reader), MIB_CHUNKS - 1);
	wait_ms(20);
	ck_assert_uint_eq(write_many(100), 0);
	trace_reader_walk(&reader, 1, add_gap, &gaps);
	ck_assert_uint_eq(gaps.count, 1);
	ck_assert_uint_eq(gaps.lost, lost);
	ck_assert_uint_eq(thread_segment.counters->lost, 0);
	expect_silence();
}
END_TEST

static void *write_and_end(void *argument)
{
	ck_assert_uint_gt(write_many(100), 0);
	return argument;
}

START_TEST(thread_without_a_block_loses_into_the_control_page)
{
	pthread_t threads[3];

	setenv("CUSTODY_BUFFER", "1MiB", 1);
	write_many(20 * CHUNK_RECORDS);
	trace_reader_open(&reader, segment_directory());
	for (int i = 0; i < 10; i++) {
		for (int j = 0; j < 3; j++)
			pthread_create(&threads[j], NULL, write_and_end, NULL);
		for (int j = 0; j < 3; j++)
			pthread_join(threads[j], NULL);
	}
	ck_assert_uint_eq(reader.control->lost, 30 * 100);
	ck_assert_uint_gt(reader.control->lost_from, 0);
	ck_assert_uint_ge(reader.control->lost_to, reader.control->lost_from);
}
END_TEST

/* Millions of lost records must not cost millions of attempts to make a file. */
START_TEST(losing_is_cheap)
{
	const uint64_t count = 300000;
	uint64_t start;

	setenv("CUSTODY_BUFFER", "1MiB", 1);
	write_many(20 * CHUNK_RECORDS);
	start = clock_system_ns(CLOCK_THREAD_CPUTIME_ID);
	write_many(count);
	ck_assert_uint_lt((clock_system_ns(CLOCK_THREAD_CPUTIME_ID) - start) / count, 10000);
}
END_TEST

static void limit_files(rlim_t bytes)
{
	struct rlimit limit = { bytes, bytes };

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(file_size_limit_from_the_start)
{
	limit_files(4096);
	ck_assert_uint_eq(write_many(1000), 1000);
	ck_assert_str_eq(segment_directory(), "");
	expect_one_line("ulimit -f");
}
END_TEST

START_TEST(file_size_limit_for_segments_alone)
{
	limit_files(SEGMENT_BYTES - 1);
	ck_assert_uint_eq(write_many(1000), 1000);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_eq(reader.control->lost, 1000);
	expect_one_line("ulimit -f");
}
END_TEST

START_TEST(file_size_limit_that_comes_later)
{
	ck_assert_uint_eq(write_many(10), 0);
	limit_files(SEGMENT_BYTES / 2);
	ck_assert_uint_eq(write_many(14 * CHUNK_RECORDS), 0);
	ck_assert_uint_gt(write_many(3 * CHUNK_RECORDS), 0);
	expect_one_line("ulimit -f");
}
END_TEST

START_TEST(directory_that_is_gone)
{
	ck_assert_uint_eq(write_many(10), 0);
	trace_reader_remove(session);
	ck_assert_uint_eq(write_many(14 * CHUNK_RECORDS), 0);
	ck_assert_uint_gt(write_many(3 * CHUNK_RECORDS), 0);
	expect_one_line("no such file");
}
END_TEST

START_TEST(no_free_descriptor)
{
	const int most = 64;
	struct rlimit limit;

	ck_assert_uint_eq(write_many(10), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = most;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	ck_assert_uint_gt(write_many(20 * CHUNK_RECORDS), 0);
	for (int fd = STDERR_FILENO + 1; fd < most; fd++)
		if (fd != said)
			close(fd);
	expect_one_line("descriptor");
}
END_TEST

START_TEST(directory_that_cannot_be_written)
{
	bool is_root = geteuid() == 0;

	if (is_root)
		ck_assert_int_eq(seteuid(65534), 0);
	else
		ck_assert_int_eq(chmod(session, 0500), 0);
	ck_assert_uint_eq(write_many(1000), 1000);
	if (is_root)
		ck_assert_int_eq(seteuid(0), 0);
	ck_assert_str_eq(segment_directory(), "");
	expect_one_line("permission denied");
}
END_TEST

START_TEST(closed_standard_error_is_no_trouble)
{
	setenv("CUSTODY_BUFFER", "nonsense", 1);
	close(STDERR_FILENO);
	ck_assert_uint_eq(write_many(10), 0);
}
END_TEST

START_TEST(broken_pipe_raises_no_signal)
{
	setenv("CUSTODY_BUFFER", "nonsense", 1);
	close(said);
	ck_assert_uint_eq(write_many(10), 0);
}
END_TEST

START_TEST(bad_option_is_said_once)
{
	setenv("CUSTODY_BUFFER", "nonsense", 1);
	ck_assert_uint_eq(write_many(10), 0);
	expect_one_line("'nonsense' is not a size");
}
END_TEST

/* Needs the right to mount; without it the test has nothing to stand on. */
static bool mount_small(const char *size)
{
	return !mount("tmpfs", session, "tmpfs", 0, size);
}

START_TEST(quarter_of_a_small_file_system)
{
	struct gaps gaps = { 0 };
	uint64_t lost;

	if (!mount_small("size=16m"))
		return;
	lost = write_many(100 * CHUNK_RECORDS);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_ge(reader.control->segments, 3);
	ck_assert_uint_le(reader.control->segments, 4);
	ck_assert_uint_gt(lost, 30 * CHUNK_RECORDS);
	trace_reader_free_closed(&reader);
	wait_ms(20);
	ck_assert_uint_eq(write_many(10), 0);
	trace_reader_walk(&reader, 1, add_gap, &gaps);
	ck_assert_uint_eq(gaps.lost, lost);
	expect_one_line("no space left");
	umount2(session, MNT_DETACH);
}
END_TEST

/* Somebody else fills the file system: no SIGBUS, and no segment half there. */
START_TEST(full_file_system)
{
	char path[128], block[4096] = "";
	uint64_t lost;
	int fd;

	if (!mount_small("size=16m"))
		return;
	ck_assert_uint_eq(write_many(10), 0);
	snprintf(path, sizeof(path), "%s/fill", session);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	while (write(fd, block, sizeof(block)) > 0)
		;
	close(fd);
	lost = write_many(40 * CHUNK_RECORDS);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_eq(reader.control->segments, 1);
	ck_assert_uint_gt(lost, 20 * CHUNK_RECORDS);
	/* Room again: the next attempt comes within a moment. */
	unlink(path);
	wait_ms(150);
	ck_assert_uint_eq(write_many(10), 0);
	ck_assert_uint_eq(reader.control->segments, 2);
	umount2(session, MNT_DETACH);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("limit");
	TCase *tests = tcase_create("limit");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, open_session, remove_session);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, full_buffer_loses_and_tells);
	tcase_add_test(tests, thread_without_a_block_loses_into_the_control_page);
	tcase_add_test(tests, losing_is_cheap);
	tcase_add_test(tests, file_size_limit_from_the_start);
	tcase_add_test(tests, file_size_limit_for_segments_alone);
	tcase_add_test(tests, file_size_limit_that_comes_later);
	tcase_add_test(tests, directory_that_is_gone);
	tcase_add_test(tests, no_free_descriptor);
	tcase_add_test(tests, directory_that_cannot_be_written);
	tcase_add_test(tests, closed_standard_error_is_no_trouble);
	tcase_add_test(tests, broken_pipe_raises_no_signal);
	tcase_add_test(tests, bad_option_is_said_once);
	tcase_add_test(tests, quarter_of_a_small_file_system);
	tcase_add_test(tests, full_file_system);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
