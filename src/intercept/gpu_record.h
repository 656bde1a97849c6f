/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_record.h - CUPTI's buffers, and the records made of what they hold.
 */
#ifndef CUSTODY_INTERCEPT_GPU_RECORD_H
#define CUSTODY_INTERCEPT_GPU_RECORD_H

#include "intercept/cupti.h"

/* Before CUPTI is given the two below.  False: there is no memory. */
bool gpu_record_start(const struct cupti *cupti);

void gpu_record_request(uint8_t **buffer, size_t *bytes, size_t *records);
void gpu_record_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			 size_t valid);

/* Nothing more comes: write down what waits for its call. */
void gpu_record_finish(void);

/* Why GPU times end, or "": they begin.  During a call of the program, or between two. */
void gpu_record_say(const char *why);

/* Child of fork: no buffer is its own. */
void gpu_record_reset(void);

#endif
