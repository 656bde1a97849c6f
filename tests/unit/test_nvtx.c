/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module that uses NVTX, as its header would have it: which ranges open a
 * scope, on which queue, and when it is closed.
 */
#include "intercept/nvtx.h"
#include "fake_queue.h"
#include "intercept/deferral.h"
#include "intercept/current.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------- a module that uses it */

struct module {
	nvtx_function core[NVTX_CORE_SLOTS];
	nvtx_function core2[NVTX_CORE2_SLOTS];
	nvtx_function *core_slots[NVTX_CORE_SLOTS];
	nvtx_function *core2_slots[NVTX_CORE2_SLOTS];
};

static struct module module;
static unsigned int core_count = NVTX_CORE_SLOTS;

static int get_module(int number, nvtx_function ***slots, unsigned int *count)
{
	switch (number) {
	case NVTX_MODULE_CORE:
		*slots = module.core_slots;
		*count = core_count;
		return 1;
	case NVTX_MODULE_CORE2:
		*slots = module.core2_slots;
		*count = NVTX_CORE2_SLOTS;
		return 1;
	default:
		return 0;
	}
}

static const void *get_table(uint32_t table)
{
	static const struct nvtx_callbacks callbacks = { sizeof(callbacks), get_module };

	return table == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void attach(void)
{
	for (int i = 1; i < NVTX_CORE_SLOTS; i++)
		module.core_slots[i] = &module.core[i];
	for (int i = 1; i < NVTX_CORE2_SLOTS; i++)
		module.core2_slots[i] = &module.core2[i];
	ck_assert_int_eq(InitializeInjectionNvtx2(get_table), 1);
}

static int push(const char *name)
{
	return ((int (*)(const char *))module.core[NVTX_PUSH_A])(name);
}

static int push_wide(const wchar_t *name)
{
	return ((int (*)(const wchar_t *))module.core[NVTX_PUSH_W])(name);
}

static int push_ex(const struct nvtx_attributes *attributes)
{
	return ((int (*)(const struct nvtx_attributes *))module.core[NVTX_PUSH_EX])(attributes);
}

static int pop(void)
{
	return ((int (*)(void))module.core[NVTX_POP])();
}

static uint64_t start(const char *name)
{
	return ((uint64_t(*)(const char *))module.core[NVTX_START_A])(name);
}

static void end(uint64_t id)
{
	((void (*)(uint64_t))module.core[NVTX_END])(id);
}

static const void *create(const char *name)
{
	return ((const void *(*)(const char *))module.core2[NVTX_DOMAIN_CREATE_A])(name);
}

static const void *intern(const void *domain, const char *text)
{
	return ((const void *(*)(const void *, const char *))module.core2[NVTX_DOMAIN_STRING_A])(
		domain, text);
}

static int push_in(const void *domain, const struct nvtx_attributes *attributes)
{
	return ((int (*)(const void *, const struct nvtx_attributes *))
			module.core2[NVTX_DOMAIN_PUSH_EX])(domain, attributes);
}

static int pop_in(const void *domain)
{
	return ((int (*)(const void *))module.core2[NVTX_DOMAIN_POP])(domain);
}

static uint64_t start_in(const void *domain, const struct nvtx_attributes *attributes)
{
	return ((uint64_t(*)(const void *, const struct nvtx_attributes *))
			module.core2[NVTX_DOMAIN_START_EX])(domain, attributes);
}

static void end_in(const void *domain, uint64_t id)
{
	((void (*)(const void *, uint64_t))module.core2[NVTX_DOMAIN_END])(domain, id);
}

static const struct nvtx_attributes named = {
	.version = 3,
	.bytes = sizeof(named),
	.message_type = NVTX_MESSAGE_ASCII,
	.ascii = NVTX_SCOPE_NAME,
};

/* ------------------------------------------------------------------- the queue */

/* How many scopes are open in the queue of the context of this number. */
static unsigned int scopes_of(uint32_t context)
{
	struct deferq *queue = deferq_find(context);
	struct deferq_report report = { 0 };
	unsigned int count = 0;

	ck_assert_ptr_nonnull(queue);
	while (deferq_resume(queue, &report))
		count++;
	for (unsigned int i = 0; i < count; i++)
		deferq_suspend(queue);
	deferq_told(&report);
	return count;
}

static unsigned int scopes(void)
{
	return scopes_of(current_ask()->number);
}

static void start_nowait(void)
{
	setenv("CUSTODY_MAX_PENDING", "1", 1);
	fake_queue_prepare("nowait", false);
	fake_start();
	attach();
}

static void start_immediate(void)
{
	fake_queue_prepare("immediate", false);
	fake_start();
	attach();
}

/* ----------------------------------------------------------------------- tests */

START_TEST(a_pushed_range_of_that_name_is_a_scope)
{
	ck_assert_int_eq(push(NVTX_SCOPE_NAME), NVTX_NO_LEVEL);
	ck_assert_uint_eq(scopes(), 1);
	ck_assert_int_eq(pop(), NVTX_NO_LEVEL);
	ck_assert_uint_eq(scopes(), 0);
	pop();
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

START_TEST(a_range_of_another_name_is_none)
{
	push("custody.defer_cleanu");
	push(NVTX_SCOPE_NAME " ");
	push(NULL);
	push_wide(NULL);
	push_ex(NULL);
	ck_assert_uint_eq(scopes(), 0);
	ck_assert_uint_eq(start("work"), 0);
	end(0);
}
END_TEST

START_TEST(other_ranges_may_nest_between)
{
	push("outside");
	push(NVTX_SCOPE_NAME);
	push("inside");
	push_wide(L"deeper");
	pop();
	pop();
	ck_assert_uint_eq(scopes(), 1);
	pop();
	ck_assert_uint_eq(scopes(), 0);
	pop();
}
END_TEST

START_TEST(scopes_nest)
{
	push(NVTX_SCOPE_NAME);
	push("between");
	push_wide(L"" NVTX_SCOPE_NAME);
	ck_assert_uint_eq(scopes(), 2);
	pop();
	ck_assert_uint_eq(scopes(), 1);
	pop();
	ck_assert_uint_eq(scopes(), 1);
	pop();
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

START_TEST(every_spelling_of_the_name_is_good)
{
	struct nvtx_attributes wide = named, registered = named, other = named;

	wide.message_type = NVTX_MESSAGE_WIDE;
	wide.wide = L"" NVTX_SCOPE_NAME;
	registered.message_type = NVTX_MESSAGE_REGISTERED;
	registered.registered = intern(NULL, NVTX_SCOPE_NAME);
	other.message_type = NVTX_MESSAGE_REGISTERED;
	other.registered = intern(NULL, "else");
	push_ex(&named);
	ck_assert_uint_eq(scopes(), 1);
	push_ex(&wide);
	ck_assert_uint_eq(scopes(), 2);
	push_in(NULL, &registered);
	ck_assert_uint_eq(scopes(), 3);
	push_in(NULL, &other);
	ck_assert_uint_eq(scopes(), 3);
	for (int i = 0; i < 4; i++)
		pop();
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

START_TEST(a_domain_has_a_stack_of_its_own)
{
	const void *first = create("first"), *second = create("second");

	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_ne(first, second);
	ck_assert_ptr_eq(first, create("first"));
	push_in(first, &named);
	push("default");
	pop_in(second);
	pop();
	pop();
	ck_assert_uint_eq(scopes(), 1);
	push_in(second, &named);
	pop_in(first);
	ck_assert_uint_eq(scopes(), 1);
	pop_in(first);
	ck_assert_uint_eq(scopes(), 1);
	pop_in(second);
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

static void *end_elsewhere(void *id)
{
	end(*(uint64_t *)id);
	return NULL;
}

START_TEST(a_started_range_ends_by_its_id_on_any_thread)
{
	uint64_t first = start(NVTX_SCOPE_NAME), second = start_in(create("d"), &named);
	pthread_t thread;

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(first, second);
	ck_assert_uint_eq(scopes(), 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, &first), 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(scopes(), 1);
	end(first);
	end(second + 77);
	ck_assert_uint_eq(scopes(), 1);
	end_in(NULL, second);
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

static void *push_and_end(void *unused)
{
	(void)unused;
	push(NVTX_SCOPE_NAME);
	push("other");
	push(NVTX_SCOPE_NAME);
	ck_assert_uint_eq(scopes(), 2);
	return NULL;
}

START_TEST(a_thread_that_ends_leaves_its_scopes)
{
	pthread_t thread;

	push(NVTX_SCOPE_NAME);
	pop();
	ck_assert_int_eq(pthread_create(&thread, NULL, push_and_end, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

START_TEST(the_context_of_the_start_counts)
{
	uint32_t first = current_ask()->number;
	CUcontext context;

	push(NVTX_SCOPE_NAME);
	fake_context = (CUcontext)0x2000;
	cuCtxGetCurrent(&context);
	ck_assert_uint_ne(current_ask()->number, first);
	ck_assert_uint_eq(scopes(), 0);
	pop();
	ck_assert_uint_eq(scopes_of(first), 0);
}
END_TEST

START_TEST(without_a_context_there_is_no_scope)
{
	uint32_t number = current_ask()->number;
	CUcontext context = fake_context;

	fake_context = NULL;
	push(NVTX_SCOPE_NAME);
	ck_assert_uint_eq(start(NVTX_SCOPE_NAME), 0);
	fake_context = context;
	pop();
	ck_assert_uint_eq(scopes_of(number), 0);
}
END_TEST

START_TEST(what_was_held_back_goes_when_the_scope_ends)
{
	const struct fake_look *look;
	CUdeviceptr first, second;

	push(NVTX_SCOPE_NAME);
	first = fake_block(4096);
	second = fake_block(4096);
	cuMemFree_v2(first);
	cuMemFree_v2(second);
	fake_look();
	ck_assert_uint_eq(atomic_load(&pending_total), 2);
	pop();
	look = fake_look();
	ck_assert_uint_ge(look->count, 1);
	ck_assert_int_eq(look->record[look->count - 1].kind, RECORD_FLUSH);
	ck_assert_int_eq(look->record[look->count - 1].aux & 0xff, RELEASE_SCOPE);
	ck_assert_uint_eq(look->record[look->count - 1].a, 2);
}
END_TEST

START_TEST(a_child_of_fork_ends_nothing_of_its_parents)
{
	pid_t child;
	int status;

	push(NVTX_SCOPE_NAME);
	child = fork();
	if (!child) {
		fake_block(4096);
		deferq_suspend(deferq_find(current_ask()->number));
		pop();
		_exit(scopes() == 1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(scopes(), 1);
}
END_TEST

START_TEST(more_scopes_than_are_kept_do_no_harm)
{
	uint64_t ids[100];

	for (int i = 0; i < 100; i++)
		push(NVTX_SCOPE_NAME);
	ck_assert_uint_ge(scopes(), 1);
	for (int i = 0; i < 100; i++)
		pop();
	ck_assert_uint_eq(scopes(), 0);
	for (int i = 0; i < 100; i++)
		ids[i] = start(NVTX_SCOPE_NAME);
	for (int i = 0; i < 100; i++)
		end(ids[i]);
	ck_assert_uint_eq(scopes(), 0);
}
END_TEST

START_TEST(a_module_may_come_twice_and_with_fewer_functions)
{
	core_count = NVTX_PUSH_A;
	module = (struct module){ 0 };
	attach();
	attach();
	ck_assert(module.core[NVTX_START_A] != NULL);
	ck_assert(module.core[NVTX_PUSH_A] == NULL);
	ck_assert_int_eq(InitializeInjectionNvtx2(NULL), 0);
}
END_TEST

START_TEST(under_immediate_a_module_is_left_as_it_is)
{
	for (int i = 0; i < NVTX_CORE_SLOTS; i++)
		ck_assert(module.core[i] == NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("nvtx");
	TCase *nowait = tcase_create("nowait"), *immediate = tcase_create("immediate");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(nowait, start_nowait, fake_stop);
	tcase_add_test(nowait, a_pushed_range_of_that_name_is_a_scope);
	tcase_add_test(nowait, a_range_of_another_name_is_none);
	tcase_add_test(nowait, other_ranges_may_nest_between);
	tcase_add_test(nowait, scopes_nest);
	tcase_add_test(nowait, every_spelling_of_the_name_is_good);
	tcase_add_test(nowait, a_domain_has_a_stack_of_its_own);
	tcase_add_test(nowait, a_started_range_ends_by_its_id_on_any_thread);
	tcase_add_test(nowait, a_thread_that_ends_leaves_its_scopes);
	tcase_add_test(nowait, the_context_of_the_start_counts);
	tcase_add_test(nowait, without_a_context_there_is_no_scope);
	tcase_add_test(nowait, what_was_held_back_goes_when_the_scope_ends);
	tcase_add_test(nowait, a_child_of_fork_ends_nothing_of_its_parents);
	tcase_add_test(nowait, more_scopes_than_are_kept_do_no_harm);
	tcase_add_test(nowait, a_module_may_come_twice_and_with_fewer_functions);
	tcase_add_checked_fixture(immediate, start_immediate, fake_stop);
	tcase_add_test(immediate, under_immediate_a_module_is_left_as_it_is);
	suite_add_tcase(suite, nowait);
	suite_add_tcase(suite, immediate);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
