/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STORY_VARIABLE "FIXTURE_STORY"

/* ------------------------------------------------------------------ assertions */

void fixture_check(const char *file, int line, const char *call, int result, int expected)
{
	if (result == expected)
		return;
	_ck_assert_failed(file, line, "Assertion failed", "%s is %s (%d), not %s: %s", call,
			  custody_error_name(result), result, custody_error_name(expected),
			  custody_error_detail());
}

struct custody_device *fixture_device(int ordinal)
{
	struct custody_device *device = NULL;

	ck_ok(custody_device_get(ordinal, &device));
	ck_assert_ptr_nonnull(device);
	return device;
}

struct custody_context *fixture_context(int ordinal)
{
	struct custody_context *context = NULL;

	ck_ok(custody_context_of_device(fixture_device(ordinal), &context));
	ck_assert_ptr_nonnull(context);
	return context;
}

size_t fixture_free_bytes(struct custody_context *context)
{
	struct custody_memory_info info = { .size = sizeof(info) };

	ck_ok(custody_context_memory_info(context, &info));
	return info.free_bytes;
}

static struct custody_pending ask_pending(struct custody_context *context)
{
	struct custody_pending pending = { .size = sizeof(pending) };

	ck_ok(custody_pending(context, &pending));
	return pending;
}

uint64_t fixture_pending_count(struct custody_context *context)
{
	struct custody_pending pending = ask_pending(context);

	return pending.memory_count + pending.object_count;
}

uint64_t fixture_pending_bytes(struct custody_context *context)
{
	struct custody_pending pending = ask_pending(context);

	return pending.memory_bytes + pending.pinned_bytes;
}

/* ------------------------------------------------------------------ memory */

static void *find(const char *symbol)
{
	void *function = custody_driver_function(symbol);

	ck_assert_msg(function != NULL, "there is no %s: %s", symbol, custody_error_detail());
	return function;
}

CUdeviceptr fixture_allocate(struct custody_context *context, size_t bytes)
{
	CUresult (*allocate)(CUdeviceptr *address, size_t bytes);
	CUdeviceptr address = 0;

	*(void **)&allocate = find("cuMemAlloc_v2");
	ck_ok(custody_context_push(context));
	ck_cu(allocate(&address, bytes));
	ck_ok(custody_context_pop(context));
	return address;
}

void fixture_free(struct custody_context *context, CUdeviceptr address)
{
	CUresult (*release)(CUdeviceptr address);

	*(void **)&release = find("cuMemFree_v2");
	ck_ok(custody_context_push(context));
	ck_cu(release(address));
	ck_ok(custody_context_pop(context));
}

void *fixture_allocate_pinned(struct custody_context *context, size_t bytes)
{
	CUresult (*allocate)(void **address, size_t bytes, unsigned int flags);
	void *address = NULL;

	*(void **)&allocate = find("cuMemHostAlloc");
	ck_ok(custody_context_push(context));
	ck_cu(allocate(&address, bytes, 0));
	ck_ok(custody_context_pop(context));
	return address;
}

void fixture_free_pinned(struct custody_context *context, void *address)
{
	CUresult (*release)(void *address);

	*(void **)&release = find("cuMemFreeHost");
	ck_ok(custody_context_push(context));
	ck_cu(release(address));
	ck_ok(custody_context_pop(context));
}

void fixture_free_some(struct custody_context *context, unsigned int count, size_t bytes)
{
	for (unsigned int i = 0; i < count; i++)
		fixture_free(context, fixture_allocate(context, bytes));
}

/* ------------------------------------------------------------------ the device's pace */

static uint32_t *gate;

