/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes over host memory that is there already: pinned, and mapped. */
#include "arrays.h"

#include <pthread.h>
#include <sys/mman.h>

static struct custody_context *context;
static char *memory; /* ten pages */

enum { PAGE = 4096 };

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	memory = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	fixture_forget();
}

static struct custody_range pages(unsigned int first, unsigned int count)
{
	return (struct custody_range){ memory + first * PAGE, count * PAGE };
}

static bool is_registered(unsigned int page)
{
	unsigned int flags;

	return cuMemHostGetFlags(&flags, memory + page * PAGE) == CUDA_SUCCESS;
}

static unsigned int flags_of(unsigned int page)
{
	unsigned int flags = 0;

	ck_cu(cuMemHostGetFlags(&flags, memory + page * PAGE));
	return flags;
}

/* ------------------------------------------------------------------ pins */

START_TEST(ranges_are_pinned_until_the_end)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(4, 2) };
	struct custody_pin *pin;

	ck_ok(custody_pin_begin(context, ranges, 2, 0, &pin));
	ck_assert(is_registered(0) && is_registered(4) && is_registered(5));
	ck_assert(!is_registered(1));
	ck_assert_uint_eq(flags_of(0) & CU_MEMHOSTREGISTER_DEVICEMAP, 0);
	fixture_forget();
	ck_ok(custody_pin_end(pin));
	ck_assert_uint_eq(fixture_calls("cuCtxSynchronize"), 1); /* as the driver need not wait */
	ck_assert(!is_registered(0) && !is_registered(4));
	ck_ok(custody_pin_end(NULL));
}
END_TEST

START_TEST(flags_are_those_of_registrations)
{
	const struct custody_range range = pages(0, 1);
	struct custody_pin *pin;

	ck_ok(custody_pin_begin(context, &range, 1,
				CUSTODY_HOST_PORTABLE | CUSTODY_HOST_READ_ONLY, &pin));
	ck_assert_uint_eq(flags_of(0), CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY);
	ck_ok(custody_pin_end(pin));
	ck_is(custody_pin_begin(context, &range, 1, CUSTODY_HOST_WRITE_COMBINED, &pin),
	      CUSTODY_E_INVALID);
	ck_is(custody_pin_begin(context, &range, 1, CUSTODY_HOST_MAPPED, &pin), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(queued_unregistering_broke_pinning_the_same_memory_again)
{
	const struct custody_range range = pages(0, 2);
	struct custody_pin *pin;

	ck_ok(custody_defer_begin(context));
	for (int i = 0; i < 20; i++) {
		ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
		ck_ok(custody_pin_end(pin));
		ck_assert(!is_registered(0));
		ck_assert_uint_eq(fixture_pending_count(context), 0);
	}
	ck_assert_uint_eq(fixture_calls("cuMemHostUnregister"), 20);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
}
END_TEST

static const struct { size_t from, bytes; } overlaps[] = {
	{ 2 * PAGE, 2 * PAGE }, { 0, 2 * PAGE + 1 }, { 4 * PAGE - 1, 1 },
	{ 2 * PAGE + 5, 10 },	{ 0, 10 * PAGE },
};

START_TEST(overlapping_range_is_refused_before_the_driver_is_asked)
{
	const struct custody_range range = pages(2, 2);
	struct custody_range other = { memory + overlaps[_i].from, overlaps[_i].bytes };
	struct custody_pin *pin, *second;

	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_is(custody_pin_begin(context, &other, 1, 0, &second), CUSTODY_E_OVERLAP);
	ck_assert_uint_eq(fixture_calls("cuMemHostRegister_v2"), 1);
	ck_ok(custody_pin_end(pin));
	ck_ok(custody_pin_begin(context, &other, 1, 0, &second));
	ck_ok(custody_pin_end(second));
}
END_TEST

START_TEST(neighbouring_ranges_do_not_overlap)
{
	const struct custody_range ranges[] = { pages(4, 2), pages(2, 2), pages(6, 1),
						{ memory, 100 }, { memory + 100, 100 } };
	struct custody_pin *pin;

	ck_ok(custody_pin_begin(context, ranges, 5, 0, &pin));
	ck_ok(custody_pin_end(pin));
}
END_TEST

START_TEST(many_ranges_are_found_in_order)
{
	struct custody_range ranges[100], again;
	struct custody_pin *pins[100], *pin;

	for (size_t i = 0; i < 100; i++) {
		ranges[i] = (struct custody_range){ memory + (i * 37 % 100) * 400, 300 };
		ck_ok(custody_pin_begin(context, &ranges[i], 1, 0, &pins[i]));
	}
	for (size_t i = 0; i < 100; i++) {
		again = (struct custody_range){ memory + i * 400 + 299, 1 };
		ck_is(custody_pin_begin(context, &again, 1, 0, &pin), CUSTODY_E_OVERLAP);
		again.pointer = memory + i * 400 + 300;
		again.bytes = 100;
		ck_ok(custody_pin_begin(context, &again, 1, 0, &pin));
		ck_ok(custody_pin_end(pin));
	}
	for (size_t i = 0; i < 100; i++)
		ck_ok(custody_pin_end(pins[i * 61 % 100]));
}
END_TEST

START_TEST(what_others_have_registered_is_told_by_the_driver)
{
	const struct custody_range range = pages(0, 2);
	struct custody_pin *pin = NULL;

	ck_cu(cuMemHostRegister(memory + PAGE, PAGE, 0));
	ck_is(custody_pin_begin(context, &range, 1, 0, &pin),
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ck_assert_ptr_null(pin);
	ck_cu(cuMemHostUnregister(memory + PAGE));
	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_pin_end(pin));
}
END_TEST

START_TEST(ranges_ahead_of_one_that_failed_stayed_registered)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1), pages(0, 1) };
	struct custody_pin *pin;

	ck_is(custody_pin_begin(context, ranges, 3, 0, &pin), CUSTODY_E_OVERLAP);
	ck_assert(!is_registered(0) && !is_registered(2));
	ck_ok(custody_pin_begin(context, ranges, 2, 0, &pin));
	ck_ok(custody_pin_end(pin));
}
END_TEST

