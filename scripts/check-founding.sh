#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What docs/founding.tbl and docs/reports.tbl name is there: functions in
# libcustody.map, tests in tests/, programs in examples/; every row has tests or says
# why not; libcustody(3) names every function, and none that is not exported.  Then
# that a hole is noticed: each kind of line is spoilt once.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
LC_ALL=C
export LC_ALL top_srcdir=$root
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# What can be named, a line each.
sed -n 's/^[[:space:]]*\(custody_[a-z0-9_]*\);/\1/p' "$root/src/library/libcustody.map" |
	sort -u >"$scratch/functions"
{
	cat "$root"/tests/*/*.c "$root"/tests/support/simdriver/*.c |
		sed -n 's/^START_TEST(\([a-zA-Z0-9_]*\)).*/\1/p'
	cat "$root"/tests/*/*.sh | sed -n 's/^\(it_[A-Za-z0-9_]*\)() *{.*/\1/p'
	(cd "$root" && printf '%s\n' examples/*.c examples/*.py)
} | sort -u >"$scratch/tests"

# names FIELD TABLE: the names in a column, a line each; none of a column of words.
names() {
	awk -F'|' -v field="$1" '!/^#/ && NF == 4 && $field !~ /^[ \t]*-/ {
		count = split($field, list, /[ \t]+/)
		for (i = 1; i <= count; i++)
			if (list[i] != "")
				print list[i]
	}' "$2" | sort -u
}

# missing WHAT NAMES FILE: complains of each name that is not a line of FILE.
missing() {
	local name found=0
	while read -r name; do
		[ -n "$name" ] || continue
		echo "check-founding: $1 $name is not there" >&2
		found=1
	done < <(comm -23 <(echo "$2") "$3")
	return $found
}

# Rows that name functions, or reports, and no test.
untested() { # TABLE KIND
	local found
	found=$(awk -F'|' -v kind="$2" '!/^#/ && NF == 4 {
		if ($4 ~ /^[ \t]*$/ && (kind == "reports" || $3 !~ /^[ \t]*-/))
			printf "check-founding: no test in the row %s|%s\n", $1, $2
	}' "$1")
	[ -z "$found" ] || echo "$found" >&2
	[ -z "$found" ]
}

check_tables() { # FOUNDING REPORTS
	local status=0
	missing function "$(names 3 "$1")" "$scratch/functions" || status=1
	missing test "$({ names 4 "$1"; names 4 "$2"; } | sort -u)" "$scratch/tests" || status=1
	untested "$1" founding || status=1
	untested "$2" reports || status=1
	return $status
}

# What headers declare is for users; what else is exported is between our own parts.
check_page() { # PAGE
	local status=0
	grep -oE 'Fn custody_[a-z0-9_]+' "$1" | sed 's/Fn //' | sort -u >"$scratch/named"
	grep -ohE '\bcustody_[a-z0-9_]+\(' "$root"/include/custody/*.h | tr -d '(' | sort -u |
		comm -12 - "$scratch/functions" >"$scratch/declared"
	missing "in libcustody(3):" "$(cat "$scratch/declared")" "$scratch/named" || status=1
	missing "in the library, of libcustody(3):" "$(cat "$scratch/named")" \
		"$scratch/functions" || status=1
	return $status
}

# spoil WHAT TABLE SED-SCRIPT SAID: with TABLE changed so, SAID is complained of.
spoil() {
	local founding=$root/docs/founding.tbl reports=$root/docs/reports.tbl
	sed "$3" "${!2}" >"$scratch/$2.tbl"
	printf -v "$2" %s "$scratch/$2.tbl"
	check_tables "$founding" "$reports" 2>"$scratch/said" && {
		echo "check-founding: $1 goes unnoticed" >&2
		status=1
	}
	grep -q -- "$4" "$scratch/said" || {
		echo "check-founding: $1 is not told as '$4'" >&2
		status=1
	}
}

status=0
bash "$root/scripts/founding" --check || status=1
check_tables "$root/docs/founding.tbl" "$root/docs/reports.tbl" || status=1
check_page "$root/man/libcustody.3" || status=1
spoil 'a function that is not there' founding \
	's/| custody_array_ravel |/| custody_array_flat |/' \
	'function custody_array_flat is not there'
spoil 'a test that is not there' founding \
	'/^memory | cuda.defer_cleanup() /s/|[^|]*$/| nobody_tests/' \
	'test nobody_tests is not there'
spoil 'a row without a test' founding '/^memory | cuda.defer_cleanup() /s/[^|]*$//' \
	'no test in the row memory | cuda.defer_cleanup() '
spoil 'a report without a test' reports '/^16 /s/[^|]*$//' 'no test in the row 16 '
[ $status -eq 0 ] && echo "check-founding: $(grep -c '^[a-z]' "$root/docs/founding.tbl") items," \
	"$(grep -c '^[0-9]' "$root/docs/reports.tbl") reports," \
	"$(wc -l <"$scratch/functions") functions"
exit $status
