/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching, prefetching, advice and discarding of managed memory. */
#include "fixture.h"

static const struct custody_location on_device = { CUSTODY_LOCATION_DEVICE, 0 };
static const struct custody_location on_host = { CUSTODY_LOCATION_HOST, 0 };
static const struct custody_location on_node = { CUSTODY_LOCATION_HOST_NUMA, 0 };
static const struct custody_location wrong = { (enum custody_location_kind)9, 0 };
static const struct custody_location nowhere = { CUSTODY_LOCATION_NONE, 0 };

static struct custody_buffer *managed(size_t bytes)
{
	struct custody_resource *resource;
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_resource_managed(fixture_context(0), true, &resource));
	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static struct custody_stream *stream_of(struct custody_context *context)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

static struct custody_buffer *plain(void)
{
	struct custody_resource *resource;
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_resource_device(fixture_context(0), &resource));
	ck_ok(custody_buffer_create(resource, KIB, NULL, &buffer));
	return buffer;
}

START_TEST(only_managed_memory_is_taken)
{
	struct custody_buffer *buffer = plain();

	ck_is(custody_managed_attach(buffer, CUSTODY_ATTACH_GLOBAL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_managed_prefetch(buffer, on_device, NULL), CUSTODY_E_INVALID);
	ck_is(custody_managed_advise(buffer, CUSTODY_ADVICE_READ_MOSTLY, nowhere, true),
	      CUSTODY_E_INVALID);
	ck_is(custody_managed_discard(buffer, nowhere, NULL), CUSTODY_E_INVALID);
	ck_is(custody_managed_prefetch(NULL, on_device, NULL), CUSTODY_E_INVALID);
	buffer = managed(KIB);
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_is(custody_managed_prefetch(buffer, on_device, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_managed_attach(buffer, CUSTODY_ATTACH_HOST, NULL), CUSTODY_E_CLOSED);
}
END_TEST

START_TEST(memory_is_attached_in_all_three_ways)
{
	struct custody_buffer *buffer = managed(KIB), *part;
	struct custody_stream *stream = stream_of(fixture_context(0)), *standard;

	ck_ok(custody_managed_attach(buffer, CUSTODY_ATTACH_HOST, NULL));
	ck_ok(custody_managed_attach(buffer, CUSTODY_ATTACH_SINGLE, stream));
	ck_ok(custody_managed_attach(buffer, CUSTODY_ATTACH_GLOBAL, stream));
	ck_is(custody_managed_attach(buffer, CUSTODY_ATTACH_SINGLE, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_stream_default(fixture_context(0), &standard));
	ck_is(custody_managed_attach(buffer, CUSTODY_ATTACH_SINGLE, standard), CUSTODY_E_INVALID);
	ck_is(custody_managed_attach(buffer, (enum custody_attach)7, stream), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_slice(buffer, 0, 8, &part));
	ck_is(custody_managed_attach(part, CUSTODY_ATTACH_HOST, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_stream_that_is_capturing_is_refused_and_another_is_not)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_buffer *buffer = managed(KIB);
	struct custody_stream *capturing, *other;
	CUgraph graph;

	ck_ok(custody_stream_create(fixture_context(0), &options, &capturing));
	ck_ok(custody_stream_create(fixture_context(0), &options, &other));
	ck_ok(custody_stream_begin_capture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_managed_attach(buffer, CUSTODY_ATTACH_SINGLE, capturing),
	      CUSTODY_E_CAPTURING);
	ck_is(custody_managed_prefetch(buffer, on_host, capturing), CUSTODY_E_CAPTURING);
	ck_is(custody_managed_discard(buffer, nowhere, capturing), CUSTODY_E_CAPTURING);
	ck_is(custody_managed_discard(buffer, on_host, capturing), CUSTODY_E_CAPTURING);
	ck_ok(custody_managed_attach(buffer, CUSTODY_ATTACH_SINGLE, other));
	ck_ok(custody_managed_prefetch(buffer, on_host, other));
	ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_READ_MOSTLY, nowhere, true));
	ck_ok(custody_managed_discard(buffer, nowhere, other));
	ck_ok(custody_stream_end_capture(capturing, &graph));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

static unsigned int prefetches(void)
{
	return fixture_calls("cuMemPrefetchAsync_v2") + fixture_calls("cuMemPrefetchAsync");
}

START_TEST(pages_are_prefetched_to_where_they_are_wanted)
{
	struct custody_stream *stream;
	struct custody_buffer *buffer;

	fixture_watch();
	buffer = managed(KIB);
	stream = stream_of(fixture_context(0));
	fixture_forget();
	ck_ok(custody_managed_prefetch(buffer, on_device, stream));
	ck_ok(custody_managed_prefetch(buffer, on_host, stream));
	ck_ok(custody_managed_prefetch(buffer, on_node, NULL));
	ck_assert_uint_eq(prefetches(), 3);
	ck_is(custody_managed_prefetch(buffer, nowhere, stream), CUSTODY_E_INVALID);
	ck_is(custody_managed_prefetch(
		      buffer, (struct custody_location){ CUSTODY_LOCATION_DEVICE, 5 }, stream),
	      CUSTODY_E_NO_DEVICE);
	ck_is(custody_managed_prefetch(
		      buffer, (struct custody_location){ CUSTODY_LOCATION_HOST_NUMA, -1 }, stream),
	      CUSTODY_E_INVALID);
	ck_is(custody_managed_prefetch(buffer, wrong, stream), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(advice_is_given_and_taken_back)
{
	struct custody_buffer *buffer;

	fixture_watch();
	buffer = managed(KIB);
	fixture_forget();
	for (int is_given = 1; is_given >= 0; is_given--) {
		ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_READ_MOSTLY, nowhere,
					     is_given));
		ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_PREFERRED_LOCATION, on_host,
					     is_given));
		ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_ACCESSED_BY, on_device,
					     is_given));
	}
	ck_assert_uint_eq(fixture_calls("cuMemAdvise_v2") + fixture_calls("cuMemAdvise"), 6);
	ck_is(custody_managed_advise(buffer, CUSTODY_ADVICE_ACCESSED_BY, nowhere, true),
	      CUSTODY_E_INVALID);
	ck_is(custody_managed_advise(buffer, CUSTODY_ADVICE_PREFERRED_LOCATION, nowhere, true),
	      CUSTODY_E_INVALID);
	ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_PREFERRED_LOCATION, nowhere, false));
	ck_is(custody_managed_advise(buffer, (enum custody_advice)9, on_host, true),
	      CUSTODY_E_INVALID);
}
END_TEST

