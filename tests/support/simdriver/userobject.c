/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: counted things of the client that live as long as graphs need them. */
#include "sim.h"
#include "entries.h"
#include "graph.h"

static CUresult find(CUuserObject handle, unsigned count, struct user_object **user)
{
	CUresult error = handle_check(OBJECT_USER, handle);

	*user = (struct user_object *)handle;
	return error || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void drop(struct user_object *user, unsigned count)
{
	if (atomic_fetch_sub(&user->count, count) != count)
		return;
	user->destroy(user->pointer);
	handle_kill(user);
	handle_give(OBJECT_USER, user);
}

CUresult userobject_create(CUuserObject *object_out, void *ptr, CUhostFn destroy,
			   unsigned int initialRefcount, unsigned int flags)
{
	struct user_object *user;

	if (!object_out || !destroy || initialRefcount == 0 ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	user = handle_new(OBJECT_USER);
	if (!user)
		return CUDA_ERROR_OUT_OF_MEMORY;
	user->pointer = ptr;
	user->destroy = destroy;
	atomic_store(&user->count, initialRefcount);
	*object_out = (CUuserObject)user;
	return CUDA_SUCCESS;
}

CUresult userobject_retain(CUuserObject object, unsigned int count)
{
	struct user_object *user;
	CUresult error = find(object, count, &user);

	if (!error)
		atomic_fetch_add(&user->count, count);
	return error;
}

CUresult userobject_release(CUuserObject object, unsigned int count)
{
	struct user_object *user;
	CUresult error = find(object, count, &user);

	if (!error)
		drop(user, count);
	return error;
}

/* ------------------------------------------------------------------ held by graphs */

static void hold(struct held_object **list, struct user_object *user, unsigned count)
{
	struct held_object *held = malloc(sizeof(*held));

	if (!held)
		config_die("no memory for a user object");
	*held = (struct held_object){ user, count, *list };
	*list = held;
}

struct held_object *userobject_copy_held(const struct held_object *held)
{
	struct held_object *copy = NULL;

	for (; held; held = held->next) {
		atomic_fetch_add(&held->user->count, 1);
		hold(&copy, held->user, 1);
	}
	return copy;
}

void userobject_drop_held(struct held_object *held)
{
	struct held_object *next;

	for (; held; held = next) {
		next = held->next;
		drop(held->user, held->count);
		free(held);
	}
}

CUresult userobject_graph_retain(CUgraph handle, CUuserObject object, unsigned int count,
				 unsigned int flags)
{
	struct user_object *user;
	struct graph *graph;
	CUresult error = graph_find(handle, &graph);

	if (!error)
		error = find(object, count, &user);
	if (error || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		atomic_fetch_add(&user->count, count);
	hold(&graph->held, user, count);
	return CUDA_SUCCESS;
}

CUresult userobject_graph_release(CUgraph handle, CUuserObject object, unsigned int count)
{
	struct held_object **place, *held;
	struct user_object *user;
	struct graph *graph;
	CUresult error = graph_find(handle, &graph);

	if (!error)
		error = find(object, count, &user);
	if (error)
		return error;
	place = &graph->held;
	while (*place && !((*place)->user == user && (*place)->count >= count))
		place = &(*place)->next;
	held = *place;
	if (!held)
		return CUDA_ERROR_INVALID_VALUE;
	held->count -= count;
	if (!held->count) {
		*place = held->next;
		free(held);
	}
	drop(user, count);
	return CUDA_SUCCESS;
}
