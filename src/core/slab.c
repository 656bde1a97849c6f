/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slab.h"
#include "core/lock.h"

#include <sys/mman.h>

enum { ARENA_BYTES = 1 << 20 };

/* At the front of every mapping. */
struct arena {
	_Alignas(SLAB_LEAST) struct arena *next;
	size_t bytes;
};

static struct {
	struct lock lock;
	struct arena *arenas;
	unsigned char *at; /* what is left of the newest ordinary one */
	size_t left;
} slab;

/* Under the lock.  Its first bytes are the list's; returns what lies behind them. */
static unsigned char *map_arena(size_t bytes)
{
	struct arena *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (arena == MAP_FAILED)
		return NULL;
	arena->next = slab.arenas;
	arena->bytes = bytes;
	slab.arenas = arena;
	return (unsigned char *)(arena + 1);
}

/* Under the lock. */
static void *carve(size_t bytes)
{
	unsigned char *memory;

	if (bytes > ARENA_BYTES / 2)
		return map_arena(bytes + sizeof(struct arena));
	if (slab.left < bytes) {
		memory = map_arena(ARENA_BYTES);
		if (!memory)
			return NULL;
		slab.at = memory;
		slab.left = ARENA_BYTES - sizeof(struct arena);
	}
	memory = slab.at;
	slab.at += bytes;
	slab.left -= bytes;
	return memory;
}

void *slab_take(struct slab_spares *spares, unsigned int class)
{
	void *memory;

	if (class >= SLAB_CLASSES)
		return NULL;
	memory = spares->first[class];
	if (memory) {
		spares->first[class] = *(void **)memory;
		return memory;
	}
	lock_take(&slab.lock);
	memory = carve(slab_bytes(class));
	lock_give(&slab.lock);
	return memory;
}

void slab_give(struct slab_spares *spares, void *memory, unsigned int class)
{
	*(void **)memory = spares->first[class];
	spares->first[class] = memory;
}

void slab_reset(void)
{
	struct arena *arena = slab.arenas;

	while (arena) {
		struct arena *next = arena->next;

		munmap(arena, arena->bytes);
		arena = next;
	}
	slab.arenas = NULL;
	slab.left = 0;
	lock_give(&slab.lock);
}
