/* SPDX-License-Identifier: Apache-2.0 */
#include "report/symbol_elf.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct function {
	uint64_t start; /* from the lowest mapped address */
	uint64_t size;
	const char *name; /* into the mapping; ends inside its string table */
};

struct symbol_elf {
	const unsigned char *data;
	size_t bytes;
	uint64_t lowest; /* page of the lowest loaded address, as in the program headers */
	struct function *function;
	size_t count;
};

enum { BUILD_ID_MOST = 64, PAGE = 4096 };

static const Elf64_Ehdr *header_of(const struct symbol_elf *elf)
{
	return (const Elf64_Ehdr *)elf->data;
}

/* `count` things of `size` bytes at `offset`, or NULL if they are not all in the file. */
static const void *part(const struct symbol_elf *elf, uint64_t offset, uint64_t count, uint64_t size)
{
	if (offset > elf->bytes || offset % 4 || count > (elf->bytes - offset) / size)
		return NULL;
	return elf->data + offset;
}

static bool map_file(struct symbol_elf *elf, const char *path)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	void *data = MAP_FAILED;

	if (descriptor < 0)
		return false;
	if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)sizeof(Elf64_Ehdr))
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
	close(descriptor);
	if (data == MAP_FAILED)
		return false;
	elf->data = data;
	elf->bytes = (size_t)status.st_size;
	return true;
}

static bool is_readable(const struct symbol_elf *elf)
{
	const Elf64_Ehdr *header = header_of(elf);

	return !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       header->e_phentsize == sizeof(Elf64_Phdr) &&
	       header->e_shentsize == sizeof(Elf64_Shdr) && header->e_phoff % 8 == 0 &&
	       header->e_shoff % 8 == 0;
}

static const Elf64_Phdr *program_headers(const struct symbol_elf *elf, unsigned *count)
{
	const Elf64_Ehdr *header = header_of(elf);

	*count = header->e_phnum;
	return part(elf, header->e_phoff, *count, sizeof(Elf64_Phdr));
}

static void find_lowest(struct symbol_elf *elf)
{
	unsigned count;
	const Elf64_Phdr *segment = program_headers(elf, &count);
	uint64_t lowest = UINT64_MAX;

	for (unsigned i = 0; segment && i < count; i++)
		if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr < lowest)
			lowest = segment[i].p_vaddr;
	elf->lowest = lowest == UINT64_MAX ? 0 : lowest & ~(uint64_t)(PAGE - 1);
}

static bool spells(const unsigned char *id, size_t bytes, const char *hexadecimal)
{
	char text[2 * BUILD_ID_MOST + 1];

	if (bytes > BUILD_ID_MOST)
		return false;
	for (size_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	text[2 * bytes] = '\0';
	return !strcasecmp(text, hexadecimal);
}

/* Is the note with the build id in this segment, and is it ours? */
static bool segment_has_id(const struct symbol_elf *elf, const Elf64_Phdr *segment,
			   const char *build_id)
{
	uint64_t at = 0;

	while (segment->p_filesz - at >= sizeof(Elf64_Nhdr) && at < segment->p_filesz) {
		const Elf64_Nhdr *note = part(elf, segment->p_offset + at, 1, sizeof(*note));
		uint64_t name, bytes;
		const unsigned char *id;

		if (!note)
			return false;
		name = sizeof(*note) + ((uint64_t)note->n_namesz + 3) / 4 * 4;
		bytes = note->n_descsz;
		id = part(elf, segment->p_offset + at + name, bytes, 1);
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && id)
			return spells(id, bytes, build_id);
		at += name + (bytes + 3) / 4 * 4;
	}
	return false;
}

static bool is_same_build(const struct symbol_elf *elf, const char *build_id)
{
	unsigned count;
	const Elf64_Phdr *segment = program_headers(elf, &count);

	if (!build_id)
		return true;
	for (unsigned i = 0; segment && i < count; i++)
		if (segment[i].p_type == PT_NOTE && segment_has_id(elf, &segment[i], build_id))
			return true;
	return false;
}

static const Elf64_Shdr *find_section(const struct symbol_elf *elf, unsigned type)
{
	const Elf64_Ehdr *header = header_of(elf);
	const Elf64_Shdr *section =
		part(elf, header->e_shoff, header->e_shnum, sizeof(*section));

	for (unsigned i = 0; section && i < header->e_shnum; i++)
		if (section[i].sh_type == type && section[i].sh_link < header->e_shnum)
			return &section[i];
	return NULL;
}

/* The string table that a symbol section names; NULL: missing or not ended by NUL. */
static const char *strings_of(const struct symbol_elf *elf, const Elf64_Shdr *symbols,
			      uint64_t *bytes)
{
	const Elf64_Shdr *section = part(elf, header_of(elf)->e_shoff, header_of(elf)->e_shnum,
					 sizeof(*section));
	const char *strings;

	section += symbols->sh_link;
	*bytes = section->sh_size;
	if (section->sh_offset > elf->bytes || *bytes > elf->bytes - section->sh_offset || !*bytes)
		return NULL;
	strings = (const char *)elf->data + section->sh_offset;
	return strings[*bytes - 1] ? NULL : strings;
}

static bool is_function(const Elf64_Sym *symbol, uint64_t string_bytes)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_name && symbol->st_name < string_bytes;
}

static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

static void read_functions(struct symbol_elf *elf, const Elf64_Shdr *section)
{
	uint64_t count = section->sh_size / sizeof(Elf64_Sym), string_bytes;
	const Elf64_Sym *symbol = part(elf, section->sh_offset, count, sizeof(*symbol));
	const char *strings = strings_of(elf, section, &string_bytes);

	if (!symbol || !strings || section->sh_offset % 8)
		return;
	elf->function = calloc(count, sizeof(*elf->function));
	for (uint64_t i = 0; elf->function && i < count; i++) {
		if (!is_function(&symbol[i], string_bytes))
			continue;
		elf->function[elf->count++] = (struct function){
			.start = symbol[i].st_value - elf->lowest,
			.size = symbol[i].st_size,
			.name = strings + symbol[i].st_name,
		};
	}
	qsort(elf->function, elf->count, sizeof(*elf->function), compare_functions);
}

struct symbol_elf *symbol_elf_open(const char *path, const char *build_id)
{
	struct symbol_elf *elf = calloc(1, sizeof(*elf));
	const Elf64_Shdr *section;

	if (!elf)
		return NULL;
	if (!map_file(elf, path) || !is_readable(elf) || !is_same_build(elf, build_id)) {
		symbol_elf_close(elf);
		return NULL;
	}
	find_lowest(elf);
	section = find_section(elf, SHT_SYMTAB);
	if (!section)
		section = find_section(elf, SHT_DYNSYM);
	if (section)
		read_functions(elf, section);
	return elf;
}

void symbol_elf_close(struct symbol_elf *elf)
{
	if (!elf)
		return;
	if (elf->data)
		munmap((void *)elf->data, elf->bytes);
	free(elf->function);
	free(elf);
}

const char *symbol_elf_find(const struct symbol_elf *elf, uint64_t offset)
{
	size_t low = 0, high = elf->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->function[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	/* Assembly has functions without a size: the nearest one before is then the best guess. */
	if (!low || (elf->function[low - 1].size &&
		     offset - elf->function[low - 1].start >= elf->function[low - 1].size))
		return NULL;
	return elf->function[low - 1].name;
}
