/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning and end: initialisation that fails, fork, exit; and structs with a size, by
 * which older and newer programs are told apart.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ------------------------------------------------------------------ beginning */

START_TEST(failed_initialisation_says_why_and_may_be_tried_again)
{
	int count;

	setenv("SIMCUDA_FAIL", "cuInit:1:999", 1);
	ck_assert(!custody_is_available());
	ck_is(custody_device_count(&count), 0);
	ck_assert(custody_is_available());
	ck_assert_ptr_null(custody_init_error());
}
END_TEST

START_TEST(reason_of_a_failed_initialisation_names_the_error)
{
	int count = -1;

	setenv("SIMCUDA_FAIL", "cuInit:*:802", 1);
	ck_is(custody_device_count(&count), CUDA_ERROR_SYSTEM_NOT_READY);
	ck_assert_int_eq(count, -1);
	ck_assert(!custody_is_available());
	ck_assert_ptr_nonnull(custody_init_error());
	ck_assert_ptr_nonnull(strstr(custody_init_error(), "CUDA_ERROR_SYSTEM_NOT_READY"));
	ck_assert_ptr_nonnull(strstr(custody_init_error(), "802"));
}
END_TEST

START_TEST(driver_without_a_device_is_not_available)
{
	struct custody_device *device;

	setenv("SIMCUDA_DEVICES", "0", 1);
	ck_assert(!custody_is_available());
	ck_assert_ptr_nonnull(custody_init_error());
	ck_assert_int_ne(custody_device_get(0, &device), 0);
}
END_TEST

static void *ask_count(void *argument)
{
	int count = 0;

	ck_ok(custody_device_count(&count));
	*(int *)argument = count;
	return NULL;
}

START_TEST(threads_that_begin_at_once_initialise_once)
{
	enum { THREADS = 16 };
	pthread_t threads[THREADS];
	int counts[THREADS];

	fixture_watch();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, ask_count, &counts[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(counts[i], 1);
	}
	ck_assert_uint_eq(fixture_calls("cuInit"), 1);
}
END_TEST

/* ------------------------------------------------------------------ fork */

