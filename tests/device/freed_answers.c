/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed_answers.c - what the driver says about a block, an array or a module that
 * was freed: every query, copy, memset and second free there is.  A free that is
 * put off must be answered the same, so what this prints is compared, bare
 * against every policy.
 *
 *	freed_answers [-a] [ADDRESS]
 *
 * With ADDRESS, questions are about that address, which nobody has allocated, in
 * place of the freed one.  -a asks also what depends on what lies at the address
 * by chance: the driver takes it for host memory, or for an array of its own, and
 * reads there.  Each question is asked in a child process, which goes
 * on with the next; where it dies that is the answer, and another child goes on.
 */
#include "client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SMALL = 4096,
	LARGE = 4 << 20,
	COPY = 256,
	WIDTH = 64,
	HEIGHT = 4,
	TEXT = 112,
	DEADLINE = 30
};

enum subject_kind { IN_PAGE, PLAIN, MANAGED, PINNED, ARRAY, MODULE, KINDS };

#define ADDRESSES  (1u << IN_PAGE | 1u << PLAIN | 1u << MANAGED | 1u << PINNED)
#define ON_DEVICE  (1u << IN_PAGE | 1u << PLAIN | 1u << MANAGED)
#define ONLY(kind) (1u << (kind))
#define BY_CHANCE  (1u << KINDS)

static const char *const kind_name[KINDS] = {
	"4 KiB of a held page", "4 MiB", "managed", "pinned", "array", "module"
};

/* What the questions are about; address or handle of what was freed. */
static CUdeviceptr freed;
static CUdeviceptr stand_in; /* ADDRESS */
static bool asks_all;

static CUcontext context;
static CUstream stream;
static CUdeviceptr live;
static unsigned char host[LARGE];
static char *answer;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	size_t used = strlen(answer);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer + used, TEXT - used, format, arguments);
	va_end(arguments);
}

static void say_result(CUresult result)
{
	say("%d", (int)result);
}

/* Values differ from run to run where they are addresses or handles. */
static void say_value(uint64_t value)
{
	if (value == UINT64_C(0x5a5a5a5a5a5a5a5a))
		say(" untouched");
	else if (value >> 32 == 0x5a5a5a5a)
		say(" %u", (unsigned int)value);
	else if (value == freed)
		say(" itself");
	else if (value < 4096)
		say(" %u in 8 bytes", (unsigned int)value);
	else
		say(" something");
}

/* ---------------------------------------------------------------- queries */

static void ask_attribute(int attribute)
{
	uint64_t value[4] = { UINT64_C(0x5a5a5a5a5a5a5a5a), 0, 0, 0 };

	say_result(cuPointerGetAttribute(value, (CUpointer_attribute)attribute, freed));
	say_value(value[0]);
}

static void ask_inside(int attribute)
{
	uint64_t value = UINT64_C(0x5a5a5a5a5a5a5a5a);

	say_result(cuPointerGetAttribute(&value, (CUpointer_attribute)attribute, freed + 1024));
	say_value(value);
}

static void ask_attributes(int attribute)
{
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,	     CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_MAPPED,	     (CUpointer_attribute)attribute
	};
	enum { ASKED = sizeof(attributes) / sizeof(attributes[0]) };
	uint64_t value[ASKED];
	void *values[ASKED];

	memset(value, 0x5a, sizeof(value));
	for (int i = 0; i < ASKED; i++)
		values[i] = &value[i];
	say_result(cuPointerGetAttributes(ASKED, attributes, values, freed));
	for (int i = 0; i < ASKED; i++)
		say_value(value[i]);
}

static void ask_range(int part)
{
	CUdeviceptr base = UINT64_C(0x5a5a5a5a5a5a5a5a);
	size_t bytes = UINT64_C(0x5a5a5a5a5a5a5a5a);

	say_result(
		cuMemGetAddressRange(part == 2 ? NULL : &base, part == 1 ? NULL : &bytes, freed));
	say_value(base);
	say_value(bytes);
}

static void ask_ipc(int unused)
{
	CUipcMemHandle handle;

	(void)unused;
	say_result(cuIpcGetMemHandle(&handle, freed));
}

