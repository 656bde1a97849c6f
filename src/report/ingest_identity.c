/* SPDX-License-Identifier: Apache-2.0 */
/* Who is who in a process: ids that survive the reuse of handles and numbers. */
#include "report/ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ingest_thread *ingest_identity_thread(struct ingest_process *process, uint32_t number,
					     uint32_t tid, int64_t start_ns)
{
	struct ingest_thread *thread = ingest_table_find(&process->threads, number);
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *insert;

	if (thread)
		return thread;
	thread = ingest_table_memory(NULL, 1, sizeof(*thread));
	*thread = (struct ingest_thread){
		.id = ingest->next_thread++,
		.number = number,
		.tid = tid,
	};
	thread->queue.thread = thread;
	ingest_table_put(&process->threads, number, thread);
	insert = store_prepare(ingest->store, &ingest->insert_thread,
			       "INSERT INTO thread VALUES (?, ?, ?, ?, NULL, ?)");
	sqlite3_bind_int64(insert, 1, thread->id);
	sqlite3_bind_int64(insert, 2, process->id);
	sqlite3_bind_int64(insert, 3, number);
	sqlite3_bind_int64(insert, 4, tid);
	store_bind_id(insert, 5, (uint64_t)start_ns);
	store_begin(ingest->store);
	store_step(ingest->store, insert);
	return thread;
}

void ingest_identity_name_thread(struct ingest_process *process, struct ingest_thread *thread,
				 const char *name)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *update = store_prepare(ingest->store, &ingest->name_thread,
					     "UPDATE thread SET name = ? WHERE id = ?");

	if (!*name)
		return;
	sqlite3_bind_text(update, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(update, 2, thread->id);
	store_step(ingest->store, update);
}

uint32_t ingest_identity_device(struct ingest_process *process, int ordinal)
{
	struct ingest *ingest = process->ingest;
	uint64_t key = (uint64_t)ordinal + 1;
	uint32_t id;
	sqlite3_stmt *insert;

	if (ordinal < 0)
		return 0;
	id = (uint32_t)(uintptr_t)ingest_table_find(&process->devices, key);
	if (id)
		return id;
	id = ingest->next_device++;
	ingest_table_put(&process->devices, key, (void *)(uintptr_t)id);
	insert = store_prepare(ingest->store, &ingest->insert_device,
			       "INSERT INTO device(id, process_id, ordinal) VALUES (?, ?, ?)");
	sqlite3_bind_int64(insert, 1, id);
	sqlite3_bind_int64(insert, 2, process->id);
	sqlite3_bind_int64(insert, 3, ordinal);
	store_step(ingest->store, insert);
	return id;
}

