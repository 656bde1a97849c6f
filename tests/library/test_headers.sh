#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each public header compiles alone, as C99 and as C++, without a warning.
set -u

failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

compile() { # LANGUAGE STANDARD COMPILER HEADER
	local language=$1 standard=$2 compiler=$3 header=$4
	printf '#include <custody/%s>\n' "$header" "$header" >"$work/one.$language"
	# The headers of CUDA are the system's, whatever they say.
	if ! $compiler -std="$standard" -pedantic -Wall -Wextra -Werror -fsyntax-only \
		-I"$top_srcdir/include" -isystem "$CUDA_INCLUDE_DIR" "$work/one.$language"; then
		echo "custody/$header does not compile alone as $standard" >&2
		failed=1
	fi
}

first_word() {
	printf '%s\n' "$1"
}

cxx=${CXX:-}
if [ -z "$cxx" ]; then
	case $(first_word $CC) in
	*clang*) cxx=clang++ ;;
	*) cxx=g++ ;;
	esac
fi
command -v "$cxx" >/dev/null || cxx=

count=0
for path in "$top_srcdir"/include/custody/*.h; do
	header=${path##*/}
	count=$((count + 1))
	compile c c99 "$CC" "$header"
	compile c gnu17 "$CC" "$header"
	if [ -n "$cxx" ]; then
		compile cc c++11 "$cxx" "$header"
		compile cc c++20 "$cxx" "$header"
	fi
	grep -q "include <custody/$header>" "$top_srcdir/include/custody/custody.h" ||
		[ "$header" = custody.h ] ||
		{ echo "custody/custody.h lacks $header" >&2; failed=1; }
done

if [ "$count" -lt 10 ]; then
	echo "only $count headers were found" >&2
	failed=1
fi
[ -n "$cxx" ] || echo "no C++ compiler was found: headers were tried as C alone"
exit $failed