static void ask_dma_buf(int unused)
{
	int file = -1;

	(void)unused;
	say_result(cuMemGetHandleForAddressRange(&file, freed, LARGE / 2,
						 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	say(file >= 0 ? " a file" : " none");
}

static void ask_retain(int unused)
{
	CUmemGenericAllocationHandle handle;

	(void)unused;
	say_result(cuMemRetainAllocationHandle(&handle, (void *)freed));
}

static void set_sync(int unused)
{
	unsigned int value = 1;

	(void)unused;
	say_result(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, freed));
}

static void ask_range_attribute(int attribute)
{
	uint64_t value = UINT64_C(0x5a5a5a5a5a5a5a5a);

	say_result(
		cuMemRangeGetAttribute(&value, 4, (CUmem_range_attribute)attribute, freed, SMALL));
	say_value(value);
}

static void advise(int advice)
{
	const CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };

	say_result(cuMemAdvise(freed, SMALL, (CUmem_advise)advice, here));
}

static void prefetch(int unused)
{
	const CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };

	(void)unused;
	say_result(cuMemPrefetchAsync(freed, SMALL, here, 0, stream));
}

static void ask_host_pointer(int unused)
{
	CUdeviceptr address = UINT64_C(0x5a5a5a5a5a5a5a5a);

	(void)unused;
	say_result(cuMemHostGetDevicePointer(&address, (void *)freed, 0));
	say_value(address);
}

static void ask_host_flags(int unused)
{
	unsigned int flags = 0x5a5a5a5a;

	(void)unused;
	say_result(cuMemHostGetFlags(&flags, (void *)freed));
	say(" %x", flags);
}

static void unregister(int unused)
{
	(void)unused;
	say_result(cuMemHostUnregister((void *)freed));
}

/* ------------------------------------------------------- copies and memsets */

enum { TO_IT, FROM_IT };

static void copy_host(int way)
{
	if (way == TO_IT)
		say_result(cuMemcpyHtoD(freed, host, COPY));
	else
		say_result(cuMemcpyDtoH(host, freed, COPY));
}

static void copy_host_async(int way)
{
	if (way == TO_IT)
		say_result(cuMemcpyHtoDAsync(freed, host, COPY, stream));
	else
		say_result(cuMemcpyDtoHAsync(host, freed, COPY, stream));
}

static void copy_device(int way)
{
	say_result(cuMemcpyDtoD(way == TO_IT ? freed : live, way == TO_IT ? live : freed, COPY));
}

static void copy_device_async(int way)
{
	say_result(cuMemcpyDtoDAsync(way == TO_IT ? freed : live, way == TO_IT ? live : freed, COPY,
				     stream));
}

static void copy_any(int way)
{
	say_result(cuMemcpy(way == TO_IT ? freed : live, way == TO_IT ? live : freed, COPY));
}

static void copy_any_async(int way)
{
	say_result(cuMemcpyAsync(way == TO_IT ? freed : live, way == TO_IT ? live : freed, COPY,
				 stream));
}

static void copy_peer(int way)
{
	say_result(cuMemcpyPeer(way == TO_IT ? freed : live, context, way == TO_IT ? live : freed,
				context, COPY));
}

static void copy_inside(int unused)
{
	(void)unused;
	say_result(cuMemcpyHtoD(freed + 1024, host, COPY));
}

static CUDA_MEMCPY2D box_of(int way)
{
	CUDA_MEMCPY2D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = way == TO_IT ? live : freed,
			      .dstDevice = way == TO_IT ? freed : live,
			      .srcPitch = WIDTH,
			      .dstPitch = WIDTH,
			      .WidthInBytes = WIDTH,
			      .Height = HEIGHT };

	return box;
}

static void copy_2d(int way)
{
	CUDA_MEMCPY2D box = box_of(way);

	say_result(cuMemcpy2D(&box));
}

static void copy_2d_async(int way)
{
	CUDA_MEMCPY2D box = box_of(way);

	say_result(cuMemcpy2DAsync(&box, stream));
}

