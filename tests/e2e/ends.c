/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends.c - uses the driver a little and ends in the way that is asked for:
 *
 *	ends HOW [ARGUMENT...]
 *
 * Every image and every child that calls the driver notes "image CALLS", so that
 * the trace can be asked for one process row of that many copies for each.
 */
#include "journal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, COPIES = 25, LIFE_SECONDS = 60 };

static unsigned char host[BYTES];
static char **rest; /* arguments after HOW */

static CUdeviceptr start(void)
{
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;

	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context),
		"CUDA starts");
	require(!cuMemAlloc(&address, BYTES), "there is memory");
	return address;
}

static void copy(CUdeviceptr address, unsigned times)
{
	unsigned i;

	for (i = 0; i < times; i++)
		require(!cuMemcpyHtoD(address, host, BYTES), "a copy succeeds");
	journal_line("image %u", times);
}

static void use(void)
{
	copy(start(), COPIES);
}

static void wait_for(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0)
		require(errno == EINTR, "the child can be waited for");
	require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends well");
}

static void end_exit(void)
{
	use();
	exit(rest[0] ? atoi(rest[0]) : 0);
}

static void end__exit(void)
{
	use();
	_exit(rest[0] ? atoi(rest[0]) : 0);
}

static void end_abort(void)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	use();
	abort();
}

static void end_kill(void)
{
	use();
	raise(SIGKILL);
}

static void end_segv(void)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	use();
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

/* exec ARGUMENT...: replaced by another program, which may or may not use CUDA. */
static void end_exec(void)
{
	use();
	execvp(rest[0], rest);
}

/* An exec that fails is no end. */
static void end_exec_fails(void)
{
	CUdeviceptr address = start();
	char *nothing[] = { NULL };

	execv("/nonexistent/program", nothing);
	copy(address, COPIES);
	exit(0);
}

static void end_close_all(void)
{
	CUdeviceptr address = start();
	unsigned i;

	for (i = 0; i < COPIES; i++)
		require(!cuMemcpyHtoD(address, host, BYTES), "a copy succeeds");
	journal_line("image %u", 2 * COPIES);
	syscall(SYS_close_range, 0, ~0u, 0);
	for (i = 0; i < COPIES; i++)
		if (cuMemcpyHtoD(address, host, BYTES))
			_exit(92);
	_exit(0);
}

/* The classic daemon: two forks, a session of its own, no descriptor kept. */
static void end_daemon(void)
{
	pid_t child = fork();

	if (child > 0) {
		wait_for(child);
		exit(0);
	}
	setsid();
	if (fork() > 0)
		_exit(0);
	journal_line("image %u", COPIES);
	syscall(SYS_close_range, 0, ~0u, 0);
	if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
		_exit(93);
	usleep(200000);
	CUdeviceptr address = start();
	for (unsigned i = 0; i < COPIES; i++)
		if (cuMemcpyHtoD(address, host, BYTES))
			_exit(92);
	_exit(0);
}

static void end_fork_before(void)
{
	pid_t child = fork();

	if (!child) {
		use();
		exit(0);
	}
	wait_for(child);
	use();
	exit(0);
}

/* The child of a process that has used CUDA cannot use it, but its calls are calls. */
static void end_fork_after(void)
{
	CUdeviceptr address = start();
	unsigned i;
	pid_t child;

	copy(address, COPIES);
	child = fork();
	if (!child) {
		for (i = 0; i < 7; i++)
			cuMemcpyHtoD(address, host, BYTES);
		journal_line("image 7");
		_exit(0);
	}
	wait_for(child);
	exit(0);
}

/* The parent goes on while the child records: two writers that may not share a chunk. */
static void end_fork_both(void)
{
	CUdeviceptr address = start();
	unsigned i;
	pid_t child = fork();

	for (i = 0; i < 2000; i++)
		cuMemcpyHtoD(address, host, BYTES);
	journal_line("image 2000");
	if (!child)
		_exit(0);
	wait_for(child);
	exit(0);
}

static void end_fork_raw(void)
{
	CUdeviceptr address = start();
	unsigned i;
	pid_t child;

	copy(address, COPIES);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child) {
		for (i = 0; i < 9; i++)
			cuMemcpyHtoD(address, host, BYTES);
		journal_line("image 9");
		_exit(0);
	}
	wait_for(child);
	copy(address, COPIES);
	exit(0);
}

/* A child that never calls the driver leaves no row. */
static void end_fork_idle(void)
{
	pid_t child;

	use();
	child = fork();
	if (!child)
		exit(0);
	wait_for(child);
	exit(0);
}

static void end_vfork_exec(void)
{
	pid_t child;

	use();
	child = vfork();
	if (!child) {
		execvp(rest[0], rest);
		_exit(94);
	}
	wait_for(child);
	exit(0);
}

static void *use_and_leave(void *argument)
{
	CUcontext current;
	unsigned i;

	(void)argument;
	require(!cuCtxGetCurrent(&current), "a query succeeds");
	require(!cuCtxSetCurrent(NULL), "no context can be made current");
	for (i = 0; i < 3; i++)
		cuCtxGetCurrent(&current);
	return NULL;
}

