/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays: opaque to the client, rows with a pitch in here. */
#include "sim.h"
#include "entries.h"
#include "array.h"
#include "share.h"

static size_t element_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;	/* planar and block-compressed formats */
	}
}

static size_t at_least_one(size_t n)
{
	return n ? n : 1;
}

static CUresult check_descriptor(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	if (!desc || desc->Width == 0 || desc->Width > 131072 || desc->Height > 131072 ||
	    desc->Depth > 16384)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->NumChannels != 1 && desc->NumChannels != 2 && desc->NumChannels != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_NOT_SUPPORTED;
	return element_bytes(desc->Format) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static void set_layout(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	array->desc = *desc;
	array->element = element_bytes(desc->Format) * desc->NumChannels;
	array->pitch = round_up(desc->Width * array->element, 64);
	array->slice = array->pitch * at_least_one(desc->Height);
	array->bytes = array->slice * at_least_one(desc->Depth);
}

static void link_array(struct context *context, struct array *array)
{
	context = context_owner(context);
	pthread_mutex_lock(&context->lock);
	array->context = context;
	array->next = context->arrays;
	if (array->next)
		array->next->prev = array;
	context->arrays = array;
	pthread_mutex_unlock(&context->lock);
}

static void unlink_array(struct array *array)
{
	struct context *context = array->context;

	pthread_mutex_lock(&context->lock);
	if (array->prev)
		array->prev->next = array->next;
	else
		context->arrays = array->next;
	if (array->next)
		array->next->prev = array->prev;
	pthread_mutex_unlock(&context->lock);
}

/* The next bytes of the file, if it has as many. */
static char *map_source(struct context *context, struct array_source *from, size_t bytes)
{
	char *pages;

	if (from->offset > from->end || bytes > from->end - from->offset)
		return NULL;
	pages = share_map(context->device, from->fd, from->offset, bytes);
	from->offset += round_up(bytes, 4096);
	return pages;
}

static char *take_device(struct device *device, size_t bytes)
{
	return bytes <= SMALL_MAX ? space_take_small(device, SLAB_ARRAYS, bytes) :
				    space_take_pages(device, bytes);
}

static CUresult make_array(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			   struct array_source *from, struct array **out)
{
	CUresult error = check_descriptor(desc);
	struct array *array;

	if (error)
		return error;
	array = handle_new(OBJECT_ARRAY);
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	set_layout(array, desc);
	array->external = from != NULL;
	if (from)
		array->pages = map_source(context, from, array->bytes);
	else if (config_may_allocate())
		array->pages = take_device(context->device, array->bytes);
	if (!array->pages) {
		handle_give(OBJECT_ARRAY, array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	array->bytes_at = space_alias(context->device, array->pages);
	link_array(context, array);
	*out = array;
	return CUDA_SUCCESS;
}

static void end_array(struct array *array)
{
	unlink_array(array);
	handle_kill(array);
	if (array->external)
		share_unmap(array->context->device, array->pages, array->bytes);
	else if (array->bytes <= SMALL_MAX)
		space_give_small(array->context->device, array->pages, array->bytes);
	else
		space_give_pages(array->context->device, array->pages, array->bytes);
	handle_give(OBJECT_ARRAY, array);
}

static void end_mipmap(struct mipmap *mipmap)
{
	struct context *context = mipmap->context;

	pthread_mutex_lock(&context->lock);
	if (mipmap->prev)
		mipmap->prev->next = mipmap->next;
	else
		context->mipmaps = mipmap->next;
	if (mipmap->next)
		mipmap->next->prev = mipmap->prev;
	pthread_mutex_unlock(&context->lock);
	for (unsigned i = 0; i < mipmap->count; i++)
		end_array(mipmap->levels[i]);
	handle_kill(mipmap);
	handle_give(OBJECT_MIPMAP, mipmap);
}

void array_end_all(struct context *context)
{
	while (context->mipmaps)
		end_mipmap(context->mipmaps);
	while (context->arrays)
		end_array(context->arrays);
}

/* ------------------------------------------------------------------ arrays */

CUresult array_create_3d(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct array *array;
	CUresult error;

	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	error = make_array(context_current(), pAllocateArray, NULL, &array);
	if (!error)
		*pHandle = (CUarray)array;
	return error;
}

CUresult array_create(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {0};

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	desc.Width = pAllocateArray->Width;
	desc.Height = pAllocateArray->Height;
	desc.Format = pAllocateArray->Format;
	desc.NumChannels = pAllocateArray->NumChannels;
	return array_create_3d(pHandle, &desc);
}

static CUresult find(CUarray handle, struct array **array)
{
	CUresult error = handle_check(OBJECT_ARRAY, handle);

	*array = (struct array *)handle;
	return error;
}

CUresult array_destroy(CUarray hArray)
{
	struct array *array;
	CUresult error = find(hArray, &array);
	struct context *owner;

	if (error)
		return error;
	if (array->mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	owner = array->context;
	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	end_array(array);
	pthread_mutex_unlock(&owner->api);
	return CUDA_SUCCESS;
}

CUresult array_descriptor_3d(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct array *array;
	CUresult error = find(hArray, &array);

	if (!error && !pArrayDescriptor)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pArrayDescriptor = array->desc;
	return error;
}

CUresult array_descriptor(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct array *array;
	CUresult error = find(hArray, &array);

	if (!error && (!pArrayDescriptor || array->desc.Depth))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
			.Width = array->desc.Width, .Height = array->desc.Height,
			.Format = array->desc.Format, .NumChannels = array->desc.NumChannels,
		};
	return error;
}

/* Planar formats are refused when an array is made, so none has planes. */
CUresult array_plane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	struct array *array;
	CUresult error = find(hArray, &array);

	(void)planeIdx;
	if (!error && pPlaneArray)
		*pPlaneArray = NULL;
	return error ? error : CUDA_ERROR_INVALID_VALUE;
}

/* Answered for arrays with deferred mapping only, and those are not made here. */
CUresult array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array,
			    CUdevice device)
{
	struct array *found;
	CUresult error = find(array, &found);

	(void)device;
	if (!error && memoryRequirements)
		memset(memoryRequirements, 0, sizeof(*memoryRequirements));
	return error ? error : CUDA_ERROR_INVALID_VALUE;
}

CUresult array_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)
{
	struct array *found;
	CUresult error = find(array, &found);

	if (!error && sparseProperties)
		memset(sparseProperties, 0, sizeof(*sparseProperties));
	return error ? error : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ mipmaps */

static size_t halved(size_t n, unsigned level)
{
	return n ? at_least_one(n >> level) : 0;
}

static CUresult make_levels(struct mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			    unsigned count, struct array_source *from)
{
	CUresult error = CUDA_SUCCESS;

	for (unsigned i = 0; i < count && !error; i++) {
		CUDA_ARRAY3D_DESCRIPTOR level = *desc;

		level.Width = halved(desc->Width, i);
		level.Height = halved(desc->Height, i);
		level.Depth = halved(desc->Depth, i);
		error = make_array(mipmap->context, &level, from, &mipmap->levels[i]);
		if (error)
			break;
		mipmap->levels[i]->mipmap = mipmap;
		mipmap->count++;
	}
	return error;
}

CUresult array_make_mipmap(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			   unsigned count, struct array_source *from)
{
	struct context *context = context_owner(context_current());
	struct mipmap *mipmap;
	CUresult error = check_descriptor(desc);

	if (error || !pHandle || !count || count > MIPMAP_LEVELS_MAX)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	mipmap = handle_new(OBJECT_MIPMAP);
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmap->context = context;
	mipmap->desc = *desc;
	pthread_mutex_lock(&context->lock);
	mipmap->next = context->mipmaps;
	if (mipmap->next)
		mipmap->next->prev = mipmap;
	context->mipmaps = mipmap;
	pthread_mutex_unlock(&context->lock);
	error = make_levels(mipmap, desc, count, from);
	if (error)
		end_mipmap(mipmap);
	else
		*pHandle = (CUmipmappedArray)mipmap;
	return error;
}

CUresult array_create_mipmap(CUmipmappedArray *pHandle,
			     const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
			     unsigned int numMipmapLevels)
{
	return array_make_mipmap(pHandle, pMipmappedArrayDesc, numMipmapLevels, NULL);
}

static CUresult find_mipmap(CUmipmappedArray handle, struct mipmap **mipmap)
{
	CUresult error = handle_check(OBJECT_MIPMAP, handle);

	*mipmap = (struct mipmap *)handle;
	return error;
}

CUresult array_destroy_mipmap(CUmipmappedArray hMipmappedArray)
{
	struct mipmap *mipmap;
	CUresult error = find_mipmap(hMipmappedArray, &mipmap);
	struct context *owner;

	if (error)
		return error;
	owner = mipmap->context;
	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	end_mipmap(mipmap);
	pthread_mutex_unlock(&owner->api);
	return CUDA_SUCCESS;
}

CUresult array_level(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	struct mipmap *mipmap;
	CUresult error = find_mipmap(hMipmappedArray, &mipmap);

	if (!error && (!pLevelArray || level >= mipmap->count))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pLevelArray = (CUarray)mipmap->levels[level];
	return error;
}

CUresult array_mipmap_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
				   CUmipmappedArray mipmap, CUdevice device)
{
	struct mipmap *found;
	CUresult error = find_mipmap(mipmap, &found);

	(void)device;
	if (!error && memoryRequirements)
		memset(memoryRequirements, 0, sizeof(*memoryRequirements));
	return error ? error : CUDA_ERROR_INVALID_VALUE;
}

CUresult array_mipmap_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
			     CUmipmappedArray mipmap)
{
	struct mipmap *found;
	CUresult error = find_mipmap(mipmap, &found);

	if (!error && sparseProperties)
		memset(sparseProperties, 0, sizeof(*sparseProperties));
	return error ? error : CUDA_ERROR_INVALID_VALUE;
}
