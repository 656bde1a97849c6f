/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/device.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WHY_BYTES = 400 };

const struct engine *library_engine;
struct library_cuda library_cuda;

struct row {
	size_t offset;
	const char *symbol;
	bool is_needed;
};

/* cuda.h maps some names to newer ones: the field's name and the text must be the result. */
#define TEXT(name) #name
#define NEEDED(name) { offsetof(struct library_cuda, name), TEXT(name), true },
#define OPTIONAL(name) { offsetof(struct library_cuda, name), TEXT(name), false },

static const struct row rows[] = {
#include "library/cuda_functions.h"
};

/*
 * Taken around initialisation alone, and held across its driver calls: the driver may
 * fork a helper there, so nothing takes it ahead of a fork.
 */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool has_functions;
static _Atomic bool is_ready;
static _Atomic bool is_touched; /* the driver has been called, with success as far as known */
static _Atomic bool is_exiting;
static const char *_Atomic init_text; /* of the last failure; NULL: none */

/*
 * Holds 1 where CUDA was initialised; the kernel hands an empty page to every child,
 * also to one that no handler of pthread_atfork() has seen.  NULL: `born` has to do.
 */
static volatile unsigned char *_Atomic alive_page;
static pid_t born;

/* ------------------------------------------------------------------ fork and exit */

static bool is_child(void)
{
	const volatile unsigned char *page;

	if (!atomic_load_explicit(&is_touched, memory_order_acquire))
		return false;
	page = atomic_load_explicit(&alive_page, memory_order_relaxed);
	return page ? !*page : born != getpid();
}

/* Runs in the child, where the thread that held the lock does not exist. */
static void renew_lock(void)
{
	pthread_mutex_init(&init_lock, NULL);
}

static void note_exit(void)
{
	atomic_store_explicit(&is_exiting, true, memory_order_release);
}

/* Last of the handlers, for whoever has not initialised when the program ends. */
__attribute__((constructor)) static void watch_process(void)
{
	pthread_atfork(NULL, NULL, renew_lock);
	atexit(note_exit);
}

/* Where exit handlers do not run, but destructors do. */
__attribute__((destructor)) static void end_process(void)
{
	note_exit();
}

static volatile unsigned char *make_alive_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
		munmap(page, bytes);
		return NULL;
	}
	return page;
}

/* A child of one whose initialisation has failed has the page, but wiped. */
static void touch(void)
{
	volatile unsigned char *page = atomic_load_explicit(&alive_page, memory_order_relaxed);

	if (!page)
		page = make_alive_page();
	if (page)
		*page = 1;
	born = getpid();
	atomic_store_explicit(&alive_page, page, memory_order_relaxed);
	atomic_store_explicit(&is_touched, true, memory_order_release);
}

/* ------------------------------------------------------------------ initialisation */

static pthread_once_t choose_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
	library_engine = link_choose();
}

const struct engine *library_choose(void)
{
	pthread_once(&choose_once, choose);
	return library_engine;
}

/* The text stays for ever, somebody may hold it; the same one again costs nothing. */
static const char *keep(const char *_Atomic *place, const char *text)
{
	const char *last = atomic_load_explicit(place, memory_order_acquire);

	if (!last || strcmp(last, text) != 0)
		last = strdup(text);
	if (!last)
		last = "the host has no memory left";
	atomic_store_explicit(place, last, memory_order_release);
	return last;
}

static int fail(int error, const char *text)
{
	keep(&init_text, text);
	return error;
}

static int find_functions(const struct engine *engine)
{
	char why[WHY_BYTES];
	void *function;

	if (atomic_load_explicit(&has_functions, memory_order_relaxed))
		return 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		function = engine->find(rows[i].symbol);
		memcpy((char *)&library_cuda + rows[i].offset, &function, sizeof(function));
		if (function || !rows[i].is_needed)
			continue;
		snprintf(why, sizeof(why), "the CUDA driver is too old: it has no %s",
			 rows[i].symbol);
		return fail(CUSTODY_E_NO_DRIVER, why);
	}
	atomic_store_explicit(&has_functions, true, memory_order_release);
	return 0;
}

static int refuse_start(CUresult result)
{
	const char *name = NULL;
	char why[WHY_BYTES];

	if (library_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS)
		name = NULL;
	snprintf(why, sizeof(why), "the CUDA driver did not initialise: %s (%d)%s",
		 name ? name : "an error without a name", (int)result,
		 result == CUDA_ERROR_NOT_INITIALIZED ?
			 ", as in a process that was forked after its parent used CUDA" :
			 "");
	return fail((int)result, why);
}

/* Under the lock. */
static int open_engine(void)
{
	char why[WHY_BYTES] = "";

	if (!library_choose()->open(why, sizeof(why)))
		return fail(CUSTODY_E_NO_DRIVER, why);
	return 0;
}

const struct engine *library_open(void)
{
	int error;

	pthread_mutex_lock(&init_lock);
	error = open_engine();
	if (error)
		error_say(error, "%s", atomic_load_explicit(&init_text, memory_order_relaxed));
	pthread_mutex_unlock(&init_lock);
	return error ? NULL : library_engine;
}

static int start(void)
{
	CUresult result;
	int error = open_engine();

	if (!error)
		error = find_functions(library_engine);
	if (error)
		return error;
	result = library_cuda.cuInit(0);
	if (result != CUDA_SUCCESS)
		return refuse_start(result);
	error = device_open_all();
	return error ? fail(error, custody_error_detail()) : 0;
}

/*
 * After the driver has registered its own handler: ours runs ahead of it then, so
 * that nobody is let in who would call a driver that has ended.
 */
static void finish_start(void)
{
	atexit(note_exit);
	atomic_store_explicit(&init_text, NULL, memory_order_release);
	atomic_store_explicit(&is_ready, true, memory_order_release);
}

/* A process whose driver did not initialise may fork, and both may try again. */
static int start_once(void)
{
	int error = 0;

	pthread_mutex_lock(&init_lock);
	if (!atomic_load_explicit(&is_ready, memory_order_relaxed)) {
		touch();
		error = start();
		if (error)
			atomic_store_explicit(&is_touched, false, memory_order_release);
		else
			finish_start();
	}
	pthread_mutex_unlock(&init_lock);
	if (error)
		error_say(error, "%s", atomic_load_explicit(&init_text, memory_order_acquire));
	return error;
}

int library_check(void)
{
	if (atomic_load_explicit(&is_exiting, memory_order_acquire))
		return error_say(CUSTODY_E_EXITING,
				 "the process is ending, so the CUDA driver is left alone");
	if (is_child())
		return error_say(CUSTODY_E_FORKED,
				 "process %d was forked from %d after that had used CUDA, which "
				 "is of no use in a child",
				 (int)getpid(), (int)born);
	return 0;
}

int library_init(void)
{
	int error = library_check();

	if (error || atomic_load_explicit(&is_ready, memory_order_acquire))
		return error;
	return start_once();
}

bool library_is_usable(void)
{
	return atomic_load_explicit(&is_ready, memory_order_acquire) &&
	       !atomic_load_explicit(&is_exiting, memory_order_acquire) && !is_child();
}

bool library_has_functions(void)
{
	return atomic_load_explicit(&has_functions, memory_order_acquire) &&
	       !atomic_load_explicit(&is_exiting, memory_order_acquire) && !is_child();
}

const char *custody_init_error(void)
{
	static const char *_Atomic told;

	return library_init() ? keep(&told, custody_error_detail()) : NULL;
}
