/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory resources: one interface over different kinds of memory.  A buffer of the
 * device's memory and one of page-locked host memory, which the device reaches too; a
 * kernel adds 1 to the one and multiplies the other by 3; then the one is copied to
 * the other, and both are closed.  The kernel is PTX, loaded by a function of the driver
 * that is got from custody_driver_function(), so that its calls are recorded as well.
 */
#include "must.h"

enum { COUNT = 1024, THREADS = 256 };

/* memory_ops(float *device, float *pinned, uint64_t count) */
static const char ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry memory_ops(.param .u64 device, .param .u64 pinned, .param .u64 count)\n"
	"{\n"
	"	.reg .pred %past;\n"
	"	.reg .f32 %value;\n"
	"	.reg .b32 %block, %size, %thread;\n"
	"	.reg .b64 %index, %count, %offset, %device, %pinned;\n"
	"	mov.u32 %block, %ctaid.x;\n"
	"	mov.u32 %size, %ntid.x;\n"
	"	mov.u32 %thread, %tid.x;\n"
	"	mul.wide.u32 %index, %block, %size;\n"
	"	cvt.u64.u32 %offset, %thread;\n"
	"	add.u64 %index, %index, %offset;\n"
	"	ld.param.u64 %count, [count];\n"
	"	setp.ge.u64 %past, %index, %count;\n"
	"	@%past ret;\n"
	"	shl.b64 %offset, %index, 2;\n"
	"	ld.param.u64 %device, [device];\n"
	"	add.u64 %device, %device, %offset;\n"
	"	ld.f32 %value, [%device];\n"
	"	add.f32 %value, %value, 0f3F800000;\n" /* 1 */
	"	st.f32 [%device], %value;\n"
	"	ld.param.u64 %pinned, [pinned];\n"
	"	add.u64 %pinned, %pinned, %offset;\n"
	"	ld.f32 %value, [%pinned];\n"
	"	mul.f32 %value, %value, 0f40400000;\n" /* 3 */
	"	st.f32 [%pinned], %value;\n"
	"	ret;\n"
	"}\n";

/* The driver's function by its symbol; its type is that of cuda.h. */
#define DRIVER(symbol) ((__typeof__(&symbol))custody_driver_function(#symbol))

static void run_kernel(CUmodule module, struct custody_stream *stream,
		       struct custody_buffer *device, struct custody_buffer *pinned)
{
	void *first = custody_buffer_pointer(device), *second = custody_buffer_pointer(pinned);
	unsigned long long count = COUNT;
	void *arguments[] = { &first, &second, &count };
	CUfunction kernel;

	MUST(DRIVER(cuModuleGetFunction)(&kernel, module, "memory_ops"));
	MUST(DRIVER(cuLaunchKernel)(kernel, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0,
				    custody_stream_handle(stream), arguments, NULL));
}

int main(void)
{
	const size_t bytes = COUNT * sizeof(float);
	struct custody_context *context = open_context();
	struct custody_resource *device_memory, *pinned_memory;
	struct custody_buffer *device, *pinned;
	struct custody_stream *stream;
	static float numbers[COUNT];
	CUmodule module;
	float *host;

	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_resource_device(context, &device_memory));
	MUST(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &pinned_memory));
	MUST(custody_buffer_create(device_memory, bytes, stream, &device));
	MUST(custody_buffer_create(pinned_memory, bytes, stream, &pinned));

	host = custody_buffer_pointer(pinned);
	for (int i = 0; i < COUNT; i++)
		numbers[i] = host[i] = (float)i;
	MUST(custody_buffer_write(device, 0, numbers, bytes, stream));

	MUST(DRIVER(cuModuleLoadData)(&module, ptx));
	run_kernel(module, stream, device, pinned);
	MUST(custody_stream_synchronize(stream));
	CHECK(host[5] == 15);
	printf("kernel      pinned[5] is %g, as the device left it\n", (double)host[5]);

	MUST(custody_buffer_copy_to(device, &pinned, stream));
	MUST(custody_stream_synchronize(stream));
	for (int i = 0; i < COUNT; i++)
		CHECK(host[i] == (float)i + 1);
	printf("copy        %zu bytes from device to pinned memory\n", bytes);

	MUST(DRIVER(cuModuleUnload)(module));
	MUST(custody_buffer_close(device, stream)); /* frees now, in the stream's order ... */
	MUST(custody_buffer_close(pinned, NULL));
	MUST(custody_buffer_release(device)); /* ... and the last reference ends the object */
	MUST(custody_buffer_release(pinned));
	MUST(custody_resource_release(device_memory));
	MUST(custody_resource_release(pinned_memory));
	MUST(custody_stream_destroy(stream));
	return 0;
}
