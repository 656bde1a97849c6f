/* SPDX-License-Identifier: Apache-2.0 */
#include "library/virtual_range.h"

#include <stdlib.h>

struct reservation {
	CUdeviceptr address;
	size_t bytes;
	_Atomic uint32_t references;
};

struct chunk {
	CUmemGenericAllocationHandle handle;
	size_t bytes;
	_Atomic uint32_t references;
};

struct piece {
	CUdeviceptr address;
	struct reservation *reservation;
	struct chunk *chunk;
	_Atomic uint32_t references;
};

struct virtual_range {
	size_t count;
	struct piece *pieces[]; /* NULL: not made yet */
};

static bool is_last(_Atomic uint32_t *references)
{
	return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

static void retain(_Atomic uint32_t *references)
{
	atomic_fetch_add_explicit(references, 1, memory_order_relaxed);
}

/* ------------------------------------------------------------ reservations */

/* `hint` 0: anywhere.  The driver may choose another address than the hint. */
static int reserve(size_t bytes, size_t align, CUdeviceptr hint, struct reservation **reservation)
{
	struct reservation *made = calloc(1, sizeof(*made));
	CUresult result;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	result = library_cuda.cuMemAddressReserve(&made->address, bytes, align, hint, 0);
	if (result != CUDA_SUCCESS) {
		free(made);
		return result;
	}
	made->bytes = bytes;
	atomic_init(&made->references, 1);
	*reservation = made;
	return 0;
}

/* A reservation goes as a whole, by its exact address and size. */
static int drop_reservation(struct reservation *reservation)
{
	CUresult result;

	if (!is_last(&reservation->references))
		return 0;
	result = library_cuda.cuMemAddressFree(reservation->address, reservation->bytes);
	free(reservation);
	return result;
}

/* ------------------------------------------------------------ physical memory */

static struct chunk *wrap_chunk(CUmemGenericAllocationHandle handle, size_t bytes)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return NULL;
	chunk->handle = handle;
	chunk->bytes = bytes;
	atomic_init(&chunk->references, 1);
	return chunk;
}

static int create_chunk(const struct resource_virtual *space, size_t bytes, struct chunk **chunk)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = library_cuda.cuMemCreate(&handle, bytes, &space->properties, 0);

	if (result != CUDA_SUCCESS)
		return result;
	*chunk = wrap_chunk(handle, bytes);
	if (*chunk)
		return 0;
	library_cuda.cuMemRelease(handle);
	return CUSTODY_E_NO_MEMORY;
}

/* The handle is kept as long as the memory: it is mapped again when a range grows. */
static int drop_chunk(struct chunk *chunk)
{
	CUresult result;

	if (!is_last(&chunk->references))
		return 0;
	result = library_cuda.cuMemRelease(chunk->handle);
	free(chunk);
	return result;
}

/* ------------------------------------------------------------ pieces */

static int map(const struct resource_virtual *space, struct piece *piece)
{
	const size_t bytes = piece->chunk->bytes;
	CUresult result = library_cuda.cuMemMap(piece->address, bytes, 0, piece->chunk->handle, 0);

	if (result != CUDA_SUCCESS)
		return result;
	result = library_cuda.cuMemSetAccess(piece->address, bytes, space->access,
					     space->access_count);
	if (result != CUDA_SUCCESS)
		library_cuda.cuMemUnmap(piece->address, bytes);
	return result;
}

/* Map a chunk into a reservation; it has a reference on both. */
static int make_piece(const struct resource_virtual *space, struct reservation *reservation,
		      size_t offset, struct chunk *chunk, struct piece **piece)
{
	struct piece *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->address = reservation->address + offset;
	made->reservation = reservation;
	made->chunk = chunk;
	atomic_init(&made->references, 1);
	error = map(space, made);
	if (error) {
		free(made);
		return error;
	}
	retain(&reservation->references);
	retain(&chunk->references);
	*piece = made;
	return 0;
}

/* `*is_gone` false: it is still mapped, and as it was. */
static int drop_piece(struct piece *piece, bool *is_gone)
{
	int error, lost;

	*is_gone = true;
	if (!is_last(&piece->references))
		return 0;
	error = library_cuda.cuMemUnmap(piece->address, piece->chunk->bytes);
	if (error) {
		retain(&piece->references);
		*is_gone = false;
		return error;
	}
	error = drop_reservation(piece->reservation);
	lost = drop_chunk(piece->chunk);
	free(piece);
	return error ? error : lost;
}

/* ------------------------------------------------------------ ranges */

static struct virtual_range *new_range(size_t count)
{
	struct virtual_range *range =
		calloc(1, sizeof(*range) + count * sizeof(struct piece *));

	if (range)
		range->count = count;
	return range;
}

/*
 * Until something is gone all of it stays.  After that the rest follows, and what cannot
 * be unmapped is lost.
 */
int virtual_range_end(struct virtual_range *range, bool *is_gone)
{
	bool has_begun = false, is_dropped;
	int first = 0, error;

	for (size_t i = range->count; i-- > 0;) {
		if (!range->pieces[i])
			continue;
		error = drop_piece(range->pieces[i], &is_dropped);
		*is_gone = is_dropped || has_begun;
		if (!*is_gone)
			return error;
		has_begun = true;
		first = first ? first : error;
	}
	*is_gone = true;
	free(range);
	return first;
}

/* It never became one. */
static void abandon(struct virtual_range *range)
{
	bool is_gone;

	virtual_range_end(range, &is_gone);
}

void *virtual_range_pointer(const struct virtual_range *range)
{
	return (void *)(uintptr_t)range->pieces[0]->address;
}

size_t virtual_range_bytes(const struct virtual_range *range)
{
	size_t bytes = 0;

	for (size_t i = 0; i < range->count; i++)
		bytes += range->pieces[i]->chunk->bytes;
	return bytes;
}

