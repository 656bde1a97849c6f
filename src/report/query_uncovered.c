/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_uncovered.c - driver functions that the program was given unwatched.  The
 * CUDA runtime asks for the whole driver when it loads, so most of them are of
 * families that are left alone on purpose, since they neither hold nor move
 * memory; those are counted.  What is in no family is a gap in coverage and listed by name.
 */
#include "report/query.h"

#include "report/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct family {
	const char *name;
	const char *prefixes; /* each ends with a blank */
};

static const struct family families[] = {
	{ "graphics interop",
	  "cuGL cuEGL cuVDPAU cuGraphics cuD3D cuWGL cuNvSci cuEventCreateFromEGLSync " },
	{ "textures and surfaces",
	  "cuTex cuSurf cuModuleGetTexRef cuModuleGetSurfRef cuMipmapped " },
	{ "JIT linker", "cuLink " },
	{ "occupancy", "cuOccupancy " },
	{ "cache and shared-memory settings",
	  "cuCtxGetCacheConfig cuCtxSetCacheConfig cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig "
	  "cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuKernelSetCacheConfig "
	  "cuCtxResetPersistingL2Cache " },
	{ "launch settings of old", "cuParamSet cuFuncSetBlockShape cuFuncSetSharedSize " },
	{ "tensor maps", "cuTensorMap " },
	{ "checkpoints and dumps", "cuCheckpoint cuCoredump cuLog cuProfiler " },
	{ "private tables", "table " },
};

/* The first and the last of them need words of their own. */
enum { FAMILIES = sizeof(families) / sizeof(*families), GRAPHICS = 0, TABLES = FAMILIES - 1 };

static const struct rows_column columns[] = {
	{ "name", "driver functions handed out unwatched", ROWS_TEXT },
	{ "family", NULL, ROWS_TEXT },
	{ "version", "asked version", ROWS_ID },
	{ "count", "times", ROWS_COUNT },
	{ "first_at_ns", "first at", ROWS_MOMENT },
	{ NULL, NULL, ROWS_TEXT },
};

enum { NAME, FAMILY };

static const char select_uncovered[] =
	"SELECT name, NULL, NULLIF(version, 0), count(*), min(at_ns) FROM uncovered"
	" GROUP BY name, version ORDER BY name, version";

/* The index of the family a function belongs to; FAMILIES: none. */
static size_t find_family(const char *function)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		const char *prefix = families[i].prefixes;

		while (*prefix) {
			size_t length = strcspn(prefix, " ");

			if (!strncmp(function, prefix, length))
				return i;
			prefix += length + 1;
		}
	}
	return FAMILIES;
}

/* For people: the gaps alone, unless they ask for more. */
static void copy_gaps(struct report_section *shown, const struct rows *all)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct rows_value *from = rows_at(all, i);
		struct rows_value *to;

		if (from[FAMILY].is_set && message_level < MESSAGE_VERBOSE)
			continue;
		to = rows_add(&shown->rows);
		for (size_t column = 0; column < all->columns; column++) {
			to[column] = from[column];
			to[column].text = NULL;
			rows_text(&to[column], from[column].text);
		}
	}
}

static void note_families(struct report_section *shown, const size_t *count)
{
	char text[512] = "";
	size_t all = 0;
	int used = 0;

	for (size_t i = 0; i < TABLES; i++) {
		if (count[i])
			used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%s %zu",
					 all ? ", " : "", families[i].name, count[i]);
		all += count[i];
	}
	if (!all)
		return;
	report_note(shown, REPORT_REMARK,
		    "%zu driver functions that custody leaves alone were handed out unwatched "
		    "(%s); -v lists them. They hold and move no memory%s.",
		    all, text,
		    count[GRAPHICS] ? ", but for what is mapped from a graphics interface" : "");
}

/* cudart asks for some whenever it starts. */
static void note_tables(struct report_section *shown, size_t count)
{
	if (count)
		report_note(shown, REPORT_REMARK,
			    "%zu private tables of driver functions were handed out, to the CUDA "
			    "runtime as a rule; what is called through them is not in this trace.",
			    count);
}

void query_uncovered(struct query *query, struct report *report)
{
	struct report_section *all = report_add(report, "uncovered", NULL, REPORT_LIST, columns);
	struct report_section *shown = report_add(report, NULL, "", REPORT_LIST, columns);
	size_t count[FAMILIES + 1] = { 0 };

	query_fill(query, &all->rows, select_uncovered);
	for (size_t i = 0; i < all->rows.count; i++) {
		struct rows_value *value = rows_at(&all->rows, i);
		size_t family = find_family(value[NAME].text ? value[NAME].text : "");

		count[family]++;
		if (family < FAMILIES)
			rows_text(&value[FAMILY], families[family].name);
	}
	copy_gaps(shown, &all->rows);
	if (count[FAMILIES])
		report_note(shown, REPORT_WARNING,
			    "%zu functions that custody does not know were given to the program as "
			    "the driver has them; what they did is not in this trace.",
			    count[FAMILIES]);
	note_families(shown, count);
	note_tables(shown, count[TABLES]);
}
