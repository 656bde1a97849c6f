/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h - memory for structures that live inside driver calls: mapped, never
 * from malloc, in sizes of 64 bytes times a power of two.
 */
#ifndef CUSTODY_CORE_SLAB_H
#define CUSTODY_CORE_SLAB_H

#include <stddef.h>
#include <stdint.h>

enum {
	SLAB_CLASSES = 32,
	SLAB_LEAST = 64, /* bytes of class 0 */
};

/* What one owner has given back, by class; under the owner's lock. */
struct slab_spares {
	void *first[SLAB_CLASSES];
};

static inline size_t slab_bytes(unsigned int class)
{
	return (size_t)SLAB_LEAST << class;
}

/* The class that holds `bytes`. */
static inline unsigned int slab_class(size_t bytes)
{
	unsigned int class = 0;

	while (slab_bytes(class) < bytes)
		class++;
	return class;
}

/* Memory of a class, of any content; NULL: there is none.  Takes a lock of its own. */
void *slab_take(struct slab_spares *spares, unsigned int class);

/* For the same owner's next slab_take(). */
void slab_give(struct slab_spares *spares, void *memory, unsigned int class);

/* Unmap everything that anybody took; in a child of fork, or where nobody uses it any more. */
void slab_reset(void);

#endif
