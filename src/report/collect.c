/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect.h"

#include "core/clock.h"
#include "report/collect_pace.h"
#include "report/collect_process.h"
#include "report/collect_progress.h"
#include "report/collect_sample.h"
#include "report/collect_survivor.h"
#include "report/collect_trace.h"
#include "report/collect_watch.h"
#include "report/ingest_counter.h"
#include "report/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BATCH_RECORDS = 50000,
	COMMIT_AFTER_NS = 200000000,
	LOOK_FOR_END_NS = 20000000,
	BUSY_RECORDS = 20000, /* so many at one look: the next one is due at once */
	RECLAIM_NS = 1000000000,
	PATIENCE_NS = 1000000000, /* for processes that outlive the program */
	CONTEXT_SOON_S = 60, /* a process makes its first context within this time */
};

struct collector {
	struct session *session;
	const struct collect_link *link;
	struct ingest ingest;
	bool has_store;
	bool program_ended; /* record's; true where there is no record */
	struct collect_end end;
	bool has_end;
	int64_t end_seen_ns; /* when we learnt of it */
	bool has_told_record;
	struct collect_progress progress;
	struct collect_pace pace;
	int64_t committed_ns; /* when */
	int64_t looked_ns;    /* for ends of processes */
	int64_t reclaimed_ns; /* chunks of dead threads */
	struct collect_sampler *sampler;
	int watch; /* of the session's directory; -1: none */
	uint64_t refused;     /* directories whose control page cannot be read */
	char refused_name[NAME_MAX + 1];
};

static int64_t now_ns(void)
{
	return (int64_t)clock_system_ns(CLOCK_MONOTONIC);
}

static void open_store(struct collector *collector, const struct trace_control *control)
{
	struct session *session = collector->session;
	char options[sizeof(session->frees) + sizeof(session->children) +
		     sizeof(session->limits) + 32];
	bool is_new;

	if (!*session->trace)
		collect_trace_choose(session, control);
	ingest_start(&collector->ingest,
		     store_open(session->trace, session->directory, &is_new));
	if (is_new) {
		snprintf(options, sizeof(options), "frees=%s children=%s%s%s", session->frees,
			 session->children, *session->limits ? " " : "", session->limits);
		store_begin(collector->ingest.store);
		store_set_text(collector->ingest.store, "options", options);
	} else {
		ingest_resume(&collector->ingest);
	}
	collector->has_store = true;
	collector->committed_ns = now_ns();
}

static bool is_known(const struct collector *collector, const char *name)
{
	const struct ingest_process *process;

	for (process = collector->ingest.processes; process; process = process->next)
		if (!strcmp(process->name, name))
			return true;
	return false;
}

static void consider(struct collector *collector, const char *name)
{
	char path[PATH_MAX], why[PATH_MAX + 128];
	struct ingest_process *process;
	struct ingest_map map;
	int code;

	if (name[0] < '0' || name[0] > '9' || is_known(collector, name) ||
	    !strcmp(name, collector->refused_name))
		return;
	if (snprintf(path, sizeof(path), "%s/%s", collector->session->directory, name) >= PATH_MAX)
		return;
	code = ingest_map_open(&map, path, why, sizeof(why));
	if (code < 0) {
		snprintf(collector->refused_name, sizeof(collector->refused_name), "%s", name);
		collector->refused++;
		message_warn("%s", why);
	}
	if (code)
		return;
	if (!collector->has_store)
		open_store(collector, map.control);
	process = ingest_process_add(&collector->ingest, &map, name);
	collect_process_find(process);
	if (process->is_local && !process->is_done && collect_process_is_alive(process))
		collect_sample_start(&collector->sampler);
}

/* By the serial behind the pid, so that parents and older images come first. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
	const char *x = strchr((*a)->d_name, '-'), *y = strchr((*b)->d_name, '-');
	long first = x ? atol(x + 1) : 0, second = y ? atol(y + 1) : 0;

	return first != second ? (first > second) - (first < second) :
				 strcmp((*a)->d_name, (*b)->d_name);
}

static void discover(struct collector *collector)
{
	struct dirent **entries;
	int count = scandir(collector->session->directory, &entries, NULL, compare_names);

	for (int i = 0; i < count; i++) {
		consider(collector, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* The next image of the same process: where there is one, this one is gone. */
static const struct ingest_process *find_successor(const struct collector *collector,
						   const struct ingest_process *process)
{
	const struct ingest_process *other, *next = NULL;

	for (other = collector->ingest.processes; other; other = other->next)
		if (other->pid == process->pid &&
		    other->map.control->start_time == process->map.control->start_time &&
		    other->map.control->exec_serial > process->map.control->exec_serial &&
		    (!next || other->start_ns < next->start_ns))
			next = other;
	return next;
}

/* A thread of a program that makes and drops many must not keep its chunk for ever. */
static void reclaim(struct collector *collector)
{
	struct ingest_process *process;
	int64_t now = now_ns();

	if (now - collector->reclaimed_ns < RECLAIM_NS)
		return;
	collector->reclaimed_ns = now;
	for (process = collector->ingest.processes; process; process = process->next)
		if (!process->is_ended)
			ingest_merge_reclaim(process, collect_process_has_lost);
}

