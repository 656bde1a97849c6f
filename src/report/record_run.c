/* SPDX-License-Identifier: Apache-2.0 */
#include "report/record_run.h"

#include "core/clock.h"
#include "core/option.h"
#include "report/collect.h"
#include "report/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	COLLECTORS_MOST = 2, /* one more where the first was killed */
	EXIT_NO_RECORDS = 10, /* of a collector, for us alone */
	SIGNAL_BASE = 128,
};

static sigset_t old_mask;
static struct sigaction old_interrupt, old_quit, old_pipe, old_child;

/* A terminal sends these to the program too; we wait for what it makes of them. */
static void hold_signals(struct record_run *run)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, by_default = { .sa_handler = SIG_DFL };
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGCHLD);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGHUP);
	sigprocmask(SIG_BLOCK, &ours, &old_mask);
	sigaction(SIGINT, &ignore, &old_interrupt);
	sigaction(SIGQUIT, &ignore, &old_quit);
	sigaction(SIGPIPE, &ignore, &old_pipe); /* a collector may be dead when we write to it */
	sigaction(SIGCHLD, &by_default, &old_child); /* ignored, it would never come */
	run->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signals < 0)
		message_die(EXIT_COULD_NOT, "cannot wait for signals: %s", strerror(errno));
}

static void restore_signals(void)
{
	sigaction(SIGINT, &old_interrupt, NULL);
	sigaction(SIGQUIT, &old_quit, NULL);
	sigaction(SIGPIPE, &old_pipe, NULL);
	sigaction(SIGCHLD, &old_child, NULL);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);
}

/* Where to record; and who, if children are left out: exec keeps a pid, fork does not. */
static void set_session(const char *directory)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (setenv(OPTION_ENV_SESSION, directory, 1) ||
	    (strcmp(option_text(OPTION_CHILDREN), "none") ? unsetenv(OPTION_ENV_ROOT) :
							      setenv(OPTION_ENV_ROOT, pid, 1)))
		_exit(EXIT_COULD_NOT);
}

_Noreturn static void become_program(struct record_run *run, int go)
{
	char directory[PATH_MAX] = "";

	if (read(go, directory, sizeof(directory) - 1) <= 0)
		_exit(EXIT_COULD_NOT);
	set_session(directory);
	restore_signals();
	execv(run->path, run->argv);
	/* A script without a first line that names its interpreter: a shell would run it. */
	if (errno == ENOEXEC)
		execvp(run->path, run->argv);
	message_warn("cannot run %s: %s", run->path, strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

void record_run_prepare(struct record_run *run)
{
	int ends[2];

	hold_signals(run);
	if (pipe2(ends, O_CLOEXEC))
		message_die(EXIT_COULD_NOT, "cannot make a pipe: %s", strerror(errno));
	run->program = fork();
	if (run->program < 0)
		message_die(EXIT_COULD_NOT, "cannot start %s: %s", run->path, strerror(errno));
	if (!run->program) {
		close(ends[1]);
		become_program(run, ends[0]);
	}
	close(ends[0]);
	run->go = ends[1];
}

void record_run_cancel(struct record_run *run)
{
	close(run->go);
	waitpid(run->program, NULL, 0);
}

/* A reader of the program's output must not wait for us, nor anybody for what the shell opened. */
static void keep_only(const int *kept, int count)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
		bool is_kept = false;

		for (int i = 0; i < count; i++)
			is_kept |= kept[i] == fd;
		if (!is_kept)
			close(fd);
	}
}

_Noreturn static void become_collector(struct record_run *run, int from_record, int to_record)
{
	struct collect_link link = { from_record, to_record, run->show_progress };

	/* A session of its own: what a terminal or batch system sends the program is not ours. */
	setsid();
	signal(SIGHUP, SIG_IGN);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);
	keep_only((int[]){ from_record, to_record, run->session.lock }, 3);
	_exit(collect_run(&run->session, &link) ? EXIT_GOOD : EXIT_NO_RECORDS);
}

static void send_end(const struct record_run *run)
{
	struct collect_end end = {
		.pid = run->program,
		.wait_status = run->status,
		.end_ns = run->end_ns,
	};

	if (run->has_ended && run->collector &&
	    write(run->to_collector, &end, sizeof(end)) != (ssize_t)sizeof(end))
		return; /* it is dead: its successor is told again */
}

