/* SPDX-License-Identifier: Apache-2.0 */
#include "core/segment.h"
#include "trace_reader.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *session;
static struct trace_reader reader;

static void open_session(void)
{
	session = trace_reader_session();
}

static void remove_session(void)
{
	trace_reader_remove(session);
}

/* What the interposer does with one call, without the call. */
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

static void open_reader(void)
{
	trace_reader_open(&reader, segment_directory());
}

/* Checks that the transfers of a thread count from 0 and that starts never step back. */
struct sequence {
	uint64_t next;
	uint64_t start;
};

static void check_next(const struct record *record, const char *text, void *argument)
{
	struct sequence *sequence = argument;

	(void)text;
	ck_assert_uint_ge(record->start, sequence->start);
	sequence->start = record->start;
	if (record->kind == RECORD_TRANSFER)
		ck_assert_uint_eq(record->a, sequence->next++);
}

static uint64_t check_thread(uint32_t thread)
{
	struct sequence sequence = { 0 };

	trace_reader_walk(&reader, thread, check_next, &sequence);
	return sequence.next;
}

START_TEST(first_call_sets_the_process_up_once)
{
	ck_assert(!segment_is_ready(&thread_segment));
	ck_assert(segment_enter());
	ck_assert(segment_is_ready(&thread_segment));
	ck_assert(!segment_enter());
	ck_assert_ptr_nonnull(thread_segment.chunk);
	ck_assert_ptr_nonnull(thread_segment.counters);
	ck_assert_uint_eq(thread_segment.thread, 1);
}
END_TEST

START_TEST(errno_survives)
{
	errno = 4711;
	segment_enter();
	ck_assert_int_eq(errno, 4711);
	for (int i = 0; i < 3 * CHUNK_RECORDS; i++)
		write_one(0);
	ck_assert_int_eq(errno, 4711);
}
END_TEST

START_TEST(every_record_is_published_in_order)
{
	const uint64_t count = 5 * CHUNK_RECORDS + 17;

	for (uint64_t i = 0; i < count; i++)
		ck_assert(write_one(i));
	open_reader();
	ck_assert_uint_eq(check_thread(1), count);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_CLOSED), 5);
	ck_assert_uint_eq(reader.control->lost, 0);
}
END_TEST

START_TEST(freed_chunks_are_reused_before_a_segment_is_made)
{
	segment_enter();
	open_reader();
	for (uint64_t i = 0; i < 100 * CHUNK_RECORDS; i++) {
		ck_assert(write_one(i));
		if (i % CHUNK_RECORDS == 0)
			trace_reader_free_closed(&reader);
	}
	ck_assert_uint_eq(reader.control->segments, 1);
}
END_TEST

START_TEST(control_says_who_this_is)
{
	segment_set_policy("immediate");
	segment_set_counter_apis(NULL, 0, 77);
	segment_enter();
	segment_set_driver(13000);
	open_reader();
	ck_assert_uint_eq(reader.control->magic, TRACE_MAGIC);
	ck_assert_uint_eq(reader.control->layout, TRACE_LAYOUT);
	ck_assert_int_eq(reader.control->pid, getpid());
	ck_assert_int_eq(reader.control->parent_pid, getppid());
	ck_assert_uint_eq(reader.control->apis, 77);
	ck_assert_uint_eq(reader.control->driver, 13000);
	ck_assert_uint_gt(reader.control->start_time, 0);
	ck_assert_uint_eq(reader.control->buffer_bytes, 256 << 20);
	ck_assert_str_eq(reader.control->policy, "immediate");
	ck_assert_str_eq(reader.control->parent, "");
	ck_assert_uint_eq(strlen(reader.control->boot_id), 36);
	ck_assert_ptr_nonnull(strstr(reader.control->executable, "test_segment"));
	ck_assert_uint_gt(reader.control->argument_bytes, strlen("test_segment"));
	ck_assert_uint_eq(reader.control->end_state, CONTROL_RUNNING);
	segment_end(CONTROL_EXITED);
	ck_assert_uint_eq(reader.control->end_state, CONTROL_EXITED);
	ck_assert_uint_ge(reader.control->end, reader.control->start.ticks);
}
END_TEST

struct found_text {
	char text[70000];
	uint32_t slots;
	int count;
};