static void begin_failing_third(void)
{
	setenv("SIMCUDA_FAIL", "cuMemHostRegister_v2:3:1", 1);
	begin();
}

START_TEST(third_range_failing_undoes_the_two_before_it_in_reverse)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1), pages(4, 1) };
	struct custody_pin *pin;
	struct custody_map *map;

	if (_i)
		ck_is(custody_map_begin(context, ranges, NULL, 3, 0, NULL, &map),
		      CUDA_ERROR_INVALID_VALUE);
	else
		ck_is(custody_pin_begin(context, ranges, 3, 0, &pin), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!is_registered(0) && !is_registered(2) && !is_registered(4));
	ck_assert_uint_eq(fixture_calls("cuMemHostUnregister"), 2);
	ck_ok(custody_pin_begin(context, ranges, 3, 0, &pin));
	ck_ok(custody_pin_end(pin));
}
END_TEST

static void begin_failing_end(void)
{
	setenv("SIMCUDA_FAIL", "cuMemHostUnregister:1:713", 1);
	begin();
}

START_TEST(end_goes_on_where_one_range_fails)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1), pages(4, 1) };
	struct custody_pin *pin;

	ck_ok(custody_pin_begin(context, ranges, 3, 0, &pin));
	ck_is(custody_pin_end(pin), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_assert(!is_registered(0) && !is_registered(2));
	ck_assert_uint_eq(fixture_calls("cuMemHostUnregister"), 3);
}
END_TEST

