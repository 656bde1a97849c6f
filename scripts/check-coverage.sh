#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/coverage.md is what the tables say, and they leave nothing out: every
# export is wrapped or passed through with a reason, every function that holds
# or moves memory means something.  Then that a hole is noticed: each line of
# this kind is taken out or spoilt once.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
export top_srcdir=$root
bash "$root/scripts/coverage" --check || exit 1

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
status=0

# spoil WHAT FILE SED-SCRIPT SAID: with FILE changed so, SAID is complained of.
spoil()
{
	local words=$root/scripts/coverage.tbl table=$root/src/intercept/driver.tbl
	local exports=$root/tests/support/simdriver/exports.tbl
	sed "$3" "${!2}" >"$scratch/$2"
	printf -v "$2" %s "$scratch/$2"
	LC_ALL=C awk -f "$root/scripts/coverage.awk" "$words" "$table" "$exports" \
		>/dev/null 2>"$scratch/said" && {
		echo "check-coverage: $1 goes unnoticed" >&2
		status=1
	}
	grep -q -- "$4" "$scratch/said" || {
		echo "check-coverage: $1 is not told as '$4' but: $(cat "$scratch/said")" >&2
		status=1
	}
}

spoil 'a new export' exports '$a cuNewThing | cuNewThing | 13010 | - | - | - | void' \
	'cuNewThing is exported by the driver and neither'
spoil 'a row of no export' exports '/^cuMemAlloc_v2 /d' 'cuMemAlloc_v2 is wrapped, but'
spoil 'a row taken out' table '/^cuLaunchKernel_ptsz /d' 'cuLaunchKernel_ptsz is exported'
spoil 'a function that means nothing any more' table \
	's/^\(cuMemPoolTrimTo .*\)| op | [^|]*|/\1| count | - |/' 'cuMemPoolTrimTo holds or moves'
spoil 'a reason taken out' words '/^left | cuOccupancy/d' 'cuOccupancyMax'
spoil 'a hook without words' words '/^means | vmm_map /d' 'nothing is said about the hook vmm_map'
[ $status -eq 0 ] && echo "check-coverage: docs/coverage.md is up to date"
exit $status