static void find_module(const struct record *record, const char *text, void *argument)
{
	struct found_text *found = argument;

	if (record->kind != RECORD_MODULE)
		return;
	memcpy(found->text, text, (size_t)record->text_slots * RECORD_BYTES);
	found->slots = record->text_slots;
	found->count++;
}

static struct found_text *write_module(size_t bytes)
{
	static struct found_text found;
	struct record record = { .kind = RECORD_MODULE, .start = 1, .a = 4096 };
	char *text = malloc(bytes + 1);

	memset(text, 'x', bytes);
	segment_enter();
	ck_assert(segment_write_text(&record, text, bytes));
	free(text);
	open_reader();
	trace_reader_walk(&reader, 1, find_module, &found);
	return &found;
}

START_TEST(text_follows_its_record_with_a_nul)
{
	struct found_text *found = write_module(RECORD_BYTES);

	ck_assert_int_eq(found->count, 1);
	ck_assert_uint_eq(found->slots, 2);
	ck_assert_uint_eq(strlen(found->text), RECORD_BYTES);
}
END_TEST

START_TEST(text_that_fits_no_chunk_is_cut)
{
	struct found_text *found = write_module(200000);

	ck_assert_int_eq(found->count, 1);
	ck_assert_uint_gt(strlen(found->text), 60000);
	ck_assert_uint_lt(strlen(found->text), CHUNK_BYTES);
	ck_assert_uint_eq(reader.control->lost, 0);
	ck_assert_uint_eq(thread_segment.counters->lost, 0);
}
END_TEST

START_TEST(busy_mark_moves_with_the_chunk)
{
	struct trace_chunk *first;

	segment_enter();
	first = thread_segment.chunk;
	segment_mark_busy(&thread_segment, 99);
	while (thread_segment.chunk == first)
		write_one(0);
	ck_assert_uint_eq(first->header.busy_since, 0);
	ck_assert_uint_eq(thread_segment.chunk->header.busy_since, 99);
	ck_assert_uint_eq(first->header.state, CHUNK_CLOSED);
}
END_TEST

static const uint16_t apis[] = { 5, 6, 7 };

static void count_calls(uint64_t calls)
{
	struct trace_counter *counter = &thread_segment.counters->counter[1];

	segment_count(&counter->calls, calls);
	segment_count(&counter->errors, 2);
	segment_count(&counter->ticks, 30);
	segment_count(&counter->max_ticks, 4);
}

static void *write_and_count(void *argument)
{
	write_one(0);
	count_calls(10);
	return argument;
}

static void check_counter(const struct record *record, const char *text, void *argument)
{
	(void)text;
	if (record->kind != RECORD_COUNTER)
		return;
	ck_assert_uint_eq(record->api, 6);
	ck_assert_uint_eq(record->a, 10);
	ck_assert_uint_eq(record->b, 2);
	ck_assert_uint_eq(record->c, 30);
	ck_assert_uint_eq(record->stream, 4);
	++*(int *)argument;
}

static void run_thread(void *(*body)(void *))
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, body, NULL), 0);
	pthread_join(thread, NULL);
}

START_TEST(thread_end_tells_its_counters_and_gives_all_back)
{
	int told = 0;

	segment_set_counter_apis(apis, 3, 10);
	segment_enter();
	run_thread(write_and_count);
	open_reader();
	trace_reader_walk(&reader, 2, check_counter, &told);
	ck_assert_int_eq(told, 1);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_CLOSED), 1);
	/* The next thread gets the same block, and it is empty. */
	run_thread(write_and_count);
	told = 0;
	trace_reader_walk(&reader, 3, check_counter, &told);
	ck_assert_int_eq(told, 1);
}
END_TEST

static pthread_key_t late_key;

/* Runs in a later round than the end of the recording, once. */
static void call_late(void *rounds)
{
	if (rounds == (void *)1) {
		pthread_setspecific(late_key, (void *)2);
		return;
	}
	ck_assert(!segment_is_ready(&thread_segment));
	ck_assert(write_one(1));
	count_calls(10);
}

static void *arm_late_call(void *argument)
{
	write_one(0);
	pthread_setspecific(late_key, (void *)1);
	return argument;
}

