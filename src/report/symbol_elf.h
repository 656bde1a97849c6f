/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol_elf.h - function names of one ELF file, read from .symtab or, where
 * that was stripped, .dynsym.  The file is untrusted: every offset is checked
 * against its size.
 */
#ifndef CUSTODY_REPORT_SYMBOL_ELF_H
#define CUSTODY_REPORT_SYMBOL_ELF_H

#include <stdint.h>

struct symbol_elf;

/* NULL: not there, not an ELF file of this machine's kind, or not this build. */
struct symbol_elf *symbol_elf_open(const char *path, const char *build_id);
void symbol_elf_close(struct symbol_elf *elf);

/* The function at `offset` from the lowest mapped address; NULL: none known. */
const char *symbol_elf_find(const struct symbol_elf *elf, uint64_t offset);

#endif
