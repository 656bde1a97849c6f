/* SPDX-License-Identifier: Apache-2.0 */
#include "report/program.h"

#include "report/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#define MULTIARCH "x86_64-linux-gnu"
#else
enum { OUR_MACHINE = EM_AARCH64 };
#define MULTIARCH "aarch64-linux-gnu"
#endif

enum { SCRIPT_DEPTH = 4 };

static int judge_file(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return errno == ENOTDIR ? ENOENT : errno;
	if (!S_ISREG(status.st_mode) || access(path, X_OK))
		return EACCES;
	return 0;
}

int program_find(const char *name, char *path, size_t bytes)
{
	const char *places = getenv("PATH");
	int result = ENOENT;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		snprintf(path, bytes, "%s", name);
		return judge_file(path);
	}
	for (places = places ? places : "/bin:/usr/bin";; places++) {
		size_t length = strcspn(places, ":");
		int code;

		snprintf(path, bytes, "%.*s%s%s", (int)length, places, length ? "/" : "./", name);
		code = judge_file(path);
		if (!code)
			return 0;
		if (code == EACCES)
			result = EACCES;
		places += length;
		if (!*places)
			break;
	}
	return result;
}

static enum program_obstacle judge_elf(const struct elf_file *file)
{
	const char *interpreter;

	if (!elf_file_is_64(file) || elf_file_header(file)->e_machine != OUR_MACHINE)
		return PROGRAM_OTHER_CPU;
	interpreter = elf_file_interpreter(file);
	if (!interpreter)
		return PROGRAM_STATIC;
	return strstr(interpreter, "ld-linux") ? PROGRAM_GOOD : PROGRAM_OTHER_LIBC;
}

/* The kernel drops LD_PRELOAD's say where a program gains rights; root gains none by its bits. */
static bool gains_rights(const char *path)
{
	struct stat status;

	if (getxattr(path, "security.capability", NULL, 0) > 0)
		return true;
	if (stat(path, &status))
		return false;
	return ((status.st_mode & S_ISUID) && status.st_uid != getuid()) ||
	       ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) &&
		status.st_gid != getgid());
}

/* The interpreter of a script; "env NAME" is looked up as env does. */
static bool read_script(const char *line, char *path, size_t bytes)
{
	char word[PATH_MAX], name[PATH_MAX] = "";

	if (strncmp(line, "#!", 2) ||
	    sscanf(line + 2, " %4095[^ \t\n] %4095[^ \t\n]", word, name) < 1)
		return false;
	if (strcmp(strrchr(word, '/') ? strrchr(word, '/') + 1 : word, "env"))
		return snprintf(path, bytes, "%s", word) < (int)bytes;
	return *name && *name != '-' && !program_find(name, path, bytes);
}

/* PROGRAM_NO_ELF, and the first line, for what may be a script. */
static enum program_obstacle inspect(const char *path, char *line, size_t bytes)
{
	struct elf_file file;
	enum program_obstacle obstacle = PROGRAM_NO_ELF;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	if (fd < 0)
		return PROGRAM_UNREADABLE;
	got = pread(fd, line, bytes - 1, 0);
	line[got > 0 ? got : 0] = '\0';
	close(fd);
	if (!elf_file_open(&file, path))
		return obstacle;
	if (elf_file_is_elf(&file)) {
		obstacle = judge_elf(&file);
		if (obstacle == PROGRAM_GOOD && gains_rights(path))
			obstacle = PROGRAM_SECURE;
	}
	elf_file_close(&file);
	return obstacle;
}

enum program_obstacle program_inspect(const char *path, char *subject, size_t bytes)
{
	enum program_obstacle obstacle = PROGRAM_UNREADABLE;
	char line[PATH_MAX * 2 + 16];

	snprintf(subject, bytes, "%s", path);
	for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
		obstacle = inspect(subject, line, sizeof(line));
		if (obstacle != PROGRAM_NO_ELF || !read_script(line, subject, bytes))
			break;
	}
	return obstacle;
}

const char *program_explain(enum program_obstacle obstacle)
{
	switch (obstacle) {
	case PROGRAM_GOOD:
		return "can be recorded";
	case PROGRAM_UNREADABLE:
		return "cannot be read";
	case PROGRAM_NO_ELF:
		return "is neither an ELF program nor a script";
	case PROGRAM_STATIC:
		return "is statically linked, so nothing can be preloaded into it";
	case PROGRAM_SECURE:
		return "gains rights when it starts (set-user-id or capabilities), so the loader "
		       "ignores preloads";
	case PROGRAM_OTHER_LIBC:
		return "does not use glibc's loader";
	case PROGRAM_OTHER_CPU:
		return "is built for another kind of processor";
	}
	return "is unknown";
}

static bool exists(const char *path)
{
	return !access(path, R_OK);
}

static bool find_own_directory(char *directory)
{
	ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
	char *slash;

	if (length <= 0)
		return false;
	directory[length] = '\0';
	slash = strrchr(directory, '/');
	*slash = '\0';
	return true;
}

/* The first of `places`, relative to this program, that holds `name`. */
static bool find_near(const char *const *places, const char *name, char *path, size_t bytes)
{
	char own[PATH_MAX], try[PATH_MAX * 2];

	if (!find_own_directory(own))
		return false;
	for (; *places; places++) {
		snprintf(try, sizeof(try), "%s/%s/%s", own, *places, name);
		if (exists(try))
			return snprintf(path, bytes, "%s", try) < (int)bytes;
	}
	return false;
}

/* What the environment names; from the root on, because the program may work elsewhere. */
static bool take_given(const char *given, char *path, size_t bytes)
{
	char real[PATH_MAX];

	return realpath(given, real) && exists(real) &&
	       snprintf(path, bytes, "%s", real) < (int)bytes;
}

bool program_find_preload(char *path, size_t bytes)
{
	static const char *const places[] = { ".libs", "../.libs", "../lib", "../lib/" MULTIARCH,
					      NULL };
	const char *given = getenv("CUSTODY_PRELOAD");

	if (given && *given)
		return take_given(given, path, bytes);
	if (find_near(places, "libcustody-preload.so", path, bytes))
		return true;
	return snprintf(path, bytes, "%s/libcustody-preload.so", LIBDIR) < (int)bytes &&
	       exists(path);
}

bool program_find_simdriver(char *path, size_t bytes)
{
	static const char *const places[] = {
		"tests/support/simdriver/lib", "../tests/support/simdriver/lib",
		"../lib/custody/libcuda-sim", "../lib/" MULTIARCH "/custody/libcuda-sim", NULL,
	};
	const char *given = getenv("CUSTODY_SIMDRIVER");
	char library[PATH_MAX];

	if (given && *given)
		return take_given(given, path, bytes);
	if (find_near(places, "libcuda.so.1", library, sizeof(library))) {
		*strrchr(library, '/') = '\0';
		return snprintf(path, bytes, "%s", library) < (int)bytes;
	}
	return snprintf(path, bytes, "%s/libcuda-sim", PKGLIBDIR) < (int)bytes && exists(path);
}
