/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that others work with: a free there is the driver's own, what was
 * put off before is released still.
 */
#include "intercept/exclude.h"
#include "core/pending.h"
#include "fake_queue.h"
#include "intercept/current.h"

#include <check.h>
#include <stdlib.h>

static const CUcontext first = (CUcontext)0x1000, second = (CUcontext)0x2000;
static CUresult peer_result;
static CUdevice device_now;

static CUresult CUDAAPI enable_peer(CUcontext peer, unsigned int flags)
{
	(void)peer;
	(void)flags;
	return peer_result;
}

static CUresult CUDAAPI make_green(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
				   unsigned int flags)
{
	(void)resources;
	(void)device;
	(void)flags;
	*green = (CUgreenCtx)0x9000;
	return fake_result;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
	*device = device_now;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop_context(CUcontext *context)
{
	*context = fake_context;
	fake_context = first;
	return CUDA_SUCCESS;
}

static void start(void)
{
	setenv("CUSTODY_MAX_PENDING", "100", 1);
	fake_queue_prepare("nowait", false);
	fake_start();
	fake_set(API_cuCtxEnablePeerAccess, enable_peer);
	fake_set(API_cuGreenCtxCreate, make_green);
	fake_set(API_cuCtxGetDevice, get_device);
	fake_set(API_cuCtxPopCurrent_v2, pop_context);
	peer_result = CUDA_SUCCESS;
	device_now = 0;
}

static void make_current(CUcontext context, CUdevice device)
{
	CUcontext told;

	fake_context = context;
	device_now = device;
	cuCtxGetCurrent(&told);
}

/* Whether a free in the current context is put off. */
static bool waits(void)
{
	uint32_t before = fake_calls(API_cuMemFree_v2);
	CUdeviceptr address = fake_block(4096);

	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	return fake_calls(API_cuMemFree_v2) == before;
}

static bool waits_in(CUcontext context, CUdevice device)
{
	make_current(context, device);
	return waits();
}

START_TEST(peer_access_excludes_both_contexts)
{
	ck_assert(waits_in(second, 1));
	ck_assert(waits_in(first, 0));
	cuCtxEnablePeerAccess(second, 0);
	ck_assert(!waits_in(first, 0));
	ck_assert(!waits_in(second, 1));
	ck_assert(waits_in((CUcontext)0x3000, 1));
}
END_TEST

START_TEST(a_peer_that_was_not_met_before_is_excluded)
{
	ck_assert(waits());
	cuCtxEnablePeerAccess(second, 0);
	ck_assert_ptr_eq(fake_context, first);
	ck_assert(!waits_in(second, 1));
}
END_TEST

START_TEST(what_failed_excludes_nobody_but_what_was_so_before_does)
{
	peer_result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	cuCtxEnablePeerAccess(second, 0);
	ck_assert(waits_in(second, 1));
	ck_assert(waits_in(first, 0));
	peer_result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	cuCtxEnablePeerAccess(second, 0);
	ck_assert(!waits_in(first, 0));
}
END_TEST

START_TEST(a_green_context_excludes_its_device)
{
	CUgreenCtx green;

	ck_assert(waits_in(first, 0));
	fake_result = CUDA_ERROR_NOT_SUPPORTED;
	cuGreenCtxCreate(&green, NULL, 1, 0);
	fake_result = CUDA_SUCCESS;
	ck_assert(waits_in(second, 1));
	cuGreenCtxCreate(&green, NULL, 1, 0);
	ck_assert(!waits_in(second, 1));
	ck_assert(!waits_in((CUcontext)0x3000, 1));
	ck_assert(waits_in(first, 0));
}
END_TEST

START_TEST(what_was_put_off_before_is_released_still)
{
	fake_is_busy = true;
	ck_assert(waits());
	cuCtxEnablePeerAccess(second, 0);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
	fake_is_busy = false;
	cuCtxSynchronize();
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(nobody_is_no_context_to_put_frees_off_in)
{
	ck_assert(exclude_has(0));
	ck_assert(exclude_has(UINT32_MAX));
	ck_assert(!exclude_has(current_ask()->number));
	exclude_context(0);
	exclude_device(-1);
	exclude_reset();
	ck_assert(!exclude_has(current_ask()->number));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exclude");
	TCase *nowait = tcase_create("nowait");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(nowait, start, fake_stop);
	tcase_add_test(nowait, peer_access_excludes_both_contexts);
	tcase_add_test(nowait, a_peer_that_was_not_met_before_is_excluded);
	tcase_add_test(nowait, what_failed_excludes_nobody_but_what_was_so_before_does);
	tcase_add_test(nowait, a_green_context_excludes_its_device);
	tcase_add_test(nowait, what_was_put_off_before_is_released_still);
	tcase_add_test(nowait, nobody_is_no_context_to_put_frees_off_in);
	suite_add_tcase(suite, nowait);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
