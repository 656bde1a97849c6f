/* SPDX-License-Identifier: Apache-2.0 */
/* Private: between what captures do to work (capture.c) and their calls (captureapi.c). */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "sim.h"

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

/* Guards the list, every capture, and capture and tails of every stream. */
extern pthread_mutex_t capture_lock;
extern struct capture *capture_list;

/* All below are called with the lock held. */

/* NULL with an error in *result when the stream captures but the capture is lost. */
struct capture *capture_usable(struct stream *stream, CUresult *result);
/* What the stream's next work depends on. */
CUresult capture_set_tails(struct stream *stream, struct graph_node *const *nodes, size_t count);
CUresult capture_add_tails(struct stream *stream, struct graph_node *const *nodes, size_t count);
CUresult capture_join(struct capture *capture, struct stream *stream);
/* Frees the streams; the graph is the caller's then. */
struct graph *capture_close(struct capture *capture);

/* This one takes the lock itself.  `spare`: only asked, the capture survives. */
CUresult capture_check_implicit(struct stream *stream, bool spare);

#endif
