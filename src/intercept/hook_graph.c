/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation node sets an address aside when it is added; memory comes with
 * the launch, out of a pool of the device's.  Recorded is the address: kind
 * graph, flagged as captured because nothing is allocated by the call.
 */
#include "intercept/current.h"
#include "intercept/hook.h"

static void begin_node(struct call *call, uint64_t address, uint64_t bytes,
		       const CUmemPoolProps *pool)
{
	bool is_device = pool && pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

	block_begin(call, &(struct block_facts){
				  .kind = BLOCK_GRAPH,
				  .address = address,
				  .bytes = bytes,
				  .device = is_device ? pool->location.id : -1,
				  .flags = RECORD_CAPTURED,
			  });
}

void hook_graph_alloc_node(struct call *call, uint64_t graph,
			   const CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	if (call->result == CUDA_SUCCESS && parameters)
		begin_node(call, parameters->dptr, parameters->bytesize, &parameters->poolProps);
	else if (call->refusal)
		begin_node(call, 0, parameters ? parameters->bytesize : 0, NULL);
	else
		hook_operation(call, 0, graph, 0, STREAM_NONE);
}

/*
 * A node that will free at launch: as the program sees it, the address is the
 * graph's no longer.  Nobody is given it meanwhile, so it may be taken late.
 */
void hook_graph_free_node(struct call *call, uint64_t graph, uint64_t address)
{
	call->has_taken = false;
	if (call->result == CUDA_SUCCESS)
		block_take(call, SPACE_ADDRESS, address);
	if (call->has_taken)
		block_write_end(call, &call->taken, STREAM_NONE, RECORD_CAPTURED);
	else
		hook_operation(call, address, graph, 0, STREAM_NONE);
}

void hook_graph_add_node(struct call *call, uint64_t graph, const CUgraphNodeParams *parameters)
{
	bool is_read = call->result == CUDA_SUCCESS && parameters;

	if (is_read && parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		hook_graph_free_node(call, graph, parameters->free.dptr);
	else if (is_read && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		begin_node(call, parameters->alloc.dptr, parameters->alloc.bytesize,
			   &parameters->alloc.poolProps);
	else if (call->refusal)
		begin_node(call, 0, parameters->alloc.bytesize, NULL);
	else
		hook_operation(call, 0, graph, 0, STREAM_NONE);
}