/* As the driver's tools print it: GPU-xxxxxxxx-xxxx-... */
static void print_uuid(const struct record *record, char text[48])
{
	unsigned char bytes[16];
	int used = 4;

	memcpy(bytes, &record->a, 8);
	memcpy(bytes + 8, &record->b, 8);
	memcpy(text, "GPU-", 4);
	for (int i = 0; i < 16; i++)
		used += sprintf(text + used, "%s%02x",
				i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

/* Another process of this trace may have the same device. */
static void share_device(struct ingest *ingest, uint32_t id, const char *uuid)
{
	sqlite3_stmt *first = store_prepare(ingest->store, &ingest->first_device,
					    "SELECT min(id) FROM device WHERE uuid = ?");

	sqlite3_bind_text(first, 1, uuid, -1, SQLITE_STATIC);
	if (store_next(ingest->store, first) && sqlite3_column_int64(first, 0) != id)
		ingest_peak_share(&ingest->peak, id, (uint32_t)sqlite3_column_int64(first, 0));
	sqlite3_reset(first);
}

void ingest_identity_describe_device(struct ingest_process *process, int ordinal,
				     const struct record *record, const char *name)
{
	struct ingest *ingest = process->ingest;
	uint32_t id = ingest_identity_device(process, ordinal);
	sqlite3_stmt *update =
		store_prepare(ingest->store, &ingest->describe_device,
			      "UPDATE device SET uuid = ?, name = ?, total_bytes = ? WHERE id = ?");
	char uuid[48];

	if (!id)
		return;
	print_uuid(record, uuid);
	sqlite3_bind_text(update, 1, record->a || record->b ? uuid : NULL, -1, SQLITE_STATIC);
	sqlite3_bind_text(update, 2, name, -1, SQLITE_STATIC);
	store_bind_id(update, 3, record->c);
	sqlite3_bind_int64(update, 4, id);
	store_step(ingest->store, update);
	if (record->a || record->b)
		share_device(ingest, id, uuid);
	ingest_ledger_device(&ingest->readings.ledger, process->id, id,
			     record->a || record->b ? uuid : "");
}

static void write_context(struct ingest_process *process, const struct ingest_context *context,
			  bool is_primary, int64_t at_ns)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *insert = store_prepare(
		ingest->store, &ingest->insert_context,
		"INSERT OR REPLACE INTO context VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)");

	sqlite3_bind_int64(insert, 1, context->id);
	sqlite3_bind_int64(insert, 2, process->id);
	store_bind_id(insert, 3, context->device_id);
	sqlite3_bind_int64(insert, 4, context->number);
	sqlite3_bind_int64(insert, 5, (int64_t)context->handle);
	sqlite3_bind_int64(insert, 6, is_primary);
	store_bind_id(insert, 7, (uint64_t)at_ns);
	sqlite3_bind_int64(insert, 8, context->is_green);
	store_step(ingest->store, insert);
}

static struct ingest_context *make_context(struct ingest_process *process, uint32_t number)
{
	struct ingest_context *context = ingest_table_memory(NULL, 1, sizeof(*context));

	*context = (struct ingest_context){
		.id = process->ingest->next_context++,
		.number = number,
	};
	ingest_table_put(&process->contexts, number, context);
	return context;
}

struct ingest_context *ingest_identity_context(struct ingest_process *process, uint32_t number)
{
	struct ingest_context *context;

	if (!number)
		return NULL;
	context = ingest_table_find(&process->contexts, number);
	if (context)
		return context;
	context = make_context(process, number);
	write_context(process, context, false, 0);
	return context;
}

void ingest_identity_describe_context(struct ingest_process *process, uint32_t number,
				      const struct record *record, int64_t at_ns)
{
	struct ingest_context *context = ingest_table_find(&process->contexts, number);

	if (!number)
		return;
	if (!context)
		context = make_context(process, number);
	context->handle = record->a;
	context->created_ns = at_ns;
	context->device_id = ingest_identity_device(process, (int)record->aux - 1);
	context->is_green = record->c & CONTEXT_IS_GREEN;
	write_context(process, context, record->c & CONTEXT_IS_PRIMARY, at_ns);
}

/* Streams and events of a dead context have ended with it. */
static void end_objects(struct ingest_process *process, struct ingest_table *table,
			uint32_t context_id, int64_t at_ns)
{
	struct ingest_object *object;
	uint64_t *handle = NULL;
	size_t count = 0;
	size_t at = 0;

	while ((object = ingest_table_next(table, &at))) {
		if (object->context_id != context_id)
			continue;
		handle = ingest_table_memory(handle, count + 1, sizeof(*handle));
		handle[count++] = object->handle;
	}
	for (size_t i = 0; i < count; i++)
		ingest_identity_destroy(process, table == &process->events, handle[i], at_ns);
	free(handle);
}

void ingest_identity_end_context(struct ingest_process *process, struct ingest_context *context,
				 int64_t at_ns, enum release_cause cause)
{
	struct ingest *ingest = process->ingest;
	sqlite3_stmt *update = store_prepare(
		ingest->store, &ingest->end_context,
		"UPDATE context SET destroyed_ns = ?, end_cause = ? WHERE id = ?");

	context->is_dead = true;
	ingest_reading_end_context(ingest, context->id, at_ns);
	sqlite3_bind_int64(update, 1, at_ns);
	sqlite3_bind_text(update, 2,
			  cause == RELEASE_RESET ? "reset" :
			  cause == RELEASE_EXIT	 ? "exit" :
						   "context",
			  -1, SQLITE_STATIC);
	sqlite3_bind_int64(update, 3, context->id);
	store_step(ingest->store, update);
	end_objects(process, &process->streams, context->id, at_ns);
	end_objects(process, &process->events, context->id, at_ns);
}

static void batch_object(struct ingest_process *process, struct ingest_object *object)
{
	if (object->is_batched)
		return;
	if (process->object_count == process->object_capacity) {
		process->object_capacity = process->object_capacity * 2 + 16;
		process->objects = ingest_table_memory(process->objects, process->object_capacity,
						       sizeof(*process->objects));
	}
	object->is_batched = true;
	process->objects[process->object_count++] = object;
}

static struct ingest_object *make_object(struct ingest_process *process, bool is_event,
					 uint32_t context_id, uint64_t handle, int64_t created_ns)
{
	struct ingest_object *object = ingest_table_memory(NULL, 1, sizeof(*object));
	struct ingest *ingest = process->ingest;

	*object = (struct ingest_object){
		.id = is_event ? ingest->next_event++ : ingest->next_stream++,
		.context_id = context_id,
		.handle = handle,
		.created_ns = created_ns,
		.is_event = is_event,
	};
	batch_object(process, object);
	return object;
}

uint64_t ingest_identity_default_key(uint32_t context, uint32_t thread, uint64_t handle)
{
	bool is_of_thread = handle == STREAM_PER_THREAD;

	return (uint64_t)context << 48 | (is_of_thread ? (uint64_t)thread << 1 : 0) | is_of_thread;
}

/* Default streams are one for each context, or for each thread in it, and have no handle. */
static uint32_t find_default_stream(struct ingest_process *process, struct ingest_thread *thread,
				    uint32_t context, uint64_t handle)
{
	bool is_of_thread = handle == STREAM_PER_THREAD;
	uint64_t key = ingest_identity_default_key(context, thread->number, handle);
	struct ingest_object *stream = ingest_table_find(&process->default_streams, key);
	struct ingest_context *owner;

	if (stream)
		return stream->id;
	owner = ingest_identity_context(process, context);
	stream = make_object(process, false, owner ? owner->id : 0, handle, 0);
	stream->thread_id = is_of_thread ? thread->id : 0;
	ingest_table_put(&process->default_streams, key, stream);
	return stream->id;
}

uint32_t ingest_identity_stream(struct ingest_process *process, struct ingest_thread *thread,
				uint32_t context, uint64_t handle)
{
	struct ingest_object *stream;
	struct ingest_context *owner;

	if (handle == STREAM_NONE)
		return 0;
	if (handle == STREAM_LEGACY || handle == STREAM_PER_THREAD)
		return find_default_stream(process, thread, context, handle);
	stream = ingest_table_find(&process->streams, handle);
	if (stream)
		return stream->id;
	owner = ingest_identity_context(process, context);
	stream = make_object(process, false, owner ? owner->id : 0, handle, 0);
	ingest_table_put(&process->streams, handle, stream);
	return stream->id;
}

/* Its row is written by now or waits for the next commit, which frees it. */
static void end_object(struct ingest_process *process, struct ingest_object *object, int64_t at_ns)
{
	object->destroyed_ns = at_ns;
	batch_object(process, object);
}

void ingest_identity_create(struct ingest_process *process, bool is_event, uint32_t context_id,
			    uint64_t handle, int64_t at_ns)
{
	struct ingest_table *table = is_event ? &process->events : &process->streams;
	struct ingest_object *object;

	if (!handle)
		return;
	object = make_object(process, is_event, context_id, handle, at_ns);
	object = ingest_table_put(table, handle, object);
	if (object)
		end_object(process, object, at_ns);
}

void ingest_identity_destroy(struct ingest_process *process, bool is_event, uint64_t handle,
			     int64_t at_ns)
{
	struct ingest_table *table = is_event ? &process->events : &process->streams;
	struct ingest_object *object = ingest_table_take(table, handle);

	if (object)
		end_object(process, object, at_ns);
}

static sqlite3_stmt *object_statement(struct ingest *ingest, const struct ingest_object *object)
{
	if (object->is_stored)
		return store_prepare(ingest->store,
				     object->is_event ? &ingest->update_event :
							&ingest->update_stream,
				     object->is_event ?
					     "UPDATE event SET destroyed_ns = ?6 WHERE id = ?1" :
					     "UPDATE stream SET destroyed_ns = ?6 WHERE id = ?1");
	return store_prepare(
		ingest->store, object->is_event ? &ingest->insert_event : &ingest->insert_stream,
		object->is_event ?
			"INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6)" :
			"INSERT INTO stream VALUES (?1, ?2, ?3, ?7, ?4, ?5, ?6)");
}

static void write_object(struct ingest_process *process, struct ingest_object *object)
{
	sqlite3_stmt *statement = object_statement(process->ingest, object);

	sqlite3_bind_int64(statement, 1, object->id);
	store_bind_id(statement, 6, (uint64_t)object->destroyed_ns);
	if (!object->is_stored) {
		sqlite3_bind_int64(statement, 2, process->id);
		store_bind_id(statement, 3, object->context_id);
		sqlite3_bind_int64(statement, 4, (int64_t)object->handle);
		store_bind_id(statement, 5, (uint64_t)object->created_ns);
	}
	if (!object->is_stored && !object->is_event)
		store_bind_id(statement, 7, object->thread_id);
	store_step(process->ingest->store, statement);
	object->is_stored = true;
	object->is_batched = false;
}

void ingest_identity_save(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->object_count; i++) {
		struct ingest_object *object = process->objects[i];

		write_object(process, object);
		if (object->destroyed_ns)
			free(object);
	}
	process->object_count = 0;
}

void ingest_identity_free(struct ingest_process *process)
{
	ingest_table_free(&process->threads, free);
	ingest_table_free(&process->contexts, free);
	ingest_table_free(&process->devices, NULL);
	ingest_table_free(&process->streams, free);
	ingest_table_free(&process->events, free);
	ingest_table_free(&process->default_streams, free);
	free(process->objects);
}
