/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest.h"

#include "report/ingest_counter.h"
#include "report/ingest_end.h"
#include "report/message.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ingest_start(struct ingest *ingest, struct store *store)
{
	*ingest = (struct ingest){
		.store = store,
		.rows.store = store,
		.next_allocation = 1,
		.next_transfer = 1,
		.next_process = 1,
		.next_device = 1,
		.next_context = 1,
		.next_stream = 1,
		.next_event = 1,
		.next_thread = 1,
		.readings.next_sample = 1,
	};
	ingest_reading_start(ingest);
}

static bool is_this_boot(const char *boot_id)
{
	char ours[CONTROL_TEXT_BYTES] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, ours, sizeof(ours) - 1);
	close(fd);
	if (got <= 0)
		return false;
	ours[strcspn(ours, "\n")] = '\0';
	return !strcmp(ours, boot_id);
}

/* A text of the control page, which may lack its end. */
static const char *copy_text(char *copy, const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes - 1);

	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

/* Arguments separated by one space. */
static const char *copy_arguments(char *copy, const struct trace_control *control)
{
	uint32_t bytes = control->argument_bytes;

	if (bytes > CONTROL_ARGUMENT_BYTES)
		bytes = CONTROL_ARGUMENT_BYTES;
	memcpy(copy, control->arguments, bytes);
	while (bytes && !copy[bytes - 1])
		bytes--;
	for (uint32_t i = 0; i < bytes; i++)
		if (!copy[i])
			copy[i] = ' ';
	copy[bytes] = '\0';
	return copy;
}

static uint32_t find_parent(const struct ingest *ingest, const char *name)
{
	const struct ingest_process *process;

	for (process = ingest->processes; process && *name; process = process->next)
		if (!strcmp(process->name, name))
			return process->id;
	return 0;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	if (*text)
		sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(statement, at);
}

static void write_row(struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	struct ingest *ingest = process->ingest;
	char text[CONTROL_ARGUMENT_BYTES + 1];
	sqlite3_stmt *insert = store_prepare(
		ingest->store, &ingest->insert_process,
		"INSERT INTO process(id, pid, exec_serial, parent_id, parent_pid, executable, "
		"arguments, start_ns, policy) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");

	sqlite3_bind_int64(insert, 1, process->id);
	sqlite3_bind_int64(insert, 2, control->pid);
	sqlite3_bind_int64(insert, 3, control->exec_serial);
	store_bind_id(insert, 4,
		      find_parent(ingest, copy_text(text, control->parent, CONTROL_TEXT_BYTES)));
	store_bind_id(insert, 5, control->parent_pid > 0 ? (uint64_t)control->parent_pid : 0);
	bind_text(insert, 6, copy_text(text, control->executable, CONTROL_PATH_BYTES));
	bind_text(insert, 7, copy_arguments(text, control));
	sqlite3_bind_int64(insert, 8, process->start_ns);
	bind_text(insert, 9, copy_text(text, control->policy, CONTROL_TEXT_BYTES));
	store_step(ingest->store, insert);
}

/* What holds for the whole file is learnt from the first process. */
static void write_meta(const struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	struct store *store = process->ingest->store;
	char text[CONTROL_TEXT_BYTES];

	store_set_text(store, "host", copy_text(text, control->host, sizeof(text)));
	store_set_text(store, "preload_version", copy_text(text, control->version, sizeof(text)));
	store_set_text(store, "clock",
		       control->clock == CLOCK_TICKS_TSC ? "tsc" : "monotonic");
	store_set_text(store, "boot", copy_text(text, control->boot_id, sizeof(text)));
	store_set_number(store, "wall_offset_ns",
			 (int64_t)(control->start.real_ns - control->start.monotonic_ns));
}

static bool is_without_waits(const struct trace_control *control)
{
	char policy[CONTROL_TEXT_BYTES];

	copy_text(policy, control->policy, sizeof(policy));
	return *policy && strcmp(policy, "immediate") && strcmp(policy, "deferred");
}

static struct ingest_process *new_process(struct ingest *ingest, struct ingest_map *map,
					  const char *name)
{
	struct ingest_process *process = ingest_table_memory(NULL, 1, sizeof(*process));
	char boot_id[CONTROL_TEXT_BYTES];

	memset(process, 0, sizeof(*process));
	process->ingest = ingest;
	process->map = *map;
	process->name = strdup(name);
	if (!process->name)
		message_die(EXIT_COULD_NOT, "out of memory");
	process->pid = map->control->pid;
	process->never_waits = is_without_waits(map->control);
	process->busy_ns = INT64_MAX;
	process->is_local = is_this_boot(
		copy_text(boot_id, map->control->boot_id, CONTROL_TEXT_BYTES));
	if (map->control->clock == CLOCK_TICKS_TSC)
		ingest_clock_add(&process->clock, map->control->start.ticks,
				 map->control->start.monotonic_ns);
	process->start_ns = process->last_ns =
		ingest_clock_ns(&process->clock, map->control->start.monotonic_ns,
				CLOCK_TICKS_MONOTONIC);
	return process;
}

