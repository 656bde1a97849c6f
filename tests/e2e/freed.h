/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed.h - what the parts of the client `freed` share.
 */
#ifndef CUSTODY_TESTS_E2E_FREED_H
#define CUSTODY_TESTS_E2E_FREED_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>

/* What a block that is pending is asked about as; the interposer has the same number. */
#define FREED_NOBODY ((CUdeviceptr)0x100)

struct freed {
	CUdeviceptr address; /* freed */
	CUdeviceptr alive;
	void *pinned; /* page-locked, alive */
	void *host;   /* pageable */
	CUcontext context;
	CUstream stream;
};

extern struct freed freed;

/* One line. */
void tell(const char *question, CUresult answer);

/* Ends the client unless the call succeeded. */
void need(CUresult result, const char *what);

/* A graph to be changed, made while nothing was freed yet: that may take a freed address. */
void make_graph(void);

void ask_copy(CUdeviceptr address);
void ask_nothing(CUdeviceptr address);
void ask_unified(CUdeviceptr address);
void ask_box(CUdeviceptr address);
void ask_batch(CUdeviceptr address);
void ask_fill(CUdeviceptr address);
void ask_wait(CUdeviceptr address);
void ask_graph(CUdeviceptr address);
void ask_capture(CUdeviceptr address);
void ask_node(CUdeviceptr address);
void ask_list(CUdeviceptr address);
void ask_captured(CUdeviceptr address);

#endif
