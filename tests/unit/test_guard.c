/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block that is pending, behind the real wrappers: what the driver is asked
 * instead, what it never sees, and what is recorded of that.
 */
#include "fake_driver.h"
#include "core/pending.h"
#include "core/tracker.h"
#include "intercept/guard.h"

#include <check.h>
#include <stdlib.h>

enum { BYTES = 4 << 20, SLOT_BYTES = 64 };

static const CUdeviceptr gone = 0x7f0000400000, alive = 0x7f0000c00000;
static const CUarray gone_array = (CUarray)0x5500, alive_array = (CUarray)0x5600;

static struct block pending;  /* the block at `gone` */
static CUdeviceptr asked;     /* what the driver was asked about last */
static unsigned int answered; /* calls that reached it */
static char host[SLOT_BYTES];

/* ------------------------------------------------------------- a small driver */

static CUresult answer(void)
{
	answered++;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_attribute(void *data, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	(void)data;
	(void)attribute;
	asked = address;
	return answer();
}

static CUresult CUDAAPI get_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	(void)base;
	(void)bytes;
	asked = address;
	return answer();
}

static CUresult CUDAAPI get_flags(unsigned int *flags, void *address)
{
	(void)flags;
	asked = (uintptr_t)address;
	return answer();
}

static CUresult CUDAAPI export_block(CUipcMemHandle *handle, CUdeviceptr address)
{
	(void)handle;
	asked = address;
	return address == GUARD_NOBODY ? CUDA_ERROR_INVALID_VALUE : answer();
}

static CUresult CUDAAPI copy_to_device(CUdeviceptr to, const void *from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return answer();
}

static CUresult CUDAAPI copy_to_host(void *to, CUdeviceptr from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return answer();
}

static CUresult CUDAAPI copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return answer();
}

static CUresult CUDAAPI copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
				  CUcontext from_context, size_t bytes)
{
	(void)to;
	(void)to_context;
	(void)from;
	(void)from_context;
	(void)bytes;
	return answer();
}

static CUresult CUDAAPI copy_to_array(CUarray to, size_t offset, const void *from, size_t bytes)
{
	(void)to;
	(void)offset;
	(void)from;
	(void)bytes;
	return answer();
}

static CUresult CUDAAPI copy_2d(const CUDA_MEMCPY2D *box)
{
	(void)box;
	return answer();
}

static CUresult CUDAAPI copy_3d(const CUDA_MEMCPY3D *box)
{
	(void)box;
	return answer();
}

static CUresult CUDAAPI copy_3d_peer(const CUDA_MEMCPY3D_PEER *box)
{
	(void)box;
	return answer();
}

