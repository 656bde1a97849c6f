/* SPDX-License-Identifier: Apache-2.0 */
#include "report/elf_file.h"
#include "report/symbol_elf.h"

#include <check.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLIPS = 4000 };

void test_symbol_landmark(void);

/* A function to be found by name; other tests have no use for it. */
void __attribute__((noinline)) test_symbol_landmark(void)
{
	__asm__ volatile("");
}

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	/* The first one is the program itself. */
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		*(uintptr_t *)base = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & ~4095ul;
		break;
	}
	return 1;
}

static uint64_t landmark_offset(void)
{
	uintptr_t base = 0;

	dl_iterate_phdr(find_base, &base);
	return (uintptr_t)test_symbol_landmark - base;
}

START_TEST(a_function_of_this_program_is_found)
{
	struct symbol_elf *elf = symbol_elf_open("/proc/self/exe", NULL);

	ck_assert_ptr_nonnull(elf);
	ck_assert_str_eq(symbol_elf_find(elf, landmark_offset()), "test_symbol_landmark");
	symbol_elf_close(elf);
}
END_TEST

START_TEST(a_place_before_all_functions_has_no_name)
{
	struct symbol_elf *elf = symbol_elf_open("/proc/self/exe", NULL);

	ck_assert_ptr_null(symbol_elf_find(elf, 0));
	symbol_elf_close(elf);
}
END_TEST

START_TEST(another_build_is_refused)
{
	ck_assert_ptr_null(symbol_elf_open("/proc/self/exe", "00112233"));
}
END_TEST

START_TEST(what_is_no_elf_file_is_refused)
{
	ck_assert_ptr_null(symbol_elf_open("/no/such/file", NULL));
	ck_assert_ptr_null(symbol_elf_open("/", NULL));
	ck_assert_ptr_null(symbol_elf_open("/dev/null", NULL));
	ck_assert_ptr_null(symbol_elf_open("/etc/passwd", NULL));
}
END_TEST

START_TEST(the_dynamic_section_tells_what_is_needed)
{
	struct elf_file file;
	bool needs_libc = false;
	const char *name;

	ck_assert(elf_file_open(&file, "/proc/self/exe"));
	ck_assert(elf_file_is_64(&file));
	ck_assert_ptr_nonnull(strstr(elf_file_interpreter(&file), "ld-linux"));
	for (unsigned n = 0; (name = elf_file_dynamic_text(&file, DT_NEEDED, n)); n++)
		needs_libc |= !strcmp(name, "libc.so.6");
	ck_assert(needs_libc);
	ck_assert(elf_file_imports(&file, "dl_iterate_phdr"));
	ck_assert(!elf_file_imports(&file, "no_such_function"));
	elf_file_close(&file);
}
END_TEST

static unsigned char *read_self(size_t *bytes)
{
	FILE *stream = fopen("/proc/self/exe", "rb");
	unsigned char *data = malloc(1 << 24);

	ck_assert_ptr_nonnull(stream);
	*bytes = fread(data, 1, 1 << 24, stream);
	fclose(stream);
	return data;
}

/* Ask everything that can be asked of the file. */
static void use_file(const char *path)
{
	struct symbol_elf *elf = symbol_elf_open(path, NULL);
	struct elf_file file;

	if (elf)
		symbol_elf_find(elf, landmark_offset());
	symbol_elf_close(elf);
	symbol_elf_close(symbol_elf_open(path, "00"));
	if (elf_file_open(&file, path) && elf_file_is_64(&file)) {
		elf_file_interpreter(&file);
		elf_file_dynamic_text(&file, DT_NEEDED, 1);
		elf_file_imports(&file, "dlopen");
	}
	elf_file_close(&file);
}

/* The headers get most of the flips: there stand the offsets that are followed. */
START_TEST(a_damaged_file_does_no_harm)
{
	char path[] = "/tmp/custody-test-symbol-XXXXXX";
	int descriptor = mkstemp(path);
	size_t bytes;
	unsigned char *data = read_self(&bytes);

	srandom(1);
	ck_assert_int_ge(descriptor, 0);
	for (int flip = 0; flip < FLIPS; flip++) {
		bool in_head = flip % 2;
		size_t at = (size_t)random() % (in_head ? 1024 : bytes);
		unsigned char value = (unsigned char)random(), kept;

		/* Every other time among the section headers, at the end. */
		if (!in_head && flip % 4)
			at = bytes - 1 - (size_t)random() % 2048;
		kept = data[at];
		data[at] = value;
		ck_assert_int_eq(pwrite(descriptor, data, bytes, 0), (ssize_t)bytes);
		use_file(path);
		data[at] = kept;
	}
	unlink(path);
	close(descriptor);
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("symbol");
	TCase *tcase = tcase_create("elf files");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, a_function_of_this_program_is_found);
	tcase_add_test(tcase, a_place_before_all_functions_has_no_name);
	tcase_add_test(tcase, another_build_is_refused);
	tcase_add_test(tcase, what_is_no_elf_file_is_refused);
	tcase_add_test(tcase, the_dynamic_section_tells_what_is_needed);
	tcase_add_test(tcase, a_damaged_file_does_no_harm);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
