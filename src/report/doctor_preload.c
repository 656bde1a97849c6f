/* SPDX-License-Identifier: Apache-2.0 */
#include "report/doctor.h"

#include "report/elf_file.h"

#include <string.h>

void doctor_preload(struct doctor *doctor, const char *path)
{
	static const char *const allowed[] = { "libc.so.", "ld-linux", "libdl.so.",
					       "libpthread.so." };
	struct elf_file file;
	const char *name;

	if (!elf_file_open(&file, path) || !elf_file_is_64(&file)) {
		doctor_say(doctor, DOCTOR_BAD, "the interposer %s is no library", path);
		elf_file_close(&file);
		return;
	}
	doctor_say(doctor, DOCTOR_GOOD, "the interposer is %s", path);
	for (unsigned n = 0; (name = elf_file_dynamic_text(&file, DT_NEEDED, n)); n++) {
		bool is_libc = false;

		for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
			is_libc |= !strncmp(name, allowed[i], strlen(allowed[i]));
		if (!is_libc)
			doctor_say(doctor, DOCTOR_NOTE,
				   "the interposer needs %s, which is not part of libc", name);
	}
	elf_file_close(&file);
}
