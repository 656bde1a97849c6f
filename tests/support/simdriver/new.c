/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into new/libcuda.so.1 alone: a driver newer than we know, see the rule that links it. */
#include "sim.h"

int config_version_default = 13020;
