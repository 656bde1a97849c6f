/* SPDX-License-Identifier: Apache-2.0 */
#include "library/resource.h"

#include <stdlib.h>

struct registry_entry {
	struct resource_memory memory;
	struct registry_entry *next;	      /* of its slot */
	struct registry_entry *older, *newer; /* of those that were freed */
	bool is_freed;
};

void resource_registry_start(struct resource_registry *registry)
{
	*registry = (struct resource_registry){ 0 };
	pthread_mutex_init(&registry->lock, NULL);
}

void resource_registry_end(struct resource_registry *registry)
{
	for (size_t i = 0; i < registry->slot_count; i++)
		while (registry->slots[i]) {
			struct registry_entry *entry = registry->slots[i];

			registry->slots[i] = entry->next;
			free(entry);
		}
	free(registry->slots);
	pthread_mutex_destroy(&registry->lock);
}

/* Addresses of blocks are multiples of 256 or more: their low bits say nothing. */
static struct registry_entry **slot_of(const struct resource_registry *registry,
				       const void *pointer)
{
	uint64_t mixed = ((uint64_t)(uintptr_t)pointer >> 8) * UINT64_C(0x9e3779b97f4a7c15);

	return &registry->slots[(mixed >> 32) & (registry->slot_count - 1)];
}

static struct registry_entry *find(const struct resource_registry *registry, const void *pointer)
{
	struct registry_entry *entry = registry->slot_count ? *slot_of(registry, pointer) : NULL;

	while (entry && entry->memory.pointer != pointer)
		entry = entry->next;
	return entry;
}

static void enter(struct resource_registry *registry, struct registry_entry *entry)
{
	struct registry_entry **slot = slot_of(registry, entry->memory.pointer);

	entry->next = *slot;
	*slot = entry;
	registry->entry_count++;
}

static void leave(struct resource_registry *registry, struct registry_entry *entry)
{
	struct registry_entry **slot = slot_of(registry, entry->memory.pointer);

	while (*slot != entry)
		slot = &(*slot)->next;
	*slot = entry->next;
	registry->entry_count--;
}

static bool resize(struct resource_registry *registry, size_t slot_count)
{
	struct registry_entry **old = registry->slots;
	size_t old_count = registry->slot_count;
	struct registry_entry **slots = calloc(slot_count, sizeof(struct registry_entry *));

	if (!slots)
		return false;
	registry->slots = slots;
	registry->slot_count = slot_count;
	registry->entry_count = 0;
	for (size_t i = 0; i < old_count; i++)
		while (old[i]) {
			struct registry_entry *entry = old[i];

			old[i] = entry->next;
			enter(registry, entry);
		}
	free(old);
	return true;
}

/* A full table works on, only slower. */
static bool make_room(struct resource_registry *registry)
{
	if (!registry->slot_count)
		return resize(registry, REGISTRY_SLOTS);
	if (registry->entry_count > registry->slot_count)
		resize(registry, registry->slot_count * 4);
	return true;
}

struct registry_entry *resource_registry_reserve(struct resource_registry *registry)
{
	bool has_room;

	pthread_mutex_lock(&registry->lock);
	has_room = make_room(registry);
	pthread_mutex_unlock(&registry->lock);
	return has_room ? calloc(1, sizeof(struct registry_entry)) : NULL;
}

void resource_registry_cancel(struct registry_entry *entry)
{
	free(entry);
}

static void remember(struct resource_registry *registry, struct registry_entry *entry)
{
	entry->is_freed = true;
	entry->newer = NULL;
	entry->older = registry->newest;
	if (entry->older)
		entry->older->newer = entry;
	else
		registry->oldest = entry;
	registry->newest = entry;
	registry->freed_count++;
}

static void forget(struct resource_registry *registry, struct registry_entry *entry)
{
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		registry->oldest = entry->newer;
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		registry->newest = entry->older;
	entry->is_freed = false;
	registry->freed_count--;
}

/* An address is handed out again once it was freed, and by a careless resource before. */
static void drop(struct resource_registry *registry, struct registry_entry *entry)
{
	if (entry->is_freed)
		forget(registry, entry);
	leave(registry, entry);
	free(entry);
}

void resource_registry_add(struct resource_registry *registry, struct registry_entry *entry,
			   const struct resource_memory *memory)
{
	struct registry_entry *former;

	entry->memory = *memory;
	pthread_mutex_lock(&registry->lock);
	former = find(registry, memory->pointer);
	if (former)
		drop(registry, former);
	enter(registry, entry);
	pthread_mutex_unlock(&registry->lock);
}

/* Under the lock. */
static int take(struct resource_registry *registry, const void *pointer, size_t bytes,
		struct resource_memory *memory)
{
	struct registry_entry *entry = find(registry, pointer);

	if (!entry)
		return CUSTODY_E_UNKNOWN;
	if (entry->is_freed)
		return CUSTODY_E_DOUBLE_FREE;
	*memory = entry->memory;
	if (entry->memory.bytes != bytes)
		return CUSTODY_E_MISMATCH;
	remember(registry, entry);
	if (registry->freed_count > REGISTRY_REMEMBERED)
		drop(registry, registry->oldest);
	return 0;
}

int resource_registry_take(struct resource_registry *registry, const void *pointer, size_t bytes,
			   struct resource_memory *memory)
{
	int result;

	pthread_mutex_lock(&registry->lock);
	result = take(registry, pointer, bytes, memory);
	pthread_mutex_unlock(&registry->lock);
	return result;
}

/* Meanwhile it may have been forgotten: then a later free of it is one of what is unknown. */
void resource_registry_put_back(struct resource_registry *registry,
				const struct resource_memory *memory)
{
	struct registry_entry *entry;

	pthread_mutex_lock(&registry->lock);
	entry = find(registry, memory->pointer);
	if (entry && entry->is_freed)
		forget(registry, entry);
	pthread_mutex_unlock(&registry->lock);
}

/* Under the lock. */
static bool pop(struct resource_registry *registry, struct resource_memory *memory)
{
	for (size_t i = 0; i < registry->slot_count; i++)
		for (struct registry_entry *entry = registry->slots[i]; entry; entry = entry->next)
			if (!entry->is_freed) {
				*memory = entry->memory;
				drop(registry, entry);
				return true;
			}
	return false;
}

bool resource_registry_pop(struct resource_registry *registry, struct resource_memory *memory)
{
	bool is_found;

	pthread_mutex_lock(&registry->lock);
	is_found = pop(registry, memory);
	pthread_mutex_unlock(&registry->lock);
	return is_found;
}
