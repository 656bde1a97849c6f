/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: which work becomes a node instead of being done, how streams join,
 * and which calls of which thread a capture forbids.
 */
#include "sim.h"
#include "entries.h"
#include "graph.h"

struct capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	struct graph *graph;
	bool into_given;	/* the client's graph: stays his when the capture fails */
	pthread_t thread;
	struct stream *origin;
	struct stream **members;	/* referenced; the origin is the first */
	size_t member_count;
	bool invalid;
	struct capture *next;
};

atomic_int capture_live;

/* Guards everything here, and capture and tails of every stream. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;

static bool none_live(void)
{
	return atomic_load_explicit(&capture_live, memory_order_relaxed) == 0;
}

static bool is_own(const struct capture *capture)
{
	return pthread_equal(capture->thread, pthread_self());
}

bool capture_is_own(void)
{
	bool own = false;

	if (none_live())
		return false;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *capture = captures; capture; capture = capture->next)
		own = own || is_own(capture);
	pthread_mutex_unlock(&capture_lock);
	return own;
}

/* ------------------------------------------------------------------ what is forbidden */

/* The table of modes: the capture's against that of the calling thread. */
static bool forbids_unsafe(const struct capture *capture)
{
	if (sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (is_own(capture))
		return true;
	return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe(void)
{
	CUresult error = CUDA_SUCCESS;

	if (none_live())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *capture = captures; capture; capture = capture->next)
		if (forbids_unsafe(capture)) {
			capture->invalid = true;
			error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_check_context(struct context *context)
{
	CUresult error = CUDA_SUCCESS;

	if (none_live())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *capture = captures; capture; capture = capture->next)
		if (capture->origin->context == context) {
			capture->invalid = true;
			error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

static bool has_blocking_member(const struct capture *capture, const struct context *context)
{
	for (size_t i = 0; i < capture->member_count; i++)
		if (capture->members[i]->context == context &&
		    !(capture->members[i]->flags & CU_STREAM_NON_BLOCKING))
			return true;
	return false;
}

/* `spare`: only asked, the capture survives. */
static CUresult check_implicit(struct stream *stream, bool spare)
{
	CUresult error = CUDA_SUCCESS;

	if (none_live() || !stream->legacy)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *capture = captures; capture; capture = capture->next)
		if (has_blocking_member(capture, stream->context)) {
			capture->invalid = capture->invalid || !spare;
			error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_check_legacy(struct stream *stream)
{
	return check_implicit(stream, false);
}

CUresult capture_check_stream(struct stream *stream)
{
	struct capture *capture;

	if (!atomic_load_explicit(&stream->capture, memory_order_relaxed))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (capture)
		capture->invalid = true;
	pthread_mutex_unlock(&capture_lock);
	return capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

/* The live capture that the event was recorded into, or NULL. */
static struct capture *capture_of(const struct event *event)
{
	struct capture *capture = atomic_load(&event->captured) ? captures : NULL;

	while (capture && capture->id != event->capture_id)
		capture = capture->next;
	return capture;
}

CUresult capture_check_event(struct event *event)
{
	struct capture *capture;

	if (none_live())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	capture = capture_of(event);
	if (capture)
		capture->invalid = true;
	pthread_mutex_unlock(&capture_lock);
	return capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ tails */

static CUresult set_tails(struct stream *stream, struct graph_node *const *nodes, size_t count)
{
	if (count > stream->tail_room) {
		struct graph_node **room = realloc(stream->tails, count * sizeof(*room));

		if (!room)
			return CUDA_ERROR_OUT_OF_MEMORY;
		stream->tails = room;
		stream->tail_room = count;
	}
	if (count)
		memcpy(stream->tails, nodes, count * sizeof(*nodes));
	stream->tail_count = count;
	return CUDA_SUCCESS;
}

static bool has_tail(const struct stream *stream, const struct graph_node *node)
{
	for (size_t i = 0; i < stream->tail_count; i++)
		if (stream->tails[i] == node)
			return true;
	return false;
}

static CUresult add_tails(struct stream *stream, struct graph_node *const *nodes, size_t count)
{
	size_t room = stream->tail_count + count;
	struct graph_node **all = malloc((room + 1) * sizeof(*all));
	size_t used = stream->tail_count;
	CUresult error;

	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (used)
		memcpy(all, stream->tails, used * sizeof(*all));
	for (size_t i = 0; i < count; i++)
		if (!has_tail(stream, nodes[i]))
			all[used++] = nodes[i];
	error = set_tails(stream, all, used);
	free(all);
	return error;
}

/* ------------------------------------------------------------------ taking work */

/* NULL with an error in *result when the stream captures but the capture is lost. */
static struct capture *usable(struct stream *stream, CUresult *result)
{
	struct capture *capture = atomic_load(&stream->capture);

	*result = CUDA_SUCCESS;
	if (capture && capture->invalid) {
		*result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		return NULL;
	}
	return capture;
}

static bool is_capturing(struct stream *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_relaxed) != NULL;
}

/* A node behind all that the stream captured so far. */
static CUresult append(struct stream *stream, struct capture *capture, CUgraphNodeType type,
		       struct graph_node **node)
{
	CUresult error = graph_add(capture->graph, type, (CUgraphNode *)stream->tails,
				   stream->tail_count, node);

	return error ? error : set_tails(stream, node, 1);
}

static CUresult take_op(struct stream *stream, struct op *op, const struct place *dst,
			const struct place *src)
{
	struct capture *capture;
	struct graph_node *node;
	CUresult error;

	pthread_mutex_lock(&capture_lock);
	capture = usable(stream, &error);
	if (capture)
		error = append(stream, capture, node_type_of(op), &node);
	if (!error) {
		node->op = *op;
		if (dst)
			node_describe_copy(node, dst, src);
		else
			node_describe(node);
	}
	pthread_mutex_unlock(&capture_lock);
	if (error)
		op_release(op);
	return error;
}

bool capture_takes(struct stream *stream, struct op *op, CUresult *result)
{
	if (!is_capturing(stream))
		return false;
	*result = take_op(stream, op, NULL, NULL);
	return true;
}

bool capture_takes_copy(struct stream *stream, struct op *op, const struct place *dst,
			const struct place *src, CUresult *result)
{
	if (!is_capturing(stream))
		return false;
	*result = take_op(stream, op, dst, src);
	return true;
}

bool capture_takes_alloc(struct stream *stream, struct device *device, size_t bytes,
			 CUdeviceptr *address, CUresult *result)
{
	struct capture *capture;
	struct graph_node *node;

	if (!is_capturing(stream))
		return false;
	pthread_mutex_lock(&capture_lock);
	capture = usable(stream, result);
	if (capture)
		*result = node_new_alloc(capture->graph, (CUgraphNode *)stream->tails,
					 stream->tail_count, device, bytes, &node);
	if (!*result)
		*result = set_tails(stream, &node, 1);
	if (!*result)
		*address = node->params.alloc.dptr;
	pthread_mutex_unlock(&capture_lock);
	return true;
}

bool capture_takes_free(struct stream *stream, CUdeviceptr address, CUresult *result)
{
	struct capture *capture;
	struct graph_node *node;

	if (!is_capturing(stream))
		return false;
	pthread_mutex_lock(&capture_lock);
	capture = usable(stream, result);
	if (capture)
		*result = node_new_free(capture->graph, (CUgraphNode *)stream->tails,
					stream->tail_count, address, &node);
	if (!*result)
		*result = set_tails(stream, &node, 1);
	pthread_mutex_unlock(&capture_lock);
	return true;
}

/* ------------------------------------------------------------------ events and joining */

static CUresult remember_tails(struct event *event, const struct stream *stream)
{
	struct graph_node **nodes = malloc((stream->tail_count + 1) * sizeof(*nodes));

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->tail_count)
		memcpy(nodes, stream->tails, stream->tail_count * sizeof(*nodes));
	free(event->nodes);
	event->nodes = nodes;
	event->node_count = stream->tail_count;
	return CUDA_SUCCESS;
}

bool capture_takes_record(struct stream *stream, struct event *event, CUresult *result)
{
	struct capture *capture;

	if (!is_capturing(stream))
		return false;
	pthread_mutex_lock(&capture_lock);
	capture = usable(stream, result);
	if (capture)
		*result = remember_tails(event, stream);
	if (!*result) {
		atomic_store(&event->captured, true);
		event->capture_id = capture->id;
	}
	pthread_mutex_unlock(&capture_lock);
	return true;
}

static CUresult join(struct capture *capture, struct stream *stream)
{
	struct stream **members = realloc(capture->members,
					  (capture->member_count + 1) * sizeof(*members));

	if (!members)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle_retain(stream);
	members[capture->member_count++] = stream;
	capture->members = members;
	stream->tail_count = 0;
	atomic_store(&stream->capture, capture);
	return CUDA_SUCCESS;
}

static CUresult wait_for_captured(struct stream *stream, struct event *event,
				  struct capture *theirs)
{
	struct capture *ours = atomic_load(&stream->capture);
	CUresult error = CUDA_SUCCESS;

	if (theirs->invalid || (ours && ours->invalid))
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (ours && ours != theirs) {
		ours->invalid = theirs->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (stream->legacy) {
		theirs->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!ours)
		error = join(theirs, stream);
	return error ? error : add_tails(stream, event->nodes, event->node_count);
}

bool capture_takes_wait(struct stream *stream, struct event *event, CUresult *result)
{
	struct capture *ours, *theirs;

	if (none_live())
		return false;
	pthread_mutex_lock(&capture_lock);
	theirs = capture_of(event);
	ours = atomic_load(&stream->capture);
	if (theirs) {
		*result = wait_for_captured(stream, event, theirs);
	} else if (ours) {
		/* An event of the world outside. */
		ours->invalid = true;
		*result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	pthread_mutex_unlock(&capture_lock);
	return ours || theirs;
}

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
	error = capture->graph ? join(capture, stream) : CUDA_ERROR_OUT_OF_MEMORY;
	if (error) {
		free(capture);
		return error;
	}
	capture->id = handle_next_id();
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->origin = stream;
	capture->graph->capturing = true;
	capture->next = captures;
	captures = capture;
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
		error = set_tails(stream, (struct graph_node *const *)before, count);
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_begin(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, NULL, NULL, 0, mode);
}

CUresult capture_begin_old(CUstream hStream)
{
	return begin(hStream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult capture_begin_to(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
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

/* Frees the streams; the graph is the caller's then. */
static struct graph *close_capture(struct capture *capture)
{
	struct capture **place = &captures;
	struct graph *graph = capture->graph;

	while (*place != capture)
		place = &(*place)->next;
	*place = capture->next;
	for (size_t i = 0; i < capture->member_count; i++) {
		capture->members[i]->tail_count = 0;
		atomic_store(&capture->members[i]->capture, NULL);
		stream_give(capture->members[i]);
	}
	graph->capturing = false;
	free(capture->members);
	free(capture);
	atomic_fetch_sub(&capture_live, 1);
	return graph;
}

static CUresult end(struct stream *stream, struct capture *capture, CUgraph *out)
{
	CUresult error = CUDA_SUCCESS;
	struct graph *graph;
	bool given;

	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !is_own(capture))
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
	graph = close_capture(capture);
	if (error && !given) {
		graph_end(graph);
		graph = NULL;
	}
	if (out)
		*out = (CUgraph)graph;
	return error;
}

CUresult capture_end(CUstream hStream, CUgraph *phGraph)
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

/* A destroyed stream takes its capture with it. */
void capture_drop_stream(struct stream *stream)
{
	struct capture *capture;
	struct graph *graph;
	bool given;

	if (!is_capturing(stream))
		return;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (capture) {
		given = capture->into_given;
		graph = close_capture(capture);
		if (!given)
			graph_end(graph);
	}
	pthread_mutex_unlock(&capture_lock);
}

/* ------------------------------------------------------------------ questions */

CUresult capture_status(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return capture_info_3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

CUresult capture_info_1(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
			cuuint64_t *id_out)
{
	return capture_info_3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult capture_info_2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
			cuuint64_t *id_out, CUgraph *graph_out,
			const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
	return capture_info_3(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
			      NULL, numDependencies_out);
}

static CUstreamCaptureStatus status_of(const struct capture *capture)
{
	if (!capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED :
				  CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult capture_info_3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
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
		error = check_implicit(stream, true);
	if (error)
		return error;
	*captureStatus_out = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!is_capturing(stream))
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

CUresult capture_update_old(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
			    unsigned int flags)
{
	return capture_update(hStream, dependencies, NULL, numDependencies, flags);
}

CUresult capture_update(CUstream hStream, CUgraphNode *dependencies,
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
	if (!usable(stream, &error))
		error = error ? error : CUDA_ERROR_ILLEGAL_STATE;
	else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		error = set_tails(stream, nodes, numDependencies);
	else
		error = add_tails(stream, nodes, numDependencies);
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = sim_thread.capture_mode;

	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
