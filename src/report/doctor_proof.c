/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_proof.c - nothing proves recording like recording: run it, read the trace. */
#include "report/doctor.h"

#include "core/trace_names.h"
#include "report/format.h"
#include "report/message.h"
#include "report/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DOORS = 3, ANSWER_BYTES = 8192 };

struct proof {
	char directory[PATH_MAX];
	char trace[PATH_MAX + 16];
	char answer[ANSWER_BYTES]; /* what the probe printed */
	int status;		   /* of `custody record`, -1: not run */
};

/* A private place for the trace; /tmp, as it is looked at and removed at once. */
static bool make_place(struct doctor *doctor, struct proof *proof)
{
	const char *parent = getenv("TMPDIR");

	memset(proof, 0, sizeof(*proof));
	proof->status = -1;
	snprintf(proof->directory, sizeof(proof->directory), "%s/custody-doctor-XXXXXX",
		 parent && *parent ? parent : "/tmp");
	if (!mkdtemp(proof->directory)) {
		doctor_say(doctor, DOCTOR_BAD, "no trace can be written below %s: %s",
			   parent && *parent ? parent : "/tmp", strerror(errno));
		return false;
	}
	snprintf(proof->trace, sizeof(proof->trace), "%s/probe.db", proof->directory);
	return true;
}

static void remove_place(const struct proof *proof)
{
	unlink(proof->trace);
	rmdir(proof->directory);
}

static void read_answer(struct proof *proof, int from)
{
	size_t used = 0;
	ssize_t got;

	while (used < ANSWER_BYTES - 1 &&
	       (got = read(from, proof->answer + used, ANSWER_BYTES - 1 - used)) > 0)
		used += (size_t)got;
	proof->answer[used] = '\0';
}

static void exec_record(struct proof *proof, bool is_simulated, int to)
{
	static char self[] = "/proc/self/exe";
	char program[PATH_MAX];
	ssize_t length = readlink(self, program, sizeof(program) - 1);
	const char *argument[12];
	int n = 0;

	if (length < 0 || dup2(to, STDOUT_FILENO) < 0)
		_exit(EXIT_NOT_FOUND);
	program[length] = '\0';
	argument[n++] = program;
	argument[n++] = "record";
	argument[n++] = "-q";
	argument[n++] = "-o";
	argument[n++] = proof->trace;
	if (is_simulated)
		argument[n++] = "--simulate";
	argument[n++] = "--";
	argument[n++] = program;
	argument[n++] = "probe";
	argument[n++] = is_simulated ? "--memory" : NULL;
	argument[n] = NULL;
	execv(program, (char *const *)argument);
	_exit(EXIT_NOT_FOUND);
}

static void run_record(struct proof *proof, bool is_simulated)
{
	int pipes[2];
	pid_t child;

	if (pipe2(pipes, O_CLOEXEC))
		return;
	fflush(stdout);
	child = fork();
	if (!child)
		exec_record(proof, is_simulated, pipes[1]);
	close(pipes[1]);
	if (child > 0) {
		read_answer(proof, pipes[0]);
		if (waitpid(child, &proof->status, 0) != child)
			proof->status = -1;
	}
	close(pipes[0]);
}

