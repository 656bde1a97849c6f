/* SPDX-License-Identifier: Apache-2.0 */
#include "core/option.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	VALUE_BYTES = 4096,
	WHY_BYTES = 256,
	LOADED = -1, /* of `loading`, which else is 0 or the pid that is at it */
};

#define BUFFER_LEAST (UINT64_C(1) << 20)
#define BUFFER_MOST (UINT64_C(1) << 40)
#define LIMIT_LEAST (UINT64_C(2) << 20) /* a page of a device */
#define DIGITS_MOST UINT64_C(100000000000000000) /* what follows them changes nothing */

static const struct option_info infos[OPTION_COUNT] = {
	[OPTION_OUTPUT] = { OPTION_OUTPUT, "CUSTODY_OUTPUT", { NULL }, "custody.%e.%p.db", "FILE",
			    "name of the trace; %p pid, %h host, %e program, %q{VAR} variable" },
	[OPTION_FREES] = { OPTION_FREES, "CUSTODY_FREES", { NULL }, "deferred",
			   "immediate|deferred|nowait",
			   "what a free does: go to the driver; wait, and be released later; "
			   "only be released later" },
	[OPTION_MAX_PENDING] = { OPTION_MAX_PENDING, "CUSTODY_MAX_PENDING",
				 { "NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT" }, "10", "N",
				 "frees that a queue of a context holds; one more starts a pass" },
	[OPTION_MAX_PENDING_RATIO] = { OPTION_MAX_PENDING_RATIO, "CUSTODY_MAX_PENDING_RATIO",
				       { "NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO" }, "0.2", "R",
				       "share of the device's memory that may wait; more starts a "
				       "pass" },
	[OPTION_MEMINFO] = { OPTION_MEMINFO, "CUSTODY_MEMINFO", { NULL }, "pending",
			     "pending|driver",
			     "whether cuMemGetInfo counts waiting memory as free" },
	[OPTION_CHILDREN] = { OPTION_CHILDREN, "CUSTODY_CHILDREN", { NULL }, "all", "all|none",
			      "whether processes started by the program are recorded too" },
	[OPTION_BUFFER] = { OPTION_BUFFER, "CUSTODY_BUFFER", { NULL }, "256MiB", "SIZE",
			    "bytes of recording buffer per process, 1MiB or more" },
	[OPTION_LIMIT] = { OPTION_LIMIT, "CUSTODY_LIMIT", { NULL }, "none", "SIZE",
			   "memory that each device seems to have, 2MiB or more" },
	[OPTION_FAIL_NTH] = { OPTION_FAIL_NTH, "CUSTODY_FAIL_NTH", { NULL }, "none", "N",
			      "which allocating call of each process fails, from 1" },
	[OPTION_GPU_TIMES] = { OPTION_GPU_TIMES, "CUSTODY_GPU_TIMES", { NULL }, "0", "0|1",
			       "whether CUPTI tells when devices copied, set and computed" },
	[OPTION_DEEPBIND] = { OPTION_DEEPBIND, "CUSTODY_DEEPBIND", { NULL }, "pass", "pass|clear",
			      "whether libraries opened with RTLD_DEEPBIND are made to be seen" },
	[OPTION_PER_THREAD_STREAM] = { OPTION_PER_THREAD_STREAM,
				       "CUSTODY_PER_THREAD_DEFAULT_STREAM",
				       { "NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM",
					 "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM" }, "0",
				       "0|1", "whether the default stream of programs that link "
				       "libcustody is each thread's own" },
};

extern char **environ;

static char values[OPTION_COUNT][VALUE_BYTES];
static char complaint[VALUE_BYTES + WHY_BYTES];
static _Atomic int loading;

const struct option_info *option_info(enum option_id id)
{
	return &infos[id];
}

const char *option_environment(const char *variable)
{
	size_t length = strlen(variable);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, variable, length) && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}

/* The factor of a suffix; 0: not one. */
static uint64_t suffix_factor(const char *suffix)
{
	static const char letters[] = "kmgt";
	const char *letter = *suffix ? strchr(letters, *suffix | 0x20) : NULL;
	uint64_t base = 1024, factor = 1;

	if (!*suffix || !strcmp(suffix, "B"))
		return 1;
	if (!letter)
		return 0;
	if (!strcmp(suffix + 1, "B"))
		base = 1000;
	else if (suffix[1] && strcmp(suffix + 1, "iB"))
		return 0;
	for (const char *at = letters; at <= letter; at++)
		factor *= base;
	return factor;
}

