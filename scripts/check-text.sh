#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every source names its licence, no line ends in white space or is wider
# than 100 columns (tabs of 8), every file ends in a newline.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1
status=0

complain()
{
	echo "$*" >&2
	status=1
}

sources()
{
	find src tests scripts examples man .ci configure.ac Makefile.am \
		\( -path scripts/build-aux -o -name __pycache__ -o -name 'libtool.m4' \
		-o -name 'lt*.m4' \) -prune -o -type f -print 2>/dev/null | LC_ALL=C sort
}

check_file()
{
	local file=$1 wide trailing
	case $file in
	*.json | *.txt | *.md | *.db | *.tsv | *.csv) ;;
	*) head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
		complain "$file: no SPDX-License-Identifier in its first lines" ;;
	esac
	[ -z "$(tail -c 1 "$file")" ] || complain "$file: does not end in a newline"
	trailing=$(awk '/[ \t]$/ { printf " %d", NR }' "$file")
	[ -z "$trailing" ] || complain "$file: white space at the end of line$trailing"
	case $file in
	*.[chS] | *.py | *.sh | *.awk)
		# The further bytes of a character outside ASCII take no column.
		wide=$(expand "$file" | LC_ALL=C tr -d '\200-\277' |
			LC_ALL=C awk 'length($0) > 100 { printf " %d", NR }')
		[ -z "$wide" ] || complain "$file: wider than 100 columns in line$wide" ;;
	esac
}

count=0
while read -r file; do
	count=$((count + 1))
	check_file "$file"
done < <(sources)
[ $status -eq 0 ] && echo "check-text: $count files"
exit $status
