/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_sample.h - how much of each GPU is free, sampled beside the collector, so
 * that it is known from just before the first context of a program what other
 * processes have.  A thread asks, because nobody knows how long NVML takes to start;
 * the collector takes what has been sampled when it looks at its records anyway.
 */
#ifndef CUSTODY_REPORT_COLLECT_SAMPLE_H
#define CUSTODY_REPORT_COLLECT_SAMPLE_H

#include "report/ingest.h"

struct collect_sampler;

/* NULL before collect_sample_start(). */
void collect_sample_start(struct collect_sampler **sampler);

/*
 * Hand what was sampled to `ingest`.  Often: there is a process that uses CUDA and has
 * no context yet; else samples are taken seldom.
 */
void collect_sample_take(struct collect_sampler *sampler, struct ingest *ingest, bool often);

/* Ends the thread, or, where NVML does not answer, leaves it to the end of the process. */
void collect_sample_stop(struct collect_sampler **sampler);

#endif