bool option_parse_size(const char *text, uint64_t *bytes)
{
	uint64_t number = 0, factor;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
			return false;
	if (at == text)
		return false;
	while (*at == ' ')
		at++;
	factor = suffix_factor(at);
	return factor && !__builtin_mul_overflow(number, factor, bytes);
}

static bool is_good_size(const char *value, char *why, size_t why_bytes)
{
	uint64_t bytes;

	if (!option_parse_size(value, &bytes))
		snprintf(why, why_bytes, "'%.80s' is not a size such as 256MiB", value);
	else if (bytes < BUFFER_LEAST)
		snprintf(why, why_bytes, "'%.80s' is less than 1MiB", value);
	else if (bytes > BUFFER_MOST)
		snprintf(why, why_bytes, "'%.80s' is more than 1TiB", value);
	else
		return true;
	return false;
}

static bool is_good_limit(const char *value, char *why, size_t why_bytes)
{
	uint64_t bytes;

	if (!strcmp(value, "none"))
		return true;
	if (!option_parse_size(value, &bytes))
		snprintf(why, why_bytes, "'%.80s' is neither a size such as 8GiB nor none", value);
	else if (bytes < LIMIT_LEAST)
		snprintf(why, why_bytes, "'%.80s' is less than 2MiB", value);
	else
		return true;
	return false;
}

/* One of calls that are counted from 1. */
static bool is_good_turn(const char *value, char *why, size_t why_bytes)
{
	uint64_t number;

	if (!strcmp(value, "none") ||
	    (!value[strspn(value, "0123456789")] && option_parse_size(value, &number) && number))
		return true;
	snprintf(why, why_bytes, "'%.80s' is neither a number from 1 nor none", value);
	return false;
}

/* Any whole number: Numba takes 0 and less to mean that nothing waits. */
static bool parse_integer(const char *text, int64_t *number)
{
	char *end;
	int saved_errno = errno;
	bool is_good;

	errno = 0;
	*number = strtoll(text, &end, 10);
	is_good = strchr("+-0123456789", *text) && end != text && !*end && !errno;
	errno = saved_errno;
	return is_good;
}

/*
 * Digits with a point, whatever the program's locale writes; 0 and more, 1 is
 * all.  One division of two exact numbers, so that the limit it makes is to the
 * byte that of whoever reads the same digits.
 */
