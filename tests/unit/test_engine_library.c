/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of the frame that lies in libcustody.so: what it records, and when.
 */
#include "core/process.h"
#include "fake_queue.h"
#include "intercept/engine.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct engine *engine;
static uint32_t context;
static char directory[PATH_MAX];

/* Nothing of `custody record`; a collector that says yes and does nothing. */
static void start_library(void)
{
	snprintf(directory, sizeof(directory), "%s/engine.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	setenv("XDG_RUNTIME_DIR", directory, 1);
	setenv("CUSTODY_PROGRAM", "/bin/true", 1);
	unsetenv("CUSTODY_SESSION");
	unsetenv("CUSTODY_OUTPUT");
	fake_queue_prepare("immediate", false);
	process_be_library(true);
	engine = custody_engine(ENGINE_VERSION);
	ck_assert(!engine->is_preload);
}

static void end_library(void)
{
	char command[PATH_MAX + 32];

	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	ck_assert_int_eq(system(command), 0);
}

static void make_first_call(void)
{
	fake_begin();
	context = engine->meet(fake_context, 0, false);
}

/* The line of the session's file that begins so; "": there is no session. */
static const char *session_line(const char *key)
{
	static char line[PATH_MAX + 64];
	char path[PATH_MAX + 64];
	FILE *file;

	snprintf(path, sizeof(path), "cat '%s'/custody-*/session 2>/dev/null", directory);
	file = popen(path, "r");
	line[0] = '\0';
	while (file && fgets(line, sizeof(line), file) && strncmp(line, key, strlen(key)))
		line[0] = '\0';
	if (file)
		pclose(file);
	return line;
}

START_TEST(the_librarys_own_copy_records_nothing_unless_asked)
{
	ck_assert(!engine->is_recording());
	make_first_call();
	ck_assert(!engine->is_recording());
	ck_assert_str_eq(session_line("output="), "");
	ck_assert_int_eq(engine->record("x.db"), EBUSY);
}
END_TEST

/* CUSTODY_FREES is for programs that know nothing of the library. */
START_TEST(its_frees_never_wait)
{
	struct deferq_statistics statistics;
	CUdeviceptr address;

	make_first_call();
	atomic_store(&fake_is_busy, true);
	address = fake_block(4096);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
	ck_assert(engine->statistics(context, &statistics));
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY], 1);
}
END_TEST

START_TEST(a_context_that_it_lets_go_has_nothing_of_it)
{
	CUresult result;
	uint32_t events;

	make_first_call();
	for (int i = 0; i < 11; i++)
		ck_assert_int_eq(cuMemFree_v2(fake_block(4096)), CUDA_SUCCESS);
	ck_assert(engine->flush(context, true, &result));
	ck_assert_uint_eq(fake_calls(API_cuStreamCreate), 1);
	events = fake_calls(API_cuEventCreate);
	ck_assert_uint_gt(events, 0);
	engine->part(context);
	ck_assert(!engine->is_alive(context));
	ck_assert_uint_eq(fake_calls(API_cuStreamDestroy_v2), 1);
	ck_assert_uint_eq(fake_calls(API_cuEventDestroy_v2), events);
	ck_assert_uint_ne(engine->meet(fake_context, 0, false), context);
}
END_TEST

START_TEST(it_records_into_a_path_that_is_given)
{
	char too_long[PATH_MAX + 2];

	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	ck_assert_int_eq(engine->record(too_long), ENAMETOOLONG);
	ck_assert(!engine->is_recording());
	ck_assert_int_eq(engine->record("/nowhere/x.db"), 0);
	ck_assert(engine->is_recording());
	make_first_call();
	ck_assert(engine->is_recording());
	ck_assert_str_eq(session_line("output="), "output=/nowhere/x.db\n");
	ck_assert_str_eq(session_line("frees="), "frees=nowait\n");
	ck_assert_int_eq(engine->record("other.db"), 0);
}
END_TEST

START_TEST(it_records_where_the_environment_names_an_output)
{
	setenv("CUSTODY_OUTPUT", "/nowhere/%p.db", 1);
	ck_assert(engine->is_recording());
	make_first_call();
	ck_assert(engine->is_recording());
	ck_assert_str_eq(session_line("output="), "output=/nowhere/%p.db\n");
}
END_TEST

START_TEST(it_joins_a_session_that_lost_its_preload)
{
	char session[PATH_MAX + 32], process[PATH_MAX + 64];
	struct stat status;

	snprintf(session, sizeof(session), "%s/session", directory);
	ck_assert_int_eq(mkdir(session, 0700), 0);
	setenv("CUSTODY_SESSION", session, 1);
	ck_assert(engine->is_recording());
	ck_assert_int_eq(engine->record("/nowhere/x.db"), 0);
	make_first_call();
	ck_assert(engine->is_recording());
	ck_assert_str_eq(session_line("output="), "");
	snprintf(process, sizeof(process), "%s/%d-0/control", session, getpid());
	ck_assert_int_eq(stat(process, &status), 0);
}
END_TEST

START_TEST(a_session_that_has_ended_asks_for_nothing)
{
	setenv("CUSTODY_SESSION", "/nowhere", 1);
	ck_assert(!engine->is_recording());
	make_first_call();
	ck_assert(!engine->is_recording());
}
END_TEST

START_TEST(beside_another_preload_it_may_not_record)
{
	process_be_library(false);
	setenv("CUSTODY_OUTPUT", "/nowhere/%p.db", 1);
	ck_assert(!engine->is_recording());
	ck_assert_int_eq(engine->record("/nowhere/x.db"), EPERM);
	make_first_call();
	ck_assert(!engine->is_recording());
	ck_assert_str_eq(session_line("output="), "");
}
END_TEST

START_TEST(a_child_of_fork_is_recorded_as_its_parent)
{
	int status;
	pid_t child;

	ck_assert_int_eq(engine->record("/nowhere/x.db"), 0);
	make_first_call();
	child = fork();
	if (!child) {
		CUcontext handle;

		cuCtxGetCurrent(&handle);
		_exit(!engine->is_recording());
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_library");
	SRunner *runner = srunner_create(suite);
	TCase *tests = tcase_create("library");
	int failed;

	tcase_add_checked_fixture(tests, start_library, end_library);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, the_librarys_own_copy_records_nothing_unless_asked);
	tcase_add_test(tests, its_frees_never_wait);
	tcase_add_test(tests, a_context_that_it_lets_go_has_nothing_of_it);
	tcase_add_test(tests, it_records_into_a_path_that_is_given);
	tcase_add_test(tests, it_records_where_the_environment_names_an_output);
	tcase_add_test(tests, it_joins_a_session_that_lost_its_preload);
	tcase_add_test(tests, a_session_that_has_ended_asks_for_nothing);
	tcase_add_test(tests, beside_another_preload_it_may_not_record);
	tcase_add_test(tests, a_child_of_fork_is_recorded_as_its_parent);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
