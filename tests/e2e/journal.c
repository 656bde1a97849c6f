/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - the second account that traces are compared with; see journal.h. */
#include "journal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS_MAX = 8192, APIS_MAX = 1024 };

struct noted_block {
	const char *kind;
	uint64_t address, bytes;
	int is_live;
};

struct noted_api {
	const char *name;
	unsigned calls, errors;
};

static struct noted_block blocks[BLOCKS_MAX];
static unsigned block_count;
static struct noted_api apis[APIS_MAX];
static unsigned api_count;

static int journal_descriptor(void)
{
	static int descriptor = -2;
	const char *path = getenv("E2E_JOURNAL");

	if (descriptor == -2)
		descriptor = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) :
				    -1;
	return descriptor;
}

void journal_line(const char *format, ...)
{
	char line[512];
	va_list arguments;
	int bytes;

	va_start(arguments, format);
	bytes = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	require(bytes > 0 && bytes < (int)sizeof(line) - 1, "a journal line fits its buffer");
	line[bytes] = '\n';
	if (journal_descriptor() >= 0)
		require(write(journal_descriptor(), line, (size_t)bytes + 1) == bytes + 1,
			"the journal can be written");
}

void require(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "client: it does not hold that %s\n", what);
	exit(90);
}

static struct noted_api *find_api(const char *name)
{
	unsigned i;

	for (i = 0; i < api_count; i++)
		if (!strcmp(apis[i].name, name))
			return &apis[i];
	require(api_count < APIS_MAX, "the journal has room for another function");
	apis[api_count].name = strdup(name);
	return &apis[api_count++];
}

CUresult called(const char *api, CUresult result)
{
	struct noted_api *noted = find_api(api);

	noted->calls++;
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
		return result;
	noted->errors++;
	journal_line("failure %s %d", api, result);
	return result;
}

void must(const char *api, CUresult result)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "client: %s returned %d\n", api, result);
		exit(91);
	}
	called(api, result);
}

static unsigned add_block(const char *kind, uint64_t address, uint64_t bytes)
{
	require(block_count < BLOCKS_MAX, "the journal has room for another block");
	blocks[block_count++] = (struct noted_block){ kind, address, bytes, 1 };
	return block_count;
}

unsigned note_alloc(const char *kind, uint64_t address, uint64_t bytes, const char *api)
{
	unsigned ordinal = add_block(kind, address, bytes);

	journal_line("alloc %u %s %" PRIu64 " %" PRIu64 " %s -", ordinal, kind, address, bytes,
		     api);
	return ordinal;
}

unsigned note_view(const char *kind, uint64_t address, uint64_t bytes, const char *api,
		   unsigned parent)
{
	unsigned ordinal = add_block(kind, address, bytes);

	journal_line("alloc %u %s %" PRIu64 " %" PRIu64 " %s %u", ordinal, kind, address, bytes,
		     api, parent);
	return ordinal;
}

void note_free(unsigned ordinal, const char *api)
{
	require(ordinal >= 1 && ordinal <= block_count && blocks[ordinal - 1].is_live,
		"only a live block is noted as freed");
	blocks[ordinal - 1].is_live = 0;
	journal_line("free %u freed %s", ordinal, api);
}

void note_end(unsigned ordinal, const char *cause)
{
	blocks[ordinal - 1].is_live = 0;
	journal_line("end %u %s", ordinal, cause);
}

void note_end_of_all(const char *cause)
{
	unsigned i;

	for (i = 0; i < block_count; i++)
		if (blocks[i].is_live)
			note_end(i + 1, cause);
}

/* A handle is no address: an array covers nothing but itself. */
static int covers(const struct noted_block *block, uint64_t address)
{
	uint64_t bytes = strcmp(block->kind, "array") ? block->bytes : 1;

	return block->is_live && address >= block->address && address - block->address < bytes;
}

/* The newest live block that covers the address; 0: none. */
static unsigned covering_block(uint64_t address)
{
	unsigned i;

	for (i = block_count; i > 0; i--)
		if (covers(&blocks[i - 1], address))
			return i;
	return 0;
}

static const char *place_of(unsigned ordinal)
{
	const char *kind = ordinal ? blocks[ordinal - 1].kind : "pageable";

	if (!strcmp(kind, "pageable") || !strcmp(kind, "pinned") || !strcmp(kind, "registered") ||
	    !strcmp(kind, "managed") || !strcmp(kind, "array"))
		return kind;
	return "device";
}

/* One end of a copy: place, address, ordinal of the block. */
static void describe_end(char *text, size_t bytes, uint64_t address, const char *kind)
{
	unsigned ordinal = address ? covering_block(address) : 0;

	if (!kind)
		kind = address ? place_of(ordinal) : "-";
	if (ordinal)
		snprintf(text, bytes, "%s:%" PRIu64 ":%u", kind, address, ordinal);
	else if (address)
		snprintf(text, bytes, "%s:%" PRIu64 ":-", kind, address);
	else
		snprintf(text, bytes, "%s:-:-", kind);
}

static int copies_of(const struct copy_note *copy)
{
	if (copy->copies == UNCOUNTED)
		return 0;
	return copy->copies ? copy->copies : 1;
}

void note_copy(const struct copy_note *copy)
{
	char source[96], target[96];

	describe_end(source, sizeof(source), copy->source, copy->source_kind);
	describe_end(target, sizeof(target), copy->target, copy->target_kind);
	journal_line("transfer %s %" PRIu64 " %s %s %s %s %s %d %d %d", copy->kind, copy->bytes,
		     copy->api, copy->is_async ? "async" : "sync", source, target, copy->stream,
		     copies_of(copy), copy->is_captured, copy->result);
}

void note_operation(const char *api, const char *stream, int result)
{
	journal_line("operation %s %s %d", api, stream, result);
}

void journal_end(void)
{
	unsigned i;

	for (i = 0; i < api_count; i++)
		journal_line("call %s %u %u", apis[i].name, apis[i].calls, apis[i].errors);
}
