/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left when a call of the driver's fails: nothing.  A story works with one kind
 * of resource from its making to its end while the n-th call in between fails; it is
 * told again for each n, as often as there are calls when none fails.
 */
#include "fixture.h"

#include <cudaProfiler.h>
#include <stdio.h>

enum { TEXT_BYTES = 1 << 18 };

static struct custody_context *context;
static int lost_by_end; /* functions that were to give something back and failed */

static void open_context(void)
{
	struct custody_device *device;

	story_check(!custody_device_get(0, &device));
	story_check(!custody_context_of_device(device, &context));
}

static size_t free_bytes(void)
{
	struct custody_memory_info info = { .size = sizeof(info) };

	story_check(!custody_context_memory_info(context, &info));
	return info.free_bytes;
}

/* True where a function has succeeded. */
static bool went_well(int result)
{
	return result == 0;
}

static void end(int result)
{
	lost_by_end += result != 0;
}

/* What the engine makes for itself is there before. */
static void warm_up(void)
{
	struct custody_resource *resource;
	void *pointer;

	story_check(!custody_resource_device(context, &resource));
	story_check(!custody_resource_allocate(resource, MIB, NULL, &pointer));
	story_check(!custody_resource_deallocate(resource, pointer, MIB, NULL));
	story_check(!custody_resource_release(resource));
	story_check(!custody_flush(context, true));
}

/* ------------------------------------------------------------ with any resource */

static void use_streams(struct custody_resource *resource, struct custody_stream *own,
			struct custody_stream *other)
{
	struct custody_buffer *buffer = NULL, *copy = NULL;
	void *pointer = &pointer;

	if (went_well(custody_resource_allocate(resource, KIB, own, &pointer)))
		end(custody_resource_deallocate(resource, pointer, KIB, own));
	else
		story_check(pointer == &pointer);
	if (!went_well(custody_buffer_create(resource, MIB, own, &buffer))) {
		story_check(buffer == NULL);
		return;
	}
	went_well(custody_buffer_record_stream(buffer, other));
	went_well(custody_buffer_fill(buffer, "f", 1, other));
	if (!went_well(custody_buffer_copy_to(buffer, &copy, other)))
		story_check(copy == NULL);
	end(custody_buffer_release(copy));
	end(custody_buffer_release(buffer));
}

static void use(struct custody_resource *resource)
{
	struct custody_stream *own = NULL, *other = NULL;

	went_well(custody_stream_create(context, NULL, &own));
	went_well(custody_stream_create(context, NULL, &other));
	if (own && other)
		use_streams(resource, own, other);
	end(custody_stream_destroy(own));
	end(custody_stream_destroy(other));
	end(custody_resource_release(resource));
}

/*
 * Work with a resource while calls fail, and see whether all is back.  What could not
 * be given back was said, and is no leak that nobody knows of.
 */
static int tell(int (*make)(struct custody_resource **resource),
		void (*work)(struct custody_resource *resource))
{
	struct custody_resource *resource = NULL;
	size_t before;

	open_context();
	story_check(!custody_context_push(context));
	warm_up();
	before = free_bytes();
	story_check(!cuProfilerStart());
	if (went_well(make(&resource)))
		work(resource);
	else
		story_check(resource == NULL);
	story_check(!cuProfilerStop());
	if (lost_by_end)
		return 0;
	custody_flush(context, true);
	story_check(!custody_flush(context, true));
	story_check(!custody_context_synchronize(context));
	if (free_bytes() != before)
		fprintf(stderr, "%zu bytes are missing\n", before - free_bytes());
	story_check(free_bytes() == before);
	return 0;
}

/* ------------------------------------------------------------ the kinds */

static int make_device(struct custody_resource **resource)
{
	return custody_resource_device(context, resource);
}

static int make_pool(struct custody_resource **resource)
{
	return custody_resource_pool(context, NULL, resource);
}

