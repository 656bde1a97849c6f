/* SPDX-License-Identifier: Apache-2.0 */
#include "report/session.h"

#include "report/session_name.h"
#include "report/store.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[64];
static char path[PATH_MAX];
static char why[PATH_MAX + 256];

static void make_place(void)
{
	strcpy(place, "/tmp/custody-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(path, sizeof(path), "%s/trace.db", place);
}

static void remove_place(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", place);
	ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
	FILE *stream = fopen(name, "w");

	ck_assert_ptr_nonnull(stream);
	fputs(text, stream);
	fclose(stream);
}

static void expect_name(const char *template, const char *name)
{
	const char *fault = NULL;
	char *made = session_name_expand(template, 42, "/usr/bin/train", &fault);

	ck_assert_ptr_nonnull(made);
	ck_assert_str_eq(made, name);
	free(made);
}

START_TEST(placeholders_are_replaced)
{
	char host[300];

	setenv("RANK", "7/x", 1);
	gethostname(host, sizeof(host));
	expect_name("custody.%e.%p.db", "custody.train.42.db");
	expect_name("a%%b", "a%b");
	expect_name("r%q{RANK}", "r7_x");
	expect_name("%h", host);
	expect_name("plain", "plain");
}
END_TEST

START_TEST(wrong_templates_are_refused)
{
	const char *const wrong[] = { "%x", "%", "%q", "%q{", "%q{NOT_SET_ANYWHERE}", "" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const char *fault = NULL;

		ck_assert_ptr_null(session_name_expand(wrong[i], 1, "x", &fault));
		ck_assert_ptr_nonnull(fault);
	}
}
END_TEST

START_TEST(existing_file_is_kept_without_force)
{
	struct stat status;

	write_file(path, "precious");
	ck_assert(!session_reserve(path, false, why, sizeof(why)));
	ck_assert_ptr_nonnull(strstr(why, "exists"));
	ck_assert(!stat(path, &status) && status.st_size == 8);
	ck_assert(session_reserve(path, true, why, sizeof(why)));
	ck_assert(!stat(path, &status) && status.st_size == 0);
}
END_TEST

START_TEST(link_is_never_followed)
{
	char target[PATH_MAX];
	struct stat status;

	snprintf(target, sizeof(target), "%s/target", place);
	write_file(target, "precious");
	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert(!session_reserve(path, false, why, sizeof(why)));
	ck_assert(!session_reserve(path, true, why, sizeof(why)));
	ck_assert(!stat(target, &status) && status.st_size == 8);
}
END_TEST

START_TEST(remains_of_an_older_trace_are_removed)
{
	char log[PATH_MAX + 8];

	snprintf(log, sizeof(log), "%s-wal", path);
	write_file(log, "old");
	ck_assert(session_reserve(path, false, why, sizeof(why)));
	ck_assert_int_ne(access(log, F_OK), 0);
}
END_TEST

START_TEST(taken_names_get_numbers)
{
	char name[PATH_MAX];
	char expected[PATH_MAX];

	for (int i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "%s", path);
		ck_assert(session_reserve_next(name, why, sizeof(why)));
		if (i == 1)
			snprintf(expected, sizeof(expected), "%s/trace.db", place);
		else
			snprintf(expected, sizeof(expected), "%s/trace.%d.db", place, i);
		ck_assert_str_eq(name, expected);
	}
}
END_TEST

START_TEST(place_that_cannot_be_written_is_refused)
{
	snprintf(path, sizeof(path), "%s/not/there/trace.db", place);
	ck_assert(!session_reserve(path, false, why, sizeof(why)));
	ck_assert(!session_reserve_next(path, why, sizeof(why)));
	ck_assert_ptr_nonnull(strstr(why, "cannot write"));
}
END_TEST

START_TEST(session_tells_its_successor_what_it_needs)
{
	struct session session, again;

	setenv("XDG_RUNTIME_DIR", place, 1);
	session_create(&session, path, 4711);
	ck_assert(session_read(&again, session.directory));
	ck_assert_str_eq(again.trace, path);
	ck_assert_int_eq(again.pid, 4711);
	ck_assert(!again.is_bare);
	session_note_trace(&again, "/other.db");
	ck_assert(session_read(&again, session.directory));
	ck_assert_str_eq(again.trace, "/other.db");
	session_remove(&session);
	ck_assert(!session_read(&again, session.directory));
}
END_TEST

START_TEST(odd_names_of_traces_survive_the_session)
{
	static const char odd[] = "/a\nmode=preload/b\\n\\/c.db";
	struct session session, again;

	setenv("XDG_RUNTIME_DIR", place, 1);
	session_create(&session, odd, 4711);
	ck_assert(session_read(&again, session.directory));
	ck_assert_str_eq(again.trace, odd);
	ck_assert_str_eq(again.output, odd);
	ck_assert(!again.is_bare);
	session_note_trace(&again, odd + 2);
	ck_assert(session_read(&again, session.directory));
	ck_assert_str_eq(again.trace, odd + 2);
	session_remove(&session);
}
END_TEST