static CUresult CUDAAPI copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
				   CUmemcpyAttributes *attributes, size_t *which, size_t kinds,
				   size_t *failed, CUstream stream)
{
	(void)to;
	(void)from;
	(void)bytes;
	(void)count;
	(void)attributes;
	(void)which;
	(void)kinds;
	(void)failed;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI copy_boxes(size_t count, CUDA_MEMCPY3D_BATCH_OP *list,
				   unsigned long long flags, CUstream stream)
{
	(void)count;
	(void)list;
	(void)flags;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI fill(CUdeviceptr to, unsigned char value, size_t count)
{
	(void)to;
	(void)value;
	(void)count;
	return answer();
}

static CUresult CUDAAPI fill_async(CUdeviceptr to, unsigned char value, size_t count,
				   CUstream stream)
{
	(void)stream;
	return fill(to, value, count);
}

static CUresult CUDAAPI prefetch(CUdeviceptr address, size_t bytes, CUmemLocation location,
				 unsigned int flags, CUstream stream)
{
	(void)address;
	(void)bytes;
	(void)location;
	(void)flags;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI discard(CUdeviceptr *list, size_t *bytes, size_t count,
				unsigned long long flags, CUstream stream)
{
	(void)list;
	(void)bytes;
	(void)count;
	(void)flags;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI decompress(CUmemDecompressParams *list, size_t count, unsigned int flags,
				   size_t *failed, CUstream stream)
{
	(void)list;
	(void)count;
	(void)flags;
	(void)failed;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI write_value(CUstream stream, CUdeviceptr address, cuuint32_t value,
				    unsigned int flags)
{
	(void)stream;
	(void)address;
	(void)value;
	(void)flags;
	return answer();
}

static CUresult CUDAAPI memory_ops(CUstream stream, unsigned int count,
				   CUstreamBatchMemOpParams *list, unsigned int flags)
{
	(void)stream;
	(void)count;
	(void)list;
	(void)flags;
	return answer();
}

static CUresult CUDAAPI add_fill(CUgraphNode *node, CUgraph graph, const CUgraphNode *edges,
				 size_t count, const CUDA_MEMSET_NODE_PARAMS *parameters,
				 CUcontext context)
{
	(void)node;
	(void)graph;
	(void)edges;
	(void)count;
	(void)parameters;
	(void)context;
	return answer();
}

static CUresult CUDAAPI set_node(CUgraphNode node, CUgraphNodeParams *parameters)
{
	(void)node;
	(void)parameters;
	return answer();
}

static CUresult CUDAAPI free_async(CUdeviceptr address, CUstream stream)
{
	(void)address;
	(void)stream;
	return answer();
}

static CUresult CUDAAPI begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = stream == (CUstream)0x5000 ? CU_STREAM_CAPTURE_STATUS_ACTIVE :
					       CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static void set_functions(void)
{
	fake_set(API_cuPointerGetAttribute, get_attribute);
	fake_set(API_cuMemGetAddressRange_v2, get_range);
	fake_set(API_cuMemHostGetFlags, get_flags);
	fake_set(API_cuIpcGetMemHandle, export_block);
	fake_set(API_cuMemcpyHtoD_v2, copy_to_device);
	fake_set(API_cuMemcpyDtoH_v2, copy_to_host);
	fake_set(API_cuMemcpyDtoD_v2, copy);
	fake_set(API_cuMemcpy, copy);
	fake_set(API_cuMemcpyPeer, copy_peer);
	fake_set(API_cuMemcpyHtoA_v2, copy_to_array);
	fake_set(API_cuMemcpy2D_v2, copy_2d);
	fake_set(API_cuMemcpy3D_v2, copy_3d);
	fake_set(API_cuMemcpy3DPeer, copy_3d_peer);
	fake_set(API_cuMemcpyBatchAsync, copy_batch);
	fake_set(API_cuMemcpy3DBatchAsync_v2, copy_boxes);
	fake_set(API_cuMemsetD8_v2, fill);
	fake_set(API_cuMemsetD8Async, fill_async);
	fake_set(API_cuMemPrefetchAsync_v2, prefetch);
	fake_set(API_cuMemDiscardBatchAsync, discard);
	fake_set(API_cuMemBatchDecompressAsync, decompress);
	fake_set(API_cuStreamWriteValue32_v2, write_value);
	fake_set(API_cuStreamBatchMemOp_v2, memory_ops);
	fake_set(API_cuGraphAddMemsetNode, add_fill);
	fake_set(API_cuGraphNodeSetParams, set_node);
	fake_set(API_cuMemFreeAsync, free_async);
	fake_set(API_cuStreamBeginCapture_v2, begin_capture);
	fake_set(API_cuStreamIsCapturing, is_capturing);
}

/* ------------------------------------------------------------------ the blocks */

static void enter(enum block_space space, enum block_kind kind, uint64_t address)
{
	const struct block block = {
		.id = tracker_next_id(),
		.address = address,
		.bytes = BYTES,
		.references = 1,
		.kind = (uint8_t)kind,
		.space = (uint8_t)space,
	};

	ck_assert_int_eq(tracker_add(&block), 0);
}

static void free_late(enum block_space space, uint64_t address)
{
	ck_assert(tracker_find(space, address, &pending));
	ck_assert(pending_begin(&pending));
}

/* `kind` is that of the block at `gone`. */
static void start(enum block_kind kind)
{
	fake_start();
	set_functions();
	enter(SPACE_ADDRESS, kind, gone);
	enter(SPACE_ADDRESS, BLOCK_DEVICE, alive);
	enter(SPACE_ARRAY, BLOCK_ARRAY, (uintptr_t)gone_array);
	enter(SPACE_ARRAY, BLOCK_ARRAY, (uintptr_t)alive_array);
	free_late(SPACE_ARRAY, (uintptr_t)gone_array);
	free_late(SPACE_ADDRESS, gone);
	answered = 0;
}

static void start_device(void)
{
	start(BLOCK_DEVICE);
}

/* The record of a call that was refused, as a success would have made it, and the finding. */
static void expect_finding(enum record_kind kind, enum api api, enum finding_kind finding,
			   uint64_t named)
{
	const struct fake_look *look = fake_look();

	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[0].kind, kind);
	ck_assert_int_eq(look->record[0].api, api);
	ck_assert_int_eq(look->record[0].result, CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(look->record[0].flags & RECORD_MORE, 0);
	ck_assert_int_eq(look->record[1].kind, RECORD_FINDING);
	ck_assert_int_eq(look->record[1].api, api);
	ck_assert_int_eq(look->record[1].aux, finding);
	ck_assert_int_eq(look->record[1].flags, RECORD_MORE);
	ck_assert_uint_eq(look->record[1].a, named);
	ck_assert_uint_eq(look->record[1].b, pending.id);
	ck_assert_uint_eq(look->record[1].c, BYTES);
	ck_assert_uint_eq(answered, 0);
}

static void expect_refusal(CUresult result, enum record_kind kind, enum api api, uint64_t named)
{
	ck_assert_int_eq(result, CUDA_ERROR_INVALID_VALUE);
	expect_finding(kind, api, FINDING_USE_AFTER_FREE, named);
}

static void expect_copy_refusal(CUresult result, enum api api, uint64_t named)
{
	expect_refusal(result, RECORD_TRANSFER, api, named);
}

/* It reached the driver, and is no finding. */
static void expect_pass(CUresult result)
{
	const struct fake_look *look = fake_look();

	ck_assert_int_eq(result, CUDA_SUCCESS);
	ck_assert_uint_eq(answered, 1);
	for (uint32_t i = 0; i < look->count; i++)
		ck_assert_int_ne(look->record[i].kind, RECORD_FINDING);
	answered = 0;
}

/* ---------------------------------------------------------------------- tests */

START_TEST(a_question_about_a_pending_block_is_asked_about_nobodys)
{
	CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	CUdeviceptr base;
	size_t bytes;
	unsigned int flags;

	cuPointerGetAttribute(&flags, type, gone);
	ck_assert_uint_eq(asked, GUARD_NOBODY);
	cuPointerGetAttribute(&flags, type, gone + BYTES - 1);
	ck_assert_uint_eq(asked, GUARD_NOBODY);
	cuMemGetAddressRange_v2(&base, &bytes, gone + 77);
	ck_assert_uint_eq(asked, GUARD_NOBODY);
	cuMemHostGetFlags(&flags, (void *)gone);
	ck_assert_uint_eq(asked, GUARD_NOBODY);
}
END_TEST

START_TEST(a_question_about_any_other_is_left_alone)
{
	CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int flags;

	cuPointerGetAttribute(&flags, type, alive);
	ck_assert_uint_eq(asked, alive);
	cuPointerGetAttribute(&flags, type, gone + BYTES);
	ck_assert_uint_eq(asked, gone + BYTES);
	pending_close(SPACE_ADDRESS, gone, BYTES, pending.id);
	cuPointerGetAttribute(&flags, type, gone);
	ck_assert_uint_eq(asked, gone);
}
END_TEST

START_TEST(an_export_is_recorded_with_the_address_that_was_named)
{
	const struct record *record;
	CUipcMemHandle handle;

	ck_assert_int_eq(cuIpcGetMemHandle(&handle, gone + 16), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(asked, GUARD_NOBODY);
	record = fake_look_one(RECORD_OPERATION, API_cuIpcGetMemHandle);
	ck_assert_uint_eq(record->a, gone + 16);
	ck_assert_int_eq(record->flags & RECORD_EXPORTED, 0);
}
END_TEST

START_TEST(a_copy_that_names_a_pending_block_is_refused)
{
	expect_copy_refusal(cuMemcpyHtoD_v2(gone + 8, host, 8), API_cuMemcpyHtoD_v2, gone + 8);
	expect_copy_refusal(cuMemcpyDtoH_v2(host, gone, 8), API_cuMemcpyDtoH_v2, gone);
	expect_copy_refusal(cuMemcpyDtoD_v2(gone, alive, 8), API_cuMemcpyDtoD_v2, gone);
	expect_copy_refusal(cuMemcpyDtoD_v2(alive, gone + 1, 8), API_cuMemcpyDtoD_v2, gone + 1);
	expect_copy_refusal(cuMemcpy(gone, alive, 8), API_cuMemcpy, gone);
	expect_copy_refusal(cuMemcpy(alive, gone, 8), API_cuMemcpy, gone);
	expect_copy_refusal(cuMemcpyPeer(alive, NULL, gone, NULL, 8), API_cuMemcpyPeer, gone);
}
END_TEST

START_TEST(a_refused_copy_is_recorded_as_the_driver_would_have_refused_it)
{
	const struct fake_look *look;

	cuMemcpyHtoD_v2(gone + 8, host, 8);
	look = fake_look();
	ck_assert_uint_eq(look->record[0].a, (uintptr_t)host);
	ck_assert_uint_eq(look->record[0].b, gone + 8);
	ck_assert_uint_eq(look->record[0].c, 8);
	ck_assert_int_eq(record_transfer_kind(&look->record[0]), TRANSFER_H2D);
	ck_assert_uint_le(look->record[0].start, look->record[1].start);
}
END_TEST

START_TEST(a_copy_that_names_others_goes_to_the_driver)
{
	expect_pass(cuMemcpyHtoD_v2(alive, host, 8));
	expect_pass(cuMemcpyHtoD_v2(gone + BYTES, host, 8));
	expect_pass(cuMemcpy(alive, alive + 64, 8));
	expect_pass(cuMemcpyHtoA_v2(alive_array, 0, host, 8));
	pending_close(SPACE_ADDRESS, gone, BYTES, pending.id);
	expect_pass(cuMemcpyHtoD_v2(gone, host, 8));
}
END_TEST

START_TEST(a_call_that_moves_no_byte_is_the_drivers_to_answer)
{
	const CUDA_MEMCPY2D box = { .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = gone };

	expect_pass(cuMemcpyHtoD_v2(gone, host, 0));
	expect_pass(cuMemcpy(gone, alive, 0));
	expect_pass(cuMemsetD8_v2(gone, 1, 0));
	expect_pass(cuMemcpy2D_v2(&box));
}
END_TEST

START_TEST(a_box_is_refused_by_where_its_first_byte_lies)
{
	CUDA_MEMCPY2D plane = { .srcMemoryType = CU_MEMORYTYPE_HOST,
				.srcHost = host,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = gone - 32,
				.dstXInBytes = 16,
				.dstY = 1,
				.dstPitch = 16,
				.WidthInBytes = 8,
				.Height = 2 };
	CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			      .srcDevice = gone,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = alive,
			      .WidthInBytes = 8,
			      .Height = 1,
			      .Depth = 1 };
	CUDA_MEMCPY3D_PEER peer = { .srcMemoryType = CU_MEMORYTYPE_ARRAY,
				    .srcArray = gone_array,
				    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				    .dstDevice = gone,
				    .WidthInBytes = 8,
				    .Height = 1,
				    .Depth = 1 };

	expect_copy_refusal(cuMemcpy2D_v2(&plane), API_cuMemcpy2D_v2, gone);
	plane.dstY = 0;
	expect_pass(cuMemcpy2D_v2(&plane));
	expect_copy_refusal(cuMemcpy3D_v2(&box), API_cuMemcpy3D_v2, gone);
	ck_assert(tracker_find(SPACE_ARRAY, (uintptr_t)gone_array, &pending));
	expect_copy_refusal(cuMemcpy3DPeer(&peer), API_cuMemcpy3DPeer, (uintptr_t)gone_array);
	expect_copy_refusal(cuMemcpyHtoA_v2(gone_array, 0, host, 8), API_cuMemcpyHtoA_v2,
			    (uintptr_t)gone_array);
}
END_TEST

START_TEST(a_batch_says_which_of_its_copies_it_was)
{
	CUdeviceptr to[] = { alive, alive + 64, gone + 4 }, from[] = { alive, alive, alive };
	size_t bytes[] = { 8, 8, 8 }, failed = 77;
	CUDA_MEMCPY3D_BATCH_OP ops[2] = { 0 };

	expect_copy_refusal(cuMemcpyBatchAsync(to, from, bytes, 3, NULL, NULL, 0, &failed, NULL),
			    API_cuMemcpyBatchAsync, gone + 4);
	ck_assert_uint_eq(failed, 2);
	expect_pass(cuMemcpyBatchAsync(to, from, bytes, 2, NULL, NULL, 0, &failed, NULL));
	ops[1].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	ops[1].src.op.ptr.ptr = gone;
	expect_copy_refusal(cuMemcpy3DBatchAsync_v2(2, ops, 0, NULL), API_cuMemcpy3DBatchAsync_v2,
			    gone);
}
END_TEST

START_TEST(fills_and_hints_are_refused)
{
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemDecompressParams packed[2] = { 0 };
	CUdeviceptr list[] = { alive, gone };
	size_t bytes[] = { 8, 8 }, failed = 77;

	packed[1].src = (const void *)gone;
	expect_copy_refusal(cuMemsetD8_v2(gone, 1, 8), API_cuMemsetD8_v2, gone);
	expect_copy_refusal(cuMemPrefetchAsync_v2(gone, 8, device, 0, NULL),
			    API_cuMemPrefetchAsync_v2, gone);
	expect_refusal(cuMemDiscardBatchAsync(list, bytes, 2, 0, NULL), RECORD_OPERATION,
		       API_cuMemDiscardBatchAsync, gone);
	expect_refusal(cuMemBatchDecompressAsync(packed, 2, 0, &failed, NULL), RECORD_OPERATION,
		       API_cuMemBatchDecompressAsync, gone);
	ck_assert_uint_eq(failed, 1);
}
END_TEST

START_TEST(memory_operations_and_nodes_are_refused)
{
	CUstreamBatchMemOpParams ops[] = {
		{ .operation = CU_STREAM_MEM_OP_BARRIER },
		{ .writeValue = { CU_STREAM_MEM_OP_WRITE_VALUE_64, gone, { 1 }, 0, 0 } }
	};
	CUDA_MEMSET_NODE_PARAMS of = { .dst = gone, .width = 1, .height = 1, .elementSize = 1 };
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUgraphNode made;

	node.memset.dst = gone;
	expect_refusal(cuStreamWriteValue32_v2(NULL, gone, 1, 0), RECORD_OPERATION,
		       API_cuStreamWriteValue32_v2, gone);
	expect_pass(cuStreamBatchMemOp_v2(NULL, 1, ops, 0));
	expect_refusal(cuStreamBatchMemOp_v2(NULL, 2, ops, 0), RECORD_OPERATION,
		       API_cuStreamBatchMemOp_v2, gone);
	expect_refusal(cuGraphAddMemsetNode(&made, NULL, NULL, 0, &of, NULL), RECORD_OPERATION,
		       API_cuGraphAddMemsetNode, gone);
	expect_refusal(cuGraphNodeSetParams(NULL, &node), RECORD_OPERATION,
		       API_cuGraphNodeSetParams, gone);
	node.type = CU_GRAPH_NODE_TYPE_EMPTY;
	expect_pass(cuGraphNodeSetParams(NULL, &node));
}
END_TEST

START_TEST(a_fill_that_is_captured_goes_to_the_driver)
{
	CUstream captured = (CUstream)0x5000, other = (CUstream)0x6000;

	cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
	fake_look();
	expect_pass(cuMemsetD8Async(gone, 1, 8, captured));
	expect_copy_refusal(cuMemsetD8Async(gone, 1, 8, other), API_cuMemsetD8Async, gone);
}
END_TEST

START_TEST(a_second_free_on_a_stream_is_refused)
{
	ck_assert_int_eq(cuMemFreeAsync(gone, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_finding(RECORD_FREE, API_cuMemFreeAsync, FINDING_DOUBLE_FREE, gone);
	expect_pass(cuMemFreeAsync(gone + 16, NULL));
}
END_TEST

START_TEST(page_locked_memory_is_pageable_once_it_is_freed)
{
	expect_pass(cuMemcpyHtoD_v2(alive, (const void *)gone, 8));
	expect_pass(cuMemcpyDtoH_v2((void *)gone, alive, 8));
	expect_pass(cuMemcpy(alive, gone, 8));
	expect_copy_refusal(cuMemcpyHtoD_v2(gone, host, 8), API_cuMemcpyHtoD_v2, gone);
	expect_copy_refusal(cuMemsetD8_v2(gone, 1, 8), API_cuMemsetD8_v2, gone);
}
END_TEST

START_TEST(managed_memory_is_refused_on_either_side)
{
	expect_copy_refusal(cuMemcpyHtoD_v2(alive, (const void *)gone, 8), API_cuMemcpyHtoD_v2,
			    gone);
	expect_copy_refusal(cuMemcpyDtoH_v2((void *)gone, alive, 8), API_cuMemcpyDtoH_v2, gone);
}
END_TEST

static void start_pinned(void)
{
	start(BLOCK_PINNED);
}

static void start_managed(void)
{
	start(BLOCK_MANAGED);
}

static TCase *add_device_tests(void)
{
	TCase *device = tcase_create("device");

	tcase_add_checked_fixture(device, start_device, fake_stop);
	tcase_add_test(device, a_question_about_a_pending_block_is_asked_about_nobodys);
	tcase_add_test(device, a_question_about_any_other_is_left_alone);
	tcase_add_test(device, an_export_is_recorded_with_the_address_that_was_named);
	tcase_add_test(device, a_copy_that_names_a_pending_block_is_refused);
	tcase_add_test(device, a_refused_copy_is_recorded_as_the_driver_would_have_refused_it);
	tcase_add_test(device, a_copy_that_names_others_goes_to_the_driver);
	tcase_add_test(device, a_call_that_moves_no_byte_is_the_drivers_to_answer);
	tcase_add_test(device, a_box_is_refused_by_where_its_first_byte_lies);
	tcase_add_test(device, a_batch_says_which_of_its_copies_it_was);
	tcase_add_test(device, fills_and_hints_are_refused);
	tcase_add_test(device, memory_operations_and_nodes_are_refused);
	tcase_add_test(device, a_fill_that_is_captured_goes_to_the_driver);
	tcase_add_test(device, a_second_free_on_a_stream_is_refused);
	return device;
}

int main(void)
{
	Suite *suite = suite_create("guard");
	TCase *pinned = tcase_create("pinned"), *managed = tcase_create("managed");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(pinned, start_pinned, fake_stop);
	tcase_add_test(pinned, page_locked_memory_is_pageable_once_it_is_freed);
	tcase_add_checked_fixture(managed, start_managed, fake_stop);
	tcase_add_test(managed, managed_memory_is_refused_on_either_side);
	suite_add_tcase(suite, add_device_tests());
	suite_add_tcase(suite, pinned);
	suite_add_tcase(suite, managed);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
