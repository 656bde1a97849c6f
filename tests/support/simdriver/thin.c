/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for files that are still being written. */
#include "sim.h"
#include "graph.h"
#include "launch.h"
#include "vmm.h"
atomic_int capture_live;
CUresult capture_check_unsafe(void) { return 0; }
CUresult capture_check_context(struct context *context) { (void)context; return 0; }
CUresult capture_check_legacy(struct stream *stream) { (void)stream; return 0; }
bool capture_takes(struct stream *stream, struct op *op, CUresult *result) { (void)stream; (void)op; (void)result; return false; }
bool capture_takes_record(struct stream *stream, struct event *event, CUresult *result) { (void)stream; (void)event; (void)result; return false; }
bool capture_takes_wait(struct stream *stream, struct event *event, CUresult *result) { (void)stream; (void)event; (void)result; return false; }
CUresult capture_check_stream(struct stream *stream) { (void)stream; return 0; }
CUresult capture_check_event(struct event *event) { (void)event; return 0; }
void capture_drop_stream(struct stream *stream) { (void)stream; }
void array_end_all(struct context *context) { (void)context; }
void module_end_all(struct context *context) { (void)context; }
CUresult pool_start(struct device *device) { (void)device; return 0; }
void pool_give(struct block *block, struct stream *stream, uint64_t seq, bool counted) { (void)block; (void)stream; (void)seq; (void)counted; }
void pool_observe(struct device *device) { (void)device; }
uint64_t launch_ns(const struct kernel_call *call) { (void)call; return 0; }
void launch_run(struct kernel_call *call) { (void)call; }
void launch_give(struct kernel_call *call) { (void)call; }
void exec_run(struct exec *exec, struct stream *stream) { (void)exec; (void)stream; }
void exec_give(struct exec *exec) { (void)exec; }
char *vmm_range_start(const struct block *block) { return block->base; }
size_t vmm_range_size(const struct block *block) { return block->size; }
