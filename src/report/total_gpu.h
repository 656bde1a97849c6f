/* SPDX-License-Identifier: Apache-2.0 */
/*
 * total_gpu.h - sums over what devices did, as total.h has them over blocks.
 */
#ifndef CUSTODY_REPORT_TOTAL_GPU_H
#define CUSTODY_REPORT_TOTAL_GPU_H

/* Fills the empty table gpu_total of whichever schema it is found in first. */
extern const char total_gpu[];

/* The columns of the table, for a CREATE TABLE. */
extern const char total_gpu_columns[];

#endif
