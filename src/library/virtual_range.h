/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtual_range.h - private: address ranges with physical memory mapped into them.
 *
 * A range is made of pieces, one behind another.  A piece is one physical allocation
 * (a chunk) mapped at one address of a reservation.  Ranges share pieces, and pieces
 * chunks, so that a range that grows leaves the old one as it was: in place it has the
 * old pieces and one more, elsewhere it has the old chunks at other addresses and one
 * more.  What nobody has any more is unmapped, released and given back.  Any thread.
 */
#ifndef CUSTODY_LIBRARY_VIRTUAL_RANGE_H
#define CUSTODY_LIBRARY_VIRTUAL_RANGE_H

#include "library/resource.h"

struct virtual_range;

/* Sizes are whole granules.  A CUresult or CUSTODY_E_*; nothing is left of a failure. */
int virtual_range_make(const struct resource_virtual *space, size_t bytes,
		       struct virtual_range **range);

/*
 * A range of `bytes`, not less than the old one has, that begins with its memory; in
 * place if what lies behind it is free.
 */
int virtual_range_grow(const struct resource_virtual *space, const struct virtual_range *old,
		       size_t bytes, struct virtual_range **range);

/*
 * Nobody uses it any more.  Where the first piece cannot be unmapped the range stays, to
 * be ended again, `*is_gone` false; what fails behind that is lost, and told.
 */
int virtual_range_end(struct virtual_range *range, bool *is_gone);

void *virtual_range_pointer(const struct virtual_range *range);
size_t virtual_range_bytes(const struct virtual_range *range);

/* Its physical allocations, first to last. */
size_t virtual_range_count(const struct virtual_range *range);
CUmemGenericAllocationHandle virtual_range_handle(const struct virtual_range *range, size_t i);
size_t virtual_range_piece_bytes(const struct virtual_range *range, size_t i);

/* A range of physical memory of others, which it takes over: of their handles, with its sizes. */
int virtual_range_import(const struct resource_virtual *space,
			 const CUmemGenericAllocationHandle *handles, const size_t *bytes,
			 size_t count, struct virtual_range **range);

#endif
