/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into old/libcuda.so.1 alone: the driver of CUDA 12.4, see the rule that links it. */
#include "sim.h"

int config_version_default = 12040;