START_TEST(call_after_the_end_of_a_thread_begins_again)
{
	int told = 0;

	segment_set_counter_apis(apis, 3, 10);
	segment_enter();
	pthread_key_create(&late_key, call_late);
	run_thread(arm_late_call);
	open_reader();
	ck_assert_uint_eq(check_thread(2), 2);
	trace_reader_walk(&reader, 2, check_counter, &told);
	ck_assert_int_eq(told, 1);
	ck_assert_uint_eq(trace_reader_count_kind(&reader, 2, RECORD_THREAD), 1);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_CLOSED), 2);
}
END_TEST

enum { THREADS = 64, THREAD_RECORDS = 3000 };

static void *write_many(void *argument)
{
	for (uint64_t i = 0; i < THREAD_RECORDS; i++)
		if (!write_one(i))
			return (void *)1;
	return argument;
}

START_TEST(many_threads_at_once_lose_nothing)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	open_reader();
	ck_assert_uint_eq(reader.control->threads, THREADS);
	for (uint32_t thread = 1; thread <= THREADS; thread++)
		ck_assert_uint_eq(check_thread(thread), THREAD_RECORDS);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_TAKEN), 0);
}
END_TEST

enum { SHORT_THREADS = 10000 };

START_TEST(short_threads_need_few_chunks)
{
	uint64_t freed = 0;

	segment_set_counter_apis(apis, 3, 10);
	segment_enter();
	open_reader();
	for (int i = 0; i < SHORT_THREADS; i++) {
		run_thread(write_and_count);
		freed += trace_reader_free_closed(&reader);
	}
	ck_assert_uint_eq(freed, SHORT_THREADS);
	ck_assert_uint_eq(reader.control->segments, 1);
	ck_assert_uint_eq(reader.control->threads, SHORT_THREADS + 1);
}
END_TEST

/* 64 threads that come and go beside a collector that frees what they close. */
static void *write_few(void *argument)
{
	for (uint64_t i = 0; i < 50; i++)
		if (!write_one(i))
			return (void *)1;
	count_calls(1);
	return argument;
}

static _Atomic bool is_done;

static void *start_short_threads(void *argument)
{
	for (int i = 0; i < 40; i++)
		run_thread(write_few);
	return argument;
}

static void *free_until_done(void *argument)
{
	while (!atomic_load(&is_done)) {
		trace_reader_update(&reader, segment_directory());
		trace_reader_free_closed(&reader);
		usleep(100);
	}
	return argument;
}

START_TEST(threads_come_and_go_beside_a_collector)
{
	pthread_t starters[THREADS], collector;

	segment_set_counter_apis(apis, 3, 10);
	segment_enter();
	open_reader();
	ck_assert_int_eq(pthread_create(&collector, NULL, free_until_done, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&starters[i], NULL, start_short_threads, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(starters[i], NULL);
	atomic_store(&is_done, true);
	pthread_join(collector, NULL);
	ck_assert_uint_eq(reader.control->threads, THREADS * 40 + 1);
	ck_assert_uint_eq(reader.control->lost, 0);
	trace_reader_free_closed(&reader);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_TAKEN), 0);
	ck_assert_uint_eq(trace_reader_count_state(&reader, CHUNK_CLOSED), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("segment");
	TCase *tests = tcase_create("segment");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, open_session, remove_session);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, first_call_sets_the_process_up_once);
	tcase_add_test(tests, errno_survives);
	tcase_add_test(tests, every_record_is_published_in_order);
	tcase_add_test(tests, freed_chunks_are_reused_before_a_segment_is_made);
	tcase_add_test(tests, control_says_who_this_is);
	tcase_add_test(tests, text_follows_its_record_with_a_nul);
	tcase_add_test(tests, text_that_fits_no_chunk_is_cut);
	tcase_add_test(tests, busy_mark_moves_with_the_chunk);
	tcase_add_test(tests, thread_end_tells_its_counters_and_gives_all_back);
	tcase_add_test(tests, call_after_the_end_of_a_thread_begins_again);
	tcase_add_test(tests, many_threads_at_once_lose_nothing);
	tcase_add_test(tests, short_threads_need_few_chunks);
	tcase_add_test(tests, threads_come_and_go_beside_a_collector);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