static void copy_3d(int way)
{
	CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = way == TO_IT ? live : freed,
			      .dstDevice = way == TO_IT ? freed : live,
			      .srcPitch = WIDTH,
			      .dstPitch = WIDTH,
			      .srcHeight = HEIGHT,
			      .dstHeight = HEIGHT,
			      .WidthInBytes = WIDTH,
			      .Height = HEIGHT,
			      .Depth = 1 };

	say_result(cuMemcpy3D(&box));
}

static void copy_batch(int way)
{
	CUdeviceptr to = way == TO_IT ? freed : live, from = way == TO_IT ? live : freed;
	CUmemcpyAttributes how = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	size_t bytes = COPY, first = 0;

	say_result(cuMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &first, 1, stream));
}

static void set_8(int is_async)
{
	say_result(is_async ? cuMemsetD8Async(freed, 1, COPY, stream) : cuMemsetD8(freed, 1, COPY));
}

static void set_16(int is_async)
{
	say_result(is_async ? cuMemsetD16Async(freed, 1, COPY, stream) :
			      cuMemsetD16(freed, 1, COPY));
}

static void set_32(int is_async)
{
	say_result(is_async ? cuMemsetD32Async(freed, 1, COPY, stream) :
			      cuMemsetD32(freed, 1, COPY));
}

static void set_2d(int is_async)
{
	say_result(is_async ? cuMemsetD2D8Async(freed, WIDTH, 1, WIDTH, HEIGHT, stream) :
			      cuMemsetD2D8(freed, WIDTH, 1, WIDTH, HEIGHT));
}

/* ------------------------------------------------------------- second frees */

static void free_again(int offset)
{
	say_result(cuMemFree(freed + (CUdeviceptr)offset));
}

static void free_again_async(int unused)
{
	(void)unused;
	say_result(cuMemFreeAsync(freed, stream));
}

static void free_host_again(int unused)
{
	(void)unused;
	say_result(cuMemFreeHost((void *)freed));
}

static void ask_array(int is_3d)
{
	CUDA_ARRAY_DESCRIPTOR flat;
	CUDA_ARRAY3D_DESCRIPTOR deep;

	say_result(is_3d ? cuArray3DGetDescriptor(&deep, (CUarray)freed) :
			   cuArrayGetDescriptor(&flat, (CUarray)freed));
}

static void copy_array(int unused)
{
	(void)unused;
	say_result(cuMemcpyHtoA((CUarray)freed, 0, host, COPY));
}

static void destroy_again(int unused)
{
	(void)unused;
	say_result(cuArrayDestroy((CUarray)freed));
}

static void ask_function(int unused)
{
	CUfunction function;

	(void)unused;
	say_result(cuModuleGetFunction(&function, (CUmodule)freed, "empty"));
}

static void ask_global(int unused)
{
	CUdeviceptr address;
	size_t bytes;

	(void)unused;
	say_result(cuModuleGetGlobal(&address, &bytes, (CUmodule)freed, "none"));
}

static void unload_again(int unused)
{
	(void)unused;
	say_result(cuModuleUnload((CUmodule)freed));
}

/* ---------------------------------------------------------------- the list */

struct question {
	const char *name;
	void (*ask)(int parameter);
	int parameter;
	unsigned int kinds;
};

