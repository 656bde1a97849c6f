/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/module.h"
#include "core/lock.h"
#include "intercept/deferral.h"

/* The unloads of more modules than this at once are not put off. */
enum { MODULES = 1024 };

enum state { FREE_SLOT, LOADED, CLAIMED, QUEUED };

static struct module {
	uint64_t handle;
	uint32_t context;
	enum state state;
} modules[MODULES];
static uint32_t slots_used;
static struct lock lock;

/* Under the lock, as all that follows: whether it waits in its queue still. */
static bool is_pending(const struct module *module)
{
	struct deferq *queue = deferq_find(module->context);

	return queue && deferq_holds(queue, DEFERQ_MODULE, module->handle);
}

static struct module *find(uint64_t handle)
{
	for (uint32_t i = 0; i < slots_used; i++)
		if (modules[i].state != FREE_SLOT && modules[i].handle == handle)
			return &modules[i];
	return NULL;
}

/* A free slot, a new one, or that of a module that has been unloaded meanwhile. */
static struct module *find_slot(void)
{
	for (uint32_t i = 0; i < slots_used; i++)
		if (modules[i].state == FREE_SLOT)
			return &modules[i];
	if (slots_used < MODULES)
		return &modules[slots_used++];
	for (uint32_t i = 0; i < slots_used; i++)
		if (modules[i].state == QUEUED && !is_pending(&modules[i]))
			return &modules[i];
	return NULL;
}

/* The driver hands a handle out anew once the module that had it is gone. */
void module_note(uint64_t handle, uint32_t context)
{
	struct module *module;

	lock_take(&lock);
	module = find(handle);
	if (!module)
		module = find_slot();
	if (module)
		*module = (struct module){ handle, context, LOADED };
	lock_give(&lock);
}

static enum module_claim claim(struct module *module)
{
	if (module->state == LOADED) {
		module->state = CLAIMED;
		return MODULE_CLAIMED;
	}
	if (module->state == CLAIMED || is_pending(module))
		return MODULE_PENDING;
	module->state = FREE_SLOT;
	return MODULE_UNKNOWN;
}

enum module_claim module_unload(uint64_t handle, uint32_t *context)
{
	enum module_claim answer = MODULE_UNKNOWN;
	struct module *module;

	lock_take(&lock);
	module = find(handle);
	if (module) {
		*context = module->context;
		answer = claim(module);
	}
	lock_give(&lock);
	return answer;
}

void module_settle(uint64_t handle, bool is_queued)
{
	struct module *module;

	lock_take(&lock);
	module = find(handle);
	if (module && module->state == CLAIMED)
		module->state = is_queued ? QUEUED : FREE_SLOT;
	lock_give(&lock);
}

bool module_is_pending(uint64_t handle)
{
	const struct module *module;
	bool answer;

	lock_take(&lock);
	module = find(handle);
	answer = module && module->state == QUEUED && is_pending(module);
	lock_give(&lock);
	return answer;
}

void module_drop_context(uint32_t context)
{
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used; i++)
		if (modules[i].context == context)
			modules[i].state = FREE_SLOT;
	lock_give(&lock);
}

void module_reset(void)
{
	slots_used = 0;
	lock_give(&lock);
}