/* Ends are looked for before the last look at the records, so that none is missed. */
static void find_ends(struct collector *collector)
{
	struct ingest_process *process;
	int64_t now = now_ns();

	if (now - collector->looked_ns < LOOK_FOR_END_NS && !collector->program_ended)
		return;
	collector->looked_ns = now;
	for (process = collector->ingest.processes; process; process = process->next) {
		if (process->is_ended || (collect_process_is_alive(process) &&
					  !find_successor(collector, process)))
			continue;
		process->is_ended = true;
		process->noticed_ns = now;
	}
}

/* When the clock was read, in the process's own terms; all that is older is there to be seen. */
static int64_t read_clock(struct ingest_process *process)
{
	uint32_t mode = process->map.control->clock;
	struct clock_triple now;

	if (!process->is_local)
		return INT64_MAX;
	clock_read_triple(&now, mode);
	atomic_store_explicit(&process->map.control->collector_beat, now.monotonic_ns,
			      memory_order_relaxed);
	if (mode != CLOCK_TICKS_TSC)
		return (int64_t)now.monotonic_ns;
	ingest_clock_add(&process->clock, now.ticks, now.monotonic_ns);
	return ingest_clock_ns(&process->clock, now.ticks, mode);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Before this moment nothing can come any more from this process. */
static int64_t horizon_of(const struct ingest_process *process, int64_t until_ns)
{
	int64_t horizon = process->is_ended ? INT64_MAX : least(until_ns, process->busy_ns);

	return process->heap_count ? least(horizon, process->heap[0]->key) : horizon;
}

/* The end of one that says nothing itself: its successor's begin, record's word, when seen. */
static void end_process(struct collector *collector, struct ingest_process *process)
{
	const struct ingest_process *successor = find_successor(collector, process);
	int64_t end_ns = process->is_local ? process->noticed_ns : 0;

	if (successor)
		end_ns = successor->start_ns;
	else if (collector->has_end && collector->end.pid == process->pid)
		end_ns = collector->end.end_ns;
	ingest_process_end(process, end_ns);
}

/* Records that went into a trace which is not there any more. */
static void note_missing(struct ingest_process *process)
{
	uint64_t missing = process->is_new ? ingest_merge_missing(process) : 0;

	process->is_new = false;
	if (!missing)
		return;
	message_warn("at least %llu records of process %d were in a trace that is gone",
		     (unsigned long long)missing, process->pid);
	store_begin(process->ingest->store);
	ingest_counter_lost(process, 0, process->map.control->clock, missing, 0, 0);
}

/* One look at one process; returns the horizon of what can still come from it. */
static int64_t pass(struct collector *collector, struct ingest_process *process)
{
	int64_t until_ns, horizon;

	if (process->is_done)
		return INT64_MAX;
	ingest_merge_learn(process);
	note_missing(process);
	until_ns = read_clock(process);
	ingest_merge_look(process);
	ingest_merge_run(process, until_ns, BATCH_RECORDS);
	horizon = horizon_of(process, until_ns);
	ingest_block_forget(&process->blocks, horizon);
	if (process->is_ended && ingest_merge_is_empty(process))
		end_process(collector, process);
	return horizon;
}

static void commit_if_due(struct collector *collector)
{
	struct ingest *ingest = &collector->ingest;

	if (!ingest->store->is_open)
		return;
	if (ingest->uncommitted < BATCH_RECORDS &&
	    now_ns() - collector->committed_ns < COMMIT_AFTER_NS)
		return;
	ingest_commit(ingest);
	collector->committed_ns = now_ns();
}

/* Before the first context of each process it must be known what others have. */
static bool awaits_context(const struct collector *collector)
{
	const struct ingest_process *process;
	int64_t now = now_ns();

	for (process = collector->ingest.processes; process; process = process->next)
		if (!process->is_ended && !process->contexts.count &&
		    (now - process->start_ns) / 1000000000 < CONTEXT_SOON_S)
			return true;
	return false;
}

/* How many records were handled. */
static uint64_t pass_all(struct collector *collector)
{
	struct ingest *ingest = &collector->ingest;
	uint64_t before = ingest->records;
	int64_t horizon = INT64_MAX;
	struct ingest_process *process;

	if (!collector->has_store)
		return 0;
	for (process = ingest->processes; process; process = process->next)
		horizon = least(horizon, pass(collector, process));
	collect_sample_take(collector->sampler, ingest, awaits_context(collector));
	if (horizon != INT64_MAX)
		ingest_peak_apply(&ingest->peak, horizon);
	commit_if_due(collector);
	return ingest->records - before;
}

static uint32_t count_running(const struct collector *collector)
{
	const struct ingest_process *process;
	uint32_t count = 0;

	if (!collector->has_store)
		return 0;
	for (process = collector->ingest.processes; process; process = process->next)
		count += !process->is_done;
	return count;
}

static bool is_any_alive(const struct collector *collector)
{
	const struct ingest_process *process;

	for (process = collector->ingest.processes; process; process = process->next)
		if (!process->is_ended)
			return true;
	return false;
}

/* Of those that still write; 0: there is none. */
static uint64_t smallest_buffer(const struct collector *collector)
{
	const struct ingest_process *process;
	uint64_t least = 0;

	for (process = collector->ingest.processes; process; process = process->next)
		if (!process->is_ended &&
		    (!least || process->map.control->buffer_bytes < least))
			least = process->map.control->buffer_bytes;
	return least;
}

/*
 * Whether a process may still come that has no control page yet: the program of
 * a bare preload, or a daemon that record's program has left behind.
 */
static bool may_still_come(struct collector *collector)
{
	const struct session *session = collector->session;
	enum collect_survivor survivor;

	if (collector->link->from_record < 0)
		return session->is_bare && !collector->has_store && session->pid > 0 &&
		       !kill(session->pid, 0);
	survivor = collect_survivor_find(session->directory);
	return survivor == SURVIVOR_DRIVER ||
	       (survivor == SURVIVOR_IDLE && now_ns() - collector->end_seen_ns < PATIENCE_NS);
}

static void hear_record(struct collector *collector)
{
	ssize_t got = read(collector->link->from_record, &collector->end, sizeof(collector->end));

	collector->has_end = got == (ssize_t)sizeof(collector->end);
	collector->program_ended = got >= 0 || errno != EINTR;
	collector->end_seen_ns = now_ns();
}

/* Whoever joins the session is looked at soon: its control page is there in a moment. */
static void read_link(struct collector *collector, int timeout_ms)
{
	struct pollfd wait[] = { { .fd = -1, .events = POLLIN },
				 { .fd = collector->watch, .events = POLLIN } };

	if (!collector->program_ended)
		wait[0].fd = collector->link->from_record;
	if (poll(wait, 2, timeout_ms) <= 0)
		return;
	if (wait[1].revents) {
		collect_watch_drain(collector->watch);
		collector->pace.wait_ms = 0;
	}
	if (wait[0].revents)
		hear_record(collector);
}

/* The program of `record` has ended, others of its family have not: it need not wait for them. */
static void tell_record(struct collector *collector)
{
	const struct collect_link *link = collector->link;
	struct ingest_process *process;

	if (link->from_record < 0 || collector->has_told_record || !collector->program_ended ||
	    now_ns() - collector->end_seen_ns < PATIENCE_NS)
		return;
	for (process = collector->ingest.processes; process; process = process->next)
		if (process->is_ended && !process->is_done)
			return;
	collector->has_told_record = true;
	if (write(link->to_record, "r", 1) < 0)
		message_level = MESSAGE_QUIET; /* nobody there: nobody to talk to either */
}

/* While the program runs, nobody waits for us. */
static void show_progress(struct collector *collector)
{
	const struct ingest_process *process;
	uint64_t left = 0;

	if (!collector->progress.is_wanted || !collector->program_ended)
		return;
	for (process = collector->ingest.processes; process; process = process->next)
		left += ingest_merge_left(process);
	collect_progress_update(&collector->progress, collector->ingest.records,
				collector->ingest.records + left);
}

static void complete(struct collector *collector)
{
	struct store *store = collector->ingest.store;

	collect_sample_stop(&collector->sampler);
	if (collector->has_end)
		collect_trace_note_exit(&collector->ingest, &collector->end);
	collect_progress_update(&collector->progress, 1, 1);
	ingest_finish(&collector->ingest);
	collect_progress_end(&collector->progress);
	ingest_free(&collector->ingest);
	store_close(store);
}

/* Whoever can write the files may cut them short while they are read. */
static void explain_bus_error(int signal_number)
{
	static const char text[] = "custody: a file of the session was cut short while it was "
				   "read, so the trace is not complete\n";

	(void)signal_number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(EXIT_COULD_NOT);
}

bool collect_run(struct session *session, const struct collect_link *link)
{
	struct collector collector = { .session = session, .link = link,
				       .program_ended = link->from_record < 0,
				       .progress.is_wanted = link->show_progress };

	/* A collector that was killed between its last commit and its last step. */
	if (*session->trace && store_reader_is_complete(session->trace)) {
		session_remove(session);
		return true;
	}
	signal(SIGBUS, explain_bus_error);
	collector.watch = collect_watch_open(session->directory);
	for (;;) {
		bool is_last = collector.program_ended;
		uint64_t handled;

		discover(&collector);
		find_ends(&collector);
		reclaim(&collector);
		handled = pass_all(&collector);
		show_progress(&collector);
		if (handled >= BUSY_RECORDS || (handled && !is_any_alive(&collector)))
			continue;
		if (is_last && !count_running(&collector) && !may_still_come(&collector))
			break;
		tell_record(&collector);
		read_link(&collector, collect_pace_wait(&collector.pace, now_ns(), handled,
							smallest_buffer(&collector)));
	}
	if (collector.has_store)
		complete(&collector);
	if (collector.watch >= 0)
		close(collector.watch);
	if (collector.refused)
		message_warn("what cannot be read stays in %s", session->directory);
	else
		session_remove(session);
	return collector.has_store;
}
