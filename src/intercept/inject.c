/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver has loaded us into a program that the preload has not reached, or
 * has.  Nothing here may go wrong in a way that the program notices.
 */
#include "intercept/inject.h"
#include "core/children.h"
#include "core/control.h"
#include "core/notice.h"
#include "core/option.h"
#include "core/session_dir.h"
#include "intercept/object.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IMAGES_MAX = 100000 };

static const char preload_soname[] = "libcustody-preload.so";
static const char library_soname[] = "libcustody.so.0";

struct search {
	struct object preload;
	bool is_found;
};

/*
 * What is preloaded stands in front of libc.  Behind it, it was loaded late: by
 * somebody who opens it for another of its entries.
 */
static int look_for_preload(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	struct object object;

	(void)size;
	object_describe(info, &object);
	if (!object.soname)
		return 0;
	if (!strcmp(object.soname, preload_soname)) {
		search->preload = object;
		search->is_found = true;
	}
	return search->is_found || !strcmp(object.soname, "libc.so.6");
}

/* Why the preload is not there, as far as can be told from here. */
static uint32_t find_reason(void)
{
	const char *list = option_environment("LD_PRELOAD");

	if (getauxval(AT_SECURE))
		return CONTROL_SECURE;
	return list && strstr(list, "libcustody-preload") ? 0 : CONTROL_NO_VARIABLE;
}

static const char *explain(uint32_t reason)
{
	switch (reason) {
	case CONTROL_SECURE:
		return "it gains rights when it starts, so the loader ignores preloads";
	case CONTROL_NO_VARIABLE:
		return "LD_PRELOAD does not name it here";
	default:
		return "the driver is in another namespace (dlmopen), or the program static";
	}
}

static bool make_directory(const char *session, char *path, size_t bytes, uint32_t *serial)
{
	for (*serial = 0; *serial < IMAGES_MAX; ++*serial) {
		if (snprintf(path, bytes, "%s/%d-%u", session, getpid(), *serial) >=
		    (int)bytes - 16)
			return false;
		if (!mkdir(path, 0700))
			return true;
		if (errno != EEXIST)
			return false;
	}
	return false;
}

/* A process without a record: all that the collector makes of it is a row with the note. */
static void write_process(const char *session, uint32_t notes)
{
	struct control_facts facts = { .policy = "", .notes = notes };
	struct trace_control *control;
	char path[CONTROL_PATH_BYTES];

	if (!session_dir_exists(session) ||
	    !make_directory(session, path, sizeof(path), &facts.exec_serial))
		return;
	control = control_create(path, &facts);
	if (control)
		munmap(control, CONTROL_BYTES);
}

/*
 * We come late: what is at descriptor 2 by now may be the program's data.  It is
 * standard error where it is a terminal, or where our parent has the same there.
 */
static bool has_stderr(void)
{
	struct stat ours, parents;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getppid(), STDERR_FILENO);
	return isatty(STDERR_FILENO) ||
	       (!fstat(STDERR_FILENO, &ours) && !stat(path, &parents) &&
		ours.st_dev == parents.st_dev && ours.st_ino == parents.st_ino);
}

/* A program that has gained rights writes nowhere because its environment says so. */
static void tell(void)
{
	const char *session = option_environment(OPTION_ENV_SESSION);
	uint32_t reason = find_reason();

	if (!children_allow(false))
		return;
	if (session && *session && reason != CONTROL_SECURE)
		write_process(session, CONTROL_NOT_PRELOADED | reason);
	if (has_stderr())
		notice_once("this program starts the CUDA driver without the preload: %s; nothing "
			    "that it does is recorded",
			    explain(reason));
}

/* A program that is linked with libcustody is recorded by that, without a preload. */
static bool is_recorded_by_library(void)
{
	struct object library;
	int (*entry)(void);

	if (!object_find_soname(library_soname, &library))
		return false;
	entry = (int (*)(void))object_symbol(&library, "custody_linked");
	return entry && entry();
}

int InitializeInjection(void)
{
	static _Atomic bool is_done;
	struct search search = { .is_found = false };
	int (*entry)(void);
	int saved_errno = errno;

	dl_iterate_phdr(look_for_preload, &search);
	if (search.is_found) {
		entry = (int (*)(void))object_symbol(&search.preload, "custody_injected");
		if (entry)
			entry();
	} else if (!atomic_exchange(&is_done, true) && !is_recorded_by_library()) {
		tell();
	}
	errno = saved_errno;
	return 1;
}