static const struct question question[] = {
	{ "cuPointerGetAttribute CONTEXT", ask_attribute, 1, ADDRESSES },
	{ "cuPointerGetAttribute MEMORY_TYPE", ask_attribute, 2, ADDRESSES },
	{ "cuPointerGetAttribute DEVICE_POINTER", ask_attribute, 3, ADDRESSES },
	{ "cuPointerGetAttribute HOST_POINTER", ask_attribute, 4, ADDRESSES },
	{ "cuPointerGetAttribute P2P_TOKENS", ask_attribute, 5, ADDRESSES },
	{ "cuPointerGetAttribute SYNC_MEMOPS", ask_attribute, 6, ADDRESSES },
	{ "cuPointerGetAttribute BUFFER_ID", ask_attribute, 7, ADDRESSES },
	{ "cuPointerGetAttribute IS_MANAGED", ask_attribute, 8, ADDRESSES },
	{ "cuPointerGetAttribute DEVICE_ORDINAL", ask_attribute, 9, ADDRESSES },
	{ "cuPointerGetAttribute IPC_CAPABLE", ask_attribute, 10, ADDRESSES },
	{ "cuPointerGetAttribute RANGE_START_ADDR", ask_attribute, 11, ADDRESSES },
	{ "cuPointerGetAttribute RANGE_SIZE", ask_attribute, 12, ADDRESSES },
	{ "cuPointerGetAttribute MAPPED", ask_attribute, 13, ADDRESSES },
	{ "cuPointerGetAttribute ALLOWED_HANDLE_TYPES", ask_attribute, 14, ADDRESSES },
	{ "cuPointerGetAttribute GPU_DIRECT_RDMA", ask_attribute, 15, ADDRESSES },
	{ "cuPointerGetAttribute ACCESS_FLAGS", ask_attribute, 16, ADDRESSES },
	{ "cuPointerGetAttribute MEMPOOL_HANDLE", ask_attribute, 17, ADDRESSES },
	{ "cuPointerGetAttribute MAPPING_SIZE", ask_attribute, 18, ADDRESSES },
	{ "cuPointerGetAttribute MAPPING_BASE_ADDR", ask_attribute, 19, ADDRESSES },
	{ "cuPointerGetAttribute MEMORY_BLOCK_ID", ask_attribute, 20, ADDRESSES },
	{ "cuPointerGetAttribute HW_DECOMPRESS", ask_attribute, 21, ADDRESSES },
	{ "cuPointerGetAttribute MEMORY_TYPE, inside", ask_inside, 2, ADDRESSES },
	{ "cuPointerGetAttribute RANGE_SIZE, inside", ask_inside, 12, ADDRESSES },
	{ "cuPointerGetAttributes", ask_attributes, 8, ADDRESSES },
	{ "cuPointerGetAttributes with RANGE_START_ADDR", ask_attributes, 11, ADDRESSES },
	{ "cuPointerGetAttributes with ACCESS_FLAGS", ask_attributes, 16, ADDRESSES },
	{ "cuPointerSetAttribute SYNC_MEMOPS", set_sync, 0, ADDRESSES },
	{ "cuMemGetAddressRange", ask_range, 0, ADDRESSES },
	{ "cuMemGetAddressRange, base only", ask_range, 1, ADDRESSES },
	{ "cuMemGetAddressRange, size only", ask_range, 2, ADDRESSES },
	{ "cuIpcGetMemHandle", ask_ipc, 0, ADDRESSES },
	{ "cuMemGetHandleForAddressRange", ask_dma_buf, 0, ONLY(PLAIN) },
	{ "cuMemRetainAllocationHandle", ask_retain, 0, ON_DEVICE },
	{ "cuMemRangeGetAttribute READ_MOSTLY", ask_range_attribute, 1, ON_DEVICE },
	{ "cuMemRangeGetAttribute PREFERRED_LOCATION", ask_range_attribute, 2, ON_DEVICE },
	{ "cuMemRangeGetAttribute LAST_PREFETCH_LOCATION", ask_range_attribute, 4, ON_DEVICE },
	{ "cuMemAdvise SET_READ_MOSTLY", advise, CU_MEM_ADVISE_SET_READ_MOSTLY, ON_DEVICE },
	{ "cuMemAdvise SET_PREFERRED_LOCATION", advise, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	  ON_DEVICE },
	{ "cuMemPrefetchAsync", prefetch, 0, ON_DEVICE },
	{ "cuMemHostGetDevicePointer", ask_host_pointer, 0, ONLY(PINNED) },
	{ "cuMemHostGetFlags", ask_host_flags, 0, ONLY(PINNED) },
	{ "cuMemHostUnregister", unregister, 0, ONLY(PINNED) },
	{ "cuMemcpyHtoD to it", copy_host, TO_IT, ON_DEVICE },
	{ "cuMemcpyDtoH from it", copy_host, FROM_IT, ON_DEVICE },
	{ "cuMemcpyHtoD into it", copy_inside, 0, ON_DEVICE },
	{ "cuMemcpyHtoDAsync to it", copy_host_async, TO_IT, ON_DEVICE },
	{ "cuMemcpyDtoHAsync from it", copy_host_async, FROM_IT, ON_DEVICE },
	{ "cuMemcpyDtoD to it", copy_device, TO_IT, ON_DEVICE },
	{ "cuMemcpyDtoD from it", copy_device, FROM_IT, ON_DEVICE },
	{ "cuMemcpyDtoDAsync to it", copy_device_async, TO_IT, ON_DEVICE },
	{ "cuMemcpyDtoDAsync from it", copy_device_async, FROM_IT, ON_DEVICE },
	{ "cuMemcpyPeer to it", copy_peer, TO_IT, ON_DEVICE },
	{ "cuMemcpyPeer from it", copy_peer, FROM_IT, ON_DEVICE },
	{ "cuMemcpy2D to it", copy_2d, TO_IT, ON_DEVICE },
	{ "cuMemcpy2D from it", copy_2d, FROM_IT, ON_DEVICE },
	{ "cuMemcpy2DAsync to it", copy_2d_async, TO_IT, ON_DEVICE },
	{ "cuMemcpy2DAsync from it", copy_2d_async, FROM_IT, ON_DEVICE },
	{ "cuMemcpy3D to it", copy_3d, TO_IT, ON_DEVICE },
	{ "cuMemcpy3D from it", copy_3d, FROM_IT, ON_DEVICE },
	{ "cuMemcpyBatchAsync to it", copy_batch, TO_IT, BY_CHANCE | ON_DEVICE },
	{ "cuMemcpyBatchAsync from it", copy_batch, FROM_IT, BY_CHANCE | ON_DEVICE },
	{ "cuMemsetD8", set_8, 0, ON_DEVICE },
	{ "cuMemsetD8Async", set_8, 1, ON_DEVICE },
	{ "cuMemsetD16", set_16, 0, ON_DEVICE },
	{ "cuMemsetD16Async", set_16, 1, ON_DEVICE },
	{ "cuMemsetD32", set_32, 0, ON_DEVICE },
	{ "cuMemsetD32Async", set_32, 1, ON_DEVICE },
	{ "cuMemsetD2D8", set_2d, 0, ON_DEVICE },
	{ "cuMemsetD2D8Async", set_2d, 1, ON_DEVICE },
	{ "cuMemFree", free_again, 0, ON_DEVICE },
	{ "cuMemFree inside", free_again, 1024, ON_DEVICE },
	{ "cuMemFreeAsync", free_again_async, 0, ON_DEVICE },
	{ "cuMemFreeHost", free_host_again, 0, ONLY(PINNED) },
	{ "cuMemFree of host memory", free_again, 0, ONLY(PINNED) },
	{ "cuMemcpy to it", copy_any, TO_IT, BY_CHANCE | ON_DEVICE },
	{ "cuMemcpy from it", copy_any, FROM_IT, BY_CHANCE | ON_DEVICE },
	{ "cuMemcpyAsync to it", copy_any_async, TO_IT, BY_CHANCE | ON_DEVICE },
	{ "cuMemcpyAsync from it", copy_any_async, FROM_IT, BY_CHANCE | ON_DEVICE },
	{ "cuArrayGetDescriptor", ask_array, 0, BY_CHANCE | ONLY(ARRAY) },
	{ "cuArray3DGetDescriptor", ask_array, 1, BY_CHANCE | ONLY(ARRAY) },
	{ "cuMemcpyHtoA", copy_array, 0, BY_CHANCE | ONLY(ARRAY) },
	{ "cuArrayDestroy", destroy_again, 0, BY_CHANCE | ONLY(ARRAY) },
	{ "cuModuleGetFunction", ask_function, 0, ONLY(MODULE) },
	{ "cuModuleGetGlobal", ask_global, 0, ONLY(MODULE) },
	{ "cuModuleUnload", unload_again, 0, ONLY(MODULE) },
};

