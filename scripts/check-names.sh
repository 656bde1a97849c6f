#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A name tells its file: every global symbol of x.o is x, begins with x_ or
# custody_, or is an export of the interposer.  The generated wrappers are
# NVIDIA's names by design and are left to check-exports.sh, and so is the entry
# of the injection library; cupti_nop stands in for other files.  In the library a name
# tells its noun, which may have several files: library_call.c has library_enter().
set -u
build=${top_builddir:-.}
map=$build/src/intercept/preload.map
status=0
declare -A entry=([main]=main [inject]=InitializeInjection)

exported()
{
	[ -f "$map" ] && grep -qE "^[[:space:]]*$1;" "$map"
}

check_object()
{
	local object=$1 file symbol
	file=$(basename "$object" .o)
	file=${file##*-}
	case $file in wrappers | wrappers_nop | cupti_nop) return ;; esac
	case $object in */src/library/*) file=${file%%_*} ;; esac
	while read -r _ _ symbol; do
		case $symbol in
		"$file" | "${file}_"* | custody_* | __* | .*) ;;
		main | InitializeInjection) [ "$symbol" = "${entry[$file]-}" ] ||
			complain "$object" "$symbol" ;;
		*) exported "$symbol" || complain "$object" "$symbol" ;;
		esac
	done < <(nm -g --defined-only "$object" | grep ' [A-Z] ')
}

complain()
{
	echo "$1: global symbol $2 does not begin with the name of its file" >&2
	status=1
}

found=0
for room in core intercept library report; do
	for object in "$build/src/$room"/.libs/*.o "$build/src/$room"/*.o; do
		[ -f "$object" ] || continue
		found=$((found + 1))
		check_object "$object"
	done
done
if [ $found -eq 0 ]; then
	echo "check-names: no object files in $build/src; run make first" >&2
	exit 1
fi
[ $status -eq 0 ] && echo "check-names: $found objects keep the naming rule"
exit $status
