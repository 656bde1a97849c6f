/* SPDX-License-Identifier: Apache-2.0 */
#include "report/program.h"

#include "report/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

/* What a 64-bit processor of ours would run nevertheless. */
static bool is_32_bit(const struct elf_file *file)
{
	const unsigned char *identity = elf_file_part(file, 0, EI_NIDENT, 1);

	return identity && identity[EI_CLASS] == ELFCLASS32 && identity[EI_DATA] == ELFDATA2LSB;
}

static enum program_obstacle judge_elf(const struct elf_file *file)
{
	const char *interpreter;

	if (!elf_file_is_64(file))
		return is_32_bit(file) ? PROGRAM_32_BIT : PROGRAM_OTHER_CPU;
	if (elf_file_header(file)->e_machine != OUR_MACHINE)
		return PROGRAM_OTHER_CPU;
	interpreter = elf_file_interpreter(file);
	if (!interpreter)
		return PROGRAM_STATIC;
	if (strstr(interpreter, "ld-linux"))
		return PROGRAM_GOOD;
	return strstr(interpreter, "ld-musl") ? PROGRAM_MUSL : PROGRAM_OTHER_LIBC;
}

/* Where the kernel gives no rights to a program, whatever its file says. */
static bool is_kept_down(const char *path)
{
	struct statvfs place;

	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0 ||
	       (!statvfs(path, &place) && place.f_flag & ST_NOSUID);
}

/* The loader ignores LD_PRELOAD where a program gains rights; one gains none by being root's. */
static enum program_obstacle judge_rights(const char *path)
{
	struct stat status;

	if (is_kept_down(path) || stat(path, &status))
		return PROGRAM_GOOD;
	if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
		return PROGRAM_SETUID;
	if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid())
		return PROGRAM_SETGID;
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return PROGRAM_CAPABLE;
	return PROGRAM_GOOD;
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
		if (obstacle == PROGRAM_GOOD)
			obstacle = judge_rights(path);
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
	case PROGRAM_SETUID:
		return "gains the rights of another user when it starts (set-user-id), so the "
		       "loader ignores preloads";
	case PROGRAM_SETGID:
		return "gains the rights of another group when it starts (set-group-id), so the "
		       "loader ignores preloads";
	case PROGRAM_CAPABLE:
		return "gains capabilities when it starts, so the loader ignores preloads";
	case PROGRAM_MUSL:
		return "is made for musl, and the interposer for glibc";
	case PROGRAM_OTHER_LIBC:
		return "does not use glibc's loader";
	case PROGRAM_32_BIT:
		return "is a 32-bit program, and the interposer is for 64 bits, as is the driver";
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

bool program_find_injection(const char *preload, char *path, size_t bytes)
{
	const char *slash = strrchr(preload, '/');

	return snprintf(path, bytes, "%.*slibcustody-inject.so",
			slash ? (int)(slash + 1 - preload) : 0, preload) < (int)bytes &&
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
