/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: which work becomes a node instead of being done, how streams join,
 * and which calls of which thread a capture forbids.
 */
#include "sim.h"
#include "capture.h"
#include "graph.h"

atomic_int capture_live;

/* Guards everything here, and capture and tails of every stream. */
pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
struct capture *capture_list;

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
	for (struct capture *capture = capture_list; capture; capture = capture->next)
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
	for (struct capture *capture = capture_list; capture; capture = capture->next)
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
	for (struct capture *capture = capture_list; capture; capture = capture->next)
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
CUresult capture_check_implicit(struct stream *stream, bool spare)
{
	CUresult error = CUDA_SUCCESS;

	if (none_live() || !stream->legacy)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *capture = capture_list; capture; capture = capture->next)
		if (has_blocking_member(capture, stream->context)) {
			capture->invalid = capture->invalid || !spare;
			error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_check_legacy(struct stream *stream)
{
	return capture_check_implicit(stream, false);
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
	struct capture *capture = atomic_load(&event->captured) ? capture_list : NULL;

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

CUresult capture_set_tails(struct stream *stream, struct graph_node *const *nodes, size_t count)
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

CUresult capture_add_tails(struct stream *stream, struct graph_node *const *nodes, size_t count)
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
	error = capture_set_tails(stream, all, used);
	free(all);
	return error;
}

/* ------------------------------------------------------------------ taking work */

/* NULL with an error in *result when the stream captures but the capture is lost. */
struct capture *capture_usable(struct stream *stream, CUresult *result)
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

	return error ? error : capture_set_tails(stream, node, 1);
}

static CUresult take_op(struct stream *stream, struct op *op, const struct place *dst,
			const struct place *src)
{
	struct capture *capture;
	struct graph_node *node;
	CUresult error;

	pthread_mutex_lock(&capture_lock);
	capture = capture_usable(stream, &error);
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
	capture = capture_usable(stream, result);
	if (capture)
		*result = node_new_alloc(capture->graph, (CUgraphNode *)stream->tails,
					 stream->tail_count, device, bytes, &node);
	if (!*result)
		*result = capture_set_tails(stream, &node, 1);
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
	capture = capture_usable(stream, result);
	if (capture)
		*result = node_new_free(capture->graph, (CUgraphNode *)stream->tails,
					stream->tail_count, address, &node);
	if (!*result)
		*result = capture_set_tails(stream, &node, 1);
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
	capture = capture_usable(stream, result);
	if (capture)
		*result = remember_tails(event, stream);
	if (!*result) {
		atomic_store(&event->captured, true);
		event->capture_id = capture->id;
	}
	pthread_mutex_unlock(&capture_lock);
	return true;
}

CUresult capture_join(struct capture *capture, struct stream *stream)
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
		error = capture_join(theirs, stream);
	return error ? error : capture_add_tails(stream, event->nodes, event->node_count);
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

/* ------------------------------------------------------------------ its end */

/* Frees the streams; the graph is the caller's then. */
struct graph *capture_close(struct capture *capture)
{
	struct capture **place = &capture_list;
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
		graph = capture_close(capture);
		if (!given)
			graph_end(graph);
	}
	pthread_mutex_unlock(&capture_lock);
}
