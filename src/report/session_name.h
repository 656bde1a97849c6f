/* SPDX-License-Identifier: Apache-2.0 */
/* session_name.h - the name of a trace from its template. */
#ifndef CUSTODY_REPORT_SESSION_NAME_H
#define CUSTODY_REPORT_SESSION_NAME_H

/*
 * Expand %p pid, %h host, %e program, %q{VARIABLE}, %%.  Returns NULL and sets
 * `*why` (static text) where the template is wrong; the result is to be freed.
 */
char *session_name_expand(const char *template, int pid, const char *executable,
			  const char **why);

#endif
