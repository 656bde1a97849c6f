/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random steps of one thread, and after each the queue must hold what a plain
 * reading of the rules says: the same items in the same order, the same issued,
 * and the device must have got as far as waits should have driven it.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/gate.h"

#include <string.h>

enum { STEPS = 2500, SEEDS = 9, ITEMS_MOST = 4096, COUNT_MOST = 10, LIMIT = 200,
       HOST_LIMIT = 100 };

/* One item as the rules see it. */
struct rule_item {
	uint64_t handle, bytes;
	uint64_t order; /* of its free */
	uint64_t work;	/* last piece its event stands for */
	enum deferq_kind kind;
	bool has_event;
	bool is_spoilt;
	bool is_known; /* a stubborn block that cuMemFreeAsync has refused */
};

struct rule_list {
	int count;
	struct rule_item items[ITEMS_MOST];
};

static struct {
	struct rule_list waiting[QUEUE_KINDS], issued;
	uint64_t order, ready; /* frees so far; those up to this one are unused */
	uint64_t submitted, done;
	int scopes;
	bool is_capturing, does_wait, has_failed;
	bool lacks_event; /* something was freed in a capture since the last late event */
} rules;

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static enum queue_kind queue_of(enum deferq_kind kind)
{
	return kind >= DEFERQ_MODULE ? QUEUE_OBJECTS : QUEUE_MEMORY;
}

static bool needs_event(enum deferq_kind kind)
{
	return kind != DEFERQ_STREAM && kind != DEFERQ_EVENT;
}

static uint64_t bytes_of(const struct rule_list *list, bool is_host)
{
	uint64_t bytes = 0;

	for (int i = 0; i < list->count; i++)
		if ((list->items[i].kind == DEFERQ_HOST) == is_host)
			bytes += list->items[i].bytes;
	return bytes;
}

static bool is_over_limit(enum queue_kind kind)
{
	const struct rule_list *list = &rules.waiting[kind];

	if (rules.scopes)
		return false;
	return list->count > COUNT_MOST ||
	       (kind == QUEUE_MEMORY &&
		(bytes_of(list, false) > LIMIT || bytes_of(list, true) > HOST_LIMIT));
}

static bool is_over_bound(void)
{
	const struct rule_list *memory = &rules.waiting[QUEUE_MEMORY];

	return !rules.scopes &&
	       (bytes_of(memory, false) + bytes_of(&rules.issued, false) > 2 * LIMIT ||
		bytes_of(memory, true) > 2 * HOST_LIMIT);
}

static bool is_ready(const struct rule_item *item)
{
	return !needs_event(item->kind) || item->order <= rules.ready;
}

/* What was freed in a capture gets an event of now, the newest for all. */
static void give_late_event(void)
{
	struct rule_item *newest = NULL;

	if (!rules.lacks_event)
		return;
	rules.lacks_event = false;
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (int i = 0; i < rules.waiting[kind].count; i++) {
			struct rule_item *item = &rules.waiting[kind].items[i];

			if (!item->has_event && !is_ready(item) &&
			    (!newest || item->order > newest->order))
				newest = item;
		}
	if (newest) {
		newest->has_event = true;
		newest->work = rules.submitted;
	}
}

/* An event that has passed vouches for all that was freed before it. */
static void see_what_passed(void)
{
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (int i = 0; i < rules.waiting[kind].count; i++) {
			const struct rule_item *item = &rules.waiting[kind].items[i];

			if (item->has_event && item->work <= rules.done &&
			    item->order > rules.ready)
				rules.ready = item->order;
		}
}

static struct rule_item take(struct rule_list *list, int at)
{
	struct rule_item item = list->items[at];

	memmove(&list->items[at], &list->items[at + 1],
		(size_t)(--list->count - at) * sizeof(item));
	return item;
}

static bool may_go(const struct rule_item *item)
{
	return is_ready(item) &&
	       (item->kind == DEFERQ_MEMORY || !needs_event(item->kind) ||
		(item->kind == DEFERQ_STUBBORN && !item->is_known) ||
		rules.done == rules.submitted);
}

