/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_file.h - an ELF file, mapped for reading.  Files come from anywhere, so
 * every offset is checked against the size before it is followed.
 */
#ifndef CUSTODY_REPORT_ELF_FILE_H
#define CUSTODY_REPORT_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
	const unsigned char *data;
	size_t bytes;
};

/* False: not there, not readable, or too short to be an ELF file. */
bool elf_file_open(struct elf_file *file, const char *path);
void elf_file_close(struct elf_file *file);

/* Has it the magic number?  What follows asks for elf_file_is_64() too. */
bool elf_file_is_elf(const struct elf_file *file);

/* 64 bit, little endian, with headers of the known size. */
bool elf_file_is_64(const struct elf_file *file);

const Elf64_Ehdr *elf_file_header(const struct elf_file *file);

/* `count` things of `size` bytes at `offset`; NULL: not aligned to 4, or not all in the file. */
const void *elf_file_part(const struct elf_file *file, uint64_t offset, uint64_t count,
			  uint64_t size);

/* Both may be NULL; `count` is 0 then. */
const Elf64_Phdr *elf_file_segments(const struct elf_file *file, unsigned *count);
const Elf64_Shdr *elf_file_sections(const struct elf_file *file, unsigned *count);

const Elf64_Phdr *elf_file_segment(const struct elf_file *file, unsigned type);
const Elf64_Shdr *elf_file_section(const struct elf_file *file, unsigned type);

/* The string table a section links to, ended by NUL; NULL: there is no sound one. */
const char *elf_file_strings(const struct elf_file *file, const Elf64_Shdr *section,
			     uint64_t *bytes);

/* The path of the dynamic linker; NULL: none is asked for. */
const char *elf_file_interpreter(const struct elf_file *file);

/* The n-th (from 0) string of this tag in the dynamic section, as DT_NEEDED; NULL: no more. */
const char *elf_file_dynamic_text(const struct elf_file *file, int64_t tag, unsigned n);

/* Does it want this function from another file? */
bool elf_file_imports(const struct elf_file *file, const char *name);

#endif
