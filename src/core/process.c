/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "core/process.h"
#include "core/children.h"
#include "core/chunk.h"
#include "core/context.h"
#include "core/control.h"
#include "core/counter.h"
#include "core/deferq.h"
#include "core/gate.h"
#include "core/lock.h"
#include "core/notice.h"
#include "core/option.h"
#include "core/pending.h"
#include "core/segment.h"
#include "core/session_dir.h"
#include "core/spawn.h"
#include "core/thread.h"
#include "core/tracker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { IMAGES_MAX = 100000 };

/*
 * What a child of fork must not inherit: it finds zeros here, and with them no
 * generation and a lock that nobody holds.
 */
struct process_page {
	_Atomic uint64_t generation;
	struct lock entering;
};

static const _Atomic uint64_t no_generation = UINT64_MAX;
const _Atomic uint64_t *_Atomic process_generation = &no_generation;

static struct process_page *_Atomic page;
static struct process_page unwiped; /* where no page can be had or wiped */

/* Set ahead of all calls. */
enum asking { RECORDS_ALWAYS, RECORDS_IF_ASKED, RECORDS_NEVER };
static _Atomic uint32_t asking; /* enum asking */

/* Under page->entering, but for `control`, which other threads read. */
static struct {
	bool is_asked_for; /* by process_record() */
	int pid; /* 0: no process was set up yet */
	uint64_t generation;
	struct trace_control *_Atomic control;
	char directory[CONTROL_PATH_BYTES]; /* of this process, in the session's */
	char policy[CONTROL_TEXT_BYTES];
	uint32_t apis;
} process;

struct trace_control *process_control(void)
{
	return atomic_load_explicit(&process.control, memory_order_acquire);
}

const char *process_directory(void)
{
	return process_control() ? process.directory : "";
}

void process_set_policy(const char *policy)
{
	snprintf(process.policy, sizeof(process.policy), "%s", policy);
}

void process_set_apis(uint32_t apis)
{
	process.apis = apis;
}

static void forget_in_child(void)
{
	lock_give(&unwiped.entering);
	atomic_store_explicit(&unwiped.generation, 0, memory_order_release);
}

/* Kernels before 4.14 and some sandboxes refuse; then fork() and getpid() must do. */
static struct process_page *map_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return &unwiped;
	if (!madvise(map, bytes, MADV_WIPEONFORK))
		return map;
	munmap(map, bytes);
	return &unwiped;
}

static struct process_page *find_page(void)
{
	struct process_page *found = atomic_load_explicit(&page, memory_order_acquire), *mine;

	if (found)
		return found;
	mine = map_page();
	if (atomic_compare_exchange_strong_explicit(&page, &found, mine, memory_order_acq_rel,
						    memory_order_acquire)) {
		if (mine == &unwiped)
			pthread_atfork(NULL, NULL, forget_in_child);
		return mine;
	}
	if (mine != &unwiped)
		munmap(mine, (size_t)sysconf(_SC_PAGESIZE));
	return found;
}

void process_recheck(void)
{
	if (atomic_load_explicit(&page, memory_order_relaxed) == &unwiped &&
	    process.pid != getpid())
		forget_in_child();
}

/* The session of the environment; NULL: none, or it has ended and its directory is gone. */
static const char *given_session(void)
{
	const char *given = option_environment(OPTION_ENV_SESSION);

	return given && *given && session_dir_exists(given) ? given : NULL;
}

/* The session of the environment, or one of our own where there is none. */
static bool find_session(char *session, size_t bytes, bool *is_own)
{
	const char *given = given_session();

	*is_own = !given;
	if (*is_own)
		return !session_dir_create(session, bytes);
	return snprintf(session, bytes, "%s", given) < (int)bytes;
}

void process_be_library(bool may_record)
{
	atomic_store(&asking, may_record && !getauxval(AT_SECURE) ? RECORDS_IF_ASKED :
								    RECORDS_NEVER);
}

bool process_is_library(void)
{
	return atomic_load_explicit(&asking, memory_order_relaxed) != RECORDS_ALWAYS;
}

/* A preload is in the process in order to record. */
static bool is_to_be_recorded(void)
{
	const char *output;

	switch ((enum asking)atomic_load(&asking)) {
	case RECORDS_ALWAYS:
		return true;
	case RECORDS_NEVER:
		return false;
	case RECORDS_IF_ASKED:
		break;
	}
	output = option_environment(option_info(OPTION_OUTPUT)->variable);
	return process.is_asked_for || (output && *output) || given_session();
}