static void release(enum queue_kind kind)
{
	struct rule_list *list = &rules.waiting[kind];

	for (int i = 0; i < list->count && !rules.has_failed;) {
		struct rule_item item;

		if (!may_go(&list->items[i])) {
			i++;
			continue;
		}
		item = take(list, i);
		if (item.kind == DEFERQ_STUBBORN && !item.is_known) {
			item.is_known = true;
			list->items[list->count++] = item;
			continue;
		}
		rules.has_failed = item.is_spoilt;
		if (!item.is_spoilt && item.kind == DEFERQ_MEMORY)
			rules.issued.items[rules.issued.count++] = item;
	}
}

static void pass(bool memory, bool objects, bool takes_back)
{
	rules.has_failed = false;
	if (rules.is_capturing)
		return;
	give_late_event();
	see_what_passed();
	if (memory)
		release(QUEUE_MEMORY);
	if (objects)
		release(QUEUE_OBJECTS);
	if (takes_back)
		rules.issued.count = 0;
}

/* Wait for the oldest event of a list; false: none is left to wait for. */
static bool wait_for_oldest(enum queue_kind kind)
{
	for (int i = 0; i < rules.waiting[kind].count; i++) {
		const struct rule_item *item = &rules.waiting[kind].items[i];

		if (!item->has_event || is_ready(item))
			continue;
		rules.done = item->work > rules.done ? item->work : rules.done;
		rules.ready = item->order;
		return true;
	}
	return false;
}

static void wait_for_all(void)
{
	rules.done = rules.submitted;
	rules.ready = rules.order;
}

static bool is_drained(void)
{
	return !rules.waiting[QUEUE_MEMORY].count && !rules.waiting[QUEUE_OBJECTS].count;
}

static void flush_waiting(void)
{
	if (is_drained() && !rules.issued.count)
		return;
	for (;;) {
		pass(true, true, true);
		if (rules.is_capturing || rules.has_failed || is_drained())
			return;
		if (!wait_for_oldest(QUEUE_MEMORY) && !wait_for_oldest(QUEUE_OBJECTS))
			wait_for_all();
	}
}

static void keep_limits(enum queue_kind kind)
{
	pass(kind == QUEUE_MEMORY, kind == QUEUE_OBJECTS, rules.does_wait);
	while (is_over_bound()) {
		pass(true, false, true);
		if (rules.is_capturing || rules.has_failed || !is_over_bound())
			return;
		if (!wait_for_oldest(QUEUE_MEMORY))
			wait_for_all();
	}
}

/* Whether the free is put off at all; one that is not is neither waited for. */
static bool is_taken(const struct rule_item *item)
{
	bool is_host = item->kind == DEFERQ_HOST;

	if (!needs_event(item->kind))
		return true;
	if (rules.is_capturing)
		return !rules.does_wait &&
		       bytes_of(&rules.waiting[QUEUE_MEMORY], is_host) + item->bytes <=
			       (is_host ? HOST_LIMIT : LIMIT);
	return !rules.does_wait || item->kind == DEFERQ_MEMORY || item->kind == DEFERQ_STUBBORN;
}

/* The rules of a free; true: it is put off. */
static bool add(struct rule_item *item)
{
	struct rule_list *list = &rules.waiting[queue_of(item->kind)];

	if (!is_taken(item))
		return false;
	if (rules.does_wait && needs_event(item->kind))
		wait_for_all();
	item->order = ++rules.order;
	item->work = rules.submitted;
	item->has_event = needs_event(item->kind) && !rules.is_capturing && !rules.does_wait;
	if (rules.does_wait && needs_event(item->kind))
		rules.ready = item->order;
	else if (needs_event(item->kind) && rules.is_capturing)
		rules.lacks_event = true;
	list->items[list->count++] = *item;
	if (is_over_limit(queue_of(item->kind)) || is_over_bound())
		keep_limits(queue_of(item->kind));
	return true;
}

/* ---------------------------------------------------------------- steps of both */

static void free_one(void)
{
	enum deferq_kind kind = draw(2) ? DEFERQ_MEMORY : (enum deferq_kind)draw(DEFERQ_KINDS);
	struct rule_item item = { .kind = kind, .bytes = draw(3) ? draw(25) : draw(250),
				  .is_spoilt = draw(40) == 0 };
	enum deferq_answer answer;

	item.handle = program_make(1, kind, item.bytes);
	if (item.is_spoilt)
		model_spoil(item.handle, CUDA_ERROR_NOT_PERMITTED);
	answer = program_free(item.handle);
	ck_assert_int_eq(answer, add(&item) ? DEFERQ_QUEUED : DEFERQ_REFUSED);
}

