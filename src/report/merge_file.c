/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is made under another name beside the one it gets: who looks for the
 * latter sees all of it or nothing, and an old one stays until then.
 */
#include "report/merge.h"

#include "report/message.h"
#include "report/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char draft[PATH_MAX];

static void remove_draft(void)
{
	if (!*draft)
		return;
	unlink(draft);
	session_remove_companions(draft);
	*draft = '\0';
}

/* As if it had not been caught, but for the draft. */
static void end_by_signal(int number)
{
	unlink(draft);
	signal(number, SIG_DFL);
	raise(number);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (signal(numbers[i], end_by_signal) == SIG_IGN)
			signal(numbers[i], SIG_IGN);
}

_Noreturn static void cannot_write(const char *output)
{
	message_die(EXIT_COULD_NOT, "cannot write %s: %s", output, strerror(errno));
}

/* What a new file would get, since mkstemp() is stricter. */
static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

const char *merge_file_begin(const char *output, bool replace)
{
	struct stat status;
	int file;

	if (!lstat(output, &status)) {
		if (!S_ISREG(status.st_mode))
			message_die(EXIT_COULD_NOT, "%s is no regular file", output);
		if (!replace)
			message_die(EXIT_COULD_NOT, "%s exists; -f replaces it", output);
	}
	if (snprintf(draft, sizeof(draft), "%s.XXXXXX", output) >= (int)sizeof(draft)) {
		*draft = '\0';
		errno = ENAMETOOLONG;
		cannot_write(output);
	}
	atexit(remove_draft);
	catch_signals();
	file = mkstemp(draft);
	if (file < 0) {
		*draft = '\0';
		cannot_write(output);
	}
	fchmod(file, usual_mode());
	close(file);
	return draft;
}

/* On the disk before it has its name: a crash of the machine leaves no half of it either. */
static void settle_on_disk(const char *output)
{
	int file = open(draft, O_RDONLY | O_CLOEXEC);

	if (file < 0 || fsync(file) || close(file))
		cannot_write(output);
}

void merge_file_finish(const char *output, bool replace)
{
	settle_on_disk(output);
	if (!replace && !access(output, F_OK))
		message_die(EXIT_COULD_NOT, "%s exists; -f replaces it", output);
	session_remove_companions(output);
	if (replace) {
		if (rename(draft, output))
			cannot_write(output);
		*draft = '\0';
		return;
	}
	/* Unlike rename(), link() leaves alone what came there meanwhile. */
	if (!link(draft, output)) {
		remove_draft();
		return;
	}
	if (errno == EEXIST)
		message_die(EXIT_COULD_NOT, "%s exists; -f replaces it", output);
	/* A file system without links: what came meanwhile could be lost. */
	if (!access(output, F_OK) || rename(draft, output))
		cannot_write(output);
	*draft = '\0';
}
