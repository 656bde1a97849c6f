/* SPDX-License-Identifier: Apache-2.0 */
#include "report/symbol_name.h"

#include "report/message.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of what must not be taken apart at `text`: it looks like brackets, but is a name. */
static size_t name_length(const char *text)
{
	static const char unnamed[] = "(anonymous namespace)";
	static const char operator[] = "operator";
	size_t length = sizeof(operator) - 1;

	if (!strncmp(text, unnamed, sizeof(unnamed) - 1))
		return sizeof(unnamed) - 1;
	if (strncmp(text, operator, length))
		return 0;
	if (!strncmp(text + length, "()", 2))
		return length + 2;
	/* operator<, operator->, operator new: up to the parameters. */
	return strcspn(text, "(");
}

char *symbol_name_shorten(const char *name)
{
	char *shorter = malloc(strlen(name) + 1), *end = shorter;
	int depth = 0;

	if (!shorter)
		message_die(EXIT_COULD_NOT, "out of memory");
	while (*name) {
		size_t whole = depth ? 0 : name_length(name);

		if (whole) {
			end = mempcpy(end, name, whole);
			name += whole;
			continue;
		}
		if (!depth && *name == '(')
			break;
		depth += *name == '<';
		/* What stands before a blank is the type of the result. */
		if (!depth && *name == ' ')
			end = shorter;
		else if (!depth)
			*end++ = *name;
		depth -= *name == '>' && depth;
		name++;
	}
	*end = '\0';
	return shorter;
}
