#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the interposer shows to the process it is loaded into: exactly the
# symbols of driver.tbl, the two look-up functions, dlopen, those that NVTX, our late
# library and libcustody ask for and those by which a program begins to use CUPTI; no
# versions, nothing needed but libc's own, and no driver function wanted from elsewhere.
# Of what the driver loads late: the one symbol.  Of libcustody: what its map says, and
# little static TLS, since programs load it late.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
build=${top_builddir:-.}
library=$build/.libs/libcustody-preload.so
status=0

if [ -n "${SANITIZE:-}" ]; then
	echo "check-exports: a sanitizer adds symbols and libraries of its own; skipped"
	exit 77
fi
if [ ! -f "$library" ]; then
	echo "check-exports: $library is not there; run make first" >&2
	exit 1
fi

complain()
{
	echo "check-exports: $*" >&2
	status=1
}

table_symbols()
{
	awk -F'|' '!/^[[:space:]]*(#|$)/ { gsub(/[[:space:]]/, "", $1); print $1 }' \
		"$root/src/intercept/driver.tbl"
}

LC_ALL=C
export LC_ALL
own_symbols=(dlopen dlsym dlvsym InitializeInjectionNvtx2 custody_engine custody_injected
	cuptiActivityRegisterCallbacks cuptiSubscribe cuptiSubscribe_v2)
difference=$(diff <({ table_symbols; printf "%s\n" "${own_symbols[@]}"; } | sort) \
	<(nm -D --defined-only "$library" | awk '{ print $3 }' | sort))
[ -z "$difference" ] ||
	complain "exports (>) differ from driver.tbl (<):" $'\n'"$(grep '^[<>]' <<<"$difference")"

for needed in $(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $needed in
	libc.so.6 | ld-linux-*.so.* | libdl.so.2 | libpthread.so.0) ;;
	*) complain "$needed is NEEDED; only libc's own may be" ;;
	esac
done

undefined=$(nm -Du "$library" | awk '{ print $2 }' | grep -E '^cu[A-Z]')
[ -z "$undefined" ] || complain "undefined driver functions:" $undefined

# A named version node would switch the dlsym hook off without a word.
readelf -VW "$library" | grep -q 'Version definition section' &&
	complain "the library defines symbol versions; the version script must be anonymous"

# Its own exported dlsym answers a call by that name: the real one is found
# by an ELF walk.
calls=$(grep -nE '(^|[^_[:alnum:].*"])dlv?sym[[:space:]]*\(' \
	"$root"/src/intercept/*.c "$root"/src/core/*.c | grep -vE ':[[:space:]]*(/\*|\*)')
[ -z "$calls" ] || complain "direct call of dlsym or dlvsym:" $'\n'"$calls"

late=$build/.libs/libcustody-inject.so
exported=$(nm -D --defined-only "$late" | awk '{ print $3 }')
[ "$exported" = InitializeInjection ] || complain "libcustody-inject.so exports" $exported
readelf -lW "$late" | grep -q ' TLS ' &&
	complain "libcustody-inject.so has TLS; a program may have no room for it so late"
for needed in $(readelf -dW "$late" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $needed in
	libc.so.6 | ld-linux-*.so.*) ;;
	*) complain "libcustody-inject.so needs $needed; only libc may be" ;;
	esac
done

linked=$build/.libs/libcustody.so
map=$root/src/library/libcustody.map
difference=$(diff <(sed -n 's/^\t\([a-z0-9_]*\);$/\1/p' "$map" | sort) \
	<(nm -D --defined-only "$linked" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort))
[ -z "$difference" ] ||
	complain "exports (>) differ from libcustody.map (<):" \
		$'\n'"$(grep '^[<>]' <<<"$difference")"
foreign=$(nm -D --defined-only "$linked" | awk '{ print $3 }' | grep -vE '^(custody_|CUSTODY_)')
[ -z "$foreign" ] || complain "libcustody.so exports" $foreign
undefined=$(nm -Du "$linked" | awk '{ print $2 }' | grep -E '^cu[A-Z]')
[ -z "$undefined" ] || complain "libcustody.so wants driver functions:" $undefined
for needed in $(readelf -dW "$linked" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $needed in
	libc.so.6 | ld-linux-*.so.* | libdl.so.2 | libpthread.so.0 | libm.so.6) ;;
	*) complain "libcustody.so needs $needed; only libc's own may be" ;;
	esac
done
tls=$((16#$(readelf -lW "$linked" | awk '$1 == "TLS" { print substr($6, 3) }')))
[ $tls -le 800 ] || complain "libcustody.so has $tls bytes of static TLS; 800 are the most"
readelf -dW "$linked" | grep -q NODELETE ||
	complain "libcustody.so can be unloaded, while threads have still to end in it"

[ $status -eq 0 ] &&
	echo "check-exports: $(table_symbols | grep -c .) driver symbols, ${own_symbols[*]}"
exit $status
