#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The part of the device list that needs no GPU: the driver API program on the
# simulated driver, its trace against its own journal and against the counting
# preload, alone and beneath the interposer.
set -u
[ -n "${PYTHON3:-}" ] || { echo "python3 was not found"; exit 77; }
[ -z "${SANITIZE:-}" ] || { echo "the counting preload cannot stand beside a sanitizer"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "the counting preload is written for x86-64"; exit 77; }

# shellcheck disable=SC2154 # the two folders are in the tests' environment
sim=$top_builddir/tests/support/simdriver/lib
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/stage/bin" "$work/stage/device"
# shellcheck disable=SC2154
${CC:-cc} -std=gnu11 -O1 -Wall -Wextra -Werror -I"$CUDA_INCLUDE_DIR" \
	"$top_srcdir/tests/device/driver_kinds.c" -o "$work/stage/device/driver_kinds" -pthread \
	-L"$sim" -l:libcuda.so.1 || exit 1
ln -s "$top_builddir/custody" "$work/stage/bin/custody"
ln -s "$top_builddir/tests" "$work/stage/tests"
"$top_srcdir/scripts/gpu-test" --stage "$work/stage" --simulate --only driver --out "$work/out"
