/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - what each driver call means, for the record.
 *
 * The first word of a name is its file: hook_memory_alloc() stands in
 * hook_memory.c.  A hook runs after the driver has answered, with the answer
 * in call->result; of an around hook, _before runs ahead of the driver, because
 * what the driver frees may be handed to another thread before it returns; a
 * _defer hook may answer a free itself, and says so by returning true.
 * Addresses and handles come as numbers, 0 where the call failed.
 */
#ifndef CUSTODY_INTERCEPT_HOOK_H
#define CUSTODY_INTERCEPT_HOOK_H

#include "core/tracker.h"
#include "intercept/call.h"

/* hook_memory.c: linear, page-locked, pooled and imported memory. */
void hook_memory_alloc(struct call *call, enum block_kind kind, uint64_t address, uint64_t bytes);
void hook_memory_alloc_pitch(struct call *call, uint64_t address, uint64_t pitch, uint64_t width,
			     uint64_t height);
void hook_memory_alloc_async(struct call *call, uint64_t address, uint64_t bytes, uint64_t stream);
void hook_memory_alloc_from_pool(struct call *call, uint64_t address, uint64_t bytes, uint64_t pool,
				 uint64_t stream);
void hook_memory_import(struct call *call, uint64_t address);
void hook_memory_ipc_open(struct call *call, uint64_t address);
void hook_memory_ipc_close_before(struct call *call, uint64_t address);
void hook_memory_ipc_close_after(struct call *call, uint64_t address);
void hook_memory_external(struct call *call, uint64_t address,
			  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer);
void hook_memory_import_external(struct call *call, uint64_t handle,
				 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memory);
void hook_memory_export(struct call *call, uint64_t address);
bool hook_memory_free_defer(struct call *call, uint64_t address, uint64_t stream);
void hook_memory_free_before(struct call *call, uint64_t address, uint64_t stream);
void hook_memory_free_after(struct call *call, uint64_t address, uint64_t stream);

/* What the driver says that an address spans, where no argument tells; 0: nothing. */
uint64_t hook_memory_range(uint64_t address);

/* hook_info.c; `free` and `total` point to numbers of `width` bytes. */
void hook_info_memory_before(struct call *call, void *free, const void *total, size_t width);
void hook_info_memory_after(struct call *call, void *free, void *total, size_t width);
void hook_info_total(struct call *call, void *total, size_t width);

/* hook_pool.c */
void hook_pool_create(struct call *call, uint64_t pool, const CUmemPoolProps *properties);
void hook_pool_destroy_before(struct call *call, uint64_t pool);
void hook_pool_destroy_after(struct call *call, uint64_t pool);
void hook_pool_import(struct call *call, uint64_t pool);
void hook_pool_set(struct call *call, uint64_t pool, CUmemPool_attribute attribute,
		   const void *value);
void hook_pool_of_device(struct call *call, uint64_t pool, CUdevice device);
void hook_pool_of_location(struct call *call, uint64_t pool, const CUmemLocation *location,
			   CUmemAllocationType type);

/* hook_array.c */
void hook_array_create(struct call *call, uint64_t handle, const CUDA_ARRAY_DESCRIPTOR *shape);
void hook_array_create_v1(struct call *call, uint64_t handle,
			  const CUDA_ARRAY_DESCRIPTOR_v1 *shape);
void hook_array_create_3d(struct call *call, uint64_t handle, const CUDA_ARRAY3D_DESCRIPTOR *shape);
void hook_array_create_3d_v1(struct call *call, uint64_t handle,
			     const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape);
