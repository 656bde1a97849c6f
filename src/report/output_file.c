/* SPDX-License-Identifier: Apache-2.0 */
#include "report/output_file.h"

#include "report/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef bool renderer(const struct report *, FILE *);

static void render_to_stdout(const struct report *report, renderer *render)
{
	if (!render(report, stdout) || fflush(stdout))
		message_die(EXIT_COULD_NOT, "cannot write to standard output: %s", strerror(errno));
}

static bool is_database(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char head[sizeof(magic)] = "";
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool is_one = file >= 0 && read(file, head, sizeof(head)) == sizeof(head) &&
		      !memcmp(head, magic, sizeof(magic));

	if (file >= 0)
		close(file);
	return is_one;
}

/* What a new file would get, since mkstemp() is stricter. */
static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static void write_whole(const char *path, const struct report *report, renderer *render,
			char *draft)
{
	int descriptor = mkstemp(draft);
	FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "w");

	if (!stream)
		message_die(EXIT_COULD_NOT, "cannot write %s: %s", path, strerror(errno));
	if (render(report, stream) && !fchmod(descriptor, usual_mode()) && !fclose(stream) &&
	    !rename(draft, path))
		return;
	descriptor = errno;
	unlink(draft);
	message_die(EXIT_COULD_NOT, "cannot write %s: %s", path, strerror(descriptor));
}

static void write_special(const char *path, const struct report *report, renderer *render)
{
	FILE *stream = fopen(path, "we");

	if (!stream || !render(report, stream) || fclose(stream))
		message_die(EXIT_COULD_NOT, "cannot write %s: %s", path, strerror(errno));
}

void output_file(const char *path, const struct report *report, renderer *render)
{
	struct stat status;
	char *draft;

	if (!path || !strcmp(path, "-")) {
		render_to_stdout(report, render);
		return;
	}
	if (!stat(path, &status) && !S_ISREG(status.st_mode)) {
		write_special(path, report, render);
		return;
	}
	if (is_database(path))
		message_die(EXIT_COULD_NOT, "%s is a database; a report does not overwrite it",
			    path);
	if (asprintf(&draft, "%s.XXXXXX", path) < 0)
		message_die(EXIT_COULD_NOT, "out of memory");
	write_whole(path, report, render, draft);
	free(draft);
}
