/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made in a context, so that its end can be theirs; see struct library_object.
 */
#include "library/library.h"


static struct library_object **list_of(struct custody_context *context,
				       const struct library_object *object)
{
	return object->is_late ? &context->late_objects : &context->objects;
}

void context_put(struct library_object *object, struct custody_context *context,
		 void (*end)(struct library_object *object))
{
	struct library_object **list = list_of(context, object);

	object->context = context;
	object->end = end;
	object->previous = NULL;
	pthread_mutex_lock(&context->objects_lock);
	object->generation = atomic_load_explicit(&context->generation, memory_order_acquire);
	object->next = *list;
	if (object->next)
		object->next->previous = object;
	*list = object;
	pthread_mutex_unlock(&context->objects_lock);
}

/* Under the lock; one that is out already is neither first nor behind another. */
static void unlink_object(struct custody_context *context, struct library_object *object)
{
	struct library_object **list = list_of(context, object);

	if (!object->previous && *list != object)
		return;
	if (object->previous)
		object->previous->next = object->next;
	else
		*list = object->next;
	if (object->next)
		object->next->previous = object->previous;
	object->next = object->previous = NULL;
}

struct context_ender {
	const struct library_object *object;
	pthread_t thread;
	struct context_ender *next;
};

static bool is_ended_by_another(const struct custody_context *context,
				const struct library_object *object)
{
	const struct context_ender *ender = context->enders;

	while (ender && ender->object != object)
		ender = ender->next;
	return ender && !pthread_equal(ender->thread, pthread_self());
}

/*
 * A reset on another thread may be at it: the object is its owner's to free after that.
 * In a child of fork the lock may be held by a thread that is not there; nobody looks.
 */
void context_remove(struct library_object *object)
{
	struct custody_context *context = object->context;

	if (!library_is_usable())
		return;
	pthread_mutex_lock(&context->objects_lock);
	while (is_ended_by_another(context, object))
		pthread_cond_wait(&context->objects_ended, &context->objects_lock);
	unlink_object(context, object);
	pthread_mutex_unlock(&context->objects_lock);
}

static void leave_enders(struct custody_context *context, const struct context_ender *ender)
{
	struct context_ender **place = &context->enders;

	while (*place != ender)
		place = &(*place)->next;
	*place = ender->next;
	pthread_cond_broadcast(&context->objects_ended);
}

/* Under the lock, which is not held in what is called: the program's own may be behind it. */
static void end_object(struct custody_context *context, struct library_object *object)
{
	struct context_ender ender = { object, pthread_self(), context->enders };
	void (*ended)(struct library_object *object) = object->ended;
	void (*end)(struct library_object *object) =
		context_is_fresh(context, object->generation) ? object->end : object->lose;

	unlink_object(context, object);
	context->enders = &ender;
	pthread_mutex_unlock(&context->objects_lock);
	if (end)
		end(object);
	if (end && ended)
		ended(object);
	pthread_mutex_lock(&context->objects_lock);
	leave_enders(context, &ender);
}

void context_end_objects(struct custody_context *context)
{
	pthread_mutex_lock(&context->objects_lock);
	while (context->objects || context->late_objects)
		end_object(context, context->objects ? context->objects : context->late_objects);
	pthread_mutex_unlock(&context->objects_lock);
}

static struct library_object *find_lost(const struct custody_context *context,
					struct library_object *object)
{
	while (object && context_is_fresh(context, object->generation))
		object = object->next;
	return object;
}

void context_lose_objects(struct custody_context *context)
{
	struct library_object *object;

	pthread_mutex_lock(&context->objects_lock);
	while ((object = find_lost(context, context->objects)) != NULL ||
	       (object = find_lost(context, context->late_objects)) != NULL)
		end_object(context, object);
	pthread_mutex_unlock(&context->objects_lock);
}
