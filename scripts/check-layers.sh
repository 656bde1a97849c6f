#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The layer rule, read off the include lines: core includes only core,
# intercept, library and report include core and themselves, nobody includes
# intercept, library or report.  A quoted include carries its directory, so that
# the rule can be seen in review and here.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
status=0

complain()
{
	echo "$1:$2: $3" >&2
	status=1
}

# check_include ROOM FILE LINE HEADER
check_include()
{
	case $4 in
	'"config.h"' | '"core/'*) ;;
	'<custody/'*)
		[ "$1" = library ] || complain "$2" "$3" "$1 may not know $4" ;;
	"\"$1/"*) ;;
	'"'*/*) complain "$2" "$3" "$1 may not include $4" ;;
	'"'*) complain "$2" "$3" "$4 does not carry its directory" ;;
	'<sqlite3.h>' | '<jansson.h>')
		[ "$1" = report ] || complain "$2" "$3" "$1 may not know $4" ;;
	esac
}

for room in core intercept library report; do
	while IFS=: read -r file line text; do
		header=${text#*include}
		header=${header//[[:space:]]/}
		check_include "$room" "$file" "$line" "${header%%/\**}"
	done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.[chS]' \
		"$root/src/$room")
done
[ $status -eq 0 ] && echo "check-layers: every include obeys the layer rule"
exit $status
