/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_trace.h"

#include "report/message.h"
#include "report/session_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* A bare preload's trace gets its name when its first process is seen. */
void collect_trace_choose(struct session *session, const struct trace_control *control)
{
	const char *template = *session->output ? session->output : "custody.%e.%p.db";
	char executable[CONTROL_PATH_BYTES];
	char path[PATH_MAX], why[PATH_MAX + 128];
	const char *fault = NULL;
	char *name;

	snprintf(executable, sizeof(executable), "%.*s", CONTROL_PATH_BYTES - 1,
		 control->executable);
	name = session_name_expand(template, control->pid, executable, &fault);
	if (!name)
		message_die(EXIT_COULD_NOT, "cannot name the trace '%s': %s; what was recorded "
			    "stays in %s", template, fault, session->directory);
	snprintf(path, sizeof(path), "%s", name);
	free(name);
	if (!session_reserve_next(path, why, sizeof(why)))
		message_die(EXIT_COULD_NOT, "%s; what was recorded stays in %s", why,
			    session->directory);
	session_note_trace(session, path);
}

/* The status is that of the last image the program's process has run. */
void collect_trace_note_exit(struct ingest *ingest, const struct collect_end *end)
{
	struct store *store = ingest->store;
	const struct ingest_process *process, *last = NULL;
	int status = end->wait_status;
	sqlite3_stmt *update = NULL;

	for (process = ingest->processes; process; process = process->next)
		if (process->pid == end->pid && (!last || process->id > last->id))
			last = process;
	if (!last)
		return;
	store_begin(store);
	store_prepare(store, &update,
		      "UPDATE process SET exit_status = ?, exit_signal = ? WHERE id = ?");
	store_bind_if(update, 1, WIFEXITED(status), WEXITSTATUS(status));
	store_bind_if(update, 2, WIFSIGNALED(status), WTERMSIG(status));
	sqlite3_bind_int64(update, 3, last->id);
	store_step(store, update);
	store_forget(store, &update);
}
