/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_program.c - what a program file says of whether it can be recorded. */
#include "report/doctor.h"

#include "core/option.h"
#include "report/elf_file.h"
#include "report/program.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static bool needs(const struct elf_file *file, const char *prefix)
{
	const char *name;

	for (unsigned n = 0; (name = elf_file_dynamic_text(file, DT_NEEDED, n)); n++)
		if (!strncmp(name, prefix, strlen(prefix)))
			return true;
	return false;
}

/* How the driver comes into it, as far as the file tells. */
static void judge_doors(struct doctor *doctor, const struct elf_file *file)
{
	const char *path = elf_file_dynamic_text(file, DT_RUNPATH, 0);

	if (needs(file, "libcuda.so"))
		doctor_say(doctor, DOCTOR_GOOD, "it is linked with the driver (libcuda)");
	else if (needs(file, "libcudart.so"))
		doctor_say(doctor, DOCTOR_GOOD,
			   "it is linked with the CUDA runtime, which loads the driver");
	else if (elf_file_imports(file, "dlopen"))
		doctor_say(doctor, DOCTOR_GOOD,
			   "it names no CUDA library, but can load one (dlopen)%s",
			   strcmp(option_text(OPTION_DEEPBIND), "clear") ?
				   "; one that it loads with RTLD_DEEPBIND is seen only with "
				   "CUSTODY_DEEPBIND=clear" :
				   "");
	else
		doctor_say(doctor, DOCTOR_NOTE,
			   "it names no CUDA library and loads none itself; libraries that it is "
			   "linked with, or programs that it starts, may");
	if (elf_file_imports(file, "dlmopen"))
		doctor_say(doctor, DOCTOR_NOTE,
			   "it uses dlmopen: what it loads into another namespace is not seen, but "
			   "the driver tells of it");
	if (!path)
		path = elf_file_dynamic_text(file, DT_RPATH, 0);
	if (path && strstr(path, "/stubs"))
		doctor_say(doctor, DOCTOR_NOTE,
			   "its search path has a stubs directory (%s), whose libcuda does nothing",
			   path);
	if (needs(file, "libasan.so"))
		doctor_say(doctor, DOCTOR_NOTE,
			   "it is built with AddressSanitizer, which wants to come first: set "
			   "ASAN_OPTIONS=verify_asan_link_order=0");
}

void doctor_program(struct doctor *doctor, const char *name)
{
	char path[PATH_MAX], subject[PATH_MAX];
	int code = program_find(name, path, sizeof(path));
	enum program_obstacle obstacle;
	struct elf_file file;

	if (code) {
		doctor_say(doctor, DOCTOR_BAD, "%s cannot be run: %s", name, strerror(code));
		return;
	}
	obstacle = program_inspect(path, subject, sizeof(subject));
	if (strcmp(path, subject))
		doctor_say(doctor, DOCTOR_GOOD, "%s is a script, run by %s", path, subject);
	doctor_say(doctor, obstacle == PROGRAM_GOOD ? DOCTOR_GOOD : DOCTOR_BAD, "%s %s", subject,
		   program_explain(obstacle));
	if (obstacle == PROGRAM_GOOD && elf_file_open(&file, subject)) {
		if (elf_file_is_64(&file))
			judge_doors(doctor, &file);
		elf_file_close(&file);
	}
}
