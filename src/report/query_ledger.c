/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_ledger.c - what the memory of a device went to, by the driver's own account:
 * at the reading with the highest use and at the last one.  Bands do not overlap, and
 * the last line is what none of them explains.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/ingest_ledger.h"

#include <string.h>

enum band {
	BAND_DEVICE, BAND_PITCH, BAND_POOL, BAND_VMM, BAND_ARRAY, BAND_MANAGED,
	BAND_PENDING, BAND_ROUNDING, BAND_POOLS_CACHED, BAND_GRAPHS,
	BAND_CONTEXTS, BAND_CODE, BAND_OTHER_DRIVER, BAND_OTHER_RECORDED,
	BAND_OTHER_PROCESSES, BAND_CONTEXTS_AND_OTHERS, BAND_UNACCOUNTED,
	BANDS
};

static const char *const band_titles[BANDS] = {
	[BAND_DEVICE] = "device",
	[BAND_PITCH] = "pitch",
	[BAND_POOL] = "pool",
	[BAND_VMM] = "vmm",
	[BAND_ARRAY] = "array",
	[BAND_MANAGED] = "managed, at most",
	[BAND_PENDING] = "freed, not released yet",
	[BAND_ROUNDING] = "rounding to pages",
	[BAND_POOLS_CACHED] = "cached in pools",
	[BAND_GRAPHS] = "reserved by graphs",
	[BAND_CONTEXTS] = "contexts",
	[BAND_CODE] = "code",
	[BAND_OTHER_DRIVER] = "streams, graphs, limits",
	[BAND_OTHER_RECORDED] = "other processes of this trace",
	[BAND_OTHER_PROCESSES] = "other processes",
	[BAND_CONTEXTS_AND_OTHERS] = "contexts and other processes",
	[BAND_UNACCOUNTED] = "unaccounted",
};

/* Kinds of blocks whose live bytes are a band. */
static const struct {
	const char *kind;
	enum band band;
} kinds[] = {
	{ "device", BAND_DEVICE }, { "pitch", BAND_PITCH }, { "pool", BAND_POOL },
	{ "vmm", BAND_VMM },	   { "array", BAND_ARRAY }, { "managed", BAND_MANAGED },
};

