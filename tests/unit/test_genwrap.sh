#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The generator of the wrappers: a row that is wrong ends it with the file and
# the line, and every awk makes the same of the rows that are right.
set -u
sources=$top_srcdir/src/intercept
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

complain()
{
	echo "$*" >&2
	failed=1
}

good='cuInit | cuInit | 2000 | - | op | after: operation(0, 0, 0, STREAM_NONE) | unsigned int Flags'

# expect_refusal REASON ROW: the row in line 3 is named, the reason given, nothing made.
expect_refusal()
{
	printf '# head\n%s\n%s\n' "$good" "$2" > "$work/bad.tbl"
	if awk -f "$sources/genwrap.awk" -v make=names "$work/bad.tbl" \
		> "$work/out" 2> "$work/message"; then
		complain "accepted: $2"
	elif [ "$(cat "$work/message")" != "$work/bad.tbl:3: $1" ]; then
		complain "'$2' was refused with: $(cat "$work/message")"
	elif [ -s "$work/out" ]; then
		complain "'$2' was refused, but something was made"
	fi
}

expect_refusal 'a row has seven columns' 'cuX | cuX | 2000'
expect_refusal 'cuInit stands in line 2 too' "$good"
expect_refusal 'not a driver symbol: cudaMalloc' 'cudaMalloc | cuda | 1 | - | count | - | void'
expect_refusal 'cuGetB does not begin with cuA' 'cuGetB | cuA | 2000 | - | count | - | void'
expect_refusal 'not a version: new' 'cuX | cuX | new | - | count | - | void'
expect_refusal 'not a variant: legacy' 'cuX | cuX | 2000 | legacy | count | - | void'
expect_refusal 'cuX_ptsz and variant - do not agree' 'cuX_ptsz | cuX | 2000 | - | count | - | void'
expect_refusal 'cuX and variant ptds do not agree' 'cuX | cuX | 2000 | ptds | count | - | void'
expect_refusal 'not a role: query' 'cuX | cuX | 2000 | - | query | - | void'
expect_refusal 'role op needs a hook' 'cuX | cuX | 2000 | - | op | - | void'
expect_refusal 'not a hook: instead: f()' 'cuX | cuX | 2000 | - | hook | instead: f() | void'
expect_refusal 'role op has no use for an around hook' \
	'cuX | cuX | 2000 | - | op | around: f() | void'
expect_refusal 'parameter without a name:  *' 'cuX | cuX | 2000 | - | count | - | int a, *'

rows=$(grep -c '^cu' "$sources/driver.tbl")
awks=0
for awk in mawk gawk original-awk 'busybox awk'; do
	# shellcheck disable=SC2086 # busybox awk is two words
	$awk 'BEGIN { exit 0 }' 2> /dev/null || continue
	awks=$((awks + 1))
	for what in wrappers nop table map names; do
		# shellcheck disable=SC2086
		$awk -f "$sources/genwrap.awk" -v make=$what "$sources/driver.tbl" \
			> "$work/$what.$awks" || complain "$awk cannot make $what"
		cmp -s "$work/$what.1" "$work/$what.$awks" || complain "$awk makes other $what"
	done
done
[ $awks -gt 0 ] || complain 'no awk was found'

for what in wrappers.1 nop.1; do
	made=$(grep -c '^EXPORT CUresult CUDAAPI cu' "$work/$what")
	[ "$made" = "$rows" ] || complain "$made of $rows rows are in $what"
done
awk -f "$sources/genwrap.awk" -v make=nothing "$sources/driver.tbl" > /dev/null 2>&1 &&
	complain 'an unknown product was made'
exit $failed