/* Threads that come and go, more than chunks and counter blocks would allow if kept. */
static void end_threads(void)
{
	pthread_t thread[8];
	unsigned round, i;

	use();
	for (round = 0; round < 8; round++) {
		for (i = 0; i < 8; i++)
			require(!pthread_create(&thread[i], NULL, use_and_leave, NULL),
				"a thread starts");
		for (i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
	exit(0);
}

/* _exit while a thread has counted calls that no record tells of. */
static void end_pending_counters(void)
{
	CUcontext current;
	unsigned i;

	use();
	for (i = 0; i < 1000; i++)
		cuCtxGetCurrent(&current);
	_exit(0);
}

static void end_wait(void)
{
	char byte;

	use();
	alarm(LIFE_SECONDS); /* a test that fails leaves nothing that waits for ever */
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		continue;
	copy(start(), 5);
	exit(0);
}

static void end_never_used(void)
{
	exit(rest[0] ? atoi(rest[0]) : 0);
}

/* close_exit: the last calls come from an exit handler and a destructor. */
static CUdeviceptr address_at_exit;

static void copy_at_exit(void)
{
	cuMemcpyHtoD(address_at_exit, host, BYTES);
}

static void end_atexit(void)
{
	address_at_exit = start();
	atexit(copy_at_exit);
	journal_line("image 1");
	exit(0);
}

/* The last calls come from a destructor, when exit handlers have run. */
static int wants_copy_in_destructor;

__attribute__((destructor)) static void copy_in_destructor(void)
{
	if (wants_copy_in_destructor)
		cuMemcpyHtoD(address_at_exit, host, BYTES);
}

static void end_destructor(void)
{
	address_at_exit = start();
	wants_copy_in_destructor = 1;
	journal_line("image 1");
	exit(0);
}

/*
 * A thread's data is destroyed in rounds, four at most; calls are made in all but the
 * last.  ThreadSanitizer leaves a thread in the fourth round, and nothing it watches may
 * run after that: what a call in the third round leaves behind would.
 */
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 2 };
#else
enum { ROUNDS = 3 };
#endif
static pthread_key_t key;

static void copy_in_round(void *round)
{
	unsigned left = (unsigned)(uintptr_t)round;

	cuMemcpyHtoD(address_at_exit, host, BYTES);
	if (left > 1)
		pthread_setspecific(key, (void *)(uintptr_t)(left - 1));
}

static void *leave_with_data(void *argument)
{
	(void)argument;
	cuMemcpyHtoD(address_at_exit, host, BYTES);
	pthread_setspecific(key, (void *)(uintptr_t)ROUNDS);
	return NULL;
}

static void end_thread_data(void)
{
	pthread_t thread[16];
	unsigned i;

	address_at_exit = start();
	require(!pthread_key_create(&key, copy_in_round), "there is a key");
	for (i = 0; i < 16; i++)
		require(!pthread_create(&thread[i], NULL, leave_with_data, NULL),
			"a thread starts");
	for (i = 0; i < 16; i++)
		pthread_join(thread[i], NULL);
	journal_line("image %u", 16 * (ROUNDS + 1));
	exit(0);
}

/* Children are made while other threads are in the middle of their calls. */
static atomic_int keep_on = 1;
static atomic_uint copies_of_threads;

static void *copy_on(void *argument)
{
	(void)argument;
	while (keep_on) {
		cuMemcpyHtoD(address_at_exit, host, BYTES);
		copies_of_threads++;
	}
	return NULL;
}

static void end_fork_threads(void)
{
	pthread_t thread[3];
	unsigned i, round;
	pid_t child;

	address_at_exit = start();
	for (i = 0; i < 3; i++)
		require(!pthread_create(&thread[i], NULL, copy_on, NULL), "a thread starts");
	for (round = 0; round < 20; round++) {
		child = fork();
		if (!child) {
			for (i = 0; i < 5; i++)
				cuMemcpyHtoD(address_at_exit, host, BYTES);
			journal_line("image 5");
			_exit(0);
		}
		wait_for(child);
	}
	keep_on = 0;
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	journal_line("image %u", copies_of_threads);
	exit(0);
}

/* Descriptor 2 is a file of the program's now: nobody else may write there. */
static void end_own_descriptors(void)
{
	int file;

	syscall(SYS_close_range, 0, 2, 0);
	file = open("data.bin", O_RDWR | O_CREAT | O_APPEND, 0600);
	if (file != 0 || dup(0) != 1 || dup(0) != 2 || write(2, "DATA", 4) != 4)
		_exit(93);
	use();
	exit(0);
}

static const struct {
	const char *name;
	void (*function)(void);
} ends[] = {
	{ "exit", end_exit },
	{ "_exit", end__exit },
	{ "abort", end_abort },
	{ "kill", end_kill },
	{ "segv", end_segv },
	{ "exec", end_exec },
	{ "exec-fails", end_exec_fails },
	{ "close-all", end_close_all },
	{ "daemon", end_daemon },
	{ "fork-before", end_fork_before },
	{ "fork-after", end_fork_after },
	{ "fork-both", end_fork_both },
	{ "fork-raw", end_fork_raw },
	{ "fork-idle", end_fork_idle },
	{ "vfork-exec", end_vfork_exec },
	{ "threads", end_threads },
	{ "pending-counters", end_pending_counters },
	{ "wait", end_wait },
	{ "never-used", end_never_used },
	{ "atexit", end_atexit },
	{ "destructor", end_destructor },
	{ "own-descriptors", end_own_descriptors },
	{ "thread-data", end_thread_data },
	{ "fork-threads", end_fork_threads },
};

int main(int count, char **arguments)
{
	unsigned i;

	require(count > 1, "ends HOW");
	rest = arguments + 2;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(arguments[1], ends[i].name))
			ends[i].function();
	return 95;
}
