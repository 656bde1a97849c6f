/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI calls itself past these: its library is linked so that its own names are
 * its own.  A program that takes them while no GPU times are wanted gets what it
 * would have got without us.
 */
#include "intercept/cupti_doors.h"
#include "intercept/cupti.h"
#include "intercept/doors.h"
#include "intercept/gpu_times.h"

#include <stdatomic.h>
#include <string.h>

enum door { REGISTER_CALLBACKS, SUBSCRIBE, SUBSCRIBE_V2, DOORS };

static const char *const names[DOORS] = {
	[REGISTER_CALLBACKS] = "cuptiActivityRegisterCallbacks",
	[SUBSCRIBE] = "cuptiSubscribe",
	[SUBSCRIBE_V2] = "cuptiSubscribe_v2",
};

/* What dlsym has found last, for programs that are not linked with CUPTI. */
static void *_Atomic found[DOORS];

/* The exports have CUPTI's names and the types of our own declarations of them. */
#define EXPORT __attribute__((visibility("default")))
EXPORT int cuptiActivityRegisterCallbacks(cupti_request request, cupti_complete complete);
EXPORT int cuptiSubscribe(void **handle, cupti_callback callback, void *data);
EXPORT int cuptiSubscribe_v2(void **handle, cupti_callback callback, void *data,
			     struct cupti_subscriber *subscriber);

static void *const ours[DOORS] = {
	[REGISTER_CALLBACKS] = (void *)cuptiActivityRegisterCallbacks,
	[SUBSCRIBE] = (void *)cuptiSubscribe,
	[SUBSCRIBE_V2] = (void *)cuptiSubscribe_v2,
};

int cupti_doors_find(const char *name)
{
	if (strncmp(name, "cupti", 5))
		return -1;
	for (int which = 0; which < DOORS; which++)
		if (!strcmp(name, names[which]))
			return which;
	return -1;
}

void *cupti_doors_replace(int which, void *address)
{
	if (!address || !gpu_times_are_wanted())
		return address;
	atomic_store(&found[which], address);
	return ours[which];
}

/* The program's own CUPTI: the one it asked dlsym for, or is linked with, or any. */
static void *find_real(enum door which, const void *caller)
{
	void *address = atomic_load(&found[which]);

	if (!address)
		address = doors_behind(names[which], caller);
	return address ? address : cupti_symbol(names[which]);
}

EXPORT int cuptiActivityRegisterCallbacks(cupti_request request, cupti_complete complete)
{
	int (*real)(cupti_request, cupti_complete);

	*(void **)&real = find_real(REGISTER_CALLBACKS, CALLER);
	gpu_times_give_way();
	return real ? real(request, complete) : CUPTI_NOT_INITIALIZED;
}

EXPORT int cuptiSubscribe(void **handle, cupti_callback callback, void *data)
{
	int (*real)(void **, cupti_callback, void *);

	*(void **)&real = find_real(SUBSCRIBE, CALLER);
	gpu_times_give_way();
	return real ? real(handle, callback, data) : CUPTI_NOT_INITIALIZED;
}

EXPORT int cuptiSubscribe_v2(void **handle, cupti_callback callback, void *data,
			     struct cupti_subscriber *subscriber)
{
	int (*real)(void **, cupti_callback, void *, struct cupti_subscriber *);

	*(void **)&real = find_real(SUBSCRIBE_V2, CALLER);
	gpu_times_give_way();
	return real ? real(handle, callback, data, subscriber) : CUPTI_NOT_INITIALIZED;
}
