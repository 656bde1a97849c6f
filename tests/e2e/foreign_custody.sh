#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Stands for `custody` in end-to-end tests of a preload for another processor,
# whose programs run in an emulator.  `record` cannot watch those: an emulator
# tells them a start time that is not the kernel's, so that they look dead from
# outside.  Here a program fills its session alone and is collected when it has
# ended; every other verb goes to the real program.
#
#	foreign_custody.sh record [-q] -o TRACE [--simulate] -- PROGRAM [ARGUMENT...]
#
# FOREIGN_CUSTODY names the program of this machine, E2E_PRELOAD and E2E_SIMDRIVER
# what was built for the other.  FOREIGN_PRELOAD is the list to preload where ours
# is not to be alone: LD_PRELOAD would reach the shells between.
set -eu

say() {
	echo "$0: $*" >&2
	exit 2
}

[ "${1:-}" = record ] || exec "$FOREIGN_CUSTODY" "$@"
shift
trace=
while [ "${1:-}" != -- ]; do
	case ${1:-} in
	-q) ;;
	-o) trace=$2; shift ;;
	--simulate) export LD_LIBRARY_PATH=$E2E_SIMDRIVER ;;
	*) say "unknown option '${1:-}'" ;;
	esac
	shift
done
shift
[ -n "$trace" ] || say "a trace must be named"

session=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/custody-foreign.XXXXXX")
printf 'mode=preload\npid=%d\nexecutable=%s\noutput=%s\nfrees=%s\nchildren=%s\nbuffer=%d\n' \
	$$ "$1" "$PWD/$trace" immediate all $((256 << 20)) >"$session/session"
status=0
CUSTODY_SESSION=$session LD_PRELOAD=${FOREIGN_PRELOAD:-$E2E_PRELOAD} "$@" || status=$?
unset LD_LIBRARY_PATH
compgen -G "$session/*/control" >/dev/null || {
	rm -rf "$session" # a collector would wait for the first process
	exit $status
}
"$FOREIGN_CUSTODY" collect --foreground --session "$session"
exit $status