START_TEST(empty_ranges_are_passed_over_and_wrong_ones_refused)
{
	const struct custody_range empty[] = { { NULL, 0 }, { memory, 0 } };
	const struct custody_range null = { NULL, 5 }, around = { memory, SIZE_MAX };
	struct custody_pin *pin;

	ck_ok(custody_pin_begin(context, empty, 2, 0, &pin));
	ck_ok(custody_pin_end(pin));
	ck_ok(custody_pin_begin(context, NULL, 0, 0, &pin));
	ck_ok(custody_pin_end(pin));
	ck_assert_uint_eq(fixture_calls("cuMemHostRegister_v2"), 0);
	ck_is(custody_pin_begin(context, &null, 1, 0, &pin), CUSTODY_E_INVALID);
	ck_is(custody_pin_begin(context, &around, 1, 0, &pin), CUSTODY_E_INVALID);
	ck_is(custody_pin_begin(context, NULL, 1, 0, &pin), CUSTODY_E_INVALID);
	ck_is(custody_pin_begin(NULL, empty, 1, 0, &pin), CUSTODY_E_INVALID);
	ck_is(custody_pin_begin(context, empty, 1, 0, NULL), CUSTODY_E_INVALID);
}
END_TEST

static int leave_early(bool has_begun)
{
	const struct custody_range range = pages(0, 1), other = pages(2, 1);
	struct custody_pin *pin CUSTODY_AUTO_PIN = NULL;
	struct custody_map *map CUSTODY_AUTO_MAP = NULL;

	if (!has_begun)
		return 1;
	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_map_begin(context, &other, NULL, 1, 0, NULL, &map));
	ck_assert(is_registered(0) && is_registered(2));
	return 2;
}

START_TEST(scopes_end_with_their_block)
{
	ck_assert_int_eq(leave_early(false), 1);
	ck_assert_int_eq(leave_early(true), 2);
	ck_assert(!is_registered(0) && !is_registered(2));
	custody_pin_leave(NULL);
	custody_map_leave(NULL);
}
END_TEST

/* ------------------------------------------------------------------ waiting */

struct ending {
	struct custody_pin *pin;
	_Atomic bool has_ended;
};

static void *end_pin(void *argument)
{
	struct ending *ending = argument;

	ck_ok(custody_pin_end(ending->pin));
	ending->has_ended = true;
	return NULL;
}

/* The copy may be of the pin's context (0) or of another one (1). */
START_TEST(pinned_memory_was_given_back_while_a_copy_still_read_it)
{
	struct custody_context *other = fixture_context(_i);
	const struct custody_range range = pages(0, 4);
	struct custody_layout layout = line_of(4 * PAGE / 4);
	struct custody_stream *stream = make_stream(other);
	struct custody_array *array = make_array(other, &layout);
	struct ending ending = { NULL, false };
	pthread_t thread;

	ck_ok(custody_pin_begin(context, &range, 1, CUSTODY_HOST_PORTABLE, &ending.pin));
	ck_cu(cuCtxSetCurrent(custody_context_handle(other)));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_array_copy_from_host(array, memory, NULL, stream));
	ck_assert_int_eq(pthread_create(&thread, NULL, end_pin, &ending), 0);
	usleep(100000);
	ck_assert(!ending.has_ended);
	ck_assert(is_registered(0));
	fixture_release();
	pthread_join(thread, NULL);
	ck_assert(ending.has_ended);
	ck_assert(!is_registered(0));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(registration_does_not_end_during_a_capture)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	const struct custody_range range = pages(0, 1), next = pages(2, 1);
	struct custody_stream *stream;
	struct custody_pin *pin, *second;
	CUgraph graph;

	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_pin_end(pin), CUSTODY_E_CAPTURING);
	ck_assert(is_registered(0));
	ck_ok(custody_pin_begin(context, &next, 1, 0, &second));
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_ok(custody_pin_end(pin));
	ck_ok(custody_pin_end(second));
	ck_assert(!is_registered(0));
	ck_cu(cuGraphDestroy(graph));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(lost_context_leaves_no_registration_behind)
{
	const struct custody_range range = pages(0, 1), mapped = pages(2, 1);
	struct custody_pin *pin, *again;
	struct custody_map *map;

	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_map_begin(context, &mapped, NULL, 1, 0, NULL, &map));
	ck_cu(cuDevicePrimaryCtxReset(custody_device_handle(fixture_device(0))));
	ck_is(custody_pin_end(pin), CUDA_ERROR_CONTEXT_IS_DESTROYED); /* it notices first */
	ck_ok(custody_map_end(map));
	ck_ok(custody_pin_begin(context, &range, 1, 0, &again));
	ck_ok(custody_pin_end(again));
	ck_ok(custody_context_reset(context));
}
END_TEST

