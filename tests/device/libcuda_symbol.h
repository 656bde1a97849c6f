/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda_symbol.h - the driver's own functions, past every interposer: found in
 * the symbol table of the libcuda that is loaded, without dlsym.
 */
#ifndef CUSTODY_DEVICE_LIBCUDA_SYMBOL_H
#define CUSTODY_DEVICE_LIBCUDA_SYMBOL_H

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct libcuda_search {
	const char *name;
	void *address;
};

/* The number of symbols is not written anywhere: it is the end of the last hash chain. */
static inline uint32_t libcuda_count(const uint32_t *hash)
{
	const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(void *) / sizeof(uint32_t));
	const uint32_t *chains = buckets + hash[0];
	uint32_t last = 0;

	for (uint32_t i = 0; i < hash[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < hash[1])
		return hash[1];
	while (!(chains[last - hash[1]] & 1))
		last++;
	return last + 1;
}

static inline void *libcuda_find(uintptr_t base, const ElfW(Dyn) * dynamic, const char *name)
{
	const uint32_t *hash = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	uint32_t total;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_GNU_HASH)
			hash = (const uint32_t *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB)
			strings = (const char *)dynamic->d_un.d_ptr;
	}
	total = hash && symbols && strings ? libcuda_count(hash) : 0;
	for (uint32_t i = 1; i < total; i++) {
		if (symbols[i].st_value && !strcmp(strings + symbols[i].st_name, name))
			return (void *)(base + symbols[i].st_value);
	}
	return NULL;
}

static inline int libcuda_look_into(struct dl_phdr_info *info, size_t size, void *data)
{
	struct libcuda_search *search = data;

	(void)size;
	if (!strstr(info->dlpi_name, "/libcuda.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			search->address = libcuda_find(
				info->dlpi_addr,
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				search->name);
	}
	return search->address != NULL;
}

static inline void *libcuda_symbol(const char *name)
{
	struct libcuda_search search = { .name = name };

	dl_iterate_phdr(libcuda_look_into, &search);
	return search.address;
}

#endif