void hook_array_create_mipmapped(struct call *call, uint64_t handle,
				 const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
void hook_array_external(struct call *call, uint64_t handle, uint64_t memory,
			 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmap);
bool hook_array_destroy_defer(struct call *call, uint64_t handle);
void hook_array_destroy_before(struct call *call, uint64_t handle);
void hook_array_destroy_after(struct call *call, uint64_t handle);
uint64_t hook_array_element_bytes(unsigned int format, unsigned int channels);
uint64_t hook_array_bytes(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned int levels);

/* hook_vmm.c: virtual memory and multicast objects. */
void hook_vmm_create(struct call *call, uint64_t handle, uint64_t bytes,
		     const CUmemAllocationProp *properties);
void hook_vmm_import(struct call *call, uint64_t handle);
void hook_vmm_retain(struct call *call, uint64_t handle, uint64_t address);
void hook_vmm_release_before(struct call *call, uint64_t handle);
void hook_vmm_release_after(struct call *call, uint64_t handle);
void hook_vmm_map(struct call *call, uint64_t address, uint64_t bytes, uint64_t handle);
void hook_vmm_unmap(struct call *call, uint64_t address, uint64_t bytes);
void hook_vmm_export(struct call *call, uint64_t handle);
void hook_vmm_drop(struct call *call, uint64_t handle); /* one reference less */

/* hook_hold.c: memory of handles that multicast objects and sparse arrays hold. */
struct hold_part;
void hook_hold_bind(struct call *call, uint64_t object, uint64_t offset, uint64_t memory,
		    uint64_t bytes);
void hook_hold_bind_address(struct call *call, uint64_t object, uint64_t offset, uint64_t address,
			    uint64_t bytes);
void hook_hold_unbind(struct call *call, uint64_t object, CUdevice device, uint64_t offset,
		      uint64_t bytes);
void hook_hold_map_array(struct call *call, const CUarrayMapInfo *list, unsigned int count,
			 uint64_t stream);
/* What `part` (NULL: all) of an object or array that has ended, or a context, has held. */
void hook_hold_end(struct call *call, uint64_t holder, const struct hold_part *part);
void hook_hold_end_context(struct call *call, uint32_t context);

/* hook_context.c */
void hook_context_init(struct call *call);
void hook_context_create(struct call *call, uint64_t handle, CUdevice device);
void hook_context_destroy_before(struct call *call, uint64_t handle);
void hook_context_destroy_after(struct call *call, uint64_t handle);
void hook_context_attach(struct call *call, uint64_t handle);
void hook_context_detach_before(struct call *call, uint64_t handle);
void hook_context_detach_after(struct call *call, uint64_t handle);
void hook_context_bury(struct call *call, uint32_t number, bool is_alive); /* see core/engine.h */
void hook_context_set_current(struct call *call, uint64_t handle);
void hook_context_pop_current(struct call *call, uint64_t handle);
void hook_context_get_current(struct call *call, uint64_t handle);
void hook_context_retain_primary(struct call *call, uint64_t handle, CUdevice device);
void hook_context_release_primary_before(struct call *call, CUdevice device);
void hook_context_release_primary_after(struct call *call, CUdevice device);
void hook_context_reset_primary_before(struct call *call, CUdevice device);
void hook_context_reset_primary_after(struct call *call, CUdevice device);
void hook_context_synchronize_before(struct call *call, uint64_t handle);
void hook_context_synchronize_after(struct call *call, uint64_t handle);
void hook_context_driver_version(struct call *call, uint64_t version);

/* hook_exclude.c: a call that makes contexts work on each other's memory. */
void hook_exclude_peer(struct call *call, uint64_t peer);

/* hook_green.c */
void hook_green_create(struct call *call, uint64_t handle, uint64_t resources, CUdevice device);
void hook_green_view(struct call *call, uint64_t view, uint64_t handle);
void hook_green_stream(struct call *call, uint64_t stream, uint64_t handle);
void hook_green_destroy_before(struct call *call, uint64_t handle);
void hook_green_destroy_after(struct call *call, uint64_t handle);
void hook_green_end_device(struct call *call, int device); /* its primary context has ended */

/* hook_stream.c, hook_capture.c, hook_graph.c, hook_module.c */
void hook_stream_create(struct call *call, uint64_t stream);
void hook_stream_destroy(struct call *call, uint64_t stream);
void hook_capture_begin_before(struct call *call, uint64_t stream);
void hook_capture_begin_after(struct call *call, uint64_t stream);
void hook_capture_end(struct call *call, uint64_t stream, uint64_t graph);
void hook_graph_alloc_node(struct call *call, uint64_t graph,
			   const CUDA_MEM_ALLOC_NODE_PARAMS *parameters);
void hook_graph_free_node(struct call *call, uint64_t graph, uint64_t address);
void hook_graph_add_node(struct call *call, uint64_t graph, uint64_t node,
			 const CUgraphNodeParams *parameters);
void hook_graph_instantiate(struct call *call, uint64_t exec, uint64_t graph);
void hook_graph_launch(struct call *call, uint64_t exec, uint64_t stream);
void hook_graph_destroy_before(struct call *call, uint64_t exec);
void hook_graph_destroy_after(struct call *call, uint64_t exec);
void hook_graph_set_copy(struct call *call, uint64_t exec, uint64_t node,
			 const CUDA_MEMCPY3D *copy);
void hook_graph_set_fill(struct call *call, uint64_t exec, uint64_t node,
			 const CUDA_MEMSET_NODE_PARAMS *fill);
void hook_graph_set_child(struct call *call, uint64_t exec, uint64_t node, uint64_t graph);
void hook_graph_set_node(struct call *call, uint64_t exec, uint64_t node,
			 const CUgraphNodeParams *parameters);
void hook_graph_update(struct call *call, uint64_t exec, uint64_t graph);
void hook_graph_enable(struct call *call, uint64_t exec, uint64_t node, bool is_enabled);
void hook_module_global(struct call *call, uint64_t module, uint64_t address, uint64_t bytes);
void hook_module_load(struct call *call, uint64_t module);
bool hook_module_unload_defer(struct call *call, uint64_t module);
void hook_module_unload_before(struct call *call, uint64_t module);
void hook_module_unload_after(struct call *call, uint64_t module);

/* hook_graphics.c: memory of a graphics interface, while it is mapped. */
void hook_graphics_pointer(struct call *call, uint64_t resource, uint64_t address, uint64_t bytes);
void hook_graphics_unmap_before(struct call *call, const CUgraphicsResource *resources,
				unsigned int count, uint64_t stream);
void hook_graphics_unmap_after(struct call *call, const CUgraphicsResource *resources,
			       unsigned int count, uint64_t stream);
void hook_graphics_unregister_before(struct call *call, uint64_t resource);
void hook_graphics_unregister_after(struct call *call, uint64_t resource);

/* hook_operation.c: a call that neither holds nor moves memory. */
void hook_operation(struct call *call, uint64_t object, uint64_t second, uint64_t bytes,
		    uint64_t stream);
void hook_operation_batch(struct call *call, const CUdeviceptr *addresses, const size_t *bytes,
			  size_t count, uint64_t stream);
void hook_operation_memory_ops(struct call *call, const CUstreamBatchMemOpParams *list,
			       unsigned int count, uint64_t stream);

/* hook_entry.c */
void hook_entry_lookup(struct call *call, const char *name, void **function, int version,
		       uint64_t flags);
void hook_entry_table(struct call *call, const void *const *table, const CUuuid *id);

/* block.c: a block's beginning and end, for the hooks above. */
struct block_facts {
	enum block_kind kind;
	enum block_space space;
	uint64_t address; /* or handle */
	uint64_t bytes;
	uint64_t stream;  /* or, for a view, the id of the block that owns the bytes */
	uint64_t parent;  /* and its handle */
	uint32_t context; /* the block ends with it; 0: it outlives contexts */
	int device;	  /* -1: none or unknown */
	uint8_t flags;
};

/* Record an allocation; enter the block if it succeeded.  Returns its id, 0 if there is none. */
uint64_t block_begin(struct call *call, const struct block_facts *facts);

/* Before the driver frees it: out of the tracker, into call->taken. */
void block_take(struct call *call, enum block_space space, uint64_t address);

/* After: record the free, or put the block back if the driver refused. */
void block_end(struct call *call, uint64_t address, uint64_t stream);

/* Record the end of a block that is out of the tracker already. */
void block_write_end(struct call *call, const struct block *block, uint64_t stream, uint8_t flags);

#endif
