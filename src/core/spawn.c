/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that becomes another program signals its parent when it ends, whatever
 * it was made with.  So there are two: the first one never does, and therefore
 * ends without a signal and is seen by no ordinary wait(); it starts the second,
 * the collector, and waits until that has gone into the background.
 *
 * Both share our memory and must touch nothing of it: all that they need is made
 * ready before, in memory of its own, and they make system calls only.
 */
#include "core/spawn.h"
#include "core/notice.h"
#include "core/option.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum {
	STACK_BYTES = 1 << 16,
	MAPS_BYTES = 8192,
	PATIENCE_S = 10, /* for the collector to go into the background */
};

/* All of it in one mapping: the stack of the child, the plan, the new environment. */
struct spawn_plan {
	_Alignas(64) unsigned char stack[STACK_BYTES];
	_Alignas(64) unsigned char second_stack[STACK_BYTES];
	char program[PATH_MAX];
	const char *arguments[5];
	bool has_stderr; /* descriptor 2 is the collector's to write to */
	const char *environment[]; /* the strings stay the program's */
};

extern char **environ;

/* clone() itself; a sanitizer puts its own fork() handling before that name. */
extern int __clone(int (*run)(void *), void *stack, int flags, void *argument, ...);

/* A line of /proc/self/maps: "from-to rwxp offset device inode    path". */
static bool read_map_line(char *line, uintptr_t wanted, char *path, size_t bytes)
{
	unsigned long from, to;
	const char *slash;

	if (sscanf(line, "%lx-%lx", &from, &to) != 2 || wanted < from || wanted >= to)
		return false;
	slash = strchr(line, '/');
	return slash && snprintf(path, bytes, "%s", slash) < (int)bytes;
}

/* The file that `wanted` is mapped from, by its absolute path; the loader may know another. */
static bool find_mapped_file(uintptr_t wanted, char *path, size_t bytes)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char text[MAPS_BYTES];
	size_t have = 0;
	bool is_found = false;
	ssize_t got;

	if (fd < 0)
		return false;
	while (!is_found && (got = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;

		have += (size_t)got;
		text[have] = '\0';
		for (; !is_found && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			is_found = read_map_line(line, wanted, path, bytes);
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
	}
	close(fd);
	return is_found;
}

/* A directory can be entered, which access() calls X_OK too. */
static bool is_program(const char *path)
{
	struct stat status;

	return !access(path, X_OK) && !stat(path, &status) && S_ISREG(status.st_mode);
}

/* Beside the library, in its build tree, or in the bin directory of its prefix. */
static bool find_beside_library(char *path)
{
	static const char *const places[] = {
		"custody", "../custody", "../bin/custody", "../../bin/custody",
	};
	char library[PATH_MAX];
	char *slash;

	if (!find_mapped_file((uintptr_t)&spawn_collector, library, sizeof(library)))
		return false;
	slash = strrchr(library, '/');
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(path, PATH_MAX, "%s/%s", library, places[i]) < PATH_MAX &&
		    is_program(path))
			return true;
	return false;
}

static bool find_program(char *path)
{
	const char *given = option_environment("CUSTODY_PROGRAM");

	if (given && *given)
		return snprintf(path, PATH_MAX, "%s", given) < PATH_MAX && is_program(path);
	if (find_beside_library(path))
		return true;
	return snprintf(path, PATH_MAX, "%s/custody", BINDIR) < PATH_MAX && is_program(path);
}

/* The collector is not to be recorded, nor to take itself for a part of another session. */
static bool is_kept(const char *entry)
{
	return strncmp(entry, "LD_PRELOAD=", 11) && strncmp(entry, "CUSTODY_SESSION=", 16);
}

static size_t count_environment(void)
{
	size_t count = 0;

	while (environ && environ[count])
		count++;
	return count;
}

static void copy_environment(const char **to, size_t most)
{
	size_t kept = 0;

	for (size_t i = 0; i < most && environ[i]; i++)
		if (is_kept(environ[i]))
			to[kept++] = environ[i];
	to[kept] = NULL;
}

/* Code of the child: a sanitizer's bookkeeping would be the parent's. */
#define IN_CHILD __attribute__((noinline, no_sanitize("address", "thread", "undefined")))

/* Standard error stays: the collector may have a sentence to say. */
static IN_CHILD void close_others(const struct spawn_plan *plan)
{
	int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);

	if (null >= 0) {
		syscall(SYS_dup3, null, STDIN_FILENO, 0);
		syscall(SYS_dup3, null, STDOUT_FILENO, 0);
		if (!plan->has_stderr)
			syscall(SYS_dup3, null, STDERR_FILENO, 0);
	}
	if (syscall(SYS_close_range, 3u, ~0u, 0u))
		for (int fd = 3; fd < 65536; fd++)
			syscall(SYS_close, fd);
}

static IN_CHILD int run_collector(void *argument)
{
	struct spawn_plan *plan = argument;

	syscall(SYS_execve, plan->program, plan->arguments, plan->environment);
	syscall(SYS_exit, 127);
	return 127;
}

/* A program that ignores SIGCHLD has its children reaped by the kernel, status and all. */
static IN_CHILD void expect_child(void)
{
	static const uint64_t by_default[4]; /* handler, flags, restorer, mask: all zero */

	syscall(SYS_rt_sigaction, SIGCHLD, by_default, NULL, sizeof(uint64_t));
}

/* The program stands still meanwhile, so not for ever.  SIGCHLD is blocked, and so it waits. */
static IN_CHILD int await_collector(pid_t child)
{
	static const struct timespec patience = { .tv_sec = PATIENCE_S };
	static const uint64_t child_signal = UINT64_C(1) << (SIGCHLD - 1);
	int status = -1;

	syscall(SYS_rt_sigtimedwait, &child_signal, NULL, &patience, sizeof(child_signal));
	syscall(SYS_wait4, child, &status, WNOHANG, NULL);
	return status;
}

static IN_CHILD int run_first(void *argument)
{
	struct spawn_plan *plan = argument;
	int status = -1;
	pid_t child;

	expect_child();
	syscall(SYS_setsid);
	close_others(plan);
	syscall(SYS_chdir, "/");
	child = __clone(run_collector, plan->second_stack + STACK_BYTES,
			CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
	if (child > 0)
		status = await_collector(child);
	syscall(SYS_exit, status ? 1 : 0);
	return 1;
}

/* Somebody who waits for children of every kind may have been faster: then all is well, too. */
static int await_child(pid_t child)
{
	int status = 0;
	pid_t reaped;

	do
		reaped = waitpid(child, &status, __WCLONE);
	while (reaped < 0 && errno == EINTR);
	return reaped < 0 || !status ? 0 : -1;
}

static int run_plan(struct spawn_plan *plan, const char *session)
{
	pid_t child;

	plan->arguments[0] = "custody";
	plan->arguments[1] = "collect";
	plan->arguments[2] = "--session";
	plan->arguments[3] = session;
	plan->arguments[4] = NULL;
	plan->has_stderr = notice_has_stderr();
	child = __clone(run_first, plan->stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, plan);
	return child < 0 ? -1 : await_child(child);
}

int spawn_collector(const char *session)
{
	size_t count = count_environment();
	size_t bytes = sizeof(struct spawn_plan) + (count + 1) * sizeof(char *);
	int saved_errno = errno, failed = -1;
	struct spawn_plan *plan;

	plan = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (plan == MAP_FAILED)
		return -1;
	copy_environment(plan->environment, count);
	if (find_program(plan->program))
		failed = run_plan(plan, session);
	munmap(plan, bytes);
	errno = saved_errno;
	return failed;
}