static void work_or_finish(void)
{
	if (draw(3)) {
		model_submit(1);
		rules.submitted++;
	} else {
		rules.done += draw((uint32_t)(rules.submitted - rules.done) + 1);
		model_finish_some(1, rules.done);
	}
}

static void begin_or_end_capture(void)
{
	if (!rules.is_capturing) {
		gate_shut();
		model_capture(true);
		rules.is_capturing = true;
		return;
	}
	model_capture(false);
	gate_open();
	rules.is_capturing = false;
	program_flush(1, false);
	pass(true, true, true);
}

static void open_or_leave_scope(void)
{
	if (draw(2)) {
		deferq_suspend(program_queue(1));
		rules.scopes++;
		return;
	}
	ck_assert(program_resume(1) == (rules.scopes > 0));
	if (rules.scopes == 0 || --rules.scopes > 0)
		return;
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		if (is_over_limit((enum queue_kind)kind))
			keep_limits((enum queue_kind)kind);
}

static void synchronize(void)
{
	if (rules.is_capturing)
		return;
	program_synchronize(1);
	if (is_drained() && !rules.issued.count) {
		rules.done = rules.submitted;
		return;
	}
	wait_for_all();
	if (!rules.scopes)
		pass(true, true, true);
}

static void collect(void)
{
	program_collect(1);
	if (!rules.scopes)
		pass(true, true, true);
}

static void step(void)
{
	model_pass_us(1000);
	switch (draw(40)) {
	case 0:
		begin_or_end_capture();
		break;
	case 1:
	case 2:
		open_or_leave_scope();
		break;
	case 3:
		synchronize();
		break;
	case 4:
	case 5:
		collect();
		break;
	case 6:
		program_flush(1, false);
		pass(true, true, true);
		break;
	case 7:
		program_flush(1, true);
		flush_waiting();
		break;
	case 8:
		program_out_of_memory(0);
		flush_waiting();
		break;
	default:
		if (draw(2))
			free_one();
		else
			work_or_finish();
	}
}

static void check_list(const struct item_list *list, const struct rule_list *expected)
{
	const struct deferq_item *item = list->first;

	ck_assert_int_eq((int)list->count, expected->count);
	for (int i = 0; i < expected->count; i++, item = item->next) {
		ck_assert_uint_eq(item->handle, expected->items[i].handle);
		if (!item->next)
			ck_assert_ptr_eq(item, list->last);
	}
	ck_assert_ptr_null(item);
	ck_assert_uint_eq(list->bytes, bytes_of(expected, false) + bytes_of(expected, true));
}

static void compare(void)
{
	struct deferq *queue = program_queue(1);

	check_list(&queue->waiting[QUEUE_MEMORY], &rules.waiting[QUEUE_MEMORY]);
	check_list(&queue->waiting[QUEUE_OBJECTS], &rules.waiting[QUEUE_OBJECTS]);
	check_list(&queue->issued, &rules.issued);
	ck_assert_uint_eq(queue->host_bytes, bytes_of(&rules.waiting[QUEUE_MEMORY], true));
	ck_assert_uint_eq(model_done(1), rules.done);
	ck_assert_uint_eq(model_stalls(), 0);
	program_look();
}

static void begin(void)
{
	program_begin();
	memset(&rules, 0, sizeof(rules));
}

START_TEST(random_steps_leave_what_the_rules_say)
{
	seed = (uint32_t)_i + 1;
	program_settings.does_wait = rules.does_wait = _i % 3 == 2;
	model_watch(program_queue(1));
	for (int i = 0; i < STEPS; i++) {
		step();
		compare();
	}
	if (rules.is_capturing)
		begin_or_end_capture();
	ck_assert_uint_gt(model_calls(MODEL_MEM_FREE_ASYNC), STEPS / 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("deferq_random");
	TCase *tests = deferq_suite_case(suite, "random", begin, deferq_suite_end);

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, random_steps_leave_what_the_rules_say, 0, SEEDS);
	return deferq_suite_run(suite);
}
