/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_sample.h"

#include "core/clock.h"
#include "report/ingest_table.h"
#include "report/nvml.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	OFTEN_MS = 25,
	SELDOM_MS = 500,
	PATIENCE_S = 1,	   /* for the thread's end */
	WAITING_MOST = 512, /* samples; the collector looks several times a second */
};

struct sample {
	int device;
	int64_t at_ns, free;
};

struct collect_sampler {
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t wake;
	struct sample waiting[WAITING_MOST];
	int count;
	int pause_ms;
	bool is_over;
	struct nvml nvml; /* the thread's; its names are there for good before the first sample */
};

static void put(struct collect_sampler *sampler, int device, int64_t bytes)
{
	pthread_mutex_lock(&sampler->lock);
	if (sampler->count < WAITING_MOST)
		sampler->waiting[sampler->count++] = (struct sample){
			.device = device,
			.at_ns = (int64_t)clock_system_ns(CLOCK_MONOTONIC),
			.free = bytes,
		};
	pthread_mutex_unlock(&sampler->lock);
}

/* True until it is over. */
static bool pause_a_while(struct collect_sampler *sampler)
{
	struct timespec until;
	bool goes_on;

	pthread_mutex_lock(&sampler->lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += sampler->pause_ms * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	/* Woken early, it has only one sample more. */
	if (!sampler->is_over)
		pthread_cond_timedwait(&sampler->wake, &sampler->lock, &until);
	goes_on = !sampler->is_over;
	pthread_mutex_unlock(&sampler->lock);
	return goes_on;
}

static void *run(void *argument)
{
	struct collect_sampler *sampler = argument;
	int64_t bytes;

	if (!nvml_open(&sampler->nvml))
		return NULL;
	do {
		for (int i = 0; i < sampler->nvml.devices; i++)
			if (nvml_free_bytes(&sampler->nvml, i, &bytes))
				put(sampler, i, bytes);
	} while (pause_a_while(sampler));
	nvml_close(&sampler->nvml);
	return NULL;
}

/* Signals are for the collector itself. */
static bool start_thread(struct collect_sampler *sampler)
{
	sigset_t all, old;
	bool is_started;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	is_started = !pthread_create(&sampler->thread, NULL, run, sampler);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return is_started;
}

void collect_sample_start(struct collect_sampler **sampler)
{
	pthread_condattr_t attributes;

	if (*sampler)
		return;
	*sampler = ingest_table_memory(NULL, 1, sizeof(**sampler));
	memset(*sampler, 0, sizeof(**sampler));
	(*sampler)->pause_ms = OFTEN_MS;
	pthread_mutex_init(&(*sampler)->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&(*sampler)->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	if (start_thread(*sampler))
		return;
	free(*sampler);
	*sampler = NULL;
}

void collect_sample_take(struct collect_sampler *sampler, struct ingest *ingest, bool often)
{
	struct sample taken[WAITING_MOST];
	int count, pause_ms = often ? OFTEN_MS : SELDOM_MS;

	if (!sampler)
		return;
	pthread_mutex_lock(&sampler->lock);
	count = sampler->count;
	memcpy(taken, sampler->waiting, (size_t)count * sizeof(*taken));
	sampler->count = 0;
	/* Who waits for half a second must not miss that somebody new has come. */
	if (pause_ms < sampler->pause_ms)
		pthread_cond_signal(&sampler->wake);
	sampler->pause_ms = pause_ms;
	pthread_mutex_unlock(&sampler->lock);
	for (int i = 0; i < count; i++)
		ingest_reading_sample(ingest, sampler->nvml.device[taken[i].device].uuid,
				      taken[i].at_ns, taken[i].free);
}

void collect_sample_stop(struct collect_sampler **sampler)
{
	struct timespec until;

	if (!*sampler)
		return;
	pthread_mutex_lock(&(*sampler)->lock);
	(*sampler)->is_over = true;
	pthread_cond_signal(&(*sampler)->wake);
	pthread_mutex_unlock(&(*sampler)->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (!pthread_timedjoin_np((*sampler)->thread, NULL, &until)) {
		pthread_cond_destroy(&(*sampler)->wake);
		pthread_mutex_destroy(&(*sampler)->lock);
		free(*sampler);
	}
	*sampler = NULL;
}