START_TEST(session_has_one_collector)
{
	struct session session, other;
	int status;
	pid_t child;

	setenv("XDG_RUNTIME_DIR", place, 1);
	session_create(&session, path, 4711);
	child = fork();
	if (!child)
		_exit(!session_lock(&session));
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	/* The lock of the child went with it. */
	ck_assert(session_read(&other, session.directory));
	ck_assert(session_lock(&session));
	ck_assert(!session_lock(&other));
	session_remove(&session);
}
END_TEST

/* The exit status of a program that opens `path` as a trace. */
static int open_status(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		store_reader_open(path);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_trace(void)
{
	bool is_new;
	struct store *store = store_open(path, NULL, &is_new);

	ck_assert(is_new);
	store_complete(store);
	store_close(store);
}

START_TEST(complete_trace_is_one_file)
{
	char log[PATH_MAX + 8];

	make_trace();
	ck_assert_int_eq(open_status(), 0);
	snprintf(log, sizeof(log), "%s-wal", path);
	ck_assert_int_ne(access(log, F_OK), 0);
}
END_TEST

/* Nothing of the log has been moved into the file; whose it is can be read all the same. */
START_TEST(unfinished_trace_is_known_without_its_log)
{
	unsigned char header[100];
	bool is_new;
	struct store *store = store_open(path, NULL, &is_new);
	int fd = open(path, O_RDONLY);

	ck_assert_int_eq(read(fd, header, sizeof(header)), sizeof(header));
	close(fd);
	ck_assert(!memcmp(header + 68, "Cust", 4));
	ck_assert_int_eq(open_status(), 0);
	store_complete(store);
	store_close(store);
}
END_TEST

START_TEST(directory_of_a_trace_may_be_a_link)
{
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "%s/link", place);
	ck_assert_int_eq(symlink(place, link), 0);
	snprintf(path, sizeof(path), "%s/link/trace.db", place);
	make_trace();
	ck_assert_int_eq(open_status(), 0);
	ck_assert(store_reader_is_complete(path));
}
END_TEST

START_TEST(what_is_no_trace_is_refused)
{
	ck_assert_int_eq(open_status(), 1);
	write_file(path, "");
	ck_assert_int_eq(open_status(), 1);
	write_file(path, "short");
	ck_assert_int_eq(open_status(), 1);
	write_file(path, "this is a text and no database at all, though it is long enough for the "
			 "header of one, which has a hundred bytes");
	ck_assert_int_eq(open_status(), 1);
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(open_status(), 1);
}
END_TEST

static void change(const char *sql)
{
	sqlite3 *db;

	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

START_TEST(trace_of_a_newer_version_is_refused)
{
	make_trace();
	change("PRAGMA user_version = 2");
	ck_assert_int_eq(open_status(), 1);
}
END_TEST

START_TEST(database_of_another_program_is_refused)
{
	change("CREATE TABLE allocation (id)");
	ck_assert_int_eq(open_status(), 1);
}
END_TEST

START_TEST(trace_that_is_cut_short_is_refused)
{
	make_trace();
	ck_assert_int_eq(truncate(path, 30000), 0);
	ck_assert_int_eq(open_status(), 1);
	ck_assert_int_eq(truncate(path, 50), 0);
	ck_assert_int_eq(open_status(), 1);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("session");
	TCase *names = tcase_create("names"), *traces = tcase_create("traces");

	tcase_add_checked_fixture(names, make_place, remove_place);
	tcase_add_checked_fixture(traces, make_place, remove_place);
	tcase_set_timeout(names, 60);
	tcase_set_timeout(traces, 60);
	tcase_add_test(names, placeholders_are_replaced);
	tcase_add_test(names, wrong_templates_are_refused);
	tcase_add_test(names, existing_file_is_kept_without_force);
	tcase_add_test(names, link_is_never_followed);
	tcase_add_test(names, remains_of_an_older_trace_are_removed);
	tcase_add_test(names, taken_names_get_numbers);
	tcase_add_test(names, place_that_cannot_be_written_is_refused);
	tcase_add_test(names, session_tells_its_successor_what_it_needs);
	tcase_add_test(names, odd_names_of_traces_survive_the_session);
	tcase_add_test(names, session_has_one_collector);
	tcase_add_test(traces, complete_trace_is_one_file);
	tcase_add_test(traces, unfinished_trace_is_known_without_its_log);
	tcase_add_test(traces, directory_of_a_trace_may_be_a_link);
	tcase_add_test(traces, what_is_no_trace_is_refused);
	tcase_add_test(traces, trace_of_a_newer_version_is_refused);
	tcase_add_test(traces, database_of_another_program_is_refused);
	tcase_add_test(traces, trace_that_is_cut_short_is_refused);
	suite_add_tcase(suite, names);
	suite_add_tcase(suite, traces);
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