START_TEST(reset_undoes_registrations_and_the_scope_can_still_be_ended)
{
	const struct custody_range range = pages(0, 1);
	struct custody_pin *pin;
	struct custody_map *map;
	const struct custody_range mapped = pages(2, 1);

	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_map_begin(context, &mapped, NULL, 1, 0, NULL, &map));
	ck_ok(custody_context_reset(context));
	ck_assert(!is_registered(0) && !is_registered(2));
	ck_ok(custody_pin_end(pin));
	ck_ok(custody_map_end(map));
	ck_assert_uint_eq(fixture_calls("cuMemHostUnregister"), 2);
	ck_ok(custody_pin_begin(context, &range, 1, 0, &pin));
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_pin_end(pin));
}
END_TEST

/* ------------------------------------------------------------------ maps */

START_TEST(mapped_range_is_an_array_that_the_device_reaches)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1), { memory, 0 } };
	struct custody_layout layouts[] = { table_of(4, 8), line_of(PAGE / 4), line_of(0) };
	struct custody_stream *stream = make_stream(context);
	struct custody_array *array;
	struct custody_map *map;

	ck_ok(custody_map_begin(context, ranges, layouts, 3, 0, stream, &map));
	ck_assert(flags_of(0) & CU_MEMHOSTREGISTER_DEVICEMAP);
	ck_ok(custody_map_array(map, 0, &array));
	ck_assert_ptr_eq(custody_array_host_pointer(array), memory);
	ck_assert_ptr_eq(custody_array_stream(array), stream);
	ck_assert_int_eq(layout_of(array).ndim, 2);
	ck_cu(cuMemsetD32((CUdeviceptr)custody_array_device_pointer(array), 5, 32));
	ck_assert_int_eq(((int32_t *)memory)[31], 5);
	ck_ok(custody_map_array(map, 2, &array));
	ck_assert_ptr_null(custody_array_pointer(array));
	ck_is(custody_map_array(map, 3, &array), CUSTODY_E_BOUNDS);
	ck_is(custody_map_array(NULL, 0, &array), CUSTODY_E_INVALID);
	ck_is(custody_map_array(map, 0, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_map_end(map));
	ck_assert(!is_registered(0) && !is_registered(2));
	ck_ok(custody_map_end(NULL));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(mapped_range_without_a_layout_is_bytes)
{
	const struct custody_range range = { memory + 10, 100 };
	struct custody_array *array;
	struct custody_map *map;

	ck_ok(custody_map_begin(context, &range, NULL, 1, 0, NULL, &map));
	ck_ok(custody_map_array(map, 0, &array));
	ck_assert_uint_eq(layout_of(array).shape[0], 100);
	ck_assert_int_eq(layout_of(array).type.kind, CUSTODY_TYPE_UINT);
	ck_assert_uint_eq(layout_of(array).type.item_bytes, 1);
	ck_ok(custody_map_end(map));
}
END_TEST

START_TEST(layout_that_reaches_beyond_its_range_registers_nothing)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1) };
	struct custody_layout layouts[] = { line_of(10), line_of(PAGE) };
	struct custody_map *map = NULL;

	ck_is(custody_map_begin(context, ranges, layouts, 2, 0, NULL, &map), CUSTODY_E_BOUNDS);
	ck_assert_ptr_null(map);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "the range has 4096"));
	ck_assert_uint_eq(fixture_calls("cuMemHostRegister_v2"), 0);
}
END_TEST

