/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/object.h"

#include <sys/auxv.h>

/* strcmp may be a sanitizer's, which is not ready when the first look-up comes. */
static bool is_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* On most CPUs the loader has relocated d_ptr in place, on some it has not. */
static const void *dynamic_pointer(const struct object *object, ElfW(Addr) value)
{
	return (const void *)(value >= object->bias ? value : value + object->bias);
}

static void read_dynamic(struct object *object, const ElfW(Dyn) * entry)
{
	ElfW(Xword) soname = 0;

	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			object->symbols = dynamic_pointer(object, entry->d_un.d_ptr);
			break;
		case DT_STRTAB:
			object->strings = dynamic_pointer(object, entry->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			object->gnu_hash = dynamic_pointer(object, entry->d_un.d_ptr);
			break;
		case DT_HASH:
			object->hash = dynamic_pointer(object, entry->d_un.d_ptr);
			break;
		case DT_SONAME:
			soname = entry->d_un.d_val;
			break;
		}
	}
	if (soname && object->strings)
		object->soname = object->strings + soname;
}

void object_describe(const struct dl_phdr_info *info, struct object *object)
{
	const ElfW(Dyn) *dynamic = NULL;

	*object = (struct object){
		.bias = info->dlpi_addr,
		.start = UINTPTR_MAX,
		.path = info->dlpi_name ? info->dlpi_name : "",
		.headers = info->dlpi_phdr,
		.header_count = info->dlpi_phnum,
	};
	for (size_t i = 0; i < object->header_count; i++) {
		const ElfW(Phdr) *header = &object->headers[i];
		uintptr_t start = object->bias + header->p_vaddr;

		if (header->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)start;
		if (header->p_type != PT_LOAD)
			continue;
		if (start < object->start)
			object->start = start;
		if (start + header->p_memsz > object->end)
			object->end = start + header->p_memsz;
	}
	object->dynamic = dynamic;
	if (dynamic)
		read_dynamic(object, dynamic);
}

bool object_needs(const struct object *object, const char *soname)
{
	const ElfW(Dyn) *entry = object->strings ? object->dynamic : NULL;

	for (; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_NEEDED &&
		    is_same(object->strings + entry->d_un.d_val, soname))
			return true;
	return false;
}

struct relocations {
	const ElfW(Rela) * first;
	size_t bytes;
};

static void visit_wanted(const struct object *object, const struct relocations *relocations,
			 void (*visit)(const char *name, void *data), void *data)
{
	for (size_t i = 0; relocations->first && i < relocations->bytes / sizeof(ElfW(Rela)); i++) {
		size_t number = ELF64_R_SYM(relocations->first[i].r_info);

		if (number && object->symbols[number].st_shndx == SHN_UNDEF)
			visit(object->strings + object->symbols[number].st_name, data);
	}
}

void object_each_wanted(const struct object *object, void (*visit)(const char *name, void *data),
			void *data)
{
	const ElfW(Dyn) *entry = object->strings && object->symbols ? object->dynamic : NULL;
	struct relocations calls = { NULL, 0 }, others = { NULL, 0 };

	for (; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_JMPREL)
			calls.first = dynamic_pointer(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTRELSZ)
			calls.bytes = entry->d_un.d_val;
		else if (entry->d_tag == DT_RELA)
			others.first = dynamic_pointer(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELASZ)
			others.bytes = entry->d_un.d_val;
	}
	visit_wanted(object, &calls, visit, data);
	visit_wanted(object, &others, visit, data);
}

/* The list of loaded objects that the loader keeps for debuggers, behind DT_DEBUG. */
static const struct link_map *first_loaded(void)
{
	const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t count = getauxval(AT_PHNUM);
	const ElfW(Dyn) *entry = NULL;
	uintptr_t bias = 0;

	for (size_t i = 0; i < count; i++) {
		if (header[i].p_type == PT_PHDR)
			bias = (uintptr_t)header - header[i].p_vaddr;
		if (header[i].p_type == PT_DYNAMIC)
			entry = (const ElfW(Dyn) *)(bias + header[i].p_vaddr);
	}
	for (; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr)
			return ((const struct r_debug *)entry->d_un.d_ptr)->r_map;
	return NULL;
}

static bool is_file(const char *path, const char *file)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return is_same(name, file);
}

