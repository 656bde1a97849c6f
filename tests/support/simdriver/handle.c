/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles.  Every kind of object lives in an arena of its own whose memory is never
 * given back, so the state of a handle can be read whatever became of the object.
 * A freed place waits in a queue before it is used again: a stale handle is caught.
 */
#include <sys/mman.h>

#include "sim.h"
#include "array.h"
#include "external.h"
#include "graph.h"
#include "green.h"
#include "module.h"
#include "pool.h"
#include "vmm.h"

struct arena {
	const char *name;
	size_t bytes;		/* of one object, a power of two */
	size_t room;		/* objects */
	char *base;
	size_t fresh;		/* places never used start here */
	struct object *first, *last;
	size_t waiting;
	pthread_mutex_t lock;
	void (*finish)(void *object);	/* frees what the object owns on the heap */
};

#define ARENA(type, text) \
	.name = text, .bytes = sizeof(type), .lock = PTHREAD_MUTEX_INITIALIZER

static struct arena arenas[OBJECT_KINDS] = {
	[OBJECT_CONTEXT] = { ARENA(struct context, "context") },
	[OBJECT_STREAM] = { ARENA(struct stream, "stream"), .finish = stream_finish },
	[OBJECT_EVENT] = { ARENA(struct event, "event"), .finish = event_finish },
	[OBJECT_BLOCK] = { ARENA(struct block, "block"), .finish = graphmem_finish },
	[OBJECT_ARRAY] = { ARENA(struct array, "array") },
	[OBJECT_MIPMAP] = { ARENA(struct mipmap, "mipmapped array") },
	[OBJECT_POOL] = { ARENA(struct pool, "memory pool") },
	[OBJECT_MEMORY] = { ARENA(struct memory, "memory handle") },
	[OBJECT_MODULE] = { ARENA(struct module, "module") },
	[OBJECT_FUNCTION] = { ARENA(struct function, "function"), .finish = function_finish },
	[OBJECT_GRAPH] = { ARENA(struct graph, "graph") },
	[OBJECT_NODE] = { ARENA(struct graph_node, "graph node") },
	[OBJECT_EXEC] = { ARENA(struct exec, "executable graph"), .finish = exec_finish },
	[OBJECT_USER] = { ARENA(struct user_object, "user object") },
	[OBJECT_EXTERNAL_MEMORY] = { ARENA(struct external_memory, "external memory") },
	[OBJECT_EXTERNAL_SEMAPHORE] = { ARENA(struct external_semaphore, "external semaphore") },
	[OBJECT_RESOURCES] = { ARENA(struct resources, "resource descriptor") },
	[OBJECT_LINKER] = { ARENA(struct linker, "link state") },
	[OBJECT_TEXTURE] = { ARENA(struct texture, "texture or surface object") },
};

static size_t power_above(size_t n)
{
	size_t power = 64;

	while (power < n)
		power *= 2;
	return power;
}

/* The arena's address range; smaller ranges are tried where space is limited. */
static bool open_arena(struct arena *arena)
{
	void *base = MAP_FAILED;
	size_t room = (size_t)1 << 21;

	arena->bytes = power_above(arena->bytes);
	for (; room >= 1024 && base == MAP_FAILED; room /= 4)
		base = mmap(NULL, room * arena->bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return false;
	arena->room = room * 4;
	arena->base = base;
	return true;
}

/*
 * There under the address sanitizer only.  Objects own memory on the heap, and its
 * search for leaks does not look into mappings by itself.
 */
void __lsan_register_root_region(const void *start, size_t bytes) __attribute__((weak));

enum { PLACES_AT_ONCE = 64 };

static struct object *fresh_place(struct arena *arena)
{
	char *place = arena->base + arena->fresh * arena->bytes;

	if (arena->fresh % PLACES_AT_ONCE == 0 && __lsan_register_root_region)
		__lsan_register_root_region(place, PLACES_AT_ONCE * arena->bytes);
	arena->fresh++;
	return (struct object *)place;
}

static struct object *take_place(struct arena *arena)
{
	struct object *object = arena->first;

	if (object && (arena->waiting > settings.quarantine || arena->fresh == arena->room)) {
		arena->first = object->next_free;
		arena->waiting--;
		return object;
	}
	if (arena->fresh == arena->room)
		return NULL;
	return fresh_place(arena);
}

static void put_place(struct arena *arena, struct object *object)
{
	object->next_free = NULL;
	if (arena->first)
		arena->last->next_free = object;
	else
		arena->first = object;
	arena->last = object;
	arena->waiting++;
}

void *handle_new(enum object_kind kind)
{
	struct arena *arena = &arenas[kind];
	struct object *object = NULL;

	pthread_mutex_lock(&arena->lock);
	if (arena->base || open_arena(arena))
		object = take_place(arena);
	pthread_mutex_unlock(&arena->lock);
	if (!object)
		return NULL;
	memset(object + 1, 0, arena->bytes - sizeof(*object));
	atomic_store(&object->refs, 1);
	atomic_store(&object->state, OBJECT_ALIVE);
	return object;
}

void handle_retain(void *object)
{
	atomic_fetch_add_explicit(&((struct object *)object)->refs, 1, memory_order_relaxed);
}

bool handle_give(enum object_kind kind, void *pointer)
{
	struct object *object = pointer;
	struct arena *arena = &arenas[kind];

	if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1)
		return false;
	atomic_store(&object->state, OBJECT_DEAD);
	if (arena->finish)
		arena->finish(object);
	pthread_mutex_lock(&arena->lock);
	put_place(arena, object);
	pthread_mutex_unlock(&arena->lock);
	return true;
}

void handle_kill(void *object)
{
	atomic_store(&((struct object *)object)->state, OBJECT_DEAD);
}

static bool is_place(const struct arena *arena, const void *pointer)
{
	size_t offset = (size_t)((const char *)pointer - arena->base);

	return arena->base && (const char *)pointer >= arena->base &&
	       offset < arena->room * arena->bytes && (offset & (arena->bytes - 1)) == 0;
}

/* NULL is a plain mistake; anything else crashes a real driver, and us, aloud. */
static CUresult refuse(const struct arena *arena, const void *pointer, const char *why)
{
	if (pointer && settings.strict)
		config_die("%s: the %s handle %p %s", sim_thread.call, arena->name, pointer, why);
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult handle_check(enum object_kind kind, const void *pointer)
{
	const struct arena *arena = &arenas[kind];
	const struct object *object = pointer;

	if (!is_place(arena, pointer))
		return refuse(arena, pointer, "was never given out");
	if (atomic_load_explicit(&object->state, memory_order_acquire) != OBJECT_ALIVE)
		return refuse(arena, pointer, "was destroyed");
	return CUDA_SUCCESS;
}

uint64_t handle_next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}
