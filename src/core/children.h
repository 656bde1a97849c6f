/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children.h - CUSTODY_CHILDREN: whether this process is to be recorded.
 */
#ifndef CUSTODY_CORE_CHILDREN_H
#define CUSTODY_CORE_CHILDREN_H

#include <stdbool.h>

/*
 * With `none`, `record` names the one process in CUSTODY_ROOT.  A program that was
 * started with nothing but the preload is the one if its parent does not run
 * under the same preload.  `is_forked`: this image was recorded, or asked, before
 * it forked us.
 */
bool children_allow(bool is_forked);

#endif
