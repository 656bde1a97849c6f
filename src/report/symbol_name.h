/* SPDX-License-Identifier: Apache-2.0 */
/* symbol_name.h - C++ names, made short enough to be read in a table. */
#ifndef CUSTODY_REPORT_SYMBOL_NAME_H
#define CUSTODY_REPORT_SYMBOL_NAME_H

/*
 * "void at::fill<float>(at::Tensor&, float)" becomes "at::fill": no type of the
 * result, no template arguments, no parameters.  A copy, which the caller frees.
 */
char *symbol_name_shorten(const char *name);

#endif