START_TEST(contents_are_discarded_and_pages_wanted_elsewhere)
{
	struct custody_stream *stream;
	struct custody_buffer *buffer;

	fixture_watch();
	buffer = managed(KIB);
	stream = stream_of(fixture_context(0));
	fixture_forget();
	ck_ok(custody_managed_discard(buffer, nowhere, stream));
	ck_ok(custody_managed_discard(buffer, nowhere, NULL));
	ck_assert_uint_eq(fixture_calls("cuMemDiscardBatchAsync") +
				  fixture_calls("cuMemDiscardBatchAsync_ptsz"),
			  2);
	ck_ok(custody_managed_discard(buffer, on_device, stream));
	ck_assert_uint_eq(fixture_calls("cuMemDiscardAndPrefetchBatchAsync") + prefetches(), 1);
	ck_is(custody_managed_discard(
		      buffer, (struct custody_location){ CUSTODY_LOCATION_DEVICE, 5 }, stream),
	      CUSTODY_E_NO_DEVICE);
}
END_TEST

START_TEST(no_bytes_are_no_call)
{
	struct custody_buffer *buffer = managed(0);

	ck_ok(custody_managed_attach(buffer, CUSTODY_ATTACH_GLOBAL, NULL));
	ck_ok(custody_managed_prefetch(buffer, on_device, NULL));
	ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_READ_MOSTLY, nowhere, true));
	ck_ok(custody_managed_discard(buffer, nowhere, NULL));
}
END_TEST

START_TEST(where_the_device_does_not_move_pages_nothing_is_asked)
{
	struct custody_buffer *buffer;

	setenv("SIMCUDA_MANAGED_ACCESS", "0", 1);
	fixture_watch();
	buffer = managed(KIB);
	fixture_forget();
	ck_ok(custody_managed_prefetch(buffer, on_device, NULL));
	ck_ok(custody_managed_advise(buffer, CUSTODY_ADVICE_READ_MOSTLY, nowhere, true));
	ck_ok(custody_managed_discard(buffer, nowhere, NULL));
	ck_ok(custody_managed_discard(buffer, on_host, NULL));
	ck_assert_uint_eq(prefetches() + fixture_calls("cuMemAdvise_v2") +
				  fixture_calls("cuMemDiscardBatchAsync"),
			  0);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("managed");
	TCase *managed_case = tcase_create("managed");

	tcase_add_test(managed_case, only_managed_memory_is_taken);
	tcase_add_test(managed_case, memory_is_attached_in_all_three_ways);
	tcase_add_test(managed_case, a_stream_that_is_capturing_is_refused_and_another_is_not);
	tcase_add_test(managed_case, pages_are_prefetched_to_where_they_are_wanted);
	tcase_add_test(managed_case, advice_is_given_and_taken_back);
	tcase_add_test(managed_case, contents_are_discarded_and_pages_wanted_elsewhere);
	tcase_add_test(managed_case, no_bytes_are_no_call);
	tcase_add_test(managed_case, where_the_device_does_not_move_pages_nothing_is_asked);
	suite_add_tcase(suite, managed_case);
	return suite;
}
