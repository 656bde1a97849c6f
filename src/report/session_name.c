/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a trace from its template. */
#include "report/session_name.h"

#include "report/message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct name {
	char text[PATH_MAX];
	size_t length;
};

static void append(struct name *name, const char *text, size_t length)
{
	if (length > sizeof(name->text) - 1 - name->length)
		length = sizeof(name->text) - 1 - name->length;
	memcpy(name->text + name->length, text, length);
	name->length += length;
	name->text[name->length] = '\0';
}

/* A program or host may be called anything: its name must stay one part of a path. */
static void append_part(struct name *name, const char *text)
{
	for (; *text; text++)
		append(name, *text == '/' || *text == '\n' ? "_" : text, 1);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* %q{VARIABLE}; returns what follows it, NULL with `*why` where it is wrong. */
static const char *append_variable(struct name *name, const char *text, const char **why)
{
	const char *end = *text == '{' ? strchr(text, '}') : NULL;
	char variable[256];
	const char *value;

	if (!end || end - text - 1 >= (long)sizeof(variable)) {
		*why = "%q needs a variable in braces, as in %q{RANK}";
		return NULL;
	}
	snprintf(variable, sizeof(variable), "%.*s", (int)(end - text - 1), text + 1);
	value = getenv(variable);
	if (!value) {
		*why = "the environment variable behind %q is not set";
		return NULL;
	}
	append_part(name, value);
	return end + 1;
}

/* One placeholder, behind its percent sign; returns what follows it. */
static const char *append_placeholder(struct name *name, const char *text, int pid,
				      const char *executable, const char **why)
{
	char word[HOST_NAME_MAX + 16] = "";

	switch (*text) {
	case 'p':
		snprintf(word, sizeof(word), "%d", pid);
		break;
	case 'h':
		gethostname(word, sizeof(word) - 1);
		break;
	case 'e':
		append_part(name, base_name(executable));
		break;
	case '%':
		strcpy(word, "%");
		break;
	case 'q':
		return append_variable(name, text + 1, why);
	default:
		*why = "a percent sign stands before p, h, e, q{VARIABLE} or another one";
		return NULL;
	}
	append_part(name, word);
	return text + 1;
}

char *session_name_expand(const char *template, int pid, const char *executable, const char **why)
{
	struct name name = { .length = 0 };
	const char *text = template;
	char *copy;

	while (text && *text) {
		size_t plain = strcspn(text, "%");

		append(&name, text, plain);
		text += plain;
		if (*text)
			text = append_placeholder(&name, text + 1, pid, executable, why);
	}
	if (!text)
		return NULL;
	if (name.length == sizeof(name.text) - 1 || !name.length) {
		*why = name.length ? "the name is too long" : "the name is empty";
		return NULL;
	}
	copy = strdup(name.text);
	if (!copy)
		message_die(EXIT_COULD_NOT, "out of memory");
	return copy;
}
