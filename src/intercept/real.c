/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing here takes a lock: binding twice at once writes the same values twice.
 */
#include "intercept/real.h"
#include "intercept/object.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

void *real_driver[API_COUNT];
void *real_next[API_COUNT];
void *(*real_dlsym)(void *handle, const char *name);
void *(*real_dlvsym)(void *handle, const char *name, const char *version);
void *(*real_dlopen)(const char *file, int flags);
void *(*real_libc_dlopen)(const char *file, int flags);
uint32_t real_dlopen_mask = UINT32_MAX;

static const char driver_soname[] = "libcuda.so.1";

/* The libcuda in use; 0: none.  The end is stored first, the start makes it valid. */
static _Atomic uintptr_t driver_start;
static _Atomic uintptr_t driver_end;

/*
 * Address -> row + 1, packed into one word so that an entry is there or not.
 * Open addressing; nothing is taken out: an address of a libcuda that is gone
 * still means the same function.
 */
enum { MAP_ENTRIES = 8192, ROW_BITS = 16 };
static _Atomic uint64_t map[MAP_ENTRIES];

static size_t map_home(const void *address)
{
	return (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 51;
}

static void map_add(const void *address, int row)
{
	uint64_t entry = (uint64_t)(uintptr_t)address << ROW_BITS | (uint64_t)(row + 1);
	size_t at = map_home(address);

	for (size_t tries = 0; tries < MAP_ENTRIES / 2; tries++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&map[at], &there, entry) ||
		    there >> ROW_BITS == (uintptr_t)address)
			return;
		at = (at + 1) % MAP_ENTRIES;
	}
}

int real_find(const void *address)
{
	size_t at = map_home(address);

	for (size_t tries = 0; tries < MAP_ENTRIES / 2; tries++) {
		uint64_t entry = atomic_load_explicit(&map[at], memory_order_relaxed);

		if (!entry)
			return -1;
		if (entry >> ROW_BITS == (uintptr_t)address)
			return (int)(entry & ((1 << ROW_BITS) - 1)) - 1;
		at = (at + 1) % MAP_ENTRIES;
	}
	return -1;
}

/* Laid down by the linker around this library. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_driver(const struct object *object)
{
	return object->soname && !strcmp(object->soname, driver_soname);
}

bool real_is_ours(const void *address)
{
	return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

bool real_is_driver(const void *address)
{
	uintptr_t start = atomic_load_explicit(&driver_start, memory_order_acquire);

	return start && (uintptr_t)address >= start &&
	       (uintptr_t)address < atomic_load_explicit(&driver_end, memory_order_relaxed);
}

/* A program whose loader says nothing to debuggers is left the ordinary way. */
static bool find_library(const char *file, struct object *object)
{
	return object_find_startup(file, object) || object_find_soname(file, object);
}

void real_find_libc(void)
{
	static const char *const library[] = { "libc.so.6", "libdl.so.2" };
	struct object object;

	for (size_t i = 0; i < 2 && !(real_dlsym && real_dlvsym); i++) {
		if (!find_library(library[i], &object))
			continue;
		real_dlsym = (void *(*)(void *, const char *))object_symbol(&object, "dlsym");
		real_dlvsym = (void *(*)(void *, const char *,
					 const char *))object_symbol(&object, "dlvsym");
		real_libc_dlopen =
			(void *(*)(const char *, int))object_symbol(&object, "dlopen");
	}
}

/*
 * The next definition behind this library in the program's scope.  The loader
 * reads the scope off the return address, so this must stay a call from here.
 */
static __attribute__((noinline)) void *next_definition(const char *name)
{
	void *volatile address;

	if (!real_dlsym)
		real_find_libc();
	address = real_dlsym ? real_dlsym(RTLD_NEXT, name) : NULL;
	return address;
}

/* As option.c reads it; nothing of core is here, nor any function that others stand in front of. */
static bool clears_deepbind(void)
{
	static const char wanted[] = "CUSTODY_DEEPBIND=clear";

	for (char **entry = environ; entry && *entry; entry++) {
		size_t i = 0;

		while (wanted[i] && (*entry)[i] == wanted[i])
			i++;
		if (!wanted[i] && !(*entry)[i])
			return true;
	}
	return false;
}

void real_find_dlopen(void)
{
	void *next = next_definition("dlopen");

	if (clears_deepbind())
		real_dlopen_mask = ~(uint32_t)RTLD_DEEPBIND;
	real_dlopen = (void *(*)(const char *, int))(real_is_ours(next) ? NULL : next);
}

