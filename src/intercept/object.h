/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h - ELF objects that are loaded now, read from memory.
 *
 * The loader's own dlsym would answer too, but each of its failures replaces
 * what the program's dlerror() is about to say, and ours is hooked anyway.
 */
#ifndef CUSTODY_INTERCEPT_OBJECT_H
#define CUSTODY_INTERCEPT_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object {
	uintptr_t bias;	 /* load address minus link address */
	uintptr_t start; /* of the lowest and behind the highest segment */
	uintptr_t end;
	const char *path;   /* as the loader knows it; "" for the program itself */
	const char *soname; /* NULL if it has none */
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash; /* DT_GNU_HASH, or NULL */
	const uint32_t *hash;	  /* DT_HASH, or NULL */
	const ElfW(Phdr) * headers;
	size_t header_count;
	const ElfW(Dyn) * dynamic;
};

/* What the loader reports in `info`; call only inside dl_iterate_phdr. */
void object_describe(const struct dl_phdr_info *info, struct object *object);

/*
 * One of the objects the program was started with, by the end of its path.  No
 * function of libc is called that anybody could stand in front of, no lock is
 * taken: this is how libc itself is found, maybe before anything is set up.
 */
bool object_find_startup(const char *file, struct object *object);

/* The first loaded object with this soname; false: none. */
bool object_find_soname(const char *soname, struct object *object);

/* The loaded object that covers `address`; false: none. */
bool object_find_address(const void *address, struct object *object);

/* The address of a symbol that the object itself defines and exports, or NULL. */
void *object_symbol(const struct object *object, const char *name);

/* The same for one who asks many objects: `hash` is object_hash(name). */
void *object_symbol_hashed(const struct object *object, const char *name, uint32_t hash);
uint32_t object_hash(const char *name);

/* Whether it is linked with the library of this name. */
bool object_needs(const struct object *object, const char *soname);

/* Names of the symbols that relocations of the object want from others; some come twice. */
void object_each_wanted(const struct object *object, void (*visit)(const char *name, void *data),
			void *data);

/* The build id in hexadecimal; "" if there is none. */
void object_build_id(const struct object *object, char *text, size_t bytes);

static inline bool object_covers(const struct object *object, const void *address)
{
	return (uintptr_t)address >= object->start && (uintptr_t)address < object->end;
}

#endif