/* For programs: a row for each process, device and moment. */
static const struct rows_column ledger_columns[] = {
	{ "process_id", NULL, ROWS_ID },
	{ "device_id", NULL, ROWS_ID },
	{ "device", NULL, ROWS_ID },
	{ "moment", NULL, ROWS_TEXT },
	{ "reading", NULL, ROWS_TEXT },
	{ "at_ns", NULL, ROWS_MOMENT },
	{ "total_bytes", NULL, ROWS_BYTES },
	{ "used_bytes", NULL, ROWS_BYTES },
	{ "device_bytes", NULL, ROWS_BYTES },
	{ "pitch_bytes", NULL, ROWS_BYTES },
	{ "pool_bytes", NULL, ROWS_BYTES },
	{ "vmm_bytes", NULL, ROWS_BYTES },
	{ "array_bytes", NULL, ROWS_BYTES },
	{ "managed_bytes", NULL, ROWS_BYTES },
	{ "pending_bytes", NULL, ROWS_BYTES },
	{ "rounding_bytes", NULL, ROWS_BYTES },
	{ "pools_cached_bytes", NULL, ROWS_BYTES },
	{ "graphs_bytes", NULL, ROWS_BYTES },
	{ "contexts_bytes", NULL, ROWS_BYTES },
	{ "code_bytes", NULL, ROWS_BYTES },
	{ "other_driver_bytes", NULL, ROWS_BYTES },
	{ "other_recorded_bytes", NULL, ROWS_BYTES },
	{ "other_processes_bytes", NULL, ROWS_BYTES },
	{ "contexts_and_others_bytes", NULL, ROWS_BYTES },
	{ "unaccounted_bytes", NULL, ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

enum { PROCESS, DEVICE, ORDINAL, MOMENT, READING, AT, TOTAL, USED, FIRST_BAND };

/* The same for people: a table for each process and device. */
static const struct rows_column shown_columns[] = {
	{ NULL, "what device memory went to", ROWS_TEXT },
	{ NULL, "at highest use", ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, "at the end", ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, NULL, ROWS_TEXT },
};

/* The highest and the last reading of each process and device, in the order of the former. */
static const char select_readings[] =
	"WITH told AS (SELECT * FROM reading WHERE held_bytes IS NOT NULL),"
	" placed AS (SELECT id, process_id, device_id, total_bytes - free_bytes AS used,"
	"  row_number() OVER (PARTITION BY process_id, device_id"
	"   ORDER BY total_bytes - free_bytes DESC, at_ns, id) AS from_highest,"
	"  row_number() OVER (PARTITION BY process_id, device_id"
	"   ORDER BY at_ns DESC, id DESC) AS from_last FROM told),"
	" highest AS (SELECT * FROM placed WHERE from_highest = 1),"
	" last AS (SELECT * FROM placed WHERE from_last = 1)"
	" SELECT r.id, r.process_id, r.device_id, d.ordinal, m.moment, r.moment, r.at_ns,"
	"  r.total_bytes, r.total_bytes - r.free_bytes, r.held_bytes, r.pool_bytes, r.graph_bytes,"
	"  r.context_bytes, r.code_bytes, r.driver_bytes, r.recorded_bytes, r.foreign_bytes"
	" FROM (SELECT id, used, 'highest' AS moment, 0 AS turn FROM highest UNION ALL"
	"  SELECT last.id, highest.used, 'last', 1 FROM last"
	"   JOIN highest USING (process_id, device_id)) m"
	" JOIN told r ON r.id = m.id LEFT JOIN device d ON d.id = r.device_id"
	" ORDER BY m.used DESC, r.process_id, r.device_id, m.turn";

enum column {
	OF_ID, OF_PROCESS, OF_DEVICE, OF_ORDINAL, OF_MOMENT, OF_READING, OF_AT, OF_TOTAL, OF_USED,
	OF_HELD, OF_POOL, OF_GRAPH, OF_CONTEXT, OF_CODE, OF_DRIVER, OF_RECORDED, OF_FOREIGN
};

/* What blocks have at a reading. */
struct blocks {
	int64_t live[BANDS];
	int64_t pending; /* but for managed memory, that goes with what is live of it */
	int64_t pooled;	 /* of both, in pools */
	int64_t paged;	 /* of both, outside of them */
};

static int find_band(const char *kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kind && !strcmp(kinds[i].kind, kind))
			return (int)kinds[i].band;
	return -1;
}

static void add_blocks(struct blocks *blocks, int band, int64_t live, int64_t pending)
{
	int64_t both = rows_plus(live, pending);

	if (band == BAND_MANAGED) {
		blocks->live[band] = both;
		return;
	}
	blocks->live[band] = live;
	blocks->pending = rows_plus(blocks->pending, pending);
	if (band == BAND_POOL)
		blocks->pooled = rows_plus(blocks->pooled, both);
	else
		blocks->paged = rows_plus(blocks->paged, both);
}

static void read_blocks(struct query *query, int64_t reading_id, struct blocks *blocks)
{
	sqlite3_stmt *statement = query_prepare(
		query, "SELECT kind, live_bytes, pending_bytes FROM reading_kind"
		       " WHERE reading_id = ?");

	memset(blocks, 0, sizeof(*blocks));
	sqlite3_bind_int64(statement, 1, reading_id);
	while (query_step(query, statement)) {
		int band = find_band((const char *)sqlite3_column_text(statement, 0));

		if (band >= 0)
			add_blocks(blocks, band, sqlite3_column_int64(statement, 1),
				   sqlite3_column_int64(statement, 2));
	}
	sqlite3_finalize(statement);
}

static void set(struct rows_value *value, enum band band, int64_t bytes)
{
	rows_number(&value[FIRST_BAND + band], bytes);
}

/* NULL stays unset: that band cannot be told. */
static void copy(struct rows_value *value, enum band band, sqlite3_stmt *statement,
		 enum column column)
{
	query_set(&value[FIRST_BAND + band], ROWS_BYTES, statement, (int)column);
}

/* Without a context's own bytes it and the others are one band. */
static void write_others(struct rows_value *value, sqlite3_stmt *statement)
{
	bool is_apart = sqlite3_column_type(statement, OF_CONTEXT) != SQLITE_NULL;

	copy(value, BAND_CONTEXTS, statement, OF_CONTEXT);
	if (is_apart)
		copy(value, BAND_OTHER_PROCESSES, statement, OF_FOREIGN);
	else
		copy(value, BAND_CONTEXTS_AND_OTHERS, statement, OF_FOREIGN);
}

/*
 * Nobody knows where managed memory lies: it explains what is left, up to its size in
 * the steps that a device gives of its memory.
 */
static void close_ledger(struct rows_value *value, int64_t managed)
{
	const int64_t step = INGEST_LEDGER_MANAGED_STEP;
	int64_t left = value[USED].number;

	for (int band = 0; band < BAND_UNACCOUNTED; band++)
		if (band != BAND_MANAGED && value[FIRST_BAND + band].is_set)
			left = rows_minus(left, value[FIRST_BAND + band].number);
	managed = rows_plus(managed, (step - managed % step) % step);
	if (managed > left)
		managed = left > 0 ? left : 0;
	set(value, BAND_MANAGED, managed);
	set(value, BAND_UNACCOUNTED, rows_minus(left, managed));
}

static void write_row(struct query *query, struct rows_value *value, sqlite3_stmt *statement)
{
	int64_t pool = sqlite3_column_int64(statement, OF_POOL);
	struct blocks blocks;

	for (int i = PROCESS; i <= USED; i++)
		query_set(&value[i], ledger_columns[i].type, statement, OF_PROCESS + i);
	read_blocks(query, sqlite3_column_int64(statement, OF_ID), &blocks);
	for (int band = BAND_DEVICE; band <= BAND_ARRAY; band++)
		set(value, (enum band)band, blocks.live[band]);
	set(value, BAND_PENDING, blocks.pending);
	set(value, BAND_ROUNDING,
	    rows_minus(sqlite3_column_int64(statement, OF_HELD), blocks.paged));
	set(value, BAND_POOLS_CACHED, rows_minus(pool, blocks.pooled));
	copy(value, BAND_GRAPHS, statement, OF_GRAPH);
	copy(value, BAND_CODE, statement, OF_CODE);
	copy(value, BAND_OTHER_DRIVER, statement, OF_DRIVER);
	copy(value, BAND_OTHER_RECORDED, statement, OF_RECORDED);
	write_others(value, statement);
	close_ledger(value, blocks.live[BAND_MANAGED]);
}

static void show_line(struct rows *rows, const char *title, const struct rows_value *highest,
		      const struct rows_value *last, int at)
{
	const struct rows_value *moment[] = { highest, last };
	struct rows_value *value = rows_add(rows);

	rows_text(&value[0], title);
	for (int i = 0; i < 2; i++) {
		int64_t bytes = moment[i][at].number;

		rows_number(&value[1 + 2 * i], bytes);
		rows_number(&value[2 + 2 * i],
			    rows_share(bytes < 0 ? rows_minus(0, bytes) : bytes,
				       moment[i][USED].number));
	}
}

/* The first line says of what, where there are several. */
static void show_use(struct query *query, struct rows *rows, const struct rows_value *highest,
		     const struct rows_value *last, bool is_only)
{
	static const char sql[] = "SELECT 'in use: device ' || ordinal || ', pid ' || pid"
				  " FROM device JOIN process ON process.id = process_id"
				  " WHERE device.id = ?";
	sqlite3_stmt *statement = query_prepare(query, sql);
	const char *title = "in use";

	sqlite3_bind_int64(statement, 1, highest[DEVICE].number);
	if (!is_only && query_step(query, statement) && sqlite3_column_text(statement, 0))
		title = (const char *)sqlite3_column_text(statement, 0);
	show_line(rows, title, highest, last, USED);
	sqlite3_finalize(statement);
}

static void note_ledger(struct report *report, struct report_section *section,
			const struct rows_value *highest, const struct rows_value *last)
{
	char first[FORMAT_BYTES], second[FORMAT_BYTES];

	report_note(section, REPORT_REMARK, "The highest reading is of %s, the last of %s.",
		    format_moment(first, rows_minus(highest[AT].number, report->start_ns)),
		    format_moment(second, rows_minus(last[AT].number, report->start_ns)));
	if (!last[FIRST_BAND + BAND_CONTEXTS].is_set)
		report_note(section, REPORT_REMARK,
			    "Nothing told what contexts take from what other processes have: that "
			    "needs NVML (libnvidia-ml.so.1) before the first context.");
	if (highest[FIRST_BAND + BAND_MANAGED].number || last[FIRST_BAND + BAND_MANAGED].number)
		report_note(section, REPORT_REMARK,
			    "Managed memory lies where it is used: its line is what is left, up to "
			    "its size in steps of 128 MiB, as a device takes it over.");
}

static void show_ledger(struct query *query, struct report *report, const struct rows *all,
			size_t row)
{
	const struct rows_value *highest = rows_at(all, row), *last = rows_at(all, row + 1);
	struct report_section *section =
		report_add(report, NULL, "", REPORT_LIST, shown_columns);

	show_use(query, &section->rows, highest, last, all->count == 2);
	for (int band = 0; band < BANDS; band++)
		if (highest[FIRST_BAND + band].number || last[FIRST_BAND + band].number ||
		    band == BAND_UNACCOUNTED)
			show_line(&section->rows, band_titles[band], highest, last,
				  FIRST_BAND + band);
	note_ledger(report, section, highest, last);
}

/* Programs get all; people those of highest use, as far as -n goes. */
void query_ledger(struct query *query, struct report *report)
{
	struct report_section *all, *head;
	sqlite3_stmt *statement;

	if (!report_wants(report, REPORT_MEMORY))
		return;
	all = report_add(report, "memory.ledger", NULL, REPORT_LIST, ledger_columns);
	statement = query_prepare(query, select_readings);
	while (query_step(query, statement))
		write_row(query, rows_add(&all->rows), statement);
	sqlite3_finalize(statement);
	head = report_add(report, NULL, "", REPORT_LIST, shown_columns);
	head->heading = "LEDGER";
	if (!all->rows.count)
		head->nothing = "The driver was not asked how much memory is free, so there is no "
				"ledger.";
	for (size_t row = 0; row + 1 < all->rows.count && row / 2 < query->most_rows; row += 2)
		show_ledger(query, report, &all->rows, row);
}