static int make_pinned(struct custody_resource **resource)
{
	return custody_resource_pinned(context, CUSTODY_HOST_MAPPED, resource);
}

static int make_pinned_pool(struct custody_resource **resource)
{
	return custody_resource_pinned_pool(context, NULL, resource);
}

static int make_managed(struct custody_resource **resource)
{
	return custody_resource_managed(context, true, resource);
}

static int make_virtual(struct custody_resource **resource)
{
	return custody_resource_virtual(context, NULL, resource);
}

static int with_device(void)
{
	return tell(make_device, use);
}

static int with_pool(void)
{
	return tell(make_pool, use);
}

static int with_pinned(void)
{
	return tell(make_pinned, use);
}

static int with_pinned_pool(void)
{
	return tell(make_pinned_pool, use);
}

static int with_managed(void)
{
	return tell(make_managed, use);
}

static int with_virtual(void)
{
	return tell(make_virtual, use);
}

static void grow(struct custody_resource *resource)
{
	struct custody_buffer *buffer = NULL, *grown = NULL;

	if (went_well(custody_buffer_create(resource, MIB, NULL, &buffer))) {
		if (!went_well(custody_virtual_grow(buffer, 8 * MIB, &grown)))
			story_check(grown == NULL);
		end(custody_buffer_release(buffer));
		end(custody_buffer_release(grown));
	}
	end(custody_resource_release(resource));
}

static int with_growth(void)
{
	return tell(make_virtual, grow);
}

const struct fixture_story fixture_stories[] = {
	{ "device", with_device },
	{ "pool", with_pool },
	{ "pinned", with_pinned },
	{ "pinned_pool", with_pinned_pool },
	{ "managed", with_managed },
	{ "virtual", with_virtual },
	{ "growth", with_growth },
	{ NULL, NULL },
};

/* ------------------------------------------------------------ each call in turn */

static int count_calls(const char *story)
{
	static const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	static char text[TEXT_BYTES];
	char *from, *to;

	ck_assert_int_eq(fixture_run(story, settings, text, sizeof(text)), 0);
	from = strstr(text, "cuProfilerStart\n");
	to = strstr(text, "simulated driver: cuProfilerStop\n");
	ck_assert(from && to && to > from);
	*to = '\0';
	return (int)fixture_count(from, NULL);
}

static void fail_each_call(const char *story, int code)
{
	const int count = count_calls(story);
	char rule[64], text[4096];
	const char *settings[] = { "SIMCUDA_FAIL_PROFILED=1", "SIMCUDA_STREAM=2M", rule, NULL };
	int status;

	ck_assert_int_gt(count, 20);
	for (int turn = 1; turn <= count; turn++) {
		snprintf(rule, sizeof(rule), "SIMCUDA_FAIL=*:%d:%d", turn, code);
		status = fixture_run(story, settings, text, sizeof(text));
		ck_assert_msg(status == 0, "%s, call %d of the driver with %d: status %d: %s",
			      story, turn, code, status, text);
	}
}

static const char *const kinds[] = { "device",  "pool",	   "pinned", "pinned_pool",
				     "managed", "virtual", "growth" };

START_TEST(a_call_that_fails_leaves_nothing_behind)
{
	fail_each_call(kinds[_i], CUDA_ERROR_UNKNOWN);
}
END_TEST

START_TEST(a_call_that_runs_out_of_memory_leaves_nothing_behind)
{
	fail_each_call(kinds[_i], CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

Suite *library_suite(void)
{
	const int count = sizeof(kinds) / sizeof(kinds[0]);
	Suite *suite = suite_create("resource failure");
	TCase *turns = tcase_create("turns");

	tcase_set_timeout(turns, 120);
	tcase_add_loop_test(turns, a_call_that_fails_leaves_nothing_behind, 0, count);
	tcase_add_loop_test(turns, a_call_that_runs_out_of_memory_leaves_nothing_behind, 0, count);
	suite_add_tcase(suite, turns);
	return suite;
}
