/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - strings that came out of a trace.  A trace may hold anything: names
 * of files are bytes, and a crafted one holds escape sequences.
 */
#ifndef CUSTODY_REPORT_TEXT_H
#define CUSTODY_REPORT_TEXT_H

#include <stddef.h>

/* A copy in which each byte that is not part of valid UTF-8 is U+FFFD; the caller frees it. */
char *text_valid(const char *text);

/* The same for people's eyes: blanks are spaces, other control characters '?'. */
char *text_clean(const char *text);

/* The same for text of many lines: line ends and tabs stay. */
char *text_clean_lines(const char *text);

/* Columns on a terminal: one for each code point of clean text. */
size_t text_width(const char *text);

/*
 * A copy of clean text at most `width` columns wide; what does not fit is cut
 * out of the middle, since both ends of a path or symbol tell more.
 */
char *text_shorten(const char *text, size_t width, const char *ellipsis);

#endif