/* Images of one pid in one session are told apart by a serial number. */
static int make_directory(const char *session, uint32_t *serial)
{
	for (*serial = 0; *serial < IMAGES_MAX; ++*serial) {
		int length = snprintf(process.directory, sizeof(process.directory), "%s/%d-%u",
				      session, getpid(), *serial);

		if (length >= (int)sizeof(process.directory) - 16) {
			errno = ENAMETOOLONG;
			return -1;
		}
		if (!mkdir(process.directory, 0700))
			return 0;
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* The name of the process that forked this one, if that was recorded. */
static void note_parent(char *parent, size_t bytes)
{
	const char *slash = strrchr(process.directory, '/');

	snprintf(parent, bytes, "%s", process.pid && slash ? slash + 1 : "");
}

static int start_writing(const char *session)
{
	struct control_facts facts = { .apis = process.apis, .policy = process.policy };
	struct trace_control *control;

	if (!process.policy[0])
		process_set_policy(option_text(OPTION_FREES));
	note_parent(facts.parent, sizeof(facts.parent));
	if (make_directory(session, &facts.exec_serial))
		return -1;
	control = control_create(process.directory, &facts);
	if (!control)
		return -1;
	if (chunk_start(process.directory, control) || counter_start(control)) {
		munmap(control, CONTROL_BYTES);
		return -1;
	}
	atomic_store_explicit(&process.control, control, memory_order_release);
	return 0;
}

static void start_recording(void)
{
	char session[CONTROL_PATH_BYTES] = "";
	bool is_own = false;

	if (!find_session(session, sizeof(session), &is_own)) {
		notice_once("no directory for the recording can be made: %s; nothing is recorded",
			    notice_error(errno));
		return;
	}
	if (start_writing(session)) {
		process.directory[0] = '\0';
		notice_once("cannot record in %.512s: %s; nothing is recorded", session,
			    notice_error(errno));
		return;
	}
	if (is_own && spawn_collector(session))
		notice_once("no collector could be started; the records stay in %.512s", session);
}

/* Only addresses go: the parent has its own mappings of the same files. */
static void drop_inherited(void)
{
	struct trace_control *control = process_control();

	chunk_abandon();
	counter_abandon();
	if (control)
		munmap(control, CONTROL_BYTES);
	atomic_store_explicit(&process.control, NULL, memory_order_relaxed);
	gate_reset();
	pending_reset();
	deferq_reset();
	tracker_reset();
	context_reset();
}

static void start_process(struct process_page *self)
{
	const char *complaint = option_complaint();

	if (complaint)
		notice_once("%s", complaint);
	if (process.pid)
		drop_inherited();
	thread_prepare();
	if (is_to_be_recorded() && children_allow(process.pid != 0))
		start_recording();
	process.pid = getpid();
	atomic_store_explicit(&self->generation, ++process.generation, memory_order_release);
	atomic_store_explicit(&process_generation, &self->generation, memory_order_release);
}

/* No signal may come in between: its handler could make a driver call and want the lock. */
static struct process_page *take_page(sigset_t *before)
{
	struct process_page *self = find_page();
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	lock_take(&self->entering);
	return self;
}

static void give_page(struct process_page *self, const sigset_t *before)
{
	lock_give(&self->entering);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

bool process_enter(void)
{
	sigset_t before;
	struct process_page *self = take_page(&before);
	bool is_new = !atomic_load_explicit(&self->generation, memory_order_acquire);

	if (is_new)
		start_process(self);
	give_page(self, &before);
	return is_new;
}

/* Under page->entering. */
static int ask(const struct process_page *self, const char *path)
{
	if (atomic_load(&self->generation))
		return process_control() ? 0 : EBUSY;
	if (is_to_be_recorded() && (!path || given_session()))
		return 0;
	if (atomic_load(&asking) == RECORDS_NEVER)
		return EPERM;
	if (path && !option_set(OPTION_OUTPUT, path))
		return ENAMETOOLONG;
	process.is_asked_for = true;
	return 0;
}

int process_record(const char *path)
{
	struct process_page *self;
	sigset_t before;
	int error;

	process_recheck();
	self = take_page(&before);
	error = ask(self, path);
	give_page(self, &before);
	return error;
}

bool process_is_recorded(void)
{
	struct process_page *self;
	sigset_t before;
	bool is_recorded;

	process_recheck();
	self = take_page(&before);
	if (atomic_load(&self->generation))
		is_recorded = process_control() != NULL;
	else
		is_recorded = !process.pid && is_to_be_recorded() && children_allow(false);
	give_page(self, &before);
	return is_recorded;
}
