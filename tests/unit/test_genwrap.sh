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
expect_refusal 'role time has no use for an around hook' \
	'cuX | cuX | 2000 | - | time | around: f() | void'
expect_refusal 'role op has no use for a defer hook' \
	'cuX | cuX | 2000 | - | op | defer: f() | void'
expect_refusal 'role time has no use for a guard' 'cuX | cuX | 2000 | - | time | guard: f() | void'
expect_refusal 'role op has no use for room' \
	'cuX | cuX | 2000 | - | op | room: f(); after: f() | void'
expect_refusal 'what is done ahead of the driver must not be refused behind it' \
	'cuX | cuX | 2000 | - | hook | room: f(); around: f() | void'
expect_refusal 'out of place: room: f()' \
	'cuX | cuX | 2000 | - | hook | retry; room: f(); after: f() | void'
expect_refusal 'role count has no use for sync' 'cuX | cuX | 2000 | - | count | sync | void'
expect_refusal 'role op needs a hook' 'cuX | cuX | 2000 | - | op | retry; sync | void'
expect_refusal 'not a hook: weigh: memory' 'cuX | cuX | 2000 | - | count | weigh: memory | void'
expect_refusal 'not a hook: weigh: context(p)' \
	'cuX | cuX | 2000 | - | hook | weigh: context(p); after: f() | void *p'
expect_refusal 'not a parameter: q' 'cuX | cuX | 2000 | - | time | weigh: code(q) | void *p, int qq'
expect_refusal 'out of place: weigh: code' \
	'cuX | cuX | 2000 | - | op | retry; weigh: code; after: f() | void'
expect_refusal 'out of place: retry' 'cuX | cuX | 2000 | - | op | sync; retry; after: f() | void'
expect_refusal 'out of place: sync' 'cuX | cuX | 2000 | - | op | sync; sync; after: f() | void'
expect_refusal 'not a hook: again' 'cuX | cuX | 2000 | - | op | again; after: f() | void'
expect_refusal 'not a hook: swap: ADDR(p)' 'cuX | cuX | 2000 | - | count | swap: ADDR(p) | void *p'
expect_refusal 'not a parameter: q' 'cuX | cuX | 2000 | - | count | swap: q | void *p, int qq'
expect_refusal 'what is done ahead of the driver cannot be tried again' \
	'cuX | cuX | 2000 | - | hook | retry; defer: f() | void'
expect_refusal 'parameter without a name:  *' 'cuX | cuX | 2000 | - | count | - | int a, *'

# expect_body ROW: behind the beginning of a call the row's wrapper holds what is on standard input.
expect_body()
{
	printf '%s\n' "$1" > "$work/good.tbl"
	awk -f "$sources/genwrap.awk" -v make=wrappers "$work/good.tbl" |
		sed '1,/^\t\treturn REAL(driver/d; /^}/,$d' > "$work/out"
	diff - "$work/out" > "$work/message" || complain "'$1' makes: $(cat "$work/message")"
}

expect_body "cuX | cuX | 1 | - | op | swap: p; guard: a(p); retry; sync; after: c(p) | \
int pp, void *p" << 'END'
	if (guard_is_needed() && hook_a(&call, p)) {
		call_returned(&call, CUDA_ERROR_INVALID_VALUE);
		hook_c(&call, p);
		return guard_end(&call);
	}
	do {
		call_returned(&call, REAL(next, cuX)(pp, guard_swap(p)));
		oom_mark(&call);
		hook_c(&call, p);
	} while (oom_retry(&call));
	deferral_synchronized(&call);
	reading_quiet(&call);
	reading_out_of_memory(&call);
	return call_end(&call);
END
expect_body 'cuX | cuX | 1 | - | hook | defer: a_b(p, STREAM_NONE) | void *p' << 'END'
	if (deferral_is_on() && hook_a_b_defer(&call, p, STREAM_NONE))
		return call_end(&call);
	call.is_forwarded = deferral_forward();
	hook_a_b_before(&call, p, STREAM_NONE);
	call_returned(&call, REAL(next, cuX)(p));
	hook_a_b_after(&call, p, STREAM_NONE);
	deferral_returned(call.is_forwarded);
	return call_end(&call);
