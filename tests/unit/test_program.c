/* SPDX-License-Identifier: Apache-2.0 */
#include "report/program.h"

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char place[64];
static char path[PATH_MAX];
static char subject[PATH_MAX];

static void make_place(void)
{
	strcpy(place, "/tmp/custody-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(path, sizeof(path), "%s/program", place);
}

static void remove_place(void)
{
	char command[128];

	setenv("PATH", "/bin:/usr/bin", 1);
	snprintf(command, sizeof(command), "rm -rf %s", place);
	ck_assert_int_eq(system(command), 0);
}

static void write_program(const void *bytes, size_t count, mode_t mode)
{
	FILE *stream = fopen(path, "w");

	ck_assert_ptr_nonnull(stream);
	fwrite(bytes, count, 1, stream);
	fclose(stream);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static enum program_obstacle inspect_text(const char *text)
{
	write_program(text, strlen(text), 0755);
	return program_inspect(path, subject, sizeof(subject));
}

START_TEST(own_test_program_can_be_recorded)
{
	ck_assert_int_eq(program_inspect("/proc/self/exe", subject, sizeof(subject)), PROGRAM_GOOD);
}
END_TEST

START_TEST(script_counts_as_its_interpreter)
{
	ck_assert_int_eq(inspect_text("#!/bin/sh\necho\n"), PROGRAM_GOOD);
	ck_assert_str_eq(subject, "/bin/sh");
	ck_assert_int_eq(inspect_text("#! /usr/bin/env sh\n"), PROGRAM_GOOD);
	ck_assert_ptr_nonnull(strstr(subject, "/sh"));
	ck_assert_int_eq(inspect_text("#!/not/there\n"), PROGRAM_UNREADABLE);
	ck_assert_int_eq(inspect_text("neither\n"), PROGRAM_NO_ELF);
	ck_assert_int_eq(inspect_text("#!"), PROGRAM_NO_ELF);
	ck_assert_int_eq(inspect_text(""), PROGRAM_NO_ELF);
}
END_TEST

START_TEST(script_that_runs_itself_comes_to_an_end)
{
	char line[PATH_MAX + 8];

	snprintf(line, sizeof(line), "#!%s\n", path);
	ck_assert_int_eq(inspect_text(line), PROGRAM_NO_ELF);
}
END_TEST

/* As much of an ELF file as the kernel would look at, without an interpreter. */
static Elf64_Ehdr make_header(void)
{
	Elf64_Ehdr header = {
		.e_type = ET_EXEC,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
#if defined(__x86_64__)
		.e_machine = EM_X86_64,
#else
		.e_machine = EM_AARCH64,
#endif
	};

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	return header;
}

static enum program_obstacle inspect_header(const Elf64_Ehdr *header)
{
	write_program(header, sizeof(*header), 0755);
	return program_inspect(path, subject, sizeof(subject));
}

START_TEST(static_and_foreign_programs_are_told_apart)
{
	Elf64_Ehdr header = make_header();

	ck_assert_int_eq(inspect_header(&header), PROGRAM_STATIC);
	header.e_machine = EM_RISCV;
	ck_assert_int_eq(inspect_header(&header), PROGRAM_OTHER_CPU);
	header = make_header();
	header.e_ident[EI_CLASS] = ELFCLASS32;
	ck_assert_int_eq(inspect_header(&header), PROGRAM_32_BIT);
	header.e_ident[EI_DATA] = ELFDATA2MSB;
	ck_assert_int_eq(inspect_header(&header), PROGRAM_OTHER_CPU);
}
END_TEST

/* A program whose loader has this path. */
static enum program_obstacle inspect_loader(const char *loader)
{
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		char loader[64];
	} file = { .header = make_header() };

	file.header.e_phoff = sizeof(file.header);
	file.header.e_phnum = 1;
	file.segment.p_type = PT_INTERP;
	file.segment.p_offset = sizeof(file.header) + sizeof(file.segment);
	file.segment.p_filesz = strlen(loader) + 1;
	strcpy(file.loader, loader);
	write_program(&file, sizeof(file), 0755);
	return program_inspect(path, subject, sizeof(subject));
}

START_TEST(the_loader_tells_the_c_library)
{
	ck_assert_int_eq(inspect_loader("/lib64/ld-linux-x86-64.so.2"), PROGRAM_GOOD);
	ck_assert_int_eq(inspect_loader("/lib/ld-musl-x86_64.so.1"), PROGRAM_MUSL);
	ck_assert_int_eq(inspect_loader("/system/bin/linker64"), PROGRAM_OTHER_LIBC);
}
END_TEST

/* Only where the kernel would give them: not on every file system, nor to everybody. */
START_TEST(rights_that_a_program_gains_are_told)
{
	struct statvfs room;

	inspect_loader("/lib64/ld-linux-x86-64.so.2");
	if (statvfs(path, &room) || room.f_flag & ST_NOSUID || chown(path, 65534, 65534))
		return;
	ck_assert_int_eq(chmod(path, 04755), 0);
	ck_assert_int_eq(program_inspect(path, subject, sizeof(subject)), PROGRAM_SETUID);
	ck_assert_int_eq(chmod(path, 02755), 0);
	ck_assert_int_eq(program_inspect(path, subject, sizeof(subject)), PROGRAM_SETGID);
	ck_assert_int_eq(chmod(path, 02745), 0); /* a mark for locks, no rights */
	ck_assert_int_eq(program_inspect(path, subject, sizeof(subject)), PROGRAM_GOOD);
	ck_assert_int_eq(chown(path, getuid(), getgid()), 0);
	ck_assert_int_eq(chmod(path, 06755), 0);
	ck_assert_int_eq(program_inspect(path, subject, sizeof(subject)), PROGRAM_GOOD);
}
END_TEST

START_TEST(damaged_programs_do_no_harm)
{
	Elf64_Ehdr header = make_header();

	header.e_phnum = UINT16_MAX;
	header.e_phoff = UINT64_MAX - 3;
	inspect_header(&header);
	write_program(&header, 20, 0755);
	program_inspect(path, subject, sizeof(subject));
}
END_TEST

START_TEST(program_is_looked_for_as_a_shell_does)
{
	char found[PATH_MAX];

	setenv("PATH", place, 1);
	ck_assert_int_eq(program_find("program", found, sizeof(found)), ENOENT);
	write_program("x", 1, 0644);
	ck_assert_int_eq(program_find("program", found, sizeof(found)), EACCES);
	ck_assert_int_eq(program_find(path, found, sizeof(found)), EACCES);
	ck_assert_int_eq(chmod(path, 0755), 0);
	ck_assert_int_eq(program_find("program", found, sizeof(found)), 0);
	ck_assert_str_eq(found, path);
	ck_assert_int_eq(program_find("./program", found, sizeof(found)), ENOENT);
	ck_assert_int_eq(program_find(place, found, sizeof(found)), EACCES);
	ck_assert_int_eq(program_find("", found, sizeof(found)), ENOENT);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("program");
	TCase *files = tcase_create("files");

	tcase_add_checked_fixture(files, make_place, remove_place);
	tcase_add_test(files, own_test_program_can_be_recorded);
	tcase_add_test(files, script_counts_as_its_interpreter);
	tcase_add_test(files, script_that_runs_itself_comes_to_an_end);
	tcase_add_test(files, static_and_foreign_programs_are_told_apart);
	tcase_add_test(files, the_loader_tells_the_c_library);
	tcase_add_test(files, rights_that_a_program_gains_are_told);
	tcase_add_test(files, damaged_programs_do_no_harm);
	tcase_add_test(files, program_is_looked_for_as_a_shell_does);
	suite_add_tcase(suite, files);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(make_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
