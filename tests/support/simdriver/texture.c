/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface objects: handles that remember what they were made of. */
#include "sim.h"
#include "entries.h"
#include "array.h"

static CUresult check_linear(CUdeviceptr address, size_t bytes)
{
	struct place place;

	return bytes ? memory_place(address, bytes, &place) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *desc)
{
	if (!desc || desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (desc->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return handle_check(OBJECT_ARRAY, desc->res.array.hArray);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return handle_check(OBJECT_MIPMAP, desc->res.mipmap.hMipmappedArray);
	case CU_RESOURCE_TYPE_LINEAR:
		return check_linear(desc->res.linear.devPtr, desc->res.linear.sizeInBytes);
	case CU_RESOURCE_TYPE_PITCH2D:
		return check_linear(desc->res.pitch2D.devPtr,
				    desc->res.pitch2D.pitchInBytes * desc->res.pitch2D.height);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult make(unsigned long long *out, const CUDA_RESOURCE_DESC *resource, bool surface,
		     struct texture **made)
{
	struct texture *texture;
	CUresult error = check_resource(resource);

	if (error || !out)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	texture = handle_new(OBJECT_TEXTURE);
	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	texture->resource = *resource;
	texture->surface = surface;
	*out = (uintptr_t)texture;
	*made = texture;
	return CUDA_SUCCESS;
}

static CUresult find(unsigned long long handle, bool surface, struct texture **texture)
{
	CUresult error;

	*texture = (struct texture *)(uintptr_t)handle;
	error = handle_check(OBJECT_TEXTURE, *texture);
	if (!error && (*texture)->surface != surface)
		error = CUDA_ERROR_INVALID_VALUE;
	return error;
}

static CUresult end(unsigned long long handle, bool surface)
{
	struct texture *texture;
	CUresult error = find(handle, surface, &texture);

	if (error)
		return error;
	handle_kill(texture);
	handle_give(OBJECT_TEXTURE, texture);
	return CUDA_SUCCESS;
}

CUresult texture_create(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
			const CUDA_TEXTURE_DESC *pTexDesc,
			const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	struct texture *texture;
	CUresult error;

	if (!pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	error = make(pTexObject, pResDesc, false, &texture);
	if (error)
		return error;
	texture->sampling = *pTexDesc;
	texture->has_view = pResViewDesc != NULL;
	if (pResViewDesc)
		texture->view = *pResViewDesc;
	return CUDA_SUCCESS;
}

CUresult texture_destroy(CUtexObject texObject)
{
	return end(texObject, false);
}

CUresult texture_resource(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct texture *texture;
	CUresult error = find(texObject, false, &texture);

	if (!error && !pResDesc)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pResDesc = texture->resource;
	return error;
}

CUresult texture_sampling(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct texture *texture;
	CUresult error = find(texObject, false, &texture);

	if (!error && !pTexDesc)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pTexDesc = texture->sampling;
	return error;
}

CUresult texture_view(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
{
	struct texture *texture;
	CUresult error = find(texObject, false, &texture);

	if (!error && (!pResViewDesc || !texture->has_view))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pResViewDesc = texture->view;
	return error;
}

/* Surfaces lie on arrays only. */
CUresult texture_create_surface(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	struct texture *texture;

	if (!pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	return make(pSurfObject, pResDesc, true, &texture);
}

CUresult texture_destroy_surface(CUsurfObject surfObject)
{
	return end(surfObject, true);
}

CUresult texture_surface_resource(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	struct texture *texture;
	CUresult error = find(surfObject, true, &texture);

	if (!error && !pResDesc)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pResDesc = texture->resource;
	return error;
}
