/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and resources where the driver may not be called any more. */
#include "fixture.h"

#include <stdio.h>
#include <sys/wait.h>

enum { KINDS = 6 };

static struct custody_resource *resources[KINDS];
static struct custody_buffer *buffers[KINDS];
static struct custody_context *context;

/* A buffer of each kind, one of them wrapped, with a stream that uses it. */
static void make_all(void)
{
	struct custody_device *device;
	struct custody_stream *stream;

	story_check(!custody_device_get(0, &device));
	story_check(!custody_context_of_device(device, &context));
	story_check(!custody_stream_create(context, NULL, &stream));
	story_check(!custody_resource_device(context, &resources[0]));
	story_check(!custody_resource_pool(context, NULL, &resources[1]));
	story_check(!custody_resource_pinned(context, 0, &resources[2]));
	story_check(!custody_resource_managed(context, true, &resources[3]));
	story_check(!custody_resource_virtual(context, NULL, &resources[4]));
	story_check(!custody_resource_pinned_pool(context, NULL, &resources[5]));
	for (int i = 0; i < KINDS; i++) {
		story_check(!custody_buffer_create(resources[i], KIB, NULL, &buffers[i]));
		story_check(!custody_buffer_record_stream(buffers[i], stream));
	}
}

/* All is refused with `error`, and may be released. */
static void refuse_and_release(int error)
{
	struct custody_buffer *made = NULL, *part = NULL;
	void *pointer;

	for (int i = 0; i < KINDS; i++) {
		story_check(custody_buffer_create(resources[i], 1, NULL, &made) == error);
		story_check(custody_resource_allocate(resources[i], 1, NULL, &pointer) == error);
		story_check(custody_buffer_fill(buffers[i], "x", 1, NULL) == error);
		story_check(custody_buffer_write(buffers[i], 0, "x", 1, NULL) == error);
		story_check(custody_buffer_slice(buffers[i], 0, 1, &part) == error);
		story_check(custody_buffer_close(buffers[i], NULL) == error);
		story_check(!custody_buffer_release(buffers[i]));
		story_check(!custody_resource_release(resources[i]));
	}
	story_check(!made && !part);
}

/* ------------------------------------------------------------ fork */

static int fork_away(void)
{
	int status = 0;
	pid_t child;

	make_all();
	child = fork();
	if (child == 0) {
		refuse_and_release(CUSTODY_E_FORKED);
		_exit(0);
	}
	story_check(waitpid(child, &status, 0) == child);
	story_check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (int i = 0; i < KINDS; i++)
		story_check(!custody_buffer_fill(buffers[i], "x", 1, NULL));
	return 0;
}

/* ------------------------------------------------------------ exit */

static void come_late(void)
{
	fprintf(stderr, "late\n");
	refuse_and_release(CUSTODY_E_EXITING);
	fprintf(stderr, "later\n");
}

/* What was registered ahead of the library runs behind it. */
static int end_late(void)
{
	story_check(atexit(come_late) == 0);
	make_all();
	exit(0);
}

const struct fixture_story fixture_stories[] = {
	{ "fork_away", fork_away },
	{ "end_late", end_late },
	{ NULL, NULL },
};

START_TEST(a_child_of_fork_is_refused_and_may_release)
{
	char text[8192];
	int status = fixture_run("fork_away", NULL, text, sizeof(text));

	ck_assert_msg(status == 0, "%s", text);
}
END_TEST

/* A crash inside of the driver at exit, where even a question was too much. */
START_TEST(once_exit_has_begun_the_driver_is_left_alone)
{
	static const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	static char text[1 << 18];
	int status = fixture_run("end_late", settings, text, sizeof(text));
	char *late = strstr(text, "late\n"), *later;

	ck_assert_msg(status == 0 && late, "%d: %s", status, text);
	later = strstr(late, "later\n");
	ck_assert_msg(later != NULL, "%s", late);
	*later = '\0';
	ck_assert_uint_eq(fixture_count(late, NULL), 0);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("buffer end");
	TCase *ends = tcase_create("ends");

	tcase_add_test(ends, a_child_of_fork_is_refused_and_may_release);
	tcase_add_test(ends, once_exit_has_begun_the_driver_is_left_alone);
	suite_add_tcase(suite, ends);
	return suite;
}
