/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a watcher of copies, fills and kernels; the nodes of a graph are its launch's. */
#include "sim.h"
#include "launch.h"
#include "simwatch.h"

static _Atomic(const struct simwatch *) watcher;

/* Of the graph that this thread runs. */
static __thread uint32_t graph_call __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) void simwatch(const struct simwatch *watch)
{
	atomic_store(&watcher, watch);
}

static bool is_work(const struct op *op)
{
	return op->kind == OP_COPY || op->kind == OP_FILL || op->kind == OP_KERNEL;
}

void watch_given(struct op *op)
{
	const struct simwatch *watch = atomic_load_explicit(&watcher, memory_order_relaxed);

	if (watch && (is_work(op) || op->kind == OP_GRAPH))
		op->call = watch->given(sim_thread.call);
}

uint64_t watch_begin(const struct op *op)
{
	if (!atomic_load_explicit(&watcher, memory_order_relaxed))
		return 0;
	if (op->kind == OP_GRAPH)
		graph_call = op->call;
	return config_now_ns();
}

static enum simwatch_memory memory_of(const void *bytes)
{
	struct block *block = registry_find_any(bytes);

	for (int i = 0; i < settings.devices; i++) {
		const struct device *device = device_at(i);

		if ((const char *)bytes >= device->backing &&
		    (const char *)bytes < device->backing + device->pages * PAGE_BYTES)
			return SIMWATCH_DEVICE;
	}
	if (!block)
		return SIMWATCH_PAGEABLE;
	return block->kind == BLOCK_MANAGED ? SIMWATCH_MANAGED : SIMWATCH_PINNED;
}

static void describe(const struct op *op, struct simwatch_work *work)
{
	work->bytes = op->box.width * op->box.height * op->box.depth;
	work->to = memory_of(op->box.dst);
	if (op->kind == OP_FILL) {
		work->kind = SIMWATCH_FILL;
		work->bytes *= op->element;
	} else {
		work->kind = SIMWATCH_COPY;
		work->from = memory_of(op->box.src);
	}
}

void watch_end(const struct op *op, uint64_t begin)
{
	const struct simwatch *watch = atomic_load(&watcher);
	struct simwatch_work work = {
		.call = graph_call ? graph_call : op->call,
		.start_ns = begin,
		.end_ns = config_now_ns(),
	};

	if (op->kind == OP_GRAPH)
		graph_call = 0;
	if (!watch || !begin || !is_work(op))
		return;
	if (op->kind == OP_KERNEL) {
		work.kind = SIMWATCH_KERNEL;
		work.name = launch_name(op->kernel);
	} else {
		describe(op, &work);
	}
	watch->done(&work);
}