size_t virtual_range_count(const struct virtual_range *range)
{
	return range->count;
}

CUmemGenericAllocationHandle virtual_range_handle(const struct virtual_range *range, size_t i)
{
	return range->pieces[i]->chunk->handle;
}

size_t virtual_range_piece_bytes(const struct virtual_range *range, size_t i)
{
	return range->pieces[i]->chunk->bytes;
}

/* ------------------------------------------------------------ making */

/* Map chunks one behind another into a reservation of their own. */
static int map_chunks(const struct resource_virtual *space, struct chunk *const *chunks,
		      size_t bytes, struct virtual_range *range)
{
	struct reservation *reservation;
	size_t offset = 0;
	int error = reserve(bytes, space->address_align, 0, &reservation);

	if (error)
		return error;
	for (size_t i = 0; i < range->count && !error; i++) {
		error = make_piece(space, reservation, offset, chunks[i], &range->pieces[i]);
		offset += chunks[i]->bytes;
	}
	drop_reservation(reservation);
	return error;
}

/* The range of `count` chunks. */
static int make_of_chunks(const struct resource_virtual *space, struct chunk *const *chunks,
			  size_t count, struct virtual_range **range)
{
	struct virtual_range *made = new_range(count);
	size_t bytes = 0;
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	for (size_t i = 0; i < count; i++)
		bytes += chunks[i]->bytes;
	error = map_chunks(space, chunks, bytes, made);
	if (error)
		abandon(made);
	else
		*range = made;
	return error;
}

int virtual_range_make(const struct resource_virtual *space, size_t bytes,
		       struct virtual_range **range)
{
	struct chunk *chunk;
	int error = create_chunk(space, bytes, &chunk);

	if (error)
		return error;
	error = make_of_chunks(space, &chunk, 1, range);
	drop_chunk(chunk);
	return error;
}

/* Handles that are not taken over stay their owner's. */
int virtual_range_import(const struct resource_virtual *space,
			 const CUmemGenericAllocationHandle *handles, const size_t *bytes,
			 size_t count, struct virtual_range **range)
{
	struct chunk **chunks = calloc(count, sizeof(struct chunk *));
	size_t wrapped = 0;
	int error = CUSTODY_E_NO_MEMORY;

	if (!chunks)
		return error;
	while (wrapped < count && (chunks[wrapped] = wrap_chunk(handles[wrapped], bytes[wrapped])))
		wrapped++;
	if (wrapped == count)
		error = make_of_chunks(space, chunks, count, range);
	for (size_t i = 0; i < wrapped; i++)
		if (error)
			free(chunks[i]);
		else
			drop_chunk(chunks[i]);
	free(chunks);
	return error;
}

/* ------------------------------------------------------------ growing */

static CUdeviceptr end_of(const struct virtual_range *range)
{
	const struct piece *last = range->pieces[range->count - 1];

	return last->address + last->chunk->bytes;
}

static struct virtual_range *copy_range(const struct virtual_range *old, size_t more)
{
	struct virtual_range *copy = new_range(old->count + more);

	for (size_t i = 0; copy && i < old->count; i++) {
		copy->pieces[i] = old->pieces[i];
		retain(&copy->pieces[i]->references);
	}
	return copy;
}

/* The addresses behind a range; `*reservation` NULL: they are not free. */
static int reserve_behind(const struct resource_virtual *space, const struct virtual_range *old,
			  size_t bytes, struct reservation **reservation)
{
	int error = reserve(bytes, space->granularity, end_of(old), reservation);

	if (!error && (*reservation)->address == end_of(old))
		return 0;
	if (!error)
		error = drop_reservation(*reservation);
	*reservation = NULL;
	return error == CUSTODY_E_NO_MEMORY ? error : 0;
}

static int grow_in_place(const struct resource_virtual *space, const struct virtual_range *old,
			 struct reservation *behind, struct chunk *chunk,
			 struct virtual_range **range)
{
	struct virtual_range *made = copy_range(old, 1);
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = make_piece(space, behind, 0, chunk, &made->pieces[old->count]);
	if (error)
		abandon(made);
	else
		*range = made;
	return error;
}

static int grow_elsewhere(const struct resource_virtual *space, const struct virtual_range *old,
			  struct chunk *chunk, struct virtual_range **range)
{
	struct chunk **chunks = calloc(old->count + 1, sizeof(struct chunk *));
	int error;

	if (!chunks)
		return CUSTODY_E_NO_MEMORY;
	for (size_t i = 0; i < old->count; i++)
		chunks[i] = old->pieces[i]->chunk;
	chunks[old->count] = chunk;
	error = make_of_chunks(space, chunks, old->count + 1, range);
	free(chunks);
	return error;
}

static int grow_by(const struct resource_virtual *space, const struct virtual_range *old,
		   size_t more, struct chunk *chunk, struct virtual_range **range)
{
	struct reservation *behind;
	int error = reserve_behind(space, old, more, &behind);

	if (error)
		return error;
	if (!behind)
		return grow_elsewhere(space, old, chunk, range);
	error = grow_in_place(space, old, behind, chunk, range);
	drop_reservation(behind);
	return error;
}

int virtual_range_grow(const struct resource_virtual *space, const struct virtual_range *old,
		       size_t bytes, struct virtual_range **range)
{
	const size_t more = bytes - virtual_range_bytes(old);
	struct chunk *chunk;
	int error;

	if (!more) {
		*range = copy_range(old, 0);
		return *range ? 0 : CUSTODY_E_NO_MEMORY;
	}
	error = create_chunk(space, more, &chunk);
	if (error)
		return error;
	error = grow_by(space, old, more, chunk, range);
	drop_chunk(chunk);
	return error;
}
