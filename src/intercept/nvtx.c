/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range may end on another thread, with another context current, or in a
 * child of fork; it always ends the scope that it began.  All that is kept of
 * other ranges is how many are open inside a scope, because a pop has no name.
 */
#include "intercept/nvtx.h"
#include "core/lock.h"
#include "core/option.h"
#include "intercept/current.h"
#include "intercept/deferral.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { NESTED = 16, STARTED = 64 };

/* A scope that is open, in the process image of this generation. */
struct scope {
	uint64_t generation;
	uint32_t context;
};

/* Those begun by a push on this thread, the innermost last. */
struct pushed {
	struct scope scope;
	const void *domain; /* each has a stack of its own; NULL: the default one */
	uint32_t depth;	    /* ranges of the domain pushed since */
};

static __thread struct pushed *pushed __attribute__((tls_model("initial-exec"))); /* or NULL */
static __thread uint32_t pushed_count __attribute__((tls_model("initial-exec")));

/* Those begun by a start, and what the program knows them by; id 0: a free slot. */
static struct started {
	struct scope scope;
	uint64_t id;
} started[STARTED];
static uint64_t last_id;
static struct lock lock;

/* Stand for strings that a program has registered. */
static const char scope_string, other_string;

/* False: a call is open, so it is the driver's range. */
static bool open_call(struct call *call, const void *caller)
{
	return call_open(call, API_cuCtxGetCurrent, caller);
}

/* Where no context is current, or its frees are not put off, there is no scope. */
static bool begin_scope(struct scope *scope, const void *caller)
{
	int saved_errno = errno;
	struct deferq *queue = NULL;
	struct call call;

	if (!open_call(&call, caller))
		return false;
	if (deferral_is_on()) {
		scope->generation = call.self->generation;
		scope->context = current_ask()->number;
		queue = scope->context ? deferq_find(scope->context) : NULL;
	}
	if (queue)
		deferq_suspend(queue);
	call_end(&call);
	errno = saved_errno;
	return queue != NULL;
}

static void end_scope(const struct scope *scope, const void *caller)
{
	int saved_errno = errno;
	struct deferq_report report = { 0 };
	struct deferq *queue = NULL;
	struct call call;

	if (!open_call(&call, caller))
		return;
	if (scope->generation == call.self->generation)
		queue = deferq_find(scope->context);
	if (queue)
		deferq_resume(queue, &report);
	deferral_tell(&call, &report);
	call_end(&call);
	errno = saved_errno;
}

/* -------------------------------------------------------------- pushed ranges */

static struct pushed *innermost(const void *domain)
{
	for (uint32_t i = pushed_count; i-- > 0;)
		if (pushed[i].domain == domain)
			return &pushed[i];
	return NULL;
}

/* A thread that ends leaves its ranges: nobody else can pop them. */
static void end_thread(void *unused)
{
	(void)unused;
	while (pushed_count) {
		pushed_count--;
		end_scope(&pushed[pushed_count].scope, CALLER);
	}
	munmap(pushed, NESTED * sizeof(*pushed));
	pushed = NULL;
}

static pthread_key_t key;
static bool has_key;

static void make_key(void)
{
	has_key = !pthread_key_create(&key, end_thread);
}

/* Without a key for it the scope lasts as long as the program. */
static void watch_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	if (has_key)
		pthread_setspecific(key, pushed);
}

