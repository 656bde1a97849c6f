#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The man pages name the verbs, options and environment variables that the
# program itself names, no more and no fewer: what --help prints is compared
# with the OPTIONS of each page, what 'custody env' prints with custody-env(1).
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
build=${top_builddir:-.}
program=$build/custody
status=0
LC_ALL=C
export LC_ALL

if [ ! -x "$program" ]; then
	echo "check-man: $program is not there; run make first" >&2
	exit 1
fi

# One option a line, as -o and --output, from what --help prints.
options_of_help()
{
	"$program" "$@" --help | sed -n '/^Options:/,$p' | sed -n '
		s/^  \(-[A-Za-z]\), \(--[a-z-]*\).*/\1\n\2/p
		s/^  \(--[a-z-]*\).*/\1/p' | sort
}

# The same from the OPTIONS section of a page.
options_of_page()
{
	sed -n '/^\.Sh OPTIONS/,/^\.Sh [^O]/p' "$1" | grep '^\.It ' |
		grep -oE 'Fl (-[a-z][a-z-]*|[A-Za-z])' | sed 's/Fl /-/' | sort
}

verbs_of_help()
{
	"$program" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort
}

# compare WHAT PROGRAM-SAYS PAGE-SAYS
compare()
{
	local difference
	difference=$(diff <(echo "$2") <(echo "$3") | grep '^[<>]')
	[ -z "$difference" ] && return
	echo "check-man: $1: the program (<) and the page (>) differ:" >&2
	echo "$difference" >&2
	status=1
}

common=$(options_of_page "$root/man/custody.1")
verbs=$(verbs_of_help)
[ -n "$verbs" ] || { echo "check-man: --help lists no verbs" >&2; exit 1; }
compare "the verbs of custody.1" "$verbs" \
	"$(sed -n 's/^\.It Cm \([a-z]*\)$/\1/p' "$root/man/custody.1" | sort)"
for verb in $verbs; do
	page=$root/man/custody-$verb.1
	if [ ! -f "$page" ]; then
		echo "check-man: $verb has no page" >&2
		status=1
		continue
	fi
	compare "the options of custody-$verb.1" "$(options_of_help "$verb")" \
		"$({ echo "$common"; options_of_page "$page"; } | sort -u)"
done
compare "the variables of custody-env.1" \
	"$("$program" env | grep -oE '\bCUSTODY_[A-Z_]+' | sort -u)" \
	"$(grep -oE '\bCUSTODY_[A-Z_]+' "$root/man/custody-env.1" | sort -u)"

if command -v mandoc >/dev/null; then
	mandoc -T lint -W warning "$root"/man/*.[137] >&2 || status=1
fi
[ $status -eq 0 ] && echo "check-man: $(echo "$verbs" | grep -c .) verbs keep to their pages"
exit $status
