#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Budgets of size.  Hard: a function of 70 lines, a file of 700, a macro
# body of 3 lines.  Said only: median above 12, 95th percentile above 45,
# a .c file above 450.  Lines are counted between the braces of a function,
# which in this layout stand alone in the first column.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}

find "$root/src" "$root/tests" "$root/examples" -name '*.[ch]' -print | LC_ALL=C sort |
xargs awk '
BEGIN { status = 0; functions = 0; warnings = 0; inside = 0; macro = 0 }

function hard(where, what) { print where ": " what; status = 1 }
function soft(where, what) { print where ": warning: " what; warnings++ }

function close_file()
{
	if (file == "")
		return
	if (lines > 700)
		hard(file, lines " lines; a file has at most 700")
	else if (lines > 450 && file ~ /\/src\/.*\.c$/)
		soft(file, lines " lines; 450 is the aim")
}

function sort_lengths(    i, j, kept)
{
	for (i = 2; i <= functions; i++) {
		kept = length_of[i]
		for (j = i - 1; j >= 1 && length_of[j] > kept; j--)
			length_of[j + 1] = length_of[j]
		length_of[j + 1] = kept
	}
}

FNR == 1 { close_file(); file = FILENAME; inside = 0; macro = 0 }
{ lines = FNR }

/^[ \t]*#[ \t]*define/ { macro = 1; macro_line = FNR }
macro {
	if (FNR - macro_line > 3 && file !~ /\/tests\//) {
		hard(file ":" macro_line, "a macro body has at most 3 lines")
		macro = 0
	}
	if ($0 !~ /\\$/)
		macro = 0
}

/^\{$/ { inside = FNR; next }
/^\}/ && inside {
	size = FNR - inside - 1
	if (size > 70)
		hard(file ":" inside, size " lines; a function has at most 70")
	if (file ~ /\/src\//)
		length_of[++functions] = size
	inside = 0
}

END {
	close_file()
	sort_lengths()
	if (functions) {
		median = length_of[int((functions + 1) / 2)]
		p95 = length_of[int(functions * 0.95) ? int(functions * 0.95) : 1]
		if (median > 12)
			soft("src", "median function " median " lines; 12 is the aim")
		if (p95 > 45)
			soft("src", "95th percentile " p95 " lines; 45 is the aim")
		printf "check-size: %d functions in src, median %d, 95th percentile %d, ", \
			functions, median, p95
		printf "longest %d lines, %d warnings\n", length_of[functions], warnings
	}
	exit status
}'
