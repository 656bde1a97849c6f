/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail_nth.h - one allocating call of the process fails, to see what the
 * program makes of that.
 *
 * Counted, from 1, is every call of the program that would make a block, in the
 * order in which they reach us; each image of a process and each child of fork
 * counts its own.
 */
#ifndef CUSTODY_INTERCEPT_FAIL_NTH_H
#define CUSTODY_INTERCEPT_FAIL_NTH_H

#include <stdbool.h>

/* Read what is wanted; true: a call is to fail. */
bool fail_nth_start(void);

/* Count a call; true: it is the one. */
bool fail_nth_is_due(void);

/* Child of fork. */
void fail_nth_reset(void);

#endif