/* Few threads have scopes: their places are no part of what each thread has. */
static bool make_room(void)
{
	int saved_errno = errno;
	void *map;

	if (pushed)
		return pushed_count < NESTED;
	map = mmap(NULL, NESTED * sizeof(*pushed), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved_errno;
	if (map == MAP_FAILED)
		return false;
	pushed = map;
	watch_thread();
	return true;
}

/* A scope too many is a range like others: it is inside one already. */
static int push(const void *domain, bool is_scope, const void *caller)
{
	struct pushed *inside;
	struct scope scope;

	if (is_scope && make_room() && begin_scope(&scope, caller)) {
		pushed[pushed_count++] = (struct pushed){ scope, domain, 0 };
	} else if (pushed_count) {
		inside = innermost(domain);
		if (inside)
			inside->depth++;
	}
	return NVTX_NO_LEVEL;
}

static int pop(const void *domain, const void *caller)
{
	struct pushed *inside = pushed_count ? innermost(domain) : NULL;
	struct scope scope;

	if (inside && inside->depth) {
		inside->depth--;
	} else if (inside) {
		scope = inside->scope;
		pushed_count--;
		memmove(inside, inside + 1,
			(size_t)(pushed + pushed_count - inside) * sizeof(*inside));
		end_scope(&scope, caller);
	}
	return NVTX_NO_LEVEL;
}

/* ------------------------------------------------------------- started ranges */

/* The id, 0: there is no room. */
static uint64_t remember(const struct scope *scope)
{
	uint64_t id = 0;

	lock_take(&lock);
	for (int i = 0; i < STARTED && !id; i++) {
		if (started[i].id)
			continue;
		id = ++last_id;
		started[i] = (struct started){ *scope, id };
	}
	lock_give(&lock);
	return id;
}

static bool forget(uint64_t id, struct scope *scope)
{
	bool is_found = false;

	lock_take(&lock);
	for (int i = 0; i < STARTED && !is_found; i++) {
		if (started[i].id != id)
			continue;
		*scope = started[i].scope;
		started[i].id = 0;
		is_found = true;
	}
	lock_give(&lock);
	return is_found;
}

/* Ranges that are no scopes get what they get without a tool: 0. */
static uint64_t start(bool is_scope, const void *caller)
{
	struct scope scope;
	uint64_t id;

	if (!is_scope || !begin_scope(&scope, caller))
		return 0;
	id = remember(&scope);
	if (!id)
		end_scope(&scope, caller);
	return id;
}

static void end(uint64_t id, const void *caller)
{
	struct scope scope;

	if (id && forget(id, &scope))
		end_scope(&scope, caller);
}

/* ------------------------------------------------------------------- messages */

static bool is_name(const char *text)
{
	return text && !strcmp(text, NVTX_SCOPE_NAME);
}

static bool is_wide_name(const wchar_t *text)
{
	return text && !wcscmp(text, L"" NVTX_SCOPE_NAME);
}

static bool is_scope(const struct nvtx_attributes *attributes)
{
	if (!attributes)
		return false;
	switch (attributes->message_type) {
	case NVTX_MESSAGE_ASCII:
		return is_name(attributes->ascii);
	case NVTX_MESSAGE_WIDE:
		return is_wide_name(attributes->wide);
	default:
		return attributes->message_type == NVTX_MESSAGE_REGISTERED &&
		       attributes->registered == &scope_string;
	}
}

static const void *register_ascii(const void *domain, const char *text)
{
	(void)domain;
	return is_name(text) ? &scope_string : &other_string;
}

static const void *register_wide(const void *domain, const wchar_t *text)
{
	(void)domain;
	return is_wide_name(text) ? &scope_string : &other_string;
}

/* A domain is known by its name, whoever creates it: its handle is made of that. */
static const void *handle_of(uint64_t hash)
{
	return (const void *)(uintptr_t)(hash | 1);
}

static uint64_t add_to_hash(uint64_t hash, uint32_t letter)
{
	return (hash ^ letter) * UINT64_C(0x100000001b3);
}

static const void *create_ascii(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; name && *name; name++)
		hash = add_to_hash(hash, (unsigned char)*name);
	return handle_of(hash);
}

static const void *create_wide(const wchar_t *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; name && *name; name++)
		hash = add_to_hash(hash, (uint32_t)*name);
	return handle_of(hash);
}

/* ------------------------------------------------------ what a program calls */

static uint64_t start_ex(const struct nvtx_attributes *attributes)
{
	return start(is_scope(attributes), CALLER);
}

