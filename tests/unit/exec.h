/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h - executable graphs of a test, made, launched and destroyed by the real wrappers. */
#ifndef CUSTODY_TESTS_EXEC_H
#define CUSTODY_TESTS_EXEC_H

#include "fake_driver.h"
#include "fake_graph.h"

#define EXEC_STREAM ((CUstream)0x5000)
#define EXEC_BLOCK UINT64_C(0x70000) /* 4 KiB of the device */

/* Pairs with fake_stop(). */
void exec_start(void);

CUgraphExec exec_make(struct fake_graph *from);
void exec_end(CUgraphExec exec);

/* Launch; the records behind that of the call itself. */
const struct fake_look *exec_launch(CUgraphExec exec);
void exec_expect_nothing(CUgraphExec exec);

/* One way of this kind, with so many copies and bytes; a look may hold others. */
const struct record *exec_expect_way(const struct fake_look *look, enum transfer_kind kind,
				     uint64_t copies, uint64_t bytes);

#endif