enum { QUESTIONS = sizeof(question) / sizeof(question[0]), ASKED_MAX = KINDS * QUESTIONS };

/* --------------------------------------------------------------- what is freed */

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry empty() { ret; }\n";

static bool make_module(void)
{
	CUmodule module;

	if (cuModuleLoadData(&module, kernel_text) != CUDA_SUCCESS)
		return false;
	CALL(cuModuleUnload, module);
	freed = (CUdeviceptr)module;
	return true;
}

static void make_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 1024, .Height = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4
	};
	CUarray array;

	CALL(cuArrayCreate, &array, &shape);
	CALL(cuArrayDestroy, array);
	freed = (CUdeviceptr)array;
}

/* Something of this kind is made, used and freed; false: that cannot be made here. */
static bool make_freed(enum subject_kind kind)
{
	void *pinned;

	switch (kind) {
	case MODULE:
		return make_module();
	case ARRAY:
		make_array();
		return true;
	case PINNED:
		CALL(cuMemAllocHost, &pinned, LARGE);
		freed = (CUdeviceptr)pinned;
		CALL(cuMemcpyHtoDAsync, live, pinned, LARGE, stream);
		CALL(cuMemFreeHost, pinned);
		break;
	case MANAGED:
		CALL(cuMemAllocManaged, &freed, LARGE, CU_MEM_ATTACH_GLOBAL);
		break;
	default:
		CALL(cuMemAlloc, &freed, kind == PLAIN ? LARGE : SMALL);
		break;
	}
	if (kind != PINNED) {
		CALL(cuMemsetD8Async, freed, 1, SMALL, stream);
		CALL(cuMemFree, freed);
	}
	if (stand_in)
		freed = stand_in;
	return true;
}

