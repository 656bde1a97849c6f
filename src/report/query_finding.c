/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_finding.c - what the program should not have done: blocks that it used,
 * or freed again, after it had freed them.  The same mistake from the same place
 * on blocks of the same place is one row.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"
#include "report/symbol.h"

#include <inttypes.h>

static const struct rows_column finding_columns[] = {
	{ "kind", "finding", ROWS_TEXT },
	{ "api", NULL, ROWS_TEXT },
	HOLDER_COLUMNS("by"),
	{ NULL, "allocated by", ROWS_TEXT },
	{ "alloc_module", NULL, ROWS_TEXT },
	{ "alloc_offset", NULL, ROWS_COUNT },
	{ "alloc_symbol", NULL, ROWS_TEXT },
	{ "count", "times", ROWS_COUNT },
	{ "first_at_ns", "first at", ROWS_MOMENT },
	{ "address", NULL, ROWS_ADDRESS },
	{ "block_bytes", NULL, ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

/* Bare columns go with the minimum: SQLite takes them from the row that has it. */
static const char select_findings[] =
	"SELECT f.process_id, f.caller, a.caller, f.kind, COALESCE(name, '?'), count(*),"
	" min(f.at_ns), f.address, a.bytes FROM finding f"
	" LEFT JOIN api ON api.id = f.api_id LEFT JOIN allocation a ON a.id = f.allocation_id"
	" GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 7";

enum column { PROCESS, CALLER, ALLOC_CALLER, KIND, API, COUNT, FIRST, ADDRESS, BYTES };

static struct rows_value *write_place(struct query *query, struct rows_value *value,
				      sqlite3_stmt *finding, enum column caller)
{
	struct symbol_place place = { NULL, 0 };
	uint64_t address = (uint64_t)sqlite3_column_int64(finding, (int)caller);
	struct holder holder = { 0 };

	if (address)
		symbol_locate(query->symbols, sqlite3_column_int64(finding, PROCESS), address,
			      &place);
	holder.path = place.path;
	holder.offset = place.offset;
	return holder_write(&holder, query, value);
}

static void write_finding(struct query *query, struct rows_value *value, sqlite3_stmt *finding)
{
	query_set(value++, ROWS_TEXT, finding, KIND);
	query_set(value++, ROWS_TEXT, finding, API);
	value = write_place(query, value, finding, CALLER);
	value = write_place(query, value, finding, ALLOC_CALLER);
	for (int column = COUNT; column <= BYTES; column++)
		query_set(value++, ROWS_COUNT, finding, column);
}

void query_finding(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "findings", "", REPORT_LIST, finding_columns);
	sqlite3_stmt *finding = query_prepare(query, select_findings);

	section->heading = "TROUBLE";
	while (query_step(query, finding))
		write_finding(query, rows_add(&section->rows), finding);
	sqlite3_finalize(finding);
	rows_cut(&section->rows, query->most_rows);
	if (section->rows.count)
		report_note(section, REPORT_WARNING,
			    "The program named blocks that it had freed before. Each such call was "
			    "refused, as the driver does where it notices; where the address is "
			    "another block's by then nobody notices.");
}
