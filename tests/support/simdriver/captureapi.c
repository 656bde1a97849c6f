/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that begin, end, ask about and steer a stream capture. */
#include "sim.h"
#include "entries.h"
#include "capture.h"
#include "graph.h"

/* ------------------------------------------------------------------ begin */

static CUresult open_capture(struct stream *stream, struct graph *graph, CUstreamCaptureMode mode,
			     struct capture **out)
{
	struct capture *capture = calloc(1, sizeof(*capture));
	CUresult error;

	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->into_given = graph != NULL;
	capture->graph = graph ? graph : graph_new();
	error = capture->graph ? capture_join(capture, stream) : CUDA_ERROR_OUT_OF_MEMORY;
	if (error) {
		free(capture);
		return error;
	}
	capture->id = handle_next_id();
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->origin = stream;
	capture->graph->capturing = true;
	capture->next = capture_list;
	capture_list = capture;
	atomic_fetch_add(&capture_live, 1);
	*out = capture;
	return CUDA_SUCCESS;
}

static CUresult begin(CUstream handle, struct graph *graph, const CUgraphNode *before, size_t count,
		      CUstreamCaptureMode mode)
{
	struct capture *capture;
	struct stream *stream;
	CUresult error = stream_find(handle, &stream);

	if (error)
		return error;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&capture_lock);
	error = atomic_load(&stream->capture) ? CUDA_ERROR_ILLEGAL_STATE :
		open_capture(stream, graph, mode, &capture);
	if (!error && count)
		error = capture_set_tails(stream, (struct graph_node *const *)before, count);
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult captureapi_begin(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, NULL, NULL, 0, mode);
}

CUresult captureapi_begin_old(CUstream hStream)
{
	return begin(hStream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult captureapi_begin_to(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
			  const CUgraphEdgeData *dependencyData, size_t numDependencies,
			  CUstreamCaptureMode mode)
{
	struct graph *graph;
	CUresult error = graph_find(hGraph, &graph);

	(void)dependencyData;
	if (!error && numDependencies && !dependencies)
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : begin(hStream, graph, dependencies, numDependencies, mode);
}

/* ------------------------------------------------------------------ end */

static void mark_ancestors(struct graph_node *node)
{
	if (node->mark)
		return;
	node->mark = 1;
	for (size_t i = 0; i < node->before_count; i++)
		mark_ancestors(node->before[i]);
}

/* Every other stream's last work must be something that the origin waits for. */
static bool all_joined(struct capture *capture)
{
	bool joined = true;

	for (struct graph_node *node = capture->graph->first; node; node = node->next)
		node->mark = 0;
	for (size_t i = 0; i < capture->origin->tail_count; i++)
		mark_ancestors(capture->origin->tails[i]);
	for (size_t i = 1; i < capture->member_count; i++)
		for (size_t k = 0; k < capture->members[i]->tail_count; k++)
			joined = joined && capture->members[i]->tails[k]->mark;
	return joined;
}

static CUresult end(struct stream *stream, struct capture *capture, CUgraph *out)
{
	CUresult error = CUDA_SUCCESS;
	struct graph *graph;
	bool given;

	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->origin != stream) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->invalid)
		error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(capture))
		error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	given = capture->into_given;
	graph = capture_close(capture);
	if (error && !given) {
		graph_end(graph);
		graph = NULL;
	}
	if (out)
		*out = (CUgraph)graph;
	return error;
}

CUresult captureapi_end(CUstream hStream, CUgraph *phGraph)
{
	struct capture *capture;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (error)
		return error;
	if (!phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	error = capture ? end(stream, capture, phGraph) : CUDA_ERROR_ILLEGAL_STATE;
	pthread_mutex_unlock(&capture_lock);
	return error;
}

/* ------------------------------------------------------------------ questions */

CUresult captureapi_status(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return captureapi_info_3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

CUresult captureapi_info_1(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
			cuuint64_t *id_out)
{
	return captureapi_info_3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult captureapi_info_2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
			cuuint64_t *id_out, CUgraph *graph_out,
			const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
	return captureapi_info_3(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
			      NULL, numDependencies_out);
}

static CUstreamCaptureStatus status_of(const struct capture *capture)
{
	if (!capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED :
				  CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult captureapi_info_3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
			cuuint64_t *id_out, CUgraph *graph_out,
			const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
			size_t *numDependencies_out)
{
	struct capture *capture;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !captureStatus_out)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = capture_check_implicit(stream, true);
	if (error)
		return error;
	*captureStatus_out = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!atomic_load(&stream->capture))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	*captureStatus_out = status_of(capture);
	if (capture && id_out)
		*id_out = capture->id;
	if (capture && graph_out)
		*graph_out = (CUgraph)capture->graph;
	if (capture && dependencies_out)
		*dependencies_out = (const CUgraphNode *)stream->tails;
	if (capture && edgeData_out)
		*edgeData_out = NULL;
	if (capture && numDependencies_out)
		*numDependencies_out = stream->tail_count;
	pthread_mutex_unlock(&capture_lock);
	return CUDA_SUCCESS;
}

CUresult captureapi_update_old(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
			    unsigned int flags)
{
	return captureapi_update(hStream, dependencies, NULL, numDependencies, flags);
}

CUresult captureapi_update(CUstream hStream, CUgraphNode *dependencies,
			const CUgraphEdgeData *dependencyData, size_t numDependencies,
			unsigned int flags)
{
	struct graph_node *const *nodes = (struct graph_node *const *)dependencies;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	(void)dependencyData;
	if (error)
		return error;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies && !nodes))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&capture_lock);
	if (!capture_usable(stream, &error))
		error = error ? error : CUDA_ERROR_ILLEGAL_STATE;
	else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		error = capture_set_tails(stream, nodes, numDependencies);
	else
		error = capture_add_tails(stream, nodes, numDependencies);
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult captureapi_exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = sim_thread.capture_mode;

	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
