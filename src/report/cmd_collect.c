/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb a preloaded program starts when nobody else has: puts itself into the
 * background and collects.  The program waits until the first process ends, so
 * that is soon, and only after the session is locked.
 */
#include "report/collect.h"
#include "report/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *session_directory;
static bool stay_in_front;

static const struct options_row rows[] = {
	{ "session", 0, OPTIONS_TEXT, "DIRECTORY", "the session to collect", &session_directory,
	  0 },
	{ "foreground", 0, OPTIONS_FLAG, NULL, "do not go into the background", &stay_in_front, 0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

/* The program may have blocked or ignored anything; a hang-up of its terminal is not ours. */
static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal(signal_number, SIG_DFL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The second fork makes sure that no terminal can become ours and nobody waits for us. */
static void go_to_background(int ready[2])
{
	char byte;
	pid_t child = fork();

	if (child < 0)
		message_die(EXIT_COULD_NOT, "cannot go into the background: %s", strerror(errno));
	if (!child) {
		setsid();
		child = fork();
		if (child)
			_exit(child < 0);
		close(ready[0]);
		return;
	}
	close(ready[1]);
	waitpid(child, NULL, 0);
	/* Whoever holds the other end has locked the session, or has died of something else. */
	_exit(read(ready[0], &byte, 1) == 1 ? EXIT_GOOD : EXIT_COULD_NOT);
}

static int run(int argc, char **argv)
{
	static const struct collect_link nobody = { -1, -1, false };
	struct session session;
	int ready[2];

	if (argc)
		message_die(EXIT_USAGE, "collect: unexpected operand '%s'", argv[0]);
	if (!session_directory)
		message_die(EXIT_USAGE, "collect: --session is missing");
	reset_signals();
	if (pipe2(ready, O_CLOEXEC))
		message_die(EXIT_COULD_NOT, "cannot make a pipe: %s", strerror(errno));
	if (!stay_in_front)
		go_to_background(ready);
	if (!session_read(&session, session_directory))
		message_die(EXIT_COULD_NOT, "%s is no session of custody", session_directory);
	if (!session_lock(&session))
		message_die(EXIT_COULD_NOT, "%s has a collector already", session_directory);
	if (write(ready[1], "l", 1) != 1)
		return EXIT_COULD_NOT;
	close(ready[1]);
	if (chdir("/"))
		message_warn("cannot leave the current directory: %s", strerror(errno));
	collect_run(&session, &nobody);
	return EXIT_GOOD;
}

const struct command cmd_collect = {
	.name = "collect",
	.summary = "Collect the records of a session into its trace",
	.operands = "",
	.options = rows,
	.run = run,
	.hidden = true,
};