/* A check that fails in a child makes its exit status 1. */
static int wait_for(pid_t child)
{
	int status = -1;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct left {
	struct custody_context *context;
	struct custody_stream *stream;
	struct custody_event *event;
};

static struct left leave_behind(void)
{
	struct left left = { .context = fixture_context(0) };

	ck_ok(custody_stream_create(left.context, NULL, &left.stream));
	ck_ok(custody_event_create(left.context, NULL, &left.event));
	fixture_free_some(left.context, 5, KIB);
	return left;
}

static bool is_refused_everywhere(const struct left *left)
{
	struct custody_memory_info info = { .size = sizeof(info) };
	struct custody_pending pending = { .size = sizeof(pending) };
	struct custody_device *device;
	struct custody_event *event;
	int count;

	return custody_device_count(&count) == CUSTODY_E_FORKED &&
	       custody_device_get(0, &device) == CUSTODY_E_FORKED &&
	       custody_context_synchronize(left->context) == CUSTODY_E_FORKED &&
	       custody_context_memory_info(left->context, &info) == CUSTODY_E_FORKED &&
	       custody_context_reset(left->context) == CUSTODY_E_FORKED &&
	       custody_pending(left->context, &pending) == CUSTODY_E_FORKED &&
	       custody_flush(left->context, true) == CUSTODY_E_FORKED &&
	       custody_stream_synchronize(left->stream) == CUSTODY_E_FORKED &&
	       custody_event_create(left->context, NULL, &event) == CUSTODY_E_FORKED &&
	       custody_shutdown() == CUSTODY_E_FORKED &&
	       custody_profile_start() == CUSTODY_E_FORKED &&
	       custody_trace_start(NULL) == CUSTODY_E_FORKED &&
	       custody_driver_function("cuMemFree_v2") == NULL && !custody_is_available();
}

/* What the child owns a copy of it may free; the parent's stays as it is. */
static int live_as_a_child(const struct left *left)
{
	char numbers[64];

	if (!is_refused_everywhere(left))
		return 2;
	snprintf(numbers, sizeof(numbers), "%d was forked from %d", (int)getpid(), (int)getppid());
	if (!strstr(custody_init_error(), numbers))
		return 3;
	if (custody_stream_destroy(left->stream) || custody_event_destroy(left->event))
		return 4;
	return fixture_calls(NULL) ? 5 : 0;
}

START_TEST(child_of_a_process_that_used_cuda_is_told_so)
{
	struct left left;
	pid_t child;

	fixture_watch();
	left = leave_behind();
	fixture_forget();
	child = fork();
	if (child == 0)
		_exit(live_as_a_child(&left));
	ck_assert_int_eq(wait_for(child), 0);
	ck_assert_uint_eq(fixture_pending_count(left.context), 5);
	ck_ok(custody_stream_synchronize(left.stream));
}
END_TEST

/* No handler of pthread_atfork() runs there. */
START_TEST(child_that_no_handler_has_seen_is_told_so_too)
{
	struct left left;
	pid_t child;

	fixture_watch();
	left = leave_behind();
	fixture_forget();
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(is_refused_everywhere(&left) && !fixture_calls(NULL) ? 0 : 2);
	ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

START_TEST(grandchild_is_told_so_too)
{
	struct left left = leave_behind();
	pid_t child = fork();

	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0)
			_exit(is_refused_everywhere(&left) ? 0 : 2);
		_exit(wait_for(grandchild));
	}
	ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

/* An exit of the child runs handlers and destructors; none may touch the driver. */
START_TEST(child_ends_without_a_call)
{
	struct left left;
	pid_t child;

	fixture_watch();
	left = leave_behind();
	fixture_forget();
	child = fork();
	if (child == 0)
		exit(custody_stream_destroy(left.stream));
	ck_assert_int_eq(wait_for(child), 0);
	ck_assert_uint_eq(fixture_calls(NULL), 0);
}
END_TEST

START_TEST(child_of_a_process_that_did_not_use_cuda_may)
{
	pid_t child = fork();
	int count;

	if (child == 0)
		_exit(custody_device_count(&count) || !custody_is_available());
	ck_assert_int_eq(wait_for(child), 0);
	ck_ok(custody_device_count(&count));
}
END_TEST

/* The driver's version was asked for, but CUDA was not initialised. */
START_TEST(question_for_the_version_does_not_count_as_use)
{
	struct custody_version version;
	pid_t child;
	int count;

	ck_ok(custody_driver_version(&version));
	child = fork();
	if (child == 0)
		_exit(custody_device_count(&count) || custody_driver_version(&version));
	ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

/* It said "initialised before forking" where initialisation had failed. */
START_TEST(fork_after_a_failed_initialisation_was_blamed_on_the_fork)
{
	pid_t child;
	int count;

	setenv("SIMCUDA_FAIL", "cuInit:1:999", 1);
	ck_is(custody_device_count(&count), CUDA_ERROR_UNKNOWN);
	child = fork();
	if (child == 0)
		_exit(custody_device_count(&count) || custody_device_count(&count));
	ck_assert_int_eq(wait_for(child), 0);
	ck_ok(custody_device_count(&count));
}
END_TEST

/* ------------------------------------------------------------------ exit */

static struct left left_at_exit;

/* As static destructors of other languages do. */
static void destroy_late(void)
{
	struct custody_stream *stream;
	int count;

	fprintf(stderr, "--- late\n");
	story_check(custody_stream_destroy(left_at_exit.stream) == 0);
	story_check(custody_event_destroy(left_at_exit.event) == 0);
	story_check(custody_device_count(&count) == CUSTODY_E_EXITING);
	story_check(custody_context_synchronize(left_at_exit.context) == CUSTODY_E_EXITING);
	story_check(custody_stream_create(left_at_exit.context, NULL, &stream) ==
		    CUSTODY_E_EXITING);
	story_check(custody_flush(left_at_exit.context, true) == CUSTODY_E_EXITING);
	story_check(custody_shutdown() == CUSTODY_E_EXITING);
	story_check(!custody_is_available());
}

/* Registered ahead of anything of ours, so it runs after it. */
static int leave_all_to_exit(void)
{
	atexit(destroy_late);
	left_at_exit = leave_behind();
	fprintf(stderr, "--- exit\n");
	return 0;
}

static int leave_without_a_word(void)
{
	left_at_exit = leave_behind();
	fprintf(stderr, "--- exit\n");
	return 0;
}

static void *leave_from_a_thread(void *argument)
{
	(void)argument;
	fprintf(stderr, "--- exit\n");
	exit(0);
}

static int end_by_a_thread(void)
{
	pthread_t thread;

	atexit(destroy_late);
	left_at_exit = leave_behind();
	pthread_create(&thread, NULL, leave_from_a_thread, NULL);
	pthread_join(thread, NULL);
	return 1;
}

static int leave_wrapped(void)
{
	struct custody_context *context;
	CUcontext handle;

	ck_cu(cuInit(0));
	ck_cu(cuCtxCreate(&handle, NULL, 0, 0));
	ck_ok(custody_context_wrap(handle, &context));
	fixture_free_some(context, 5, KIB);
	fprintf(stderr, "--- exit\n");
	return 0;
}

static int leave_destroyed(void)
{
	struct custody_context *context;
	CUcontext handle;

	ck_cu(cuInit(0));
	ck_cu(cuCtxCreate(&handle, NULL, 0, 0));
	ck_ok(custody_context_wrap(handle, &context));
	fixture_free_some(context, 5, KIB);
	ck_ok(custody_context_unwrap(context));
	ck_cu(cuCtxDestroy(handle));
	fprintf(stderr, "--- exit\n");
	return 0;
}

static int leave_shut_down(void)
{
	atexit(destroy_late);
	left_at_exit = leave_behind();
	ck_ok(custody_shutdown());
	fprintf(stderr, "--- exit\n");
	return 0;
}

const struct fixture_story fixture_stories[] = {
	{ "leave all to exit", leave_all_to_exit },
	{ "leave without a word", leave_without_a_word },
	{ "end by a thread", end_by_a_thread },
	{ "leave wrapped", leave_wrapped },
	{ "leave destroyed", leave_destroyed },
	{ "leave shut down", leave_shut_down },
	{ NULL, NULL },
};

/* The story ends well, and the driver is not called once exit has begun. */
static void check_exit(const char *story)
{
	const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	static char text[1 << 20];
	char *end;

	ck_assert_msg(fixture_run(story, settings, text, sizeof(text)) == 0, "%s: %s", story,
		      strlen(text) > 400 ? text + strlen(text) - 400 : text);
	end = strstr(text, "--- exit\n");
	ck_assert_ptr_nonnull(end);
	ck_assert_msg(!strstr(end, "simulated driver: "), "%s: %s", story, end);
}

START_TEST(objects_destroyed_after_the_end_crashed_in_the_driver)
{
	check_exit("leave all to exit");
}
END_TEST

START_TEST(exit_with_frees_pending_made_calls_that_failed)
{
	check_exit("leave without a word");
}
END_TEST

START_TEST(exit_from_another_thread_is_as_quiet)
{
	check_exit("end by a thread");
}
END_TEST

START_TEST(adopted_third_party_context_crashed_at_exit)
{
	check_exit("leave wrapped");
}
END_TEST

START_TEST(context_that_the_program_has_destroyed_is_left_alone_at_exit)
{
	check_exit("leave destroyed");
}
END_TEST

START_TEST(objects_destroyed_after_a_shutdown_are_freed_quietly)
{
	check_exit("leave shut down");
}
END_TEST

/* ------------------------------------------------------------------ structs with a size */

struct newer_pending {
	struct custody_pending known;
	uint64_t unknown;
};

START_TEST(older_program_gets_as_much_as_it_has_room_for)
{
	struct custody_pending pending = { .memory_count = 77, .memory_bytes = 77 };

	pending.size = offsetof(struct custody_pending, memory_bytes);
	fixture_free_some(fixture_context(0), 3, KIB);
	ck_ok(custody_pending(fixture_context(0), &pending));
	ck_assert_uint_eq(pending.memory_count, 3);
	ck_assert_uint_eq(pending.memory_bytes, 77);
	ck_assert_uint_eq(pending.size, offsetof(struct custody_pending, memory_bytes));
}
END_TEST

START_TEST(newer_program_finds_zeros_where_we_know_nothing)
{
	struct newer_pending pending = { .unknown = 77 };

	pending.known.size = sizeof(pending);
	ck_ok(custody_pending(fixture_context(0), &pending.known));
	ck_assert_uint_eq(pending.unknown, 0);
	ck_assert_uint_eq(pending.known.size, sizeof(pending));
}
END_TEST

START_TEST(struct_without_a_size_is_refused)
{
	struct custody_pending pending = { .memory_count = 77 };
	struct custody_defer_limits limits = { .max_count = 1 };

	ck_is(custody_pending(fixture_context(0), &pending), CUSTODY_E_INVALID);
	ck_assert_uint_eq(pending.memory_count, 77);
	ck_is(custody_defer_set_limits(&limits), CUSTODY_E_INVALID);
	pending.size = (size_t)-1;
	ck_is(custody_pending(fixture_context(0), &pending), CUSTODY_E_INVALID);
}
END_TEST

struct newer_limits {
	struct custody_defer_limits known;
	uint64_t unknown;
};

START_TEST(newer_option_that_is_set_is_refused)
{
	struct newer_limits limits = { .known = { .max_count = 4, .max_ratio = 0.5 } };
	struct custody_defer_limits now = { .size = sizeof(now) };

	limits.known.size = sizeof(limits);
	ck_ok(custody_defer_set_limits(&limits.known));
	ck_ok(custody_defer_limits(&now));
	ck_assert_int_eq(now.max_count, 4);
	limits.unknown = 1;
	limits.known.max_count = 5;
	ck_is(custody_defer_set_limits(&limits.known), CUSTODY_E_INVALID);
	ck_ok(custody_defer_limits(&now));
	ck_assert_int_eq(now.max_count, 4);
}
END_TEST

START_TEST(older_options_leave_the_rest_at_zero)
{
	struct custody_defer_limits now = { .size = sizeof(now) };
	struct custody_defer_limits limits = {
		.max_count = 4,
		.max_ratio = 0.5,
		.is_strict = true,
	};

	limits.size = offsetof(struct custody_defer_limits, is_strict);
	ck_ok(custody_defer_set_limits(&limits));
	ck_ok(custody_defer_limits(&now));
	ck_assert_double_eq(now.max_ratio, 0.5);
	ck_assert(!now.is_strict);
}
END_TEST

static TCase *fork_case(void)
{
	TCase *rules = tcase_create("fork");

	tcase_add_test(rules, child_of_a_process_that_used_cuda_is_told_so);
	tcase_add_test(rules, child_that_no_handler_has_seen_is_told_so_too);
	tcase_add_test(rules, grandchild_is_told_so_too);
	tcase_add_test(rules, child_ends_without_a_call);
	tcase_add_test(rules, child_of_a_process_that_did_not_use_cuda_may);
	tcase_add_test(rules, question_for_the_version_does_not_count_as_use);
	tcase_add_test(rules, fork_after_a_failed_initialisation_was_blamed_on_the_fork);
	return rules;
}

static TCase *exit_case(void)
{
	TCase *rules = tcase_create("exit");

	tcase_add_test(rules, objects_destroyed_after_the_end_crashed_in_the_driver);
	tcase_add_test(rules, exit_with_frees_pending_made_calls_that_failed);
	tcase_add_test(rules, exit_from_another_thread_is_as_quiet);
	tcase_add_test(rules, adopted_third_party_context_crashed_at_exit);
	tcase_add_test(rules, context_that_the_program_has_destroyed_is_left_alone_at_exit);
	tcase_add_test(rules, objects_destroyed_after_a_shutdown_are_freed_quietly);
	return rules;
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("life");
	TCase *beginning = tcase_create("beginning"), *size = tcase_create("size");

	tcase_add_test(beginning, failed_initialisation_says_why_and_may_be_tried_again);
	tcase_add_test(beginning, reason_of_a_failed_initialisation_names_the_error);
	tcase_add_test(beginning, driver_without_a_device_is_not_available);
	tcase_add_test(beginning, threads_that_begin_at_once_initialise_once);
	tcase_add_test(size, older_program_gets_as_much_as_it_has_room_for);
	tcase_add_test(size, newer_program_finds_zeros_where_we_know_nothing);
	tcase_add_test(size, struct_without_a_size_is_refused);
	tcase_add_test(size, newer_option_that_is_set_is_refused);
	tcase_add_test(size, older_options_leave_the_rest_at_zero);
	suite_add_tcase(suite, beginning);
	suite_add_tcase(suite, fork_case());
	suite_add_tcase(suite, exit_case());
	suite_add_tcase(suite, size);
	return suite;
}
