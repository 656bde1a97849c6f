/* SPDX-License-Identifier: Apache-2.0 */
#include "core/notice.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static _Atomic bool is_spent;

/* The file at descriptor 2 when this library was loaded; only its device and number count. */
static struct stat standard_error;
static bool has_standard_error;
static bool is_remembered; /* not yet where another library's constructor makes calls */

/* Runs before the program could close anything; fstat() alone, as a guest may. */
__attribute__((constructor)) void notice_remember_stderr(void)
{
	int saved_errno = errno;

	has_standard_error = !fstat(STDERR_FILENO, &standard_error);
	is_remembered = true;
	errno = saved_errno;
}

bool notice_has_stderr(void)
{
	int saved_errno = errno;
	struct stat now;
	bool is_same;

	if (!is_remembered)
		notice_remember_stderr();
	is_same = has_standard_error && !fstat(STDERR_FILENO, &now) &&
		  now.st_dev == standard_error.st_dev && now.st_ino == standard_error.st_ino;
	errno = saved_errno;
	return is_same;
}

bool notice_is_spent(void)
{
	return atomic_load_explicit(&is_spent, memory_order_relaxed);
}

const char *notice_error(int error)
{
	static const struct {
		int error;
		const char *text;
	} known[] = {
		{ EACCES, "permission denied" },
		{ EDQUOT, "the disk quota is used up" },
		{ EFBIG, "the limit on file sizes (ulimit -f) is too low" },
		{ EMFILE, "this process has no free descriptor" },
		{ ENFILE, "the system has no free descriptor" },
		{ ENOENT, "no such file or directory" },
		{ ENOMEM, "the limit on memory is near" },
		{ ENOSPC, "no space left" },
		{ ENOTDIR, "not a directory" },
		{ EPERM, "operation not permitted" },
		{ EROFS, "the file system is read-only" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].error == error)
			return known[i].text;
	return "the system refused";
}

/* A closed pipe at descriptor 2 must not end the program: the signal is eaten here. */
static void write_line(const char *line, size_t bytes)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	const struct timespec at_once = { 0 };
	sigset_t pipe_signal, pending, before;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	if (poll(&ready, 1, 0) != 1 || pthread_sigmask(SIG_BLOCK, &pipe_signal, &before))
		return;
	sigpending(&pending);
	if (write(STDERR_FILENO, line, bytes) < 0 && errno == EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		sigtimedwait(&pipe_signal, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void notice_once(const char *format, ...)
{
	static const char prefix[] = "custody: ";
	int saved_errno = errno;
	char line[LINE_BYTES];
	size_t length;
	va_list list;

	if (atomic_exchange_explicit(&is_spent, true, memory_order_relaxed) || !notice_has_stderr())
		return;
	memcpy(line, prefix, sizeof(prefix));
	va_start(list, format);
	vsnprintf(line + sizeof(prefix) - 1, sizeof(line) - sizeof(prefix), format, list);
	va_end(list);
	length = strlen(line);
	line[length] = '\n';
	write_line(line, length + 1);
	errno = saved_errno;
}
