/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text.h"

#include "report/message.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* Bytes of the code point at `text`; 0 when it is not valid UTF-8. */
static size_t sequence_length(const unsigned char *text)
{
	size_t length = *text < 0x80 ? 1 : *text < 0xC2 ? 0 : *text < 0xE0 ? 2 : *text < 0xF0 ? 3 :
			*text < 0xF5		       ? 4 :
							 0;

	for (size_t i = 1; i < length; i++)
		if ((text[i] & 0xC0) != 0x80)
			return 0;
	if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F) ||
	    (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))
		return 0;
	return length;
}

/* C0, DEL and, in two bytes, C1: what a terminal may obey. */
static int is_control(const unsigned char *text)
{
	return *text < 0x20 || *text == 0x7F || (text[0] == 0xC2 && text[1] < 0xA0);
}

static char *allocate(size_t bytes)
{
	char *memory = malloc(bytes);

	if (!memory)
		message_die(EXIT_COULD_NOT, "out of memory");
	return memory;
}

/* `keep`: control characters that stay as they are; NULL: all. */
static char *copy(const char *text, const char *keep)
{
	const unsigned char *at = (const unsigned char *)text;
	char *clean = allocate(3 * strlen(text) + 1);
	char *end = clean;

	while (*at) {
		size_t length = sequence_length(at);

		if (!length) {
			end = stpcpy(end, REPLACEMENT);
			at++;
			continue;
		}
		if (keep && is_control(at) && !strchr(keep, *at))
			*end++ = *at == '\n' || *at == '\t' || *at == '\r' ? ' ' : '?';
		else
			end = mempcpy(end, at, length);
		at += length;
	}
	*end = '\0';
	return clean;
}

char *text_valid(const char *text)
{
	return copy(text, NULL);
}

char *text_clean(const char *text)
{
	return copy(text, "");
}

char *text_clean_lines(const char *text)
{
	return copy(text, "\n\t");
}

size_t text_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += (*text & 0xC0) != 0x80;
	return width;
}

/* Where column `column` begins. */
static const char *find_column(const char *text, size_t column)
{
	for (; *text; text++)
		if ((*text & 0xC0) != 0x80 && !column--)
			break;
	return text;
}

char *text_shorten(const char *text, size_t width, const char *ellipsis)
{
	size_t has = text_width(text), gap = text_width(ellipsis), tail;
	const char *rest;
	char *shorter = allocate(strlen(text) + strlen(ellipsis) + 1);
	size_t head;

	if (has <= width)
		return strcpy(shorter, text);
	if (width <= gap)
		gap = 0, ellipsis = "";
	/* The tail names the file or the offset: it gets the larger half. */
	head = (width - gap) * 2 / 5;
	tail = width - gap - head;
	rest = find_column(text, has - tail);
	head = (size_t)(find_column(text, head) - text);
	memcpy(shorter, text, head);
	strcpy(stpcpy(shorter + head, ellipsis), rest);
	return shorter;
}