/* The value of the first line "key=..." of the answer; false: none. */
static bool find_answer(const struct proof *proof, const char *key, char *value, size_t bytes)
{
	size_t length = strlen(key);
	const char *line = proof->answer;

	while (line && *line) {
		if (!strncmp(line, key, length) && line[length] == '=') {
			snprintf(value, bytes, "%.*s", (int)strcspn(line + length + 1, "\n"),
				 line + length + 1);
			return true;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return false;
}

static int64_t ask_trace(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;
	int64_t number = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return number;
}

static bool has_ended_well(struct doctor *doctor, const struct proof *proof, const char *driver)
{
	if (proof->status < 0)
		doctor_say(doctor, DOCTOR_BAD, "on the %s 'custody record' cannot be started",
			   driver);
	else if (WIFSIGNALED(proof->status))
		doctor_say(doctor, DOCTOR_BAD, "on the %s 'custody record' died of signal %d",
			   driver, WTERMSIG(proof->status));
	else if (WEXITSTATUS(proof->status) == 128 + SIGALRM)
		doctor_say(doctor, DOCTOR_BAD, "the %s did not answer in time", driver);
	else if (WEXITSTATUS(proof->status))
		doctor_say(doctor, DOCTOR_BAD, "on the %s a recorded program ended with status %d",
			   driver, WEXITSTATUS(proof->status));
	return !proof->status;
}

static sqlite3 *open_trace(struct doctor *doctor, const struct proof *proof)
{
	if (access(proof->trace, R_OK)) {
		doctor_say(doctor, DOCTOR_BAD, "a recorded program left no trace");
		return NULL;
	}
	return store_reader_open(proof->trace);
}

/* One block was allocated and freed through each door, so as many must be in the trace. */
static void judge_doors(struct doctor *doctor, const struct proof *proof)
{
	sqlite3 *db = open_trace(doctor, proof);
	int64_t made, freed;
	char why[256];

	if (!db)
		return;
	made = ask_trace(db, "SELECT count(*) FROM allocation");
	freed = ask_trace(db, "SELECT count(*) FROM allocation WHERE released_ns IS NOT NULL");
	sqlite3_close(db);
	if (find_answer(proof, "closed", why, sizeof(why)))
		doctor_say(doctor, DOCTOR_BAD, "the door %s does not open", why);
	if (find_answer(proof, "failed", why, sizeof(why)))
		doctor_say(doctor, DOCTOR_BAD, "a call on the simulated driver failed: %s", why);
	if (made == DOORS && freed == DOORS)
		doctor_say(doctor, DOCTOR_GOOD,
			   "recording works on the simulated driver, through linked symbols, dlsym "
			   "and cuGetProcAddress");
	else
		doctor_say(doctor, DOCTOR_BAD,
			   "of %d blocks made on the simulated driver %d are in the trace, %d as "
			   "freed",
			   DOORS, (int)made, (int)freed);
}

void doctor_proof_simulated(struct doctor *doctor)
{
	struct proof proof;
	char why[256];

	if (!make_place(doctor, &proof))
		return;
	run_record(&proof, true);
	if (find_answer(&proof, "absent", why, sizeof(why)))
		doctor_say(doctor, DOCTOR_BAD, "the simulated driver cannot be loaded: %s", why);
	else if (has_ended_well(doctor, &proof, "simulated driver"))
		judge_doors(doctor, &proof);
	remove_place(&proof);
}

static void tell_driver(struct doctor *doctor, const struct proof *proof)
{
	char version[64] = "0", devices[64] = "0", name[300] = "", text[FORMAT_BYTES];

	find_answer(proof, "version", version, sizeof(version));
	find_answer(proof, "devices", devices, sizeof(devices));
	find_answer(proof, "device", name, sizeof(name));
	doctor_say(doctor, DOCTOR_GOOD, "the driver answers: CUDA %s, %s device%s%s%s",
		   format_driver(text, atoi(version)), devices, strcmp(devices, "1") ? "s" : "",
		   *name ? ", " : "", name);
}

/* A count is all there is: the probe asked the driver nothing that makes a record. */
static void judge_driver(struct doctor *doctor, const struct proof *proof)
{
	sqlite3 *db = open_trace(doctor, proof);
	int64_t calls;

	if (!db)
		return;
	calls = ask_trace(db, "SELECT sum(calls) FROM api_call JOIN api ON api.id = api_id"
			      " WHERE name IN ('cuInit', 'cuDeviceGetCount')");
	sqlite3_close(db);
	if (calls >= 2)
		doctor_say(doctor, DOCTOR_GOOD, "recording works on this machine's driver");
	else
		doctor_say(doctor, DOCTOR_BAD,
			   "the calls to this machine's driver are not in the trace");
}

void doctor_proof_driver(struct doctor *doctor, bool can_do_without)
{
	struct proof proof;
	char why[256], init[64];
	const char *name;

	if (!make_place(doctor, &proof))
		return;
	run_record(&proof, false);
	if (find_answer(&proof, "absent", why, sizeof(why))) {
		doctor_say(doctor, can_do_without ? DOCTOR_NOTE : DOCTOR_BAD,
			   "there is no driver here (%s)%s", why,
			   can_do_without ? "; programs can be recorded with --simulate" : "");
	} else if (has_ended_well(doctor, &proof, "machine's driver")) {
		name = find_answer(&proof, "init", init, sizeof(init)) ?
			       result_name((unsigned)atoi(init)) :
			       NULL;
		if (atoi(init))
			doctor_say(doctor, DOCTOR_NOTE, "the driver cannot be used: cuInit says %s",
				   name ? name : init);
		else
			tell_driver(doctor, &proof);
		judge_driver(doctor, &proof);
	}
	remove_place(&proof);
}
