/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the simulated driver: SIMCUDA_* settings, cuInit, the end of the
 * process, fork, and the slow half of the look taken before every call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"
#include "account.h"
#include "entries.h"

enum life { LIFE_NEW, LIFE_READY, LIFE_OVER, LIFE_FORKED };

struct config settings;
int config_version_default __attribute__((weak)) = 13000;
atomic_bool config_plain;
atomic_bool config_stopping;
__thread struct thread sim_thread __attribute__((tls_model("initial-exec")));

static atomic_int life = LIFE_NEW;
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static atomic_ulong allocations;
static atomic_bool is_profiled;

void config_die(const char *format, ...)
{
	va_list args;
	char text[512];
	int used = snprintf(text, sizeof(text), "simulated driver: ");

	va_start(args, format);
	used += vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format, args);
	va_end(args);
	if (used > (int)sizeof(text) - 2)
		used = sizeof(text) - 2;
	text[used] = '\n';
	if (write(STDERR_FILENO, text, (size_t)used + 1) < 0)
		abort();
	abort();
}

void config_trace(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}

uint64_t config_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Wakes every 50 ms, so that the end of the process is not held up. */
void config_sleep_until(uint64_t when_ns)
{
	const uint64_t slice = 50000000;
	struct timespec until;
	uint64_t now = config_now_ns(), next;

	while (now < when_ns && !atomic_load(&config_stopping)) {
		next = when_ns - now > slice ? now + slice : when_ns;
		until.tv_sec = (time_t)(next / 1000000000u);
		until.tv_nsec = (long)(next % 1000000000u);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		now = config_now_ns();
	}
}

void config_pass_until(uint64_t when_ns)
{
	const uint64_t worth_sleeping = 80000;
	uint64_t now = config_now_ns();

	if (now + worth_sleeping < when_ns)
		config_sleep_until(when_ns);
	while (config_now_ns() < when_ns && !atomic_load(&config_stopping))
		;
}

/* ------------------------------------------------------------------ settings */

/* A number with an optional K, M, G or T of 1,024. */
static size_t read_size(const char *name, size_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	double value;
	int shift = 0;

	if (!text || !*text)
		return otherwise;
	value = strtod(text, &end);
	switch (*end) {
	case 'K': case 'k': shift = 10; break;
	case 'M': case 'm': shift = 20; break;
	case 'G': case 'g': shift = 30; break;
	case 'T': case 't': shift = 40; break;
	case '\0': break;
	default: config_die("%s=%s is not a size", name, text);
	}
	if (value < 0)
		config_die("%s=%s is not a size", name, text);
	return (size_t)(value * (double)((uint64_t)1 << shift));
}

static long read_number(const char *name, long otherwise)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return otherwise;
	value = strtol(text, &end, 0);
	if (*end)
		config_die("%s=%s is not a number", name, text);
	return value;
}

/* GB/s are bytes per nanosecond. */
static double read_rate(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? strtod(text, NULL) : 0;
}

static char *read_text(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? strdup(text) : NULL;
}

/* NAME:N:VALUE, N a call's number, N+ from there on, * every call; no N: every call. */
static void read_rule(const char *setting, char *text, struct call_rule *rule)
{
	char *second = strchr(text, ':');
	char *third = second ? strchr(second + 1, ':') : NULL;
	char *end = NULL;

	if (!second || (size_t)(second - text) >= sizeof(rule->name))
		config_die("%s: '%s' is not NAME:N:VALUE", setting, text);
	memcpy(rule->name, text, (size_t)(second - text));
	rule->name[second - text] = '\0';
	if (third && second[1] != '*') {
		rule->first = strtoul(second + 1, &end, 10);
		rule->onward = *end == '+';
		if (end + rule->onward != third || rule->first == 0)
			config_die("%s: '%s' has no call number", setting, text);
	}
	rule->value = strtol((third ? third : second) + 1, &end, 10);
	if (*end)
		config_die("%s: '%s' has no value", setting, text);
}

static int read_rules(const char *setting, struct call_rule *rules, int room)
{
	char *text = read_text(setting), *save = NULL, *word;
	int count = 0;

	if (!text)
		return 0;
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (count == room)
			config_die("%s: more than %d rules", setting, room);
		read_rule(setting, word, &rules[count++]);
	}
	free(text);
	return count;
}

static void read_timing(void)
{
	settings.copy_bytes_per_ns = read_rate("SIMCUDA_COPY_GBPS");
	settings.memset_bytes_per_ns = read_rate("SIMCUDA_MEMSET_GBPS");
	settings.copy_us = read_number("SIMCUDA_COPY_US", 0);
	settings.memset_us = read_number("SIMCUDA_MEMSET_US", 0);
	settings.kernel_us = read_number("SIMCUDA_KERNEL_US", 0);
	settings.host_us = read_number("SIMCUDA_HOST_US", 0);
	settings.kernels = read_text("SIMCUDA_KERNELS");
	settings.kernel_times = read_text("SIMCUDA_KERNEL_TIMES");
}

