/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - custody doctor: does recording work here, and if not, why. */
#include "config.h"

#include "report/command.h"

#include "core/clock.h"
#include "core/option.h"
#include "report/doctor.h"
#include "report/format.h"
#include "report/program.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ROOM_LEAST = 8 << 20 };

static void judge_options(struct doctor *doctor)
{
	char why[256];

	for (int id = 0; id < OPTION_COUNT; id++) {
		const char *variable = options_variable((enum option_id)id);

		if (variable &&
		    !option_is_valid((enum option_id)id, getenv(variable), why, sizeof(why)))
			doctor_say(doctor, DOCTOR_NOTE, "%s: %s; the default is used", variable,
				   why);
	}
}

/* What becomes of the frees of a program that is recorded from here. */
static void judge_frees(struct doctor *doctor)
{
	const char *policy = option_text(OPTION_FREES);
	const char *injection = getenv("NVTX_INJECTION64_PATH");

	if (!strcmp(policy, "immediate")) {
		doctor_say(doctor, DOCTOR_GOOD, "frees go to the driver at once (CUSTODY_FREES)");
		return;
	}
	doctor_say(doctor, DOCTOR_GOOD,
		   "frees are put off (%s); a pass begins at more than %s of them, or at more than "
		   "%s of the device's memory",
		   policy, option_text(OPTION_MAX_PENDING), option_text(OPTION_MAX_PENDING_RATIO));
	if (injection && *injection)
		doctor_say(doctor, DOCTOR_NOTE,
			   "NVTX_INJECTION64_PATH is set already (%s): ranges named "
			   "custody.defer_cleanup are not heard",
			   injection);
}

static void judge_machine(struct doctor *doctor)
{
	doctor_say(doctor, DOCTOR_GOOD, "custody %s with glibc %s", PACKAGE_VERSION,
		   gnu_get_libc_version());
	if (clock_choose() == CLOCK_TICKS_TSC)
		doctor_say(doctor, DOCTOR_GOOD,
			   "time stamps come from the processor's invariant counter");
	else
		doctor_say(doctor, DOCTOR_NOTE,
			   "the processor's counter is not known to be invariant: time stamps come "
			   "from clock_gettime and cost about twice as much");
}

/* The order is that of the recording: the first place that will do is taken. */
static bool judge_place(struct doctor *doctor, const char *what, const char *path, bool is_taken)
{
	struct statvfs room;
	char text[FORMAT_BYTES];
	uint64_t bytes;

	if (!path || !*path)
		return false;
	if (statvfs(path, &room) || access(path, W_OK | X_OK)) {
		doctor_say(doctor, DOCTOR_NOTE, "%s (%s) cannot be written: %s", path, what,
			   strerror(errno));
		return false;
	}
	bytes = (uint64_t)room.f_bavail * room.f_frsize;
	format_bytes(text, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
	if (bytes < ROOM_LEAST) {
		doctor_say(doctor, DOCTOR_NOTE, "%s (%s) has no room: %s are free", path, what,
			   text);
		return false;
	}
	if (!is_taken)
		doctor_say(doctor, DOCTOR_GOOD, "records wait in %s (%s), %s are free", path, what,
			   text);
	return true;
}

static void judge_places(struct doctor *doctor)
{
	bool is_taken = judge_place(doctor, "XDG_RUNTIME_DIR", getenv("XDG_RUNTIME_DIR"), false);

	is_taken |= judge_place(doctor, "shared memory", "/dev/shm", is_taken);
	if (is_taken)
		return;
	if (judge_place(doctor, "the current directory", ".", false))
		doctor_say(doctor, DOCTOR_NOTE,
			   "that is no memory file system: recording costs more time");
	else
		doctor_say(doctor, DOCTOR_BAD, "there is no place for the records");
}

/* Without the interposer there is nothing to prove. */
static void judge_recording(struct doctor *doctor)
{
	char preload[PATH_MAX], injection[PATH_MAX], simulated[PATH_MAX];
	bool has_simulated;

	if (!program_find_preload(preload, sizeof(preload))) {
		doctor_say(doctor, DOCTOR_BAD,
			   "libcustody-preload.so is not found beside this program");
		return;
	}
	doctor_preload(doctor, preload);
	if (!program_find_injection(preload, injection, sizeof(injection)))
		doctor_say(doctor, DOCTOR_NOTE,
			   "%s is not there: programs that the preload does not reach are not "
			   "told of",
			   injection);
	has_simulated = program_find_simdriver(simulated, sizeof(simulated));
	if (has_simulated)
		doctor_proof_simulated(doctor);
	else
		doctor_say(doctor, DOCTOR_NOTE,
			   "the simulated driver is not installed; recording is proved on this "
			   "machine's own only");
	doctor_proof_driver(doctor, has_simulated);
}

static int run(int argc, char **argv)
{
	struct doctor doctor = { .bad = 0 };

	if (argc > 1)
		message_die(EXIT_USAGE, "doctor: at most one PROGRAM is wanted");
	terminal_probe(&doctor.terminal, stdout);
	judge_machine(&doctor);
	judge_options(&doctor);
	doctor_tools(&doctor);
	judge_frees(&doctor);
	judge_places(&doctor);
	judge_recording(&doctor);
	if (argc)
		doctor_program(&doctor, argv[0]);
	if (fflush(stdout))
		message_die(EXIT_COULD_NOT, "cannot write to standard output");
	return doctor.bad ? EXIT_COULD_NOT : EXIT_GOOD;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.summary = "Prove that recording works here, and say what cannot work",
	.operands = "[PROGRAM]",
	.run = run,
};
