/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/doors.h"
#include "intercept/cupti.h"
#include "intercept/cupti_doors.h"
#include "intercept/gpu_times.h"
#include "intercept/object.h"
#include "intercept/real.h"
#include "intercept/uncovered.h"

#include <dlfcn.h>
#include <stddef.h>

static const struct door_answer not_ours = { 0, NULL };

static void *ask(void *handle, const char *name, const char *version)
{
	void *volatile address; /* the loader must see us as the caller: no jump from here */

	address = version ? real_dlvsym(handle, name, version) : real_dlsym(handle, name);
	return address;
}

/* Our wrapper for what a real look-up has answered, else the answer itself. */
static void *replace(void *address, const char *name, int version, uint64_t flags)
{
	int row = real_find(address);

	if (row < 0 && real_bind_at(address))
		row = real_find(address);
	if (row >= 0)
		return api_wrapper[row];
	if (real_is_driver(address))
		uncovered_note(address, name, version, flags);
	return address;
}

/*
 * RTLD_DEFAULT also searches what the caller itself was linked with, which is
 * not in our scope where the caller is a plugin opened for itself.
 */
static void *ask_scope_of(const void *caller, const char *name, const char *version)
{
	struct object object;
	void *handle, *address;

	if (!object_find_address(caller, &object) || !*object.path || !real_libc_dlopen)
		return NULL;
	handle = real_libc_dlopen(object.path, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	address = ask(handle, name, version);
	dlclose(handle);
	return address;
}

/*
 * The answer is our own export: the scope asked holds us, which says nothing of
 * libcuda.  What stands behind us does; if nothing, the program must not be
 * told that there is a driver.  The last look-up is the one dlerror() is about.
 */
static struct door_answer answer_own(void *handle, const char *name, const char *version,
				     const void *caller)
{
	void *behind = ask(RTLD_NEXT, name, version);

	if (!behind && handle == RTLD_DEFAULT) {
		behind = ask_scope_of(caller, name, version);
		if (!behind || real_is_ours(behind))
			behind = ask(RTLD_NEXT, name, version);
	}
	if (!behind)
		return (struct door_answer){ 1, NULL };
	if (real_bind_at(behind))
		ask(RTLD_NEXT, name, version);
	return (struct door_answer){ 1, replace(behind, name, 0, 0) };
}

/*
 * What lies behind the program is the whole scope without it.  Everybody else
 * begins in the middle of the scope, and is left to libc, which knows where.
 */
static struct door_answer answer_next(const char *name, const char *version, const void *caller)
{
	struct object object;

	if (!object_find_address(caller, &object) || *object.path)
		return not_ours;
	if (!real_is_ours(ask(RTLD_DEFAULT, name, version)))
		return not_ours;
	return answer_own(RTLD_NEXT, name, version, caller);
}

void *doors_behind(const char *name, const void *caller)
{
	void *address = ask_scope_of(caller, name, NULL);

	return address && !real_is_ours(address) ? address : ask(RTLD_NEXT, name, NULL);
}

/*
 * One of CUPTI's functions that we export.  What lies behind us answers where we
 * would have; RTLD_NEXT begins behind the caller, which only the program itself
 * has ahead of us.
 */
static struct door_answer answer_cupti(int which, void *handle, const char *name,
				       const char *version, const void *caller)
{
	struct object object;
	void *address;

	if (cupti_covers(caller))
		return not_ours;
	if (handle == RTLD_NEXT && (!object_find_address(caller, &object) || *object.path))
		return not_ours;
	address = ask(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name, version);
	if (real_is_ours(address))
		address = doors_behind(name, caller);
	return (struct door_answer){ 1, cupti_doors_replace(which, address) };
}

/* CUPTI looks the driver's functions up for its own use: its calls are not the program's. */
static bool is_for_cupti(const void *caller)
{
	return gpu_times_are_wanted() && cupti_covers(caller);
}

/*
 * RTLD_NEXT means something only for the caller.  A look-up by libcuda itself
 * is none of the program's.  RTLD_DEFAULT that finds nothing from here may
 * find something in the caller's own scope.
 */
static struct door_answer answer(void *handle, const char *name, const char *version,
				 const void *caller)
{
	int which = name ? cupti_doors_find(name) : -1;
	void *address;

	if (which >= 0)
		return answer_cupti(which, handle, name, version, caller);
	if (!uncovered_is_driver_name(name) || real_is_driver(caller) || is_for_cupti(caller))
		return not_ours;
	if (handle == RTLD_NEXT)
		return answer_next(name, version, caller);
	address = ask(handle, name, version);
	if (!address)
		return handle == RTLD_DEFAULT ? not_ours : (struct door_answer){ 1, NULL };
	if (real_is_ours(address))
		return answer_own(handle, name, version, caller);
	if (real_bind_at(address))
		ask(handle, name, version); /* what binding asked must not stay in dlerror() */
	return (struct door_answer){ 1, replace(address, name, 0, 0) };
}

struct door_answer doors_dlsym(void *handle, const char *name, const void *caller)
{
	return answer(handle, name, NULL, caller);
}

struct door_answer doors_dlvsym(void *handle, const char *name, const char *version,
				const void *caller)
{
	return version ? answer(handle, name, version, caller) : not_ours;
}

void doors_replace_entry(CUresult result, const char *name, void **function, int version,
			 uint64_t flags)
{
	if (result == CUDA_SUCCESS && function && *function)
		*function = replace(*function, name, version, flags);
}