/* What the driver itself takes of a device. */
static void read_overhead(void)
{
	settings.context_bytes = settings.memory / 16;
	if (settings.context_bytes > (size_t)524 << 20)
		settings.context_bytes = (size_t)524 << 20;
	settings.context_bytes = read_size("SIMCUDA_CONTEXT", settings.context_bytes);
	settings.context_bytes = round_up(settings.context_bytes, PAGE_BYTES);
	settings.shared = read_text("SIMCUDA_SHARED");
	settings.others = read_size("SIMCUDA_OTHERS", 0);
	settings.module_bytes = read_size("SIMCUDA_MODULE", 0);
	settings.lazy = read_number("SIMCUDA_LAZY", 0) != 0;
	settings.stream_bytes = read_size("SIMCUDA_STREAM", 0);
	settings.graph_bytes = read_size("SIMCUDA_GRAPH", 0);
}

static void read_settings(void)
{
	settings.version = (int)read_number("SIMCUDA_VERSION", config_version_default);
	settings.devices = (int)read_number("SIMCUDA_DEVICES", 1);
	if (settings.devices < 0 || settings.devices > SIM_DEVICES_MAX)
		config_die("SIMCUDA_DEVICES is not 0 to %d", SIM_DEVICES_MAX);
	settings.memory = round_up(read_size("SIMCUDA_MEMORY", (size_t)8 << 30), PAGE_BYTES);
	read_overhead();
	settings.pool_chunk = read_size("SIMCUDA_POOL_CHUNK", (size_t)32 << 20);
	settings.pool_chunk = round_up(settings.pool_chunk, PAGE_BYTES);
	settings.strict = read_number("SIMCUDA_STRICT", 1) != 0;
	settings.verbose = read_number("SIMCUDA_VERBOSE", 0) != 0;
	settings.pools = read_number("SIMCUDA_POOLS", 1) != 0;
	settings.free_plain = (int)read_number("SIMCUDA_FREE_PLAIN", 1);
	settings.peer = read_number("SIMCUDA_PEER", 1) != 0;
	settings.vmm = read_number("SIMCUDA_VMM", 1) != 0;
	settings.capability = (int)read_number("SIMCUDA_CAPABILITY", 90);
	settings.managed = (int)read_number("SIMCUDA_MANAGED", 1);
	settings.managed_access = read_number("SIMCUDA_MANAGED_ACCESS", 1) != 0;
	settings.inline_ops = read_number("SIMCUDA_INLINE", 0) != 0;
	settings.quarantine = (unsigned)read_number("SIMCUDA_QUARANTINE", 256);
	settings.global_bytes = read_size("SIMCUDA_GLOBAL_BYTES", 256);
	settings.fail_alloc = (unsigned long)read_number("SIMCUDA_FAIL_ALLOC", 0);
	settings.fails = read_rules("SIMCUDA_FAIL", settings.fail, RULES_MAX);
	settings.fail_profiled = read_number("SIMCUDA_FAIL_PROFILED", 0) != 0;
	settings.delays = read_rules("SIMCUDA_DELAY", settings.delay, RULES_MAX);
	read_timing();
}

bool config_may_allocate(void)
{
	if (!settings.fail_alloc)
		return true;
	return atomic_fetch_add(&allocations, 1) + 1 != settings.fail_alloc;
}

CUresult config_version(int *version)
{
	pthread_once(&read_once, read_settings);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = settings.version;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ birth and death */

/*
 * Runs among the process's atexit handlers.  Those registered after cuInit have run
 * and could still call; later ones and ELF destructors get DEINITIALIZED.
 */
static void end_driver(void)
{
	int ready = LIFE_READY;

	if (!atomic_compare_exchange_strong(&life, &ready, LIFE_OVER))
		return;
	atomic_store(&config_plain, false);
	atomic_store(&config_stopping, true);
	account_close();
}

/* The child of a fork has no worker threads: the driver does not work there. */
static void forget_driver(void)
{
	if (atomic_load(&life) != LIFE_NEW)
		atomic_store(&life, LIFE_FORKED);
	atomic_store(&config_plain, false);
	sim_thread.current = NULL;
	account_forget();
}

/*
 * The end of a thread.  Its default streams go, once their work is done; what other
 * thread-end functions call after this starts from nothing.
 */
static void end_thread(void *argument)
{
	struct thread_rest *rest = argument;

	sim_thread.rest = NULL;
	sim_thread.current = NULL;
	for (size_t i = 0; i < sizeof(rest->own) / sizeof(rest->own[0]); i++)
		if (rest->own[i].context && atomic_load(&life) == LIFE_READY)
			stream_close_own(&rest->own[i]);
	free(rest);
}

static CUresult start_driver(void)
{
	CUresult error = device_start();

	if (error)
		return error;
	if (pthread_key_create(&thread_key, end_thread) ||
	    pthread_atfork(NULL, NULL, forget_driver) || atexit(end_driver))
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_store(&life, LIFE_READY);
	atomic_store(&config_plain, !settings.fails && !settings.delays && !settings.verbose);
	return CUDA_SUCCESS;
}

/*
 * A tool that the environment names is loaded by the first cuInit, on its thread,
 * and its entry called.  One that cannot be loaded changes nothing here.
 */
static void start_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*entry)(void) = NULL;

	if (library)
		*(void **)&entry = dlsym(library, "InitializeInjection");
	if (entry)
		entry();
}