/* What objects beside libcuda and us export of the driver: candidates for a neighbour. */
struct exports {
	uint32_t hash[API_COUNT];
	bool is_there[API_COUNT];
	bool is_any;
	bool has_dlsym; /* one of them stands in front of dlsym too */
};

static int mark_exports(struct dl_phdr_info *info, size_t size, void *data)
{
	struct exports *exports = data;
	struct object object;
	bool is_candidate = false;

	(void)size;
	object_describe(info, &object);
	if (object_covers(&object, __ehdr_start) || is_driver(&object))
		return 0;
	for (int i = 0; i < API_COUNT; i++) {
		if (!object_symbol_hashed(&object, api_symbol[i], exports->hash[i]))
			continue;
		exports->is_there[i] = true;
		is_candidate = true;
	}
	exports->is_any |= is_candidate;
	exports->has_dlsym |= is_candidate && object_symbol(&object, "dlsym");
	return 0;
}

/*
 * Whether the program's calls would pass the neighbours without us.  They do
 * where libcuda is in the program's scope.  Where it was opened for a handle
 * alone, look-ups in that handle go past every neighbour, unless one stands in
 * front of dlsym; and one that asks for the next definition would find none.
 */
static bool neighbours_count(const struct object *libcuda, const struct exports *exports)
{
	if (exports->has_dlsym)
		return true;
	for (int i = 0; exports->is_any && i < API_COUNT; i++)
		if (!exports->is_there[i] &&
		    object_symbol_hashed(libcuda, api_symbol[i], exports->hash[i]))
			return next_definition(api_symbol[i]) != NULL;
	return exports->is_any;
}

static void store(void **table, int row, void *function)
{
	__atomic_store_n(&table[row], function, __ATOMIC_RELAXED);
	if (function)
		map_add(function, row);
}

static void bind_row(int row, void *function, void *neighbour)
{
	store(real_driver, row, function);
	store(real_next, row, neighbour && !real_is_ours(neighbour) ? neighbour : function);
}

static void bind(const struct object *libcuda)
{
	struct exports exports = { 0 };
	bool has_neighbours;

	for (int i = 0; i < API_COUNT; i++)
		exports.hash[i] = object_hash(api_symbol[i]);
	dl_iterate_phdr(mark_exports, &exports);
	has_neighbours = neighbours_count(libcuda, &exports);
	for (int i = 0; i < API_COUNT; i++)
		bind_row(i, object_symbol_hashed(libcuda, api_symbol[i], exports.hash[i]),
			 has_neighbours && exports.is_there[i] ? next_definition(api_symbol[i]) :
								 NULL);
	atomic_store_explicit(&driver_start, 0, memory_order_relaxed);
	atomic_store_explicit(&driver_end, libcuda->end, memory_order_relaxed);
	atomic_store_explicit(&driver_start, libcuda->start, memory_order_release);
}

bool real_bind_at(const void *address)
{
	struct object object;

	if (real_is_driver(address) || !object_find_address(address, &object))
		return false;
	if (!is_driver(&object))
		return false;
	bind(&object);
	return true;
}

static CUresult say_not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/*
 * A program that is linked with libcuda comes here with its first call, one
 * that looks names up has been seen by a door before.
 */
void *real_late(void *const *table, enum api api)
{
	struct object object;
	void *function;

	if (!atomic_load_explicit(&driver_start, memory_order_acquire) &&
	    object_find_soname(driver_soname, &object))
		bind(&object);
	function = __atomic_load_n(&table[api], __ATOMIC_RELAXED);
	return function ? function : (void *)say_not_found;
}

bool real_open(void)
{
	struct object object;

	if (!real_libc_dlopen)
		real_find_libc();
	if (!real_libc_dlopen)
		return false;
	if (object_find_soname(driver_soname, &object))
		real_libc_dlopen(object.path, RTLD_NOW | RTLD_NOLOAD);
	else
		real_libc_dlopen(driver_soname, RTLD_NOW);
	if (!atomic_load_explicit(&driver_start, memory_order_acquire) &&
	    object_find_soname(driver_soname, &object))
		bind(&object);
	return atomic_load_explicit(&driver_start, memory_order_acquire);
}

void *real_symbol(const char *name)
{
	uintptr_t start = atomic_load_explicit(&driver_start, memory_order_acquire);
	struct object object;

	if (!start || !object_find_address((const void *)start, &object))
		return NULL;
	return object_symbol(&object, name);
}

bool real_has(enum api api)
{
	return __atomic_load_n(&real_driver[api], __ATOMIC_RELAXED) != NULL;
}
