/* SPDX-License-Identifier: Apache-2.0 */
#include "report/elf_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool elf_file_open(struct elf_file *file, const char *path)
{
	/* A FIFO in the place of the file shall not hold us up. */
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	void *data = MAP_FAILED;

	memset(file, 0, sizeof(*file));
	if (descriptor < 0)
		return false;
	if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)sizeof(Elf64_Ehdr))
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
	close(descriptor);
	if (data == MAP_FAILED)
		return false;
	file->data = data;
	file->bytes = (size_t)status.st_size;
	return true;
}

void elf_file_close(struct elf_file *file)
{
	if (file->data)
		munmap((void *)file->data, file->bytes);
	memset(file, 0, sizeof(*file));
}

const Elf64_Ehdr *elf_file_header(const struct elf_file *file)
{
	return (const Elf64_Ehdr *)file->data;
}

bool elf_file_is_elf(const struct elf_file *file)
{
	return !memcmp(file->data, ELFMAG, SELFMAG);
}

bool elf_file_is_64(const struct elf_file *file)
{
	const Elf64_Ehdr *header = elf_file_header(file);

	return elf_file_is_elf(file) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       (!header->e_phnum || header->e_phentsize == sizeof(Elf64_Phdr)) &&
	       (!header->e_shnum || header->e_shentsize == sizeof(Elf64_Shdr)) &&
	       header->e_phoff % 8 == 0 && header->e_shoff % 8 == 0;
}

const void *elf_file_part(const struct elf_file *file, uint64_t offset, uint64_t count,
			  uint64_t size)
{
	if (offset > file->bytes || offset % 4 || count > (file->bytes - offset) / size)
		return NULL;
	return file->data + offset;
}

const Elf64_Phdr *elf_file_segments(const struct elf_file *file, unsigned *count)
{
	const Elf64_Ehdr *header = elf_file_header(file);
	const Elf64_Phdr *segment =
		elf_file_part(file, header->e_phoff, header->e_phnum, sizeof(*segment));

	*count = segment ? header->e_phnum : 0;
	return segment;
}

const Elf64_Shdr *elf_file_sections(const struct elf_file *file, unsigned *count)
{
	const Elf64_Ehdr *header = elf_file_header(file);
	const Elf64_Shdr *section =
		elf_file_part(file, header->e_shoff, header->e_shnum, sizeof(*section));

	*count = section ? header->e_shnum : 0;
	return section;
}

const Elf64_Phdr *elf_file_segment(const struct elf_file *file, unsigned type)
{
	unsigned count;
	const Elf64_Phdr *segment = elf_file_segments(file, &count);

	for (unsigned i = 0; i < count; i++)
		if (segment[i].p_type == type)
			return &segment[i];
	return NULL;
}

const Elf64_Shdr *elf_file_section(const struct elf_file *file, unsigned type)
{
	unsigned count;
	const Elf64_Shdr *section = elf_file_sections(file, &count);

	for (unsigned i = 0; i < count; i++)
		if (section[i].sh_type == type)
			return &section[i];
	return NULL;
}

/* Text of `bytes` at `offset` whose last byte is NUL. */
static const char *find_text(const struct elf_file *file, uint64_t offset, uint64_t bytes)
{
	const char *text;

	if (offset > file->bytes || !bytes || bytes > file->bytes - offset)
		return NULL;
	text = (const char *)file->data + offset;
	return text[bytes - 1] ? NULL : text;
}

const char *elf_file_strings(const struct elf_file *file, const Elf64_Shdr *section,
			     uint64_t *bytes)
{
	unsigned count;
	const Elf64_Shdr *all = elf_file_sections(file, &count);

	if (section->sh_link >= count)
		return NULL;
	*bytes = all[section->sh_link].sh_size;
	return find_text(file, all[section->sh_link].sh_offset, *bytes);
}

const char *elf_file_interpreter(const struct elf_file *file)
{
	const Elf64_Phdr *segment = elf_file_segment(file, PT_INTERP);

	return segment ? find_text(file, segment->p_offset, segment->p_filesz) : NULL;
}

/* Where the byte that is loaded at `address` stands in the file; 0: nowhere. */
static uint64_t find_offset(const struct elf_file *file, uint64_t address)
{
	unsigned count;
	const Elf64_Phdr *segment = elf_file_segments(file, &count);

	for (unsigned i = 0; i < count; i++)
		if (segment[i].p_type == PT_LOAD &&
		    address - segment[i].p_vaddr < segment[i].p_filesz)
			return segment[i].p_offset + (address - segment[i].p_vaddr);
	return 0;
}

static const Elf64_Dyn *dynamic_entries(const struct elf_file *file, uint64_t *count)
{
	const Elf64_Phdr *segment = elf_file_segment(file, PT_DYNAMIC);
	const Elf64_Dyn *entry = NULL;

	*count = segment ? segment->p_filesz / sizeof(*entry) : 0;
	if (segment && segment->p_offset % 8 == 0)
		entry = elf_file_part(file, segment->p_offset, *count, sizeof(*entry));
	if (!entry)
		*count = 0;
	return entry;
}

static uint64_t dynamic_value(const struct elf_file *file, int64_t tag, unsigned n)
{
	uint64_t count;
	const Elf64_Dyn *entry = dynamic_entries(file, &count);

	for (uint64_t i = 0; i < count && entry[i].d_tag != DT_NULL; i++)
		if (entry[i].d_tag == tag && !n--)
			return entry[i].d_un.d_val;
	return 0;
}

const char *elf_file_dynamic_text(const struct elf_file *file, int64_t tag, unsigned n)
{
	uint64_t at = dynamic_value(file, tag, n);
	uint64_t bytes = dynamic_value(file, DT_STRSZ, 0);
	const char *strings =
		find_text(file, find_offset(file, dynamic_value(file, DT_STRTAB, 0)), bytes);

	/* Offset 0 is the empty string, which no tag is worth. */
	return strings && at && at < bytes ? strings + at : NULL;
}

bool elf_file_imports(const struct elf_file *file, const char *name)
{
	const Elf64_Shdr *section = elf_file_section(file, SHT_DYNSYM);
	const Elf64_Sym *symbol = NULL;
	const char *strings = NULL;
	uint64_t count = 0, bytes = 0;

	if (section && section->sh_offset % 8 == 0) {
		count = section->sh_size / sizeof(*symbol);
		symbol = elf_file_part(file, section->sh_offset, count, sizeof(*symbol));
		strings = elf_file_strings(file, section, &bytes);
	}
	for (uint64_t i = 0; symbol && strings && i < count; i++)
		if (symbol[i].st_shndx == SHN_UNDEF && symbol[i].st_name < bytes &&
		    !strcmp(strings + symbol[i].st_name, name))
			return true;
	return false;
}