/* Small blocks that stay, so that the page of the freed one does. */
static void hold_pages(void)
{
	CUdeviceptr held;

	for (int i = 0; i < 8; i++)
		CALL(cuMemAlloc, &held, SMALL);
}

/* -------------------------------------------------------- parent and children */

struct sheet {
	int at; /* the question being asked */
	char text[ASKED_MAX][TEXT];
};

static struct sheet *sheet;

static bool is_asked(int at)
{
	unsigned int kinds = question[at % QUESTIONS].kinds;

	return kinds & 1u << at / QUESTIONS && (asks_all || !(kinds & BY_CHANCE)) &&
	       (!stand_in || at / QUESTIONS <= PINNED);
}

/* In the child: all questions from one on.  Its end by status 3 says that the context is lost. */
static void ask_from(int first)
{
	int made = -1;

	alarm(DEADLINE);
	context = client_open();
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuMemAlloc, &live, LARGE);
	hold_pages();
	for (int at = first; at < ASKED_MAX; at++) {
		int kind = at / QUESTIONS;
		CUresult state;

		if (!is_asked(at))
			continue;
		sheet->at = at;
		answer = sheet->text[at];
		if (made != kind && !make_freed((enum subject_kind)kind)) {
			at = (kind + 1) * QUESTIONS - 1;
			continue;
		}
		made = kind;
		answer[0] = '\0';
		question[at % QUESTIONS].ask(question[at % QUESTIONS].parameter);
		state = cuStreamQuery(stream);
		if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY)
			continue;
		say(", the context is lost: %d", (int)state);
		_exit(3);
	}
	_exit(0);
}

/* The question after the one that ended the child; ASKED_MAX: all were asked. */
static int ask_in_child(int first)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		ask_from(first);
	if (child < 0)
		exit(1);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CLIENT_SKIPPED)
		exit(CLIENT_SKIPPED);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return ASKED_MAX;
	answer = sheet->text[sheet->at];
	if (WIFSIGNALED(status))
		say(" dies of signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 3)
		say(" ends with status %d", WEXITSTATUS(status));
	return sheet->at < first ? ASKED_MAX : sheet->at + 1;
}

int main(int argc, char **argv)
{
	sheet = mmap(NULL, sizeof(*sheet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	asks_all = argc > 1 && !strcmp(argv[1], "-a");
	if (argc > 2 + asks_all || sheet == MAP_FAILED) {
		fprintf(stderr, "usage: freed_answers [-a] [ADDRESS]\n");
		return 2;
	}
	if (argc == 2 + asks_all)
		stand_in = strtoull(argv[1 + asks_all], NULL, 0);
	sheet->at = -1;
	for (int at = 0; at < ASKED_MAX;)
		at = ask_in_child(at);
	for (int at = 0; at < ASKED_MAX; at++) {
		if (is_asked(at) && sheet->text[at][0])
			printf("%s: %s: %s\n", kind_name[at / QUESTIONS],
			       question[at % QUESTIONS].name, sheet->text[at]);
	}
	return 0;
}