CUresult config_init(unsigned int Flags)
{
	CUresult error = CUDA_SUCCESS;
	bool is_first = false;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&read_once, read_settings);
	pthread_mutex_lock(&life_lock);
	switch (atomic_load(&life)) {
	case LIFE_NEW:
		error = settings.devices ? start_driver() : CUDA_ERROR_NO_DEVICE;
		is_first = !error;
		break;
	case LIFE_OVER:
		error = CUDA_ERROR_DEINITIALIZED;
		break;
	case LIFE_FORKED:
		error = CUDA_ERROR_NOT_INITIALIZED;
		break;
	}
	pthread_mutex_unlock(&life_lock);
	if (is_first)
		start_injection();
	return error;
}

/* A client that has set SIMCUDA_FAIL_PROFILED=1 says by these where its rules hold. */
CUresult config_profiler_start(void)
{
	atomic_store(&is_profiled, true);
	return CUDA_SUCCESS;
}

CUresult config_profiler_stop(void)
{
	atomic_store(&is_profiled, false);
	return CUDA_SUCCESS;
}

struct thread_rest *config_thread(void)
{
	if (!sim_thread.rest) {
		sim_thread.rest = calloc(1, sizeof(*sim_thread.rest));
		pthread_setspecific(thread_key, sim_thread.rest);
	}
	return sim_thread.rest;
}

/* ------------------------------------------------------------------ before a call */

/* The value of the first rule that holds for this call, or 0. */
static long match_rules(struct call_rule *rules, int count, const char *call)
{
	unsigned long n;
	long value = 0;

	for (int i = 0; i < count; i++) {
		if (strcmp(rules[i].name, call) != 0 && strcmp(rules[i].name, "*") != 0)
			continue;
		n = atomic_fetch_add(&rules[i].calls, 1) + 1;
		if (rules[i].first == 0 || n == rules[i].first ||
		    (rules[i].onward && n > rules[i].first))
			value = value ? value : rules[i].value;
	}
	return value;
}

/* Errors after which a context is of no use any more. */
static bool is_sticky(long error)
{
	return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       (error >= CUDA_ERROR_ASSERT && error <= CUDA_ERROR_LAUNCH_FAILED &&
		error != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
		error != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED &&
		error != CUDA_ERROR_TOO_MANY_PEERS);
}

static CUresult apply_rules(const char *call)
{
	long delay, error;

	if (settings.verbose)
		config_trace("simulated driver: %s\n", call);
	delay = match_rules(settings.delay, settings.delays, call);
	if (delay)
		config_pass_until(config_now_ns() + (uint64_t)delay * 1000);
	if (settings.fail_profiled && !atomic_load(&is_profiled))
		return CUDA_SUCCESS;
	error = match_rules(settings.fail, settings.fails, call);
	if (error && is_sticky(error) && sim_thread.current) {
		atomic_store(&sim_thread.current->error, (int)error);
		atomic_store(&sim_thread.current->alive, false);
	}
	return (CUresult)error;
}

static CUresult check_life(void)
{
	switch (atomic_load(&life)) {
	case LIFE_READY:
		return CUDA_SUCCESS;
	case LIFE_OVER:
		return CUDA_ERROR_DEINITIALIZED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

CUresult config_check(const char *call, unsigned need)
{
	CUresult error;

	pthread_once(&read_once, read_settings);
	sim_thread.call = call;
	if (need & (NEED_INIT | NEED_CONTEXT)) {
		error = check_life();
		if (error)
			return error;
	}
	error = apply_rules(call);
	if (error)
		return error;
	if (need & NEED_CONTEXT) {
		if (!sim_thread.current)
			return CUDA_ERROR_INVALID_CONTEXT;
		error = context_usable(sim_thread.current);
		if (error)
			return error;
	}
	return need & NEED_NO_CAPTURE ? capture_check_unsafe() : CUDA_SUCCESS;
}

CUresult entry_unsupported(const char *call)
{
	CUresult error = config_check(call, NEED_NOTHING);

	return error ? error : CUDA_ERROR_NOT_SUPPORTED;
}
