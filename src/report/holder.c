/* SPDX-License-Identifier: Apache-2.0 */
#include "report/holder.h"

#include "report/message.h"
#include "report/query.h"
#include "report/symbol.h"
#include "report/symbol_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct holder *add_holder(struct holder_list *list)
{
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->holder = reallocarray(list->holder, list->room, sizeof(*list->holder));
		if (!list->holder)
			message_die(EXIT_COULD_NOT, "out of memory");
	}
	memset(&list->holder[list->count], 0, sizeof(*list->holder));
	return &list->holder[list->count++];
}

static void add_kind(struct holder *holder, const char *kind)
{
	size_t used = strlen(holder->kinds);

	if (!*kind || strstr(holder->kinds, kind) ||
	    used + strlen(kind) + 3 > sizeof(holder->kinds))
		return;
	if (used)
		strcat(holder->kinds, ", ");
	strcat(holder->kinds, kind);
}

static int compare_places(const void *left, const void *right)
{
	const struct holder *a = left, *b = right;
	int order = strcmp(a->path ? a->path : "", b->path ? b->path : "");

	if (order)
		return order;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int compare_sums(const void *left, const void *right)
{
	const struct holder *a = left, *b = right;

	if (a->sum[0] != b->sum[0])
		return a->sum[0] < b->sum[0] ? 1 : -1;
	return compare_places(left, right);
}

static void join(struct holder *into, const struct holder *from)
{
	char kinds[HOLDER_KINDS_BYTES];
	char *rest = strcpy(kinds, from->kinds), *kind;

	for (int i = 0; i < HOLDER_SUMS; i++)
		into->sum[i] = rows_plus(into->sum[i], from->sum[i]);
	while ((kind = strsep(&rest, ",")))
		add_kind(into, kind + (*kind == ' '));
}

/* Equal places become one; then the largest comes first. */
static void join_places(struct holder_list *list)
{
	size_t kept = 0;

	if (!list->count)
		return;
	qsort(list->holder, list->count, sizeof(*list->holder), compare_places);
	for (size_t i = 1; i < list->count; i++) {
		if (!compare_places(&list->holder[kept], &list->holder[i]))
			join(&list->holder[kept], &list->holder[i]);
		else
			list->holder[++kept] = list->holder[i];
	}
	list->count = kept + 1;
	qsort(list->holder, list->count, sizeof(*list->holder), compare_sums);
}

static void read_holder(struct holder *holder, struct query *query, sqlite3_stmt *statement)
{
	const char *kind = (const char *)sqlite3_column_text(statement, 2);
	uint64_t caller = (uint64_t)sqlite3_column_int64(statement, 1);
	struct symbol_place place = { NULL, 0 };
	int sums = sqlite3_column_count(statement) - 3;

	if (caller)
		symbol_locate(query->symbols, sqlite3_column_int64(statement, 0), caller, &place);
	holder->path = place.path;
	holder->offset = place.offset;
	for (int i = 0; i < HOLDER_SUMS && i < sums; i++)
		holder->sum[i] = sqlite3_column_int64(statement, 3 + i);
	add_kind(holder, kind ? kind : "");
}

void holder_load(struct holder_list *list, struct query *query, const char *sql)
{
	sqlite3_stmt *statement = query_prepare(query, sql);

	memset(list, 0, sizeof(*list));
	while (query_step(query, statement))
		read_holder(add_holder(list), query, statement);
	sqlite3_finalize(statement);
	join_places(list);
}

void holder_join_files(struct holder_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		list->holder[i].offset = 0;
	join_places(list);
}

void holder_free(struct holder_list *list)
{
	free(list->holder);
	memset(list, 0, sizeof(*list));
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

struct rows_value *holder_write(const struct holder *holder, struct query *query,
				struct rows_value *value)
{
	const char *symbol;
	char *shorter;

	if (!holder->path) {
		if (holder->offset) {
			rows_format(&value[0], "0x%" PRIx64 " (in no file)", holder->offset);
			rows_number(&value[2], holder->offset);
		} else {
			rows_text(&value[0], "unknown");
		}
		return value + 4;
	}
	symbol = symbol_name(query->symbols, holder->path, holder->offset);
	shorter = symbol_name_shorten(symbol ? symbol : "");
	rows_format(&value[0], "%s+0x%" PRIx64 "%s%s", file_name(holder->path), holder->offset,
		    *shorter ? " " : "", shorter);
	free(shorter);
	rows_text(&value[1], holder->path);
	rows_number(&value[2], holder->offset);
	rows_text(&value[3], symbol);
	return value + 4;
}
