/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferq_suite.h - what the suites of the deferred-free queue have in common: how
 * a test ends, and how its case and its suite are run.
 */
#ifndef CUSTODY_TESTS_DEFERQ_SUITE_H
#define CUSTODY_TESTS_DEFERQ_SUITE_H

#include "model_program.h"

#include <check.h>

/* The counterpart of program_begin(): the test fails where anything complained. */
void deferq_suite_end(void);

/* A case of the suite, whose tests run between these two. */
TCase *deferq_suite_case(Suite *suite, const char *name, SFun begin, SFun end);

/* For main() to return. */
int deferq_suite_run(Suite *suite);

#endif
