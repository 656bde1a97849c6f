/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spawn.c - a program without a session makes one and starts a collector.
 * The collector is a script that writes down what it was given.
 */
#include "core/notice.h"
#include "core/segment.h"
#include "core/session_dir.h"
#include "trace_reader.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[128]; /* the runtime directory, where all of a test happens */
static char program[256];

static const char script[] =
	"#!/bin/sh\n"
	"{ echo \"arguments=$*\"; echo \"preload=$LD_PRELOAD\"; echo \"session=$CUSTODY_SESSION\"\n"
	"echo \"kept=$CUSTODY_TEST_KEPT\"; echo \"here=$PWD\"\n"
	"echo \"error=$(readlink /proc/$$/fd/2)\"\n"
	"echo \"open=$(ls /proc/$$/fd | tr '\\n' ' ')\"; echo \"pid=$$\"\n"
	"echo \"group=$(cut -d' ' -f6 /proc/$$/stat)\"; } > \"$CUSTODY_TEST_PLACE/seen.new\"\n"
	"mv \"$CUSTODY_TEST_PLACE/seen.new\" \"$CUSTODY_TEST_PLACE/seen\"\n"
	"exit ${CUSTODY_TEST_STATUS:-0}\n";

static void write_script(void)
{
	int fd;

	snprintf(program, sizeof(program), "%s/collector", place);
	fd = open(program, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
	close(fd);
}

static void open_place(void)
{
	snprintf(place, sizeof(place), "%s/custody-test-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	ck_assert_ptr_nonnull(mkdtemp(place));
	write_script();
	unsetenv("CUSTODY_SESSION");
	setenv("XDG_RUNTIME_DIR", place, 1);
	setenv("CUSTODY_PROGRAM", program, 1);
	setenv("CUSTODY_TEST_PLACE", place, 1);
}

static void remove_place(void)
{
	trace_reader_remove(place);
}

/* The value of a line of a file; "" where the file or the line is not there. */
static const char *read_value(const char *directory, const char *file, const char *key)
{
	static char value[8192];
	char path[512], text[8192] = "";
	char *at;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return "";
	close(fd);
	snprintf(value, sizeof(value), "\n%s=", key);
	at = !strncmp(text, value + 1, strlen(value) - 1) ? text : strstr(text, value);
	if (!at)
		return "";
	snprintf(value, sizeof(value), "%s", strchr(at, '=') + 1);
	value[strcspn(value, "\n")] = '\0';
	return value;
}

/* The session that the process has made: the parent of its directory. */
static const char *session_of(const char *directory)
{
	static char session[512];

	snprintf(session, sizeof(session), "%s", directory);
	ck_assert_ptr_nonnull(strrchr(session, '/'));
	*strrchr(session, '/') = '\0';
	return session;
}

static _Atomic int child_signals;

static void count_signal(int number)
{
	(void)number;
	child_signals++;
}

START_TEST(collector_gets_the_session_and_a_clean_place)
{
	char expected[600];
	int noise;

	signal(SIGCHLD, count_signal);
	setenv("LD_PRELOAD", "", 1);
	setenv("CUSTODY_TEST_KEPT", "this one", 1);
	noise = fcntl(STDERR_FILENO, F_DUPFD, 77);
	ck_assert_int_eq(noise, 77);
	errno = 4711;
	ck_assert(segment_enter());
	ck_assert_int_eq(errno, 4711);
	snprintf(expected, sizeof(expected), "collect --session %s",
		 session_of(segment_directory()));
	ck_assert_str_eq(read_value(place, "seen", "arguments"), expected);
	ck_assert_str_eq(read_value(place, "seen", "preload"), "");
	ck_assert_str_eq(read_value(place, "seen", "kept"), "this one");
	ck_assert_str_eq(read_value(place, "seen", "here"), "/");
	ck_assert_ptr_nonnull(strstr(read_value(place, "seen", "open"), "2 "));
	ck_assert_ptr_null(strstr(read_value(place, "seen", "open"), "77"));
	ck_assert_int_ne(atoi(read_value(place, "seen", "group")), getsid(0));
	/* No trace of it in the program: no signal, nobody to wait for. */
	ck_assert_int_eq(child_signals, 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(session_says_what_the_collector_needs)
{
	char expected[4200], here[4096];
	const char *session;
	struct stat status;

	setenv("CUSTODY_OUTPUT", "some/%e.%p.db", 1);
	segment_enter();
	session = session_of(segment_directory());
	ck_assert_int_eq(stat(session, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0700);
	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(expected, sizeof(expected), "%s/some/%%e.%%p.db", here);
	ck_assert_str_eq(read_value(session, "session", "output"), expected);
	ck_assert_str_eq(read_value(session, "session", "mode"), "preload");
	ck_assert_int_eq(atoi(read_value(session, "session", "pid")), getpid());
	ck_assert_str_eq(read_value(session, "session", "frees"), "deferred");
	ck_assert_str_eq(read_value(session, "session", "children"), "all");
	ck_assert_str_eq(read_value(session, "session", "buffer"), "268435456");
}
END_TEST

START_TEST(line_breaks_in_names_end_no_line)
{
	const char *output;

	setenv("CUSTODY_OUTPUT", "/a\noutput=/b\\n.db", 1);
	segment_enter();
	output = read_value(session_of(segment_directory()), "session", "output");
	ck_assert_str_eq(output, "/a\\noutput=/b\\\\n.db");
	session_dir_unescape((char *)(uintptr_t)output);
	ck_assert_str_eq(output, "/a\noutput=/b\\n.db");
}
END_TEST

/* Standard error of what follows, as a text. */
static int catch_stderr(void)
{
	int pipes[2];

	ck_assert_int_eq(pipe(pipes), 0);
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	dup2(pipes[1], STDERR_FILENO);
	close(pipes[1]);
	notice_remember_stderr();
	return pipes[0];
}

static void expect_records_stay(int caught)
{
	struct trace_reader reader;
	char text[4096] = "";

	ck_assert(segment_enter());
	ck_assert_int_gt(read(caught, text, sizeof(text) - 1), 0);
	ck_assert_ptr_nonnull(strstr(text, "no collector could be started"));
	ck_assert_ptr_nonnull(strstr(text, session_of(segment_directory())));
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	ck_assert_ptr_nonnull(thread_segment.chunk);
	trace_reader_open(&reader, segment_directory());
	ck_assert_int_eq(reader.control->pid, getpid());
}

START_TEST(missing_collector_leaves_the_records)
{
	int caught = catch_stderr();

	setenv("CUSTODY_PROGRAM", "/nowhere/custody", 1);
	expect_records_stay(caught);
}
END_TEST

START_TEST(failing_collector_leaves_the_records)
{
	int caught = catch_stderr();

	setenv("CUSTODY_TEST_STATUS", "1", 1);
	expect_records_stay(caught);
}
END_TEST

START_TEST(no_executable_leaves_the_records)
{
	char path[300];
	int caught = catch_stderr(), fd;

	snprintf(path, sizeof(path), "%s/garbage", place);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert_int_eq(write(fd, "garbage", 7), 7);
	close(fd);
	setenv("CUSTODY_PROGRAM", path, 1);
	expect_records_stay(caught);
}
END_TEST

/* A daemon closes what it was given; its data lands on the lowest free descriptor. */
START_TEST(data_at_descriptor_2_is_left_alone)
{
	char path[300];
	struct stat status;

	snprintf(path, sizeof(path), "%s/data", place);
	setenv("CUSTODY_BUFFER", "plenty", 1);
	close(STDERR_FILENO);
	ck_assert_int_eq(open(path, O_RDWR | O_CREAT, 0600), STDERR_FILENO);
	ck_assert(segment_enter());
	ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
	ck_assert_int_eq(status.st_size, 0);
	ck_assert_str_eq(read_value(place, "seen", "error"), "/dev/null");
}
END_TEST

START_TEST(session_that_is_gone_is_replaced)
{
	setenv("CUSTODY_SESSION", "/dev/shm/custody-gone", 1);
	ck_assert(segment_enter());
	ck_assert_ptr_nonnull(thread_segment.chunk);
	ck_assert_str_ne(session_of(segment_directory()), "/dev/shm/custody-gone");
	ck_assert_str_eq(read_value(place, "seen", "session"), "");
}
END_TEST

START_TEST(child_of_fork_has_a_session_of_its_own)
{
	char parents[512];
	pid_t child;
	int status;

	segment_enter();
	snprintf(parents, sizeof(parents), "%s", session_of(segment_directory()));
	child = fork();
	if (!child) {
		segment_enter();
		_exit(!thread_segment.chunk ||
		      !strcmp(session_of(segment_directory()), parents));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(place_is_chosen_by_what_can_be_written)
{
	char path[512];

	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	ck_assert_int_eq(session_dir_make(path, sizeof(path), "/tmp"), 0);
	ck_assert(session_dir_exists(path));
	ck_assert_int_eq(rmdir(path), 0);
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	ck_assert_int_eq(session_dir_make(path, sizeof(path), "/tmp"), 0);
	ck_assert_int_eq(path[0], '/');
	ck_assert_int_eq(rmdir(path), 0);
	setenv("XDG_RUNTIME_DIR", place, 1);
	ck_assert_int_eq(session_dir_make(path, sizeof(path), "/tmp"), 0);
	ck_assert_int_eq(strncmp(path, place, strlen(place)), 0);
}
END_TEST

static void *enter(void *argument)
{
	return segment_enter() ? argument : NULL;
}

START_TEST(threads_that_race_start_one_collector)
{
	pthread_t threads[16];
	int first = 0, sessions = 0;
	struct dirent *entry;
	DIR *directory;

	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], NULL, enter, place);
	for (int i = 0; i < 16; i++) {
		void *was_first;

		pthread_join(threads[i], &was_first);
		first += was_first != NULL;
	}
	ck_assert_int_eq(first, 1);
	directory = opendir(place);
	while ((entry = readdir(directory)))
		sessions += !strncmp(entry->d_name, "custody-", 8);
	closedir(directory);
	ck_assert_int_eq(sessions, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spawn");
	TCase *tests = tcase_create("spawn");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, open_place, remove_place);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, collector_gets_the_session_and_a_clean_place);
	tcase_add_test(tests, session_says_what_the_collector_needs);
	tcase_add_test(tests, line_breaks_in_names_end_no_line);
	tcase_add_test(tests, missing_collector_leaves_the_records);
	tcase_add_test(tests, failing_collector_leaves_the_records);
	tcase_add_test(tests, no_executable_leaves_the_records);
	tcase_add_test(tests, data_at_descriptor_2_is_left_alone);
	tcase_add_test(tests, session_that_is_gone_is_replaced);
	tcase_add_test(tests, child_of_fork_has_a_session_of_its_own);
	tcase_add_test(tests, place_is_chosen_by_what_can_be_written);
	tcase_add_test(tests, threads_that_race_start_one_collector);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
