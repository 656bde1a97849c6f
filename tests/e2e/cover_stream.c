/* SPDX-License-Identifier: Apache-2.0 */
/* cover_stream.c - streams, events, waits, captures, graphs, host functions and modules. */
#include "cover.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16 };

static CUdeviceptr block;
static unsigned char *pinned;
static CUstream stream;
static unsigned called_back;

static void operation(const char *api, CUresult result, const char *on)
{
	must(api, result);
	note_operation(api, on, 0);
}

static void copy_async(int is_captured)
{
	struct copy_note copy = {
		.kind = "H2D",
		.api = "cuMemcpyHtoDAsync_v2",
		.bytes = 1000,
		.source = (uintptr_t)pinned,
		.target = block,
		.stream = "own",
		.is_async = 1,
		.is_captured = is_captured,
	};

	must("cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync_v2(block, pinned, 1000, stream));
	note_copy(&copy);
}

static void set_async(int is_captured)
{
	struct copy_note copy = {
		.kind = "MEMSET",
		.api = "cuMemsetD8Async",
		.bytes = 2000,
		.target = block,
		.stream = "own",
		.is_async = 1,
		.is_captured = is_captured,
	};

	must("cuMemsetD8Async", cuMemsetD8Async(block, 0, 2000, stream));
	note_copy(&copy);
}

static void streams(void)
{
	CUstream urgent;
	int is_capturing;

	operation("cuStreamCreateWithPriority", cuStreamCreateWithPriority(&urgent, 0, -1), "none");
	copy_async(0);
	operation("cuStreamSynchronize", cuStreamSynchronize(stream), "own");
	operation("cuStreamSynchronize", cuStreamSynchronize(CU_STREAM_LEGACY), "legacy");
	operation("cuStreamSynchronize", cuStreamSynchronize(CU_STREAM_PER_THREAD), "per-thread");
	operation("cuStreamSynchronize", cuStreamSynchronize(NULL), "legacy");
	operation("cuStreamSynchronize_ptsz", cuStreamSynchronize_ptsz(NULL), "per-thread");
	operation("cuStreamSynchronize_ptsz", cuStreamSynchronize_ptsz(CU_STREAM_LEGACY), "legacy");
	must("cuStreamQuery", cuStreamQuery(stream));
	must("cuStreamIsCapturing", cuStreamIsCapturing(stream, (void *)&is_capturing));
	operation("cuStreamDestroy_v2", cuStreamDestroy_v2(urgent), "none");
}

static void events(void)
{
	CUevent first, second;
	float milliseconds;

	operation("cuEventCreate", cuEventCreate(&first, 0), "none");
	operation("cuEventCreate", cuEventCreate(&second, 0), "none");
	operation("cuEventRecord", cuEventRecord(first, stream), "own");
	set_async(0);
	operation("cuEventRecord_ptsz", cuEventRecord_ptsz(second, NULL), "per-thread");
	operation("cuStreamWaitEvent", cuStreamWaitEvent(stream, second, 0), "own");
	operation("cuEventRecord", cuEventRecord(second, stream), "own");
	operation("cuEventSynchronize", cuEventSynchronize(second), "none");
	must("cuEventQuery", cuEventQuery(second));
	must("cuEventElapsedTime", cuEventElapsedTime(&milliseconds, first, second));
	operation("cuEventDestroy_v2", cuEventDestroy_v2(first), "none");
	operation("cuEventDestroy_v2", cuEventDestroy_v2(second), "none");
}

static void CUDA_CB call_back(void *data)
{
	*(unsigned *)data += 1;
}

static void host_functions(void)
{
	operation("cuLaunchHostFunc", cuLaunchHostFunc(stream, call_back, &called_back), "own");
	operation("cuStreamSynchronize", cuStreamSynchronize(stream), "own");
	require(called_back == 1, "the host function was called once");
}

/* What was captured moves at each launch. */
static void launch(CUgraphExec executable)
{
	struct copy_note copy = {
		.kind = "H2D",
		.api = "cuGraphLaunch",
		.bytes = 1000,
		.source_kind = "pinned",
		.target_kind = "device",
		.stream = "own",
		.is_async = 1,
	};
	struct copy_note fill = {
		.kind = "MEMSET",
		.api = "cuGraphLaunch",
		.bytes = 2000,
		.target_kind = "device",
		.stream = "own",
		.is_async = 1,
	};

	operation("cuGraphLaunch", cuGraphLaunch(executable, stream), "own");
	note_copy(&copy);
	note_copy(&fill);
}

/* What is issued into a capture moves nothing now, and sets an address aside at most. */
static void captures(void)
{
	CUdeviceptr graph_owned;
	CUgraphExec executable;
	CUgraph graph;

	operation("cuStreamBeginCapture_v2",
		  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "own");
	copy_async(1);
	set_async(1);
	operation("cuMemAllocAsync", cuMemAllocAsync(&graph_owned, 4096, stream), "own");
	operation("cuMemFreeAsync", cuMemFreeAsync(graph_owned, stream), "own");
	operation("cuStreamEndCapture", cuStreamEndCapture(stream, &graph), "own");
	operation("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags(&executable, graph, 0),
		  "none");
	launch(executable);
	launch(executable);
	operation("cuStreamSynchronize", cuStreamSynchronize(stream), "own");
	operation("cuGraphExecDestroy", cuGraphExecDestroy(executable), "none");
	operation("cuGraphDestroy", cuGraphDestroy(graph), "none");
	copy_async(0);
	operation("cuStreamSynchronize", cuStreamSynchronize(stream), "own");
}

/* A call that a capture forbids fails, and so does the capture: as without us. */
static void a_capture_is_lost(void)
{
	CUgraph graph = NULL;
	CUdeviceptr address;

	operation("cuStreamBeginCapture_v2",
		  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "own");
	require(called("cuMemAlloc_v2", cuMemAlloc_v2(&address, 4096)) ==
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"an allocation is refused during a capture");
	require(called("cuStreamEndCapture", cuStreamEndCapture(stream, &graph)) ==
			CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		"the capture is lost");
	note_operation("cuStreamEndCapture", "own", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* Asking for attributes is legal: a copy without direction does not hurt a capture. */
static void a_capture_survives_our_questions(void)
{
	struct copy_note copy = {
		.kind = "D2H",
		.api = "cuMemcpyAsync",
		.bytes = 500,
		.source = block + 10,
		.target = (uintptr_t)pinned,
		.stream = "own",
		.is_async = 1,
		.is_captured = 1,
	};
	CUgraph graph;

	operation("cuStreamBeginCapture_v2",
		  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "own");
	must("cuMemcpyAsync", cuMemcpyAsync((uintptr_t)pinned, block + 10, 500, stream));
	note_copy(&copy);
	operation("cuStreamEndCapture", cuStreamEndCapture(stream, &graph), "own");
	operation("cuGraphDestroy", cuGraphDestroy(graph), "none");
}

static void set_up(void)
{
	cover_start(0);
	block = cover_alloc(BYTES, NULL);
	must("cuMemHostAlloc", cuMemHostAlloc((void **)&pinned, BYTES, 0));
	note_alloc("pinned", (uintptr_t)pinned, BYTES, "cuMemHostAlloc");
	operation("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "none");
}

int main(void)
{
	set_up();
	streams();
	events();
	host_functions();
	captures();
	a_capture_is_lost();
	a_capture_survives_our_questions();
	operation("cuStreamDestroy_v2", cuStreamDestroy_v2(stream), "none");
	operation("cuCtxSynchronize", cuCtxSynchronize(), "none");
	cover_end();
	return 0;
}
