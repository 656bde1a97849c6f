#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The benches run, on the simulated driver and on the empty one, with few calls:
# every variant comes to its end, its figures can be read, no record is lost.
set -u
[ -n "${PYTHON3:-}" ] || { echo "python3 was not found"; exit 77; }
[ -z "${SANITIZE:-}" ] || { echo "nothing is measured under a sanitizer"; exit 77; }

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2154 # the two folders are in the tests' environment
"$top_srcdir/scripts/gpu-bench" --stage "$top_builddir" --only start,calls --quick \
	--out "$work" || exit 1
for variant in bare nop record; do
	grep -q "\"${variant}_ns\"" "$work/gpu-bench.json" && continue
	echo "no figures of $variant"
	exit 1
done
"$top_srcdir/scripts/gpu-bench" --stage "$top_builddir" --only free,gap,wait --quick \
	--out "$work/frees" || exit 1
for variant in bare immediate deferred nowait; do
	grep -q "^| $variant |" "$work/frees/gpu-bench.md" && continue
	echo "no figures of $variant"
	exit 1
done
"$top_srcdir/scripts/gpu-bench" --stage "$top_builddir" --only resources --quick \
	--out "$work/resources" || exit 1
for resource in cuMemAlloc 'custody device' 'custody pool' 'custody pinned' 'custody pinned pool' \
	'custody managed' 'custody managed pool' 'custody virtual'; do
	[ "$(grep -c "^| $resource |.*|.*[0-9] (" "$work/resources/gpu-bench.md")" = 2 ] && continue
	echo "no figures of $resource"
	exit 1
done
grep -q '"lost_records": 0' "$work/gpu-bench.json" || { echo "records were lost"; exit 1; }