/* Nothing has begun yet: leave nothing behind.  A successor leaves what there is to read. */
_Noreturn static void give_up(struct record_run *run, const char *what)
{
	const char *why = strerror(errno);
	struct stat status;

	if (run->collectors)
		message_die(EXIT_COULD_NOT, "%s: %s; what was recorded stays in %s", what, why,
			    run->session.directory);
	record_run_cancel(run);
	session_remove(&run->session);
	if (!stat(run->session.trace, &status) && !status.st_size)
		unlink(run->session.trace);
	message_die(EXIT_COULD_NOT, "%s: %s", what, why);
}

/* The lock is taken here and goes over to the child with the descriptor. */
static void start_collector(struct record_run *run)
{
	int to[2], from[2];

	if (!session_lock(&run->session))
		give_up(run, "cannot lock the session");
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		give_up(run, "cannot make a pipe");
	run->collector = fork();
	if (run->collector < 0)
		give_up(run, "cannot start the collector");
	if (!run->collector) {
		close(to[1]);
		close(from[0]);
		become_collector(run, to[0], from[1]);
	}
	run->collectors++;
	close(to[0]);
	close(from[1]);
	close(run->session.lock);
	run->session.lock = -1;
	run->to_collector = to[1];
	run->from_collector = from[0];
	send_end(run);
}

static void forget_collector(struct record_run *run)
{
	close(run->to_collector);
	close(run->from_collector);
	run->to_collector = run->from_collector = -1;
	run->collector = 0;
}

static void note_program_end(struct record_run *run, int status)
{
	run->has_ended = true;
	run->status = status;
	run->end_ns = (long long)clock_system_ns(CLOCK_MONOTONIC);
	send_end(run);
}

/* True when the collector's end settles the outcome. */
static bool note_collector_end(struct record_run *run, int status, enum record_outcome *outcome)
{
	forget_collector(run);
	if (WIFSIGNALED(status) && run->collectors < COLLECTORS_MOST) {
		message_warn("the collector was killed; another one goes on");
		start_collector(run);
		return false;
	}
	if (WIFSIGNALED(status))
		message_warn("the collector was killed; what was recorded stays in %s, and "
			     "'custody report %s' reads it",
			     run->session.directory, run->session.directory);
	*outcome = !WIFEXITED(status)			  ? RECORD_BROKEN :
		   WEXITSTATUS(status) == EXIT_GOOD	  ? RECORD_TRACED :
		   WEXITSTATUS(status) == EXIT_NO_RECORDS ? RECORD_NOTHING :
							    RECORD_BROKEN;
	return true;
}

/* True when nothing is left to wait for. */
static bool reap(struct record_run *run, enum record_outcome *outcome, bool *is_settled)
{
	int status;
	pid_t child;

	while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
		if (child == run->program)
			note_program_end(run, status);
		else if (child == run->collector)
			*is_settled |= note_collector_end(run, status, outcome);
	}
	return run->has_ended && *is_settled;
}

/* True if there was any signal: then there may be a child to reap. */
static bool pass_signals_on(struct record_run *run)
{
	struct signalfd_siginfo info;
	bool is_any = false;

	while (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		is_any = true;
		if (info.ssi_signo != SIGCHLD && !run->has_ended)
			kill(run->program, (int)info.ssi_signo);
	}
	return is_any;
}

enum record_outcome record_run_start(struct record_run *run)
{
	enum record_outcome outcome = RECORD_BROKEN;
	const char *directory = run->session.directory;
	bool is_settled = false;
	char byte;

	start_collector(run);
	if (write(run->go, directory, strlen(directory)) < 0)
		message_die(EXIT_COULD_NOT, "cannot start %s: %s", run->path, strerror(errno));
	close(run->go);
	run->go = -1;
	while (!reap(run, &outcome, &is_settled)) {
		struct pollfd wait[2] = { { .fd = run->signals, .events = POLLIN },
					  { .fd = run->from_collector, .events = POLLIN } };

		/* A closed pipe would end every poll at once: its owner's end comes as a signal. */
		poll(wait, run->collector ? 2 : 1, -1);
		if (pass_signals_on(run))
			continue;
		if (run->collector && wait[1].revents && read(run->from_collector, &byte, 1) == 1)
			return RECORD_GOES_ON;
		if (run->collector && wait[1].revents & POLLHUP)
			poll(wait, 1, 100);
	}
	return outcome;
}

int record_run_exit_code(const struct record_run *run)
{
	if (WIFSIGNALED(run->status))
		return SIGNAL_BASE + WTERMSIG(run->status);
	return WEXITSTATUS(run->status);
}