static uint64_t start_ascii(const char *name)
{
	return start(is_name(name), CALLER);
}

static uint64_t start_wide(const wchar_t *name)
{
	return start(is_wide_name(name), CALLER);
}

static void end_range(uint64_t id)
{
	end(id, CALLER);
}

static int push_ex(const struct nvtx_attributes *attributes)
{
	return push(NULL, is_scope(attributes), CALLER);
}

static int push_ascii(const char *name)
{
	return push(NULL, is_name(name), CALLER);
}

static int push_wide(const wchar_t *name)
{
	return push(NULL, is_wide_name(name), CALLER);
}

static int pop_range(void)
{
	return pop(NULL, CALLER);
}

static uint64_t start_in_domain(const void *domain, const struct nvtx_attributes *attributes)
{
	(void)domain;
	return start(is_scope(attributes), CALLER);
}

static void end_in_domain(const void *domain, uint64_t id)
{
	(void)domain;
	end(id, CALLER);
}

static int push_in_domain(const void *domain, const struct nvtx_attributes *attributes)
{
	return push(domain, is_scope(attributes), CALLER);
}

static int pop_in_domain(const void *domain)
{
	return pop(domain, CALLER);
}

/* ------------------------------------------------------------------- the door */

static void fill(const struct nvtx_callbacks *callbacks, int module, const nvtx_function *functions,
		 unsigned int functions_count)
{
	nvtx_function **slots = NULL;
	unsigned int count = 0;

	if (!callbacks->get_module(module, &slots, &count) || !slots)
		return;
	for (unsigned int i = 1; i < count && i < functions_count; i++)
		if (functions[i] && slots[i])
			*slots[i] = functions[i];
}

/* Slots that stay as they are cost a program nothing: under `immediate` all of them. */
int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t table))
{
	static const nvtx_function core[NVTX_CORE_SLOTS] = {
		[NVTX_START_EX] = (nvtx_function)start_ex,
		[NVTX_START_A] = (nvtx_function)start_ascii,
		[NVTX_START_W] = (nvtx_function)start_wide,
		[NVTX_END] = (nvtx_function)end_range,
		[NVTX_PUSH_EX] = (nvtx_function)push_ex,
		[NVTX_PUSH_A] = (nvtx_function)push_ascii,
		[NVTX_PUSH_W] = (nvtx_function)push_wide,
		[NVTX_POP] = (nvtx_function)pop_range,
	};
	static const nvtx_function core2[NVTX_CORE2_SLOTS] = {
		[NVTX_DOMAIN_START_EX] = (nvtx_function)start_in_domain,
		[NVTX_DOMAIN_END] = (nvtx_function)end_in_domain,
		[NVTX_DOMAIN_PUSH_EX] = (nvtx_function)push_in_domain,
		[NVTX_DOMAIN_POP] = (nvtx_function)pop_in_domain,
		[NVTX_DOMAIN_STRING_A] = (nvtx_function)register_ascii,
		[NVTX_DOMAIN_STRING_W] = (nvtx_function)register_wide,
		[NVTX_DOMAIN_CREATE_A] = (nvtx_function)create_ascii,
		[NVTX_DOMAIN_CREATE_W] = (nvtx_function)create_wide,
	};
	const struct nvtx_callbacks *callbacks = get_table ? get_table(NVTX_TABLE_CALLBACKS) : NULL;

	if (!callbacks || callbacks->bytes < sizeof(*callbacks) || !callbacks->get_module)
		return 0;
	if (!strcmp(option_text(OPTION_FREES), "immediate"))
		return 1;
	fill(callbacks, NVTX_MODULE_CORE, core, NVTX_CORE_SLOTS);
	fill(callbacks, NVTX_MODULE_CORE2, core2, NVTX_CORE2_SLOTS);
	return 1;
}

void nvtx_reset(void)
{
	memset(started, 0, sizeof(started));
	lock_give(&lock);
}
