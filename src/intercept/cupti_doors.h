/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_doors.h - the functions of CUPTI with which a program begins to use it.
 * They are exported for programs that are linked with CUPTI, and handed out by
 * dlsym; behind both the program's own CUPTI is called.
 */
#ifndef CUSTODY_INTERCEPT_CUPTI_DOORS_H
#define CUSTODY_INTERCEPT_CUPTI_DOORS_H

#include <stdbool.h>

/* Which of them has this name; -1: none. */
int cupti_doors_find(const char *name);

/*
 * What to hand out for the real function at `address`: ours where GPU times are
 * wanted, else the real one.
 */
void *cupti_doors_replace(int which, void *address);

#endif
