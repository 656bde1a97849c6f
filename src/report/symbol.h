/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol.h - from an address in a traced process to file, offset and name.
 * The trace's `module` rows give the file and the offset; the name comes from
 * the symbol tables of the file itself, if it is still there and is the same
 * build.  Files are opened when a name is first asked for, and only then.
 */
#ifndef CUSTODY_REPORT_SYMBOL_H
#define CUSTODY_REPORT_SYMBOL_H

#include <stdint.h>

struct query;
struct symbol_map;

struct symbol_place {
	const char *path; /* owned by the map; NULL: no file was mapped there */
	int64_t offset;	  /* from the file's lowest mapped address; the address without a file */
};

struct symbol_map *symbol_open(struct query *query);
void symbol_close(struct symbol_map *map);

/* Which file `address` lay in.  Cheap: no file is touched. */
void symbol_locate(const struct symbol_map *map, int64_t process_id, uint64_t address,
		   struct symbol_place *place);

/*
 * The name of the function that the return address at `offset` into `path`
 * belongs to, C++ names in readable form; NULL if unknown.  Owned by the map.
 */
const char *symbol_name(struct symbol_map *map, const char *path, int64_t offset);

/* A C++ name in readable form, or as it is; owned by the map. */
const char *symbol_readable(struct symbol_map *map, const char *name);

#endif