void fixture_hold(CUstream handle)
{
	if (!gate)
		ck_cu(cuMemHostAlloc((void **)&gate, sizeof(*gate),
				     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
	ck_cu(cuStreamWaitValue32(handle, (CUdeviceptr)(uintptr_t)gate, 1,
				  CU_STREAM_WAIT_VALUE_EQ));
}

void fixture_release(void)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ the driver's calls */

static int log_descriptor = -1;
static off_t log_begin;

void fixture_watch(void)
{
	setenv("SIMCUDA_VERBOSE", "1", 1);
	log_descriptor = memfd_create("calls", MFD_CLOEXEC);
	ck_assert_int_ge(log_descriptor, 0);
	ck_assert_int_ge(dup2(log_descriptor, STDERR_FILENO), 0);
}

void fixture_forget(void)
{
	log_begin = lseek(log_descriptor, 0, SEEK_END);
}

unsigned int fixture_count(char *text, const char *symbol)
{
	static const char head[] = "simulated driver: ";
	unsigned int count = 0;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (strncmp(line, head, sizeof(head) - 1) == 0)
			count += !symbol || strcmp(line + sizeof(head) - 1, symbol) == 0;
	return count;
}

unsigned int fixture_calls(const char *symbol)
{
	off_t end = lseek(log_descriptor, 0, SEEK_END);
	size_t bytes = (size_t)(end - log_begin);
	char *text = malloc(bytes + 1);
	unsigned int count;

	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(pread(log_descriptor, text, bytes, log_begin), (ssize_t)bytes);
	text[bytes] = '\0';
	count = fixture_count(text, symbol);
	free(text);
	return count;
}

/* ------------------------------------------------------------------ stories */

static void tell_instead(const char *story, const char *const *settings, int out)
{
	char self[] = "/proc/self/exe";
	char *arguments[] = { self, NULL };

	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	setenv(STORY_VARIABLE, story, 1);
	for (; settings && *settings; settings++)
		putenv((char *)(uintptr_t)*settings);
	execv(self, arguments);
	_exit(127);
}

static void read_all(int in, char *text, size_t bytes)
{
	size_t used = 0;
	ssize_t got;
	char waste[512];

	do {
		bool has_room = used + 1 < bytes;

		got = has_room ? read(in, text + used, bytes - 1 - used) :
				 read(in, waste, sizeof(waste));
		if (got > 0 && has_room)
			used += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (bytes)
		text[used] = '\0';
}

int fixture_run(const char *story, const char *const *settings, char *text, size_t bytes)
{
	int ends[2], status;
	pid_t child;

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		tell_instead(story, settings, ends[1]);
	close(ends[1]);
	read_all(ends[0], text, bytes);
	close(ends[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void fixture_story_check(bool holds, const char *what, int line)
{
	if (holds)
		return;
	fprintf(stderr, "story: line %d: not so: %s (%s)\n", line, what, custody_error_detail());
	_exit(1);
}

TCase *fixture_case(Suite *suite, const char *name, SFun setup)
{
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 60);
	if (setup)
		tcase_add_checked_fixture(tcase, setup, NULL);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static const struct fixture_story *telling;
static int told = 1;

START_TEST(story)
{
	told = telling->tell();
}
END_TEST

/* As a test of its own, in this very process, so that a story may use what tests use. */
static int tell(const char *name)
{
	Suite *suite = suite_create("story");
	TCase *only = tcase_create(name);
	SRunner *runner;

	for (telling = fixture_stories; telling->name; telling++)
		if (strcmp(telling->name, name) == 0)
			break;
	if (!telling->name) {
		fprintf(stderr, "story: there is no story %s\n", name);
		return 2;
	}
	unsetenv(STORY_VARIABLE);
	unsetenv("CK_RUN_SUITE"); /* they choose among tests, not among stories */
	unsetenv("CK_RUN_CASE");
	unsetenv("CK_VERBOSITY");
	tcase_add_test(only, story);
	suite_add_tcase(suite, only);
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	if (srunner_ntests_failed(runner))
		srunner_print(runner, CK_NORMAL);
	srunner_free(runner);
	return told;
}

int main(void)
{
	const char *name = getenv(STORY_VARIABLE);
	SRunner *runner;
	int failed;

	if (name)
		return tell(name);
	runner = srunner_create(library_suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