static CUgraph end_capture(struct custody_stream *stream)
{
	CUgraph graph = NULL;

	ck_ok(custody_stream_end_capture(stream, &graph));
	return graph;
}

START_TEST(map_that_failed_during_a_capture_left_its_ranges_registered)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1) };
	struct custody_stream *stream;
	struct custody_map *map = NULL;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_map_begin(context, ranges, NULL, 2, 0, NULL, &map),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(map);
	ck_cu(cuGraphDestroy(end_capture(stream)));
	ck_assert(!is_registered(0) && !is_registered(2));
	ck_ok(custody_context_reset(context));
	ck_ok(custody_map_begin(context, ranges, NULL, 2, 0, NULL, &map));
	ck_ok(custody_map_end(map));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(view_dangled_after_the_end_of_its_map)
{
	const struct custody_range range = pages(0, 1);
	struct custody_array *array, *view, *other;
	struct custody_map *map;
	int32_t value = 0;
	const size_t index[] = { 0 };

	ck_ok(custody_map_begin(context, &range, NULL, 1, 0, NULL, &map));
	ck_ok(custody_map_array(map, 0, &array));
	ck_ok(custody_array_slice(array, 0, 8, 16, 1, &view));
	ck_ok(custody_array_get(view, index, &value, NULL));
	ck_ok(custody_map_end(map));
	munmap(memory, 10 * PAGE);
	ck_assert_ptr_null(custody_array_pointer(view));
	ck_assert_ptr_null(custody_array_host_pointer(view));
	ck_is(custody_array_get(view, index, &value, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_array_slice(view, 0, 0, 1, 1, &other), CUSTODY_E_CLOSED);
	ck_is(custody_array_fill(view, &value, NULL), CUSTODY_E_CLOSED);
	ck_ok(custody_array_destroy(view));
}
END_TEST

START_TEST(array_of_a_read_only_map_is_not_written)
{
	const struct custody_range range = pages(0, 1);
	struct custody_array *array, *view;
	struct custody_map *map;

	ck_ok(custody_map_begin(context, &range, NULL, 1, CUSTODY_HOST_READ_ONLY, NULL, &map));
	ck_ok(custody_map_array(map, 0, &array));
	ck_assert(custody_array_is_read_only(array));
	ck_ok(custody_array_slice(array, 0, 0, 8, 1, &view));
	ck_is(custody_array_fill(view, "x", NULL), CUSTODY_E_INVALID);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_map_end(map));
}
END_TEST

static void begin_without_pointers(void)
{
	setenv("SIMCUDA_FAIL", "cuMemHostGetDevicePointer_v2:2:1", 1);
	begin();
}

START_TEST(map_that_gets_no_device_address_is_undone)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1) };
	struct custody_map *map = NULL;

	ck_is(custody_map_begin(context, ranges, NULL, 2, 0, NULL, &map),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(map);
	ck_assert(!is_registered(0) && !is_registered(2));
}
END_TEST

/* A struct of a header to come: longer by what is not set. */
struct later_layout {
	struct custody_layout layout;
	size_t later;
};

START_TEST(layouts_of_another_header_are_as_far_apart_as_they_say)
{
	const struct custody_range ranges[] = { pages(0, 1), pages(2, 1) };
	struct later_layout later[] = { { table_of(4, 8), 0 }, { line_of(10), 0 } };
	struct custody_array *array;
	struct custody_map *map;

	later[0].layout.size = later[1].layout.size = sizeof(later[0]);
	ck_ok(custody_map_begin(context, ranges, &later[0].layout, 2, 0, NULL, &map));
	ck_ok(custody_map_array(map, 1, &array));
	ck_assert_uint_eq(layout_of(array).shape[0], 10);
	ck_ok(custody_map_end(map));
	later[1].layout.size = sizeof(later[1].layout);
	ck_is(custody_map_begin(context, ranges, &later[0].layout, 2, 0, NULL, &map),
	      CUSTODY_E_INVALID);
}
END_TEST

