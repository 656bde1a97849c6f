/* SPDX-License-Identifier: Apache-2.0 */
/* The linker of code: takes any input, and makes an image that any module accepts. */
#include <stdio.h>

#include "sim.h"
#include "entries.h"
#include "module.h"

static const char image_text[] = "an image made by the simulated linker";

/* Options that the linker answers through: empty logs, no time taken. */
static void answer_option(CUjit_option option, void **value)
{
	switch ((int)option) {
	case CU_JIT_WALL_TIME:
		*(float *)(void *)value = 0;
		break;
	case CU_JIT_INFO_LOG_BUFFER:
	case CU_JIT_ERROR_LOG_BUFFER:
		if (*value)
			*(char *)*value = '\0';
		break;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		*value = NULL;
		break;
	default:
		break;
	}
}

CUresult link_create(unsigned int numOptions, CUjit_option *options, void **optionValues,
		     CUlinkState *stateOut)
{
	struct linker *linker;

	if (!stateOut || (numOptions && (!options || !optionValues)) ||
	    numOptions > LINKER_OPTIONS)
		return CUDA_ERROR_INVALID_VALUE;
	linker = handle_new(OBJECT_LINKER);
	if (!linker)
		return CUDA_ERROR_OUT_OF_MEMORY;
	linker->option_count = numOptions;
	memcpy(linker->options, options, numOptions * sizeof(*options));
	linker->values = optionValues;
	*stateOut = (CUlinkState)linker;
	return CUDA_SUCCESS;
}

static CUresult find(CUlinkState handle, struct linker **linker)
{
	CUresult error = handle_check(OBJECT_LINKER, handle);

	*linker = (struct linker *)handle;
	return error;
}

CUresult link_add(CUlinkState state, CUjitInputType type, void *data, size_t size,
		  const char *name, unsigned int numOptions, CUjit_option *options,
		  void **optionValues)
{
	struct linker *linker;
	CUresult error = find(state, &linker);

	(void)name;
	if (error)
		return error;
	if (!data || size == 0 || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES || linker->complete ||
	    (numOptions && (!options || !optionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	linker->inputs++;
	return CUDA_SUCCESS;
}

CUresult link_add_file(CUlinkState state, CUjitInputType type, const char *path,
		       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	FILE *file = path ? fopen(path, "re") : NULL;

	if (!file)
		return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	fclose(file);
	return link_add(state, type, (void *)(uintptr_t)path, 1, path, numOptions, options,
			optionValues);
}

/* The image lives as long as the state does. */
CUresult link_complete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct linker *linker;
	CUresult error = find(state, &linker);

	if (error)
		return error;
	if (!linker->inputs)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(linker->image, image_text, sizeof(image_text));
	linker->complete = true;
	for (unsigned i = 0; i < linker->option_count; i++)
		answer_option(linker->options[i], &linker->values[i]);
	if (cubinOut)
		*cubinOut = linker->image;
	if (sizeOut)
		*sizeOut = sizeof(image_text);
	return CUDA_SUCCESS;
}

CUresult link_destroy(CUlinkState state)
{
	struct linker *linker;
	CUresult error = find(state, &linker);

	if (error)
		return error;
	handle_kill(linker);
	handle_give(OBJECT_LINKER, linker);
	return CUDA_SUCCESS;
}
