/* SPDX-License-Identifier: Apache-2.0 */
#include "report/symbol.h"

#include "report/message.h"
#include "report/query.h"
#include "report/symbol_elf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct module {
	int64_t process_id;
	uint64_t base;
	uint64_t size;
	const char *path; /* owned by `file` */
	struct file *file;
};

/* One path with one build id, whatever the processes that mapped it. */
struct file {
	char *path;
	char *build_id; /* NULL: the trace does not know it */
	struct symbol_elf *elf;
	bool was_opened;
	struct file *next;
};

struct name {
	char *text;
	struct name *next;
};

struct symbol_map {
	struct module *module; /* sorted by process, then base */
	size_t count;
	struct file *files;
	struct name *names; /* everything that symbol_name() handed out */
	char *(*demangle)(const char *, char *, size_t *, int *);
	void *library;
};

/* Names beyond this are not worth the demangler's recursion. */
enum { LONGEST_MANGLED = 2000 };

static void *allocate(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		message_die(EXIT_COULD_NOT, "out of memory");
	return memory;
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static struct file *find_file(struct symbol_map *map, const char *path, const char *build_id)
{
	struct file *file = map->files;

	while (file && !(is_same(file->path, path) && is_same(file->build_id, build_id)))
		file = file->next;
	if (file)
		return file;
	file = allocate(sizeof(*file));
	file->path = strdup(path);
	file->build_id = build_id ? strdup(build_id) : NULL;
	file->next = map->files;
	map->files = file;
	return file;
}

static void add_module(struct symbol_map *map, sqlite3_stmt *statement)
{
	const char *path = (const char *)sqlite3_column_text(statement, 3);
	const char *build_id = (const char *)sqlite3_column_text(statement, 4);
	struct module *module;

	if (!(map->count & (map->count - 1)))
		map->module = reallocarray(map->module, map->count ? 2 * map->count : 1,
					   sizeof(*module));
	if (!map->module)
		message_die(EXIT_COULD_NOT, "out of memory");
	module = &map->module[map->count++];
	module->process_id = sqlite3_column_int64(statement, 0);
	module->base = (uint64_t)sqlite3_column_int64(statement, 1);
	module->size = (uint64_t)sqlite3_column_int64(statement, 2);
	module->file = find_file(map, path ? path : "", build_id && *build_id ? build_id : NULL);
	module->path = module->file->path;
}

struct symbol_map *symbol_open(struct query *query)
{
	struct symbol_map *map = allocate(sizeof(*map));
	sqlite3_stmt *statement =
		query_prepare(query, "SELECT process_id, base, size, path, build_id FROM module"
				     " ORDER BY process_id, seen_ns");

	while (query_step(query, statement))
		add_module(map, statement);
	sqlite3_finalize(statement);
	return map;
}

static void free_files(struct file *file)
{
	while (file) {
		struct file *next = file->next;

		symbol_elf_close(file->elf);
		free(file->path);
		free(file->build_id);
		free(file);
		file = next;
	}
}

static void free_names(struct name *name)
{
	while (name) {
		struct name *next = name->next;

		free(name->text);
		free(name);
		name = next;
	}
}

void symbol_close(struct symbol_map *map)
{
	if (!map)
		return;
	free_files(map->files);
	free_names(map->names);
	free(map->module);
	if (map->library)
		dlclose(map->library);
	free(map);
}

void symbol_locate(const struct symbol_map *map, int64_t process_id, uint64_t address,
		   struct symbol_place *place)
{
	place->path = NULL;
	place->offset = (int64_t)address;
	/* From the back: where two files lay at one address in turn, the later one is taken. */
	for (size_t i = map->count; i-- > 0;) {
		const struct module *module = &map->module[i];

		if (module->process_id != process_id || address - module->base >= module->size)
			continue;
		place->path = module->path;
		place->offset = (int64_t)(address - module->base);
		return;
	}
}

static struct file *open_file(struct symbol_map *map, const char *path)
{
	struct file *file = map->files;

	/* The path pointer came from symbol_locate(), so it tells the build too. */
	while (file && file->path != path)
		file = file->next;
	if (file && !file->was_opened) {
		file->elf = symbol_elf_open(file->path, file->build_id);
		file->was_opened = true;
	}
	return file;
}

/*
 * The C++ run-time library is on most machines but no dependency of ours: it is
 * asked when it is there, and names stay as they are when it is not.
 */
static char *demangle(struct symbol_map *map, const char *name)
{
	char *readable = NULL;
	int status;

	if (name[0] != '_' || name[1] != 'Z' || strlen(name) > LONGEST_MANGLED)
		return strdup(name);
	if (!map->library) {
		map->library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
		if (map->library)
			*(void **)&map->demangle = dlsym(map->library, "__cxa_demangle");
	}
	if (map->demangle)
		readable = map->demangle(name, NULL, NULL, &status);
	return readable ? readable : strdup(name);
}

const char *symbol_readable(struct symbol_map *map, const char *raw)
{
	struct name *name = allocate(sizeof(*name));

	name->text = demangle(map, raw);
	name->next = map->names;
	map->names = name;
	return name->text;
}

const char *symbol_name(struct symbol_map *map, const char *path, int64_t offset)
{
	struct file *file = open_file(map, path);
	const char *raw;

	if (!file || !file->elf)
		return NULL;
	/* A return address may be the first byte of the next function. */
	raw = symbol_elf_find(file->elf, (uint64_t)offset - 1);
	if (!raw)
		return NULL;
	return symbol_readable(map, raw);
}