/* ------------------------------------------------------------------ threads */

enum { THREADS = 8, TURNS = 100 };

static _Atomic unsigned int refused, granted;

/* All want the same pages; one at a time has them. */
static void *pin_and_unpin(void *argument)
{
	const struct custody_range range = pages(0, 2);
	struct custody_pin *pin;

	(void)argument;
	for (int i = 0; i < TURNS; i++) {
		int error = custody_pin_begin(context, &range, 1, 0, &pin);

		if (error == CUSTODY_E_OVERLAP) {
			refused++;
			continue;
		}
		ck_ok(error);
		granted++;
		ck_ok(custody_pin_end(pin));
	}
	return NULL;
}

START_TEST(threads_that_pin_the_same_memory_get_it_one_at_a_time)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, pin_and_unpin, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(granted + refused, THREADS * TURNS);
	ck_assert_uint_ge(granted, 1);
	ck_assert(!is_registered(0));
}
END_TEST

static void add_pins(Suite *suite)
{
	TCase *tests = add_case(suite, "pins", begin);

	tcase_add_test(tests, ranges_are_pinned_until_the_end);
	tcase_add_test(tests, flags_are_those_of_registrations);
	tcase_add_test(tests, queued_unregistering_broke_pinning_the_same_memory_again);
	tcase_add_loop_test(tests, overlapping_range_is_refused_before_the_driver_is_asked, 0, 5);
	tcase_add_test(tests, neighbouring_ranges_do_not_overlap);
	tcase_add_test(tests, many_ranges_are_found_in_order);
	tcase_add_test(tests, what_others_have_registered_is_told_by_the_driver);
	tcase_add_test(tests, ranges_ahead_of_one_that_failed_stayed_registered);
	tcase_add_test(tests, scopes_end_with_their_block);
	tcase_add_test(tests, empty_ranges_are_passed_over_and_wrong_ones_refused);
	tcase_add_loop_test(tests, pinned_memory_was_given_back_while_a_copy_still_read_it, 0, 2);
	tcase_add_test(tests, registration_does_not_end_during_a_capture);
	tcase_add_test(tests, lost_context_leaves_no_registration_behind);
	tcase_add_test(tests, reset_undoes_registrations_and_the_scope_can_still_be_ended);
	tcase_add_test(tests, threads_that_pin_the_same_memory_get_it_one_at_a_time);
	tests = add_case(suite, "failing third", begin_failing_third);
	tcase_add_loop_test(tests, third_range_failing_undoes_the_two_before_it_in_reverse, 0, 2);
	tests = add_case(suite, "failing end", begin_failing_end);
	tcase_add_test(tests, end_goes_on_where_one_range_fails);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("host");
	TCase *tests;

	add_pins(suite);
	tests = add_case(suite, "maps", begin);
	tcase_add_test(tests, mapped_range_is_an_array_that_the_device_reaches);
	tcase_add_test(tests, mapped_range_without_a_layout_is_bytes);
	tcase_add_test(tests, layouts_of_another_header_are_as_far_apart_as_they_say);
	tcase_add_test(tests, layout_that_reaches_beyond_its_range_registers_nothing);
	tcase_add_test(tests, view_dangled_after_the_end_of_its_map);
	tcase_add_test(tests, array_of_a_read_only_map_is_not_written);
	tests = add_case(suite, "failing maps", begin_without_pointers);
	tcase_add_test(tests, map_that_gets_no_device_address_is_undone);
	tcase_add_test(tests, map_that_failed_during_a_capture_left_its_ranges_registered);
	return suite;
}
