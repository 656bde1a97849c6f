#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The part of the device list that needs no GPU: the driver API programs on the
# simulated driver, under each policy of frees; what they print against bare, their
# traces against their own journals and against the counting preload, alone and
# beneath the interposer.
set -u
[ -n "${PYTHON3:-}" ] || { echo "python3 was not found"; exit 77; }
[ -z "${SANITIZE:-}" ] || { echo "the counting preload cannot stand beside a sanitizer"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "the counting preload is written for x86-64"; exit 77; }

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2154 # the two folders are in the tests' environment
"$top_srcdir/scripts/gpu-test" --stage "$top_builddir" --simulate --policy all \
	--out "$work/out" || exit 1
# Of the library what is quick.
"$top_srcdir/scripts/gpu-library" --stage "$top_builddir" --simulate --only examples,bench --quick \
	--out "$work/library" || exit 1
# Of what wants two GPUs, what does not depend on how long their copies take.
"$top_srcdir/scripts/gpu-two" --stage "$top_builddir" --simulate --only peer,ipc --out "$work/two"
status=$?
LD_LIBRARY_PATH=$top_builddir/tests/support/simdriver/lib \
	"$top_builddir/tests/device/library_facts" || status=1
exit $status