struct ingest_process *ingest_process_add(struct ingest *ingest, struct ingest_map *map,
					  const char *name)
{
	struct ingest_process *process = new_process(ingest, map, name);

	*map = (struct ingest_map){ 0 };
	store_begin(ingest->store);
	if (ingest->is_resumed)
		ingest_resume_process(process);
	if (!process->id) {
		process->is_new = true;
		process->id = ingest->next_process++;
		write_row(process);
		if (process->id == 1)
			write_meta(process);
	}
	process->next = ingest->processes;
	ingest->processes = process;
	return process;
}

/* As it stands in process.note; NULL: nothing is to be said. */
static const char *note_text(uint32_t notes)
{
	if (notes & CONTROL_NOT_PRELOADED && notes & CONTROL_SECURE)
		return "not preloaded: it gains rights when it starts";
	if (notes & CONTROL_NOT_PRELOADED && notes & CONTROL_NO_VARIABLE)
		return "not preloaded: LD_PRELOAD does not name it";
	if (notes & CONTROL_NOT_PRELOADED)
		return "not preloaded: another namespace, or a static program";
	return notes & CONTROL_PAST ? "driver started past the preload" : NULL;
}

void ingest_process_update(struct ingest_process *process)
{
	struct ingest *ingest = process->ingest;
	uint32_t driver = atomic_load_explicit(&process->map.control->driver, memory_order_relaxed);
	uint32_t notes = atomic_load_explicit(&process->map.control->notes, memory_order_relaxed);
	sqlite3_stmt *update = store_prepare(
		ingest->store, &ingest->update_process,
		"UPDATE process SET end_ns = ?, driver_version = ?, lost_records = ?, note = ?"
		" WHERE id = ?");

	store_bind_id(update, 1, (uint64_t)process->end_ns);
	store_bind_id(update, 2, driver);
	sqlite3_bind_int64(update, 3, (int64_t)process->lost);
	sqlite3_bind_text(update, 4, note_text(notes), -1, SQLITE_STATIC);
	sqlite3_bind_int64(update, 5, process->id);
	store_step(ingest->store, update);
}

static void end_contexts(struct ingest_process *process)
{
	struct ingest_context *context;
	size_t at = 0;

	while ((context = ingest_table_next(&process->contexts, &at)))
		if (!context->is_dead)
			ingest_identity_end_context(process, context, process->end_ns,
						    RELEASE_EXIT);
}

static int64_t stated_end(struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	uint64_t end = atomic_load_explicit(&control->end, memory_order_acquire);
	uint32_t state = atomic_load_explicit(&control->end_state, memory_order_acquire);

	if (state == CONTROL_RUNNING || !end)
		return 0;
	return ingest_clock_ns(&process->clock, end, control->clock);
}

void ingest_process_end(struct ingest_process *process, int64_t end_ns)
{
	int64_t stated_ns = stated_end(process);

	process->end_ns = stated_ns ? stated_ns : end_ns;
	if (process->end_ns < process->last_ns)
		process->end_ns = process->last_ns;
	ingest_counter_leftovers(process);
	/* A deferred free that was still pending is done by the driver now. */
	ingest_end_all(process, 0, process->end_ns, RELEASE_EXIT);
	end_contexts(process);
	ingest_peak_end(&process->ingest->peak, process->id, process->end_ns);
	ingest_reading_end_process(process->ingest, process->id, process->end_ns);
	ingest_process_update(process);
	process->is_done = true;
}

static void save_blocks(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->batch_count; i++) {
		struct ingest_block *block = process->batch[i];

		store_row_block(&process->ingest->rows, process->id, block);
		block->is_stored = true;
		ingest_block_settle(&process->blocks, block);
	}
	process->batch_count = 0;
}

static void free_process(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->batch_count; i++)
		ingest_block_settle(&process->blocks, process->batch[i]);
	ingest_merge_free(process);
	ingest_identity_free(process);
	ingest_table_free(&process->waits, free);
	ingest_block_free_all(&process->blocks);
	ingest_map_close(&process->map);
	free(process->batch);
	free(process->name);
	free(process);
}

void ingest_commit(struct ingest *ingest)
{
	struct ingest_process *process;

	store_begin(ingest->store);
	for (process = ingest->processes; process; process = process->next) {
		save_blocks(process);
		ingest_identity_save(process);
		ingest_merge_save(process);
	}
	ingest_total_save(&ingest->total, &ingest->rows);
	ingest_reading_row_save(ingest);
	store_commit(ingest->store);
	ingest->uncommitted = 0;
	for (process = ingest->processes; process; process = process->next)
		ingest_merge_give_back(process);
}

void ingest_free(struct ingest *ingest)
{
	while (ingest->processes) {
		struct ingest_process *process = ingest->processes;

		ingest->processes = process->next;
		free_process(process);
	}
	ingest_reading_free(ingest);
	ingest_peak_free(&ingest->peak);
	ingest_total_free(&ingest->total);
	ingest_gpu_free(&ingest->gpu);
}
