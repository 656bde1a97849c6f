/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of a stream do, and the time they pretend to take. */
#include "sim.h"
#include "graph.h"
#include "launch.h"

static void copy_box(const struct box *box)
{
	if (box->height == 1 && box->depth == 1) {
		memcpy(box->dst, box->src, box->width);
		return;
	}
	for (size_t z = 0; z < box->depth; z++)
		for (size_t y = 0; y < box->height; y++)
			memcpy(box->dst + z * box->dst_slice + y * box->dst_pitch,
			       box->src + z * box->src_slice + y * box->src_pitch, box->width);
}

static void fill_row(char *to, uint32_t value, unsigned element, size_t width)
{
	uint16_t half = (uint16_t)value;

	switch (element) {
	case 1:
		memset(to, (int)value, width);
		break;
	case 2:
		for (size_t i = 0; i < width; i++)
			memcpy(to + 2 * i, &half, 2);
		break;
	default:
		for (size_t i = 0; i < width; i++)
			memcpy(to + 4 * i, &value, 4);
	}
}

static void fill_box(const struct op *op)
{
	for (size_t y = 0; y < op->box.height; y++)
		fill_row(op->box.dst + y * op->box.dst_pitch, op->value, op->element,
			 op->box.width);
}

static bool word_fits(uint64_t have, const struct op *op)
{
	uint64_t mask = op->word_bytes == 4 ? UINT32_MAX : UINT64_MAX;
	uint64_t want = op->word_value;

	switch (op->word_flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return op->word_bytes == 4 ? (int32_t)(have - want) >= 0 :
					     (int64_t)(have - want) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return (have & mask) == (want & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return (have & want & mask) != 0;
	default:
		return (~(have | want) & mask) != 0;
	}
}

/* Another stream or the host writes the word; it is looked at every 20 us. */
static void wait_for_word(const struct op *op)
{
	uint64_t have = 0;

	do {
		if (op->word_bytes == 4)
			have = __atomic_load_n((uint32_t *)(void *)op->word, __ATOMIC_ACQUIRE);
		else
			have = __atomic_load_n((uint64_t *)(void *)op->word, __ATOMIC_ACQUIRE);
		if (word_fits(have, op))
			return;
		config_sleep_until(config_now_ns() + 20000);
	} while (!atomic_load(&config_stopping));
}

static void write_word(const struct op *op)
{
	if (op->word_bytes == 4)
		__atomic_store_n((uint32_t *)(void *)op->word, (uint32_t)op->word_value,
				 __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)(void *)op->word, op->word_value, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ time */

static uint64_t rated(size_t bytes, double bytes_per_ns, long fixed_us)
{
	uint64_t ns = (uint64_t)fixed_us * 1000;

	return bytes_per_ns > 0 ? ns + (uint64_t)((double)bytes / bytes_per_ns) : ns;
}

static uint64_t simulated_ns(const struct op *op)
{
	size_t area = op->box.width * op->box.height;

	switch (op->kind) {
	case OP_COPY:
		return rated(area * op->box.depth, settings.copy_bytes_per_ns, settings.copy_us);
	case OP_FILL:
		return rated(area * op->element, settings.memset_bytes_per_ns, settings.memset_us);
	case OP_KERNEL:
		return launch_ns(op->kernel);
	case OP_HOST:
	case OP_CALLBACK:
		return (uint64_t)settings.host_us * 1000;
	default:
		return 0;
	}
}

bool op_is_quick(const struct op *op)
{
	size_t bytes = op->box.width * op->box.height;

	switch (op->kind) {
	case OP_COPY:
		return !settings.copy_us && settings.copy_bytes_per_ns <= 0 &&
		       bytes * op->box.depth <= STAGE_MAX;
	case OP_FILL:
		return !settings.memset_us && settings.memset_bytes_per_ns <= 0 &&
		       bytes * op->element <= STAGE_MAX;
	case OP_KERNEL:
		return launch_is_nothing(op->kernel);
	case OP_NOTHING:
		return true;
	default:
		return false;
	}
}

/* ------------------------------------------------------------------ running */

static void wait_for_event(struct event *event)
{
	struct ticket ticket;

	event_ticket(event, &ticket);
	if (!ticket.stream)
		return;
	queue_wait(ticket.stream, ticket.seq);
	stream_give(ticket.stream);
}

/* After a fault a host function is not called at all, a callback with its code. */
static CUresult failure_of(const struct stream *stream)
{
	return (CUresult)atomic_load(&stream->context->error);
}

static void act(struct op *op, struct stream *stream)
{
	switch (op->kind) {
	case OP_COPY:
		copy_box(&op->box);
		break;
	case OP_FILL:
		fill_box(op);
		break;
	case OP_KERNEL:
		launch_run(op->kernel, stream->context);
		break;
	case OP_HOST:
		if (!failure_of(stream))
			op->host(op->data);
		break;
	case OP_CALLBACK:
		op->callback(op->handle, failure_of(stream), op->data);
		break;
	case OP_EVENT:
		if (op->seq)
			event_passed(op->event, stream, op->seq);
		else
			event_place(op->event, NULL, 0);
		break;
	case OP_EVENT_WAIT:
		wait_for_event(op->event);
		break;
	case OP_WAIT_VALUE:
		wait_for_word(op);
		break;
	case OP_WRITE_VALUE:
		write_word(op);
		break;
	case OP_GRAPH:
		exec_run(op->exec, stream);
		break;
	case OP_ALLOC:
		graphmem_show(op->block);
		break;
	case OP_FREE:
		graphmem_give(op->block);
		break;
	case OP_NOTHING:
		break;
	}
}

void op_run(struct op *op, struct stream *stream)
{
	uint64_t ns = simulated_ns(op);
	uint64_t begin = ns ? config_now_ns() : 0;
	uint64_t watched = watch_begin(op);

	act(op, stream);
	if (ns)
		config_pass_until(begin + ns);
	if (watched)
		watch_end(op, watched);
}

void op_release(struct op *op)
{
	for (unsigned i = 0; i < op->wait_count; i++)
		stream_give(op->waits[i].stream);
	free(op->waits);
	op->waits = NULL;
	op->wait_count = op->wait_room = 0;
	free(op->staged);
	op->staged = NULL;
	if (op->kind == OP_EVENT || op->kind == OP_EVENT_WAIT)
		event_give(op->event);
	else if (op->kind == OP_FREE)
		graphmem_drop(op->block);
	else if (op->kind == OP_KERNEL)
		launch_give(op->kernel);
	else if (op->kind == OP_GRAPH)
		exec_give(op->exec);
}