bool object_find_startup(const char *file, struct object *object)
{
	const struct link_map *map = first_loaded();

	while (map && !is_file(map->l_name, file))
		map = map->l_next;
	if (!map)
		return false;
	*object = (struct object){ .bias = map->l_addr, .path = map->l_name };
	read_dynamic(object, map->l_ld);
	return true;
}

struct search {
	const char *soname;
	const void *address;
	struct object *object;
};

static int match(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	struct object *object = search->object;

	(void)size;
	object_describe(info, object);
	if (search->soname)
		return object->soname && is_same(object->soname, search->soname);
	return object_covers(object, search->address);
}

bool object_find_soname(const char *soname, struct object *object)
{
	struct search search = { .soname = soname, .object = object };

	return dl_iterate_phdr(match, &search);
}

bool object_find_address(const void *address, struct object *object)
{
	struct search search = { .address = address, .object = object };

	return dl_iterate_phdr(match, &search);
}

static bool symbol_is(const struct object *object, const ElfW(Sym) * symbol, const char *name)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	unsigned binding = ELF64_ST_BIND(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       (type == STT_FUNC || type == STT_NOTYPE) && binding != STB_LOCAL &&
	       is_same(object->strings + symbol->st_name, name);
}

uint32_t object_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* DT_GNU_HASH: four words, a bloom filter, buckets, then one chain word per symbol. */
static const ElfW(Sym) *
	find_by_gnu_hash(const struct object *object, const char *name, uint32_t hash)
{
	const uint32_t *table = object->gnu_hash;
	uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words);
	const uint32_t *chain = bucket + buckets;
	const unsigned bits = 8 * sizeof(*bloom);
	ElfW(Addr) filter;
	uint32_t i;

	if (!words || !buckets) /* an object without exports */
		return NULL;
	filter = bloom[hash / bits % words];
	if (!(filter >> hash % bits & filter >> (hash >> shift) % bits & 1))
		return NULL;
	i = bucket[hash % buckets];
	if (i < first)
		return NULL;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) &&
		    symbol_is(object, &object->symbols[i], name))
			return &object->symbols[i];
		if (chain[i - first] & 1)
			return NULL;
	}
}

/* DT_HASH names the number of symbols; objects with it alone are few and small. */
static const ElfW(Sym) * find_in_all(const struct object *object, const char *name)
{
	for (uint32_t i = 1; i < object->hash[1]; i++)
		if (symbol_is(object, &object->symbols[i], name))
			return &object->symbols[i];
	return NULL;
}

void *object_symbol_hashed(const struct object *object, const char *name, uint32_t hash)
{
	const ElfW(Sym) *symbol = NULL;

	if (!object->symbols || !object->strings)
		return NULL;
	if (object->gnu_hash)
		symbol = find_by_gnu_hash(object, name, hash);
	else if (object->hash)
		symbol = find_in_all(object, name);
	return symbol ? (void *)(object->bias + symbol->st_value) : NULL;
}

void *object_symbol(const struct object *object, const char *name)
{
	return object_symbol_hashed(object, name, object_hash(name));
}

static void print_hexadecimal(const unsigned char *bytes, size_t count, char *text)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		*text++ = digit[bytes[i] >> 4];
		*text++ = digit[bytes[i] & 15];
	}
	*text = '\0';
}

/* One PT_NOTE segment: notes of a header, a padded name and padded content. */
static bool find_build_id(const char *note, size_t left, char *text, size_t bytes)
{
	while (left >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *header = (const ElfW(Nhdr) *)note;
		size_t name = (header->n_namesz + 3) & ~(size_t)3;
		size_t content = (header->n_descsz + 3) & ~(size_t)3;

		if (sizeof(*header) + name + content > left)
			return false;
		note += sizeof(*header);
		if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 &&
		    is_same(note, "GNU") && 2 * (size_t)header->n_descsz < bytes) {
			print_hexadecimal((const unsigned char *)note + name, header->n_descsz,
					  text);
			return true;
		}
		note += name + content;
		left -= sizeof(*header) + name + content;
	}
	return false;
}

void object_build_id(const struct object *object, char *text, size_t bytes)
{
	*text = '\0';
	for (size_t i = 0; i < object->header_count; i++) {
		const ElfW(Phdr) *header = &object->headers[i];

		if (header->p_type == PT_NOTE &&
		    find_build_id((const char *)(object->bias + header->p_vaddr), header->p_memsz,
				  text, bytes))
			return;
	}
}