END
expect_body "cuX_ptsz | cuX | 1 | ptsz | hook | room: a(STREAM(s)); retry; after: b() | \
CUstream s" << 'END'
	do {
		if (!room_is_watched()) {
			call_returned(&call, REAL(next, cuX_ptsz)(s));
		} else if (hook_a(&call, STREAM_OF_THREAD(s))) {
			call_returned(&call, REAL(next, cuX_ptsz)(s));
			hook_room_leave(&call);
		}
		oom_mark(&call);
		hook_b(&call);
	} while (oom_retry(&call));
	reading_out_of_memory(&call);
	return call_end(&call);
END
expect_body 'cuX_ptsz | cuX | 1 | ptsz | op | around: f(STREAM(s)) | CUstream s' << 'END'
	hook_f_before(&call, STREAM_OF_THREAD(s));
	call_returned(&call, REAL(next, cuX_ptsz)(s));
	hook_f_after(&call, STREAM_OF_THREAD(s));
	return call_end(&call);
END
expect_body 'cuX | cuX | 1 | - | time | retry | void' << 'END'
	do {
		call_returned_timed(&call, REAL(next, cuX)());
		oom_mark(&call);
	} while (oom_retry_timed(&call));
	return call_end_timed(&call, 0);
END
expect_body 'cuX | cuX | 1 | - | time | weigh: code(f); retry | void *f' << 'END'
	reading_before_first(&call, WEIGHED_CODE, ADDR(f));
	do {
		call_returned_timed(&call, REAL(next, cuX)(f));
		oom_mark(&call);
	} while (oom_retry_timed(&call));
	call_count_timed(&call, 0);
	reading_after(&call);
	return call_close(&call);
END
expect_body 'cuX | cuX | 1 | - | count | weigh: graph; around: f(p) | int *p' << 'END'
	reading_before(&call, WEIGHED_GRAPH);
	hook_f_before(&call, p);
	call_returned_counted(&call, REAL(next, cuX)(p));
	hook_f_after(&call, p);
	call_count_counted(&call, 0);
	reading_after(&call);
	return call_close(&call);
END
expect_body "cuX | cuX | 1 | - | hook | guard: a(p); weigh: code; defer: module_b(p) | \
void *p" << 'END'
	if (guard_is_needed() && hook_a(&call, p)) {
		call_returned(&call, CUDA_ERROR_INVALID_VALUE);
		hook_module_b_after(&call, p);
		return guard_end(&call);
	}
	if (deferral_is_on() && hook_module_b_defer(&call, p))
		return call_end(&call);
	call.is_forwarded = deferral_forward();
	reading_before(&call, WEIGHED_CODE);
	hook_module_b_before(&call, p);
	call_returned(&call, REAL(next, cuX)(p));
	hook_module_b_after(&call, p);
	deferral_returned(call.is_forwarded);
	reading_after(&call);
	reading_quiet(&call);
	return call_end(&call);
END
expect_body "cuX | cuX | 1 | - | hook | weigh: context; retry; after: memory_f(p) | \
void *p" << 'END'
	reading_before(&call, WEIGHED_CONTEXT);
	do {
		call_returned(&call, REAL(next, cuX)(p));
		oom_mark(&call);
		hook_memory_f(&call, p);
	} while (oom_retry(&call));
	reading_after(&call);
	reading_quiet(&call);
	reading_out_of_memory(&call);
	return call_end(&call);
END
expect_body 'cuX | cuX | 1 | - | count | around: f(p) | int *p' << 'END'
	hook_f_before(&call, p);
	call_returned_counted(&call, REAL(next, cuX)(p));
	hook_f_after(&call, p);
	return call_end_counted(&call, 0);
END
expect_body 'cuX | cuX | 1 | - | count | swap: p | void *p, int q' << 'END'
	call_returned_counted(&call, REAL(next, cuX)(guard_swap(p), q));
	return call_end_counted(&call, 0);
END

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