static bool parse_ratio(const char *text, double *ratio)
{
	uint64_t digits = 0;
	double scale = 1;
	bool has_digit = false, has_point = false;

	for (; *text; text++) {
		if (*text == '.' && !has_point) {
			has_point = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			return false;
		has_digit = true;
		if (digits < DIGITS_MOST) {
			digits = digits * 10 + (uint64_t)(*text - '0');
			scale *= has_point ? 10 : 1;
		} else {
			scale /= has_point ? 1 : 10;
		}
	}
	*ratio = (double)digits / scale;
	return has_digit;
}

static bool is_good_integer(const char *value, char *why, size_t why_bytes)
{
	int64_t number;

	if (parse_integer(value, &number))
		return true;
	snprintf(why, why_bytes, "'%.80s' is not a whole number such as 10", value);
	return false;
}

static bool is_good_ratio(const char *value, char *why, size_t why_bytes)
{
	double ratio;

	if (parse_ratio(value, &ratio))
		return true;
	snprintf(why, why_bytes, "'%.80s' is not a ratio such as 0.2", value);
	return false;
}

/* Length of the sequence after a percent sign that a name may hold; 0: not one. */
static size_t sequence_length(const char *at)
{
	const char *end;

	if (*at && strchr("phe%", *at))
		return 1;
	if (strncmp(at, "q{", 2))
		return 0;
	end = strchr(at, '}');
	return end && end > at + 2 ? (size_t)(end - at) + 1 : 0;
}

static bool is_good_template(const char *value, char *why, size_t why_bytes)
{
	if (!*value) {
		snprintf(why, why_bytes, "the name of the trace is empty");
		return false;
	}
	if (strlen(value) >= VALUE_BYTES) {
		snprintf(why, why_bytes, "the name of the trace is too long");
		return false;
	}
	for (const char *at = strchr(value, '%'); at; at = strchr(at, '%')) {
		size_t length = sequence_length(at + 1);

		if (!length) {
			snprintf(why, why_bytes, "'%.80s' holds a %% that is not one of "
				 "%%p, %%h, %%e, %%q{VAR} and %%%%", value);
			return false;
		}
		at += 1 + length;
	}
	return true;
}

/* `words` is a list of words with bars between them. */
static bool is_good_word(const char *words, const char *value, char *why, size_t why_bytes)
{
	size_t length = strcspn(value, "|");

	for (const char *at = words; at && !value[length]; at = strchr(at, '|')) {
		at += *at == '|';
		if (length && !strncmp(at, value, length) &&
		    (at[length] == '|' || at[length] == '\0'))
			return true;
	}
	snprintf(why, why_bytes, "'%.80s' is not one of: %s", value, words);
	return false;
}

bool option_is_valid(enum option_id id, const char *value, char *why, size_t why_bytes)
{
	switch (id) {
	case OPTION_OUTPUT:
		return is_good_template(value, why, why_bytes);
	case OPTION_BUFFER:
		return is_good_size(value, why, why_bytes);
	case OPTION_LIMIT:
		return is_good_limit(value, why, why_bytes);
	case OPTION_FAIL_NTH:
		return is_good_turn(value, why, why_bytes);
	case OPTION_MAX_PENDING:
	case OPTION_PER_THREAD_STREAM:
		return is_good_integer(value, why, why_bytes);
	case OPTION_MAX_PENDING_RATIO:
		return is_good_ratio(value, why, why_bytes);
	case OPTION_FREES:
	case OPTION_MEMINFO:
	case OPTION_CHILDREN:
	case OPTION_GPU_TIMES:
	case OPTION_DEEPBIND:
	case OPTION_COUNT:
		break;
	}
	return is_good_word(infos[id].values, value, why, why_bytes);
}

static void load_option(enum option_id id)
{
	const struct option_info *info = &infos[id];
	const char *variable = info->variable, *value = option_environment(variable);
	char why[WHY_BYTES] = "";

	for (int i = 0; i < OPTION_OTHERS && !value && info->other_variables[i]; i++) {
		variable = info->other_variables[i];
		value = option_environment(variable);
	}
	if (value && !option_is_valid(id, value, why, sizeof(why))) {
		if (!complaint[0])
			snprintf(complaint, sizeof(complaint), "%s is ignored: %s; %s is used",
				 variable, why, info->default_value);
		value = NULL;
	}
	snprintf(values[id], VALUE_BYTES, "%s", value ? value : info->default_value);
}

/* A child of fork whose parent was at it in another thread starts over. */
static bool claim_loading(void)
{
	int found = 0, pid = getpid();

	if (atomic_compare_exchange_strong(&loading, &found, pid))
		return true;
	return found != LOADED && found != pid &&
	       atomic_compare_exchange_strong(&loading, &found, pid);
}

/* Values are copied: the program may change or free its environment later. */
static void load_options(void)
{
	while (atomic_load_explicit(&loading, memory_order_acquire) != LOADED) {
		if (!claim_loading()) {
			sched_yield();
			continue;
		}
		for (int id = 0; id < OPTION_COUNT; id++)
			load_option((enum option_id)id);
		atomic_store_explicit(&loading, LOADED, memory_order_release);
	}
}

bool option_set(enum option_id id, const char *value)
{
	if (strlen(value) >= VALUE_BYTES)
		return false;
	load_options();
	snprintf(values[id], VALUE_BYTES, "%s", value);
	return true;
}

const char *option_text(enum option_id id)
{
	load_options();
	return values[id];
}

uint64_t option_number(enum option_id id)
{
	uint64_t number = 0;

	return option_parse_size(option_text(id), &number) ? number : 0;
}

int64_t option_integer(enum option_id id)
{
	int64_t number = 0;

	return parse_integer(option_text(id), &number) ? number : 0;
}

double option_ratio(enum option_id id)
{
	double ratio = 0;

	return parse_ratio(option_text(id), &ratio) ? ratio : 0;
}

const char *option_complaint(void)
{
	load_options();
	return complaint[0] ? complaint : NULL;
}
