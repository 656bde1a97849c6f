/* SPDX-License-Identifier: Apache-2.0 */
#include "report/symbol_elf.h"

#include "report/elf_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct function {
	uint64_t start; /* from the lowest mapped address */
	uint64_t size;
	const char *name; /* into the mapping; ends inside its string table */
};

struct symbol_elf {
	struct elf_file file;
	uint64_t lowest; /* page of the lowest loaded address, as in the program headers */
	struct function *function;
	size_t count;
};

enum { BUILD_ID_MOST = 64, PAGE = 4096 };

static uint64_t find_lowest(const struct elf_file *file)
{
	unsigned count;
	const Elf64_Phdr *segment = elf_file_segments(file, &count);
	uint64_t lowest = UINT64_MAX;

	for (unsigned i = 0; i < count; i++)
		if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr < lowest)
			lowest = segment[i].p_vaddr;
	return lowest == UINT64_MAX ? 0 : lowest & ~(uint64_t)(PAGE - 1);
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
static bool segment_has_id(const struct elf_file *file, const Elf64_Phdr *segment,
			   const char *build_id)
{
	uint64_t at = 0;

	while (at < segment->p_filesz && segment->p_filesz - at >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *note =
			elf_file_part(file, segment->p_offset + at, 1, sizeof(*note));
		const unsigned char *id;
		uint64_t name;

		if (!note)
			return false;
		name = sizeof(*note) + ((uint64_t)note->n_namesz + 3) / 4 * 4;
		id = elf_file_part(file, segment->p_offset + at + name, note->n_descsz, 1);
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && id)
			return spells(id, note->n_descsz, build_id);
		at += name + ((uint64_t)note->n_descsz + 3) / 4 * 4;
	}
	return false;
}

static bool is_same_build(const struct elf_file *file, const char *build_id)
{
	unsigned count;
	const Elf64_Phdr *segment = elf_file_segments(file, &count);

	if (!build_id)
		return true;
	for (unsigned i = 0; i < count; i++)
		if (segment[i].p_type == PT_NOTE && segment_has_id(file, &segment[i], build_id))
			return true;
	return false;
}

static bool is_function(const Elf64_Sym *symbol, uint64_t string_bytes)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_name && symbol->st_name < string_bytes;
}

/* Of several names for one place the last is taken: the one that looks least internal. */
static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (int)strspn(b->name, "_") - (int)strspn(a->name, "_");
}

static void read_functions(struct symbol_elf *elf, const Elf64_Shdr *section)
{
	uint64_t count = section->sh_size / sizeof(Elf64_Sym), string_bytes;
	const Elf64_Sym *symbol =
		elf_file_part(&elf->file, section->sh_offset, count, sizeof(*symbol));
	const char *strings = elf_file_strings(&elf->file, section, &string_bytes);

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
	if (elf->count)
		qsort(elf->function, elf->count, sizeof(*elf->function), compare_functions);
}

struct symbol_elf *symbol_elf_open(const char *path, const char *build_id)
{
	struct symbol_elf *elf = calloc(1, sizeof(*elf));
	const Elf64_Shdr *section;

	if (!elf)
		return NULL;
	if (!elf_file_open(&elf->file, path) || !elf_file_is_64(&elf->file) ||
	    !is_same_build(&elf->file, build_id)) {
		symbol_elf_close(elf);
		return NULL;
	}
	elf->lowest = find_lowest(&elf->file);
	section = elf_file_section(&elf->file, SHT_SYMTAB);
	if (!section)
		section = elf_file_section(&elf->file, SHT_DYNSYM);
	if (section)
		read_functions(elf, section);
	return elf;
}

void symbol_elf_close(struct symbol_elf *elf)
{
	if (!elf)
		return;
	elf_file_close(&elf->file);
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
