#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# libcustody without a driver, with one that is no driver, with one that comes late,
# with an older one; and the versions of libraries that it loads for the question.
set -u

failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
lone=$top_builddir/tests/library/lone
simulated=$top_builddir/tests/support/simdriver

fail() {
	printf '%s\n' "test_driver: $*" >&2
	failed=1
}

run() { # DIRECTORY WORD...: what the program says, with its libraries looked for there first
	local directory=$1
	shift
	LD_LIBRARY_PATH=$directory "$lone" "$@" >"$work/said" 2>"$work/errors" ||
		fail "$* ended with $?: $(cat "$work/errors")"
}

expect() { # LINE
	grep -qxF -- "$1" "$work/said" || fail "expected '$1', but it said: $(cat "$work/said")"
}

expect_like() { # PATTERN
	grep -qE -- "$1" "$work/said" || fail "expected like '$1', but it said: $(cat "$work/said")"
}

# A file that is no library keeps the loader from a driver that this machine may have.
mkdir "$work/none"
echo 'no library' >"$work/none/libcuda.so.1"
run "$work/none" without
expect 'available 0'
expect_like '^why there is no CUDA driver: .*libcuda\.so\.1'
for word in count device context synchronize limits driver detect; do
	expect "$word CUSTODY_E_NO_DRIVER"
done
expect 'shutdown CUSTODY_OK'
expect 'function 0'
expect 'supported 0'
expect_like '^version [0-9]+\.[0-9]+\.[0-9]+$'

run "$work/none" later "$simulated/lib/libcuda.so.1" "$work/none/libcuda.so.1"
expect 'before 0'
expect 'after 1'

# One that has the name and nothing else.
mkdir "$work/empty"
echo 'int nothing;' >"$work/empty.c"
# shellcheck disable=SC2086
$CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/empty/libcuda.so.1" "$work/empty.c" ||
	fail 'no empty library could be made'
run "$work/empty" without
expect 'available 0'
expect_like '^why .'
expect 'count CUSTODY_E_NO_DRIVER'

# A driver of CUDA 12.4 lacks newer functions; nothing that is needed is among them.
run "$simulated/old" versions
expect 'driver 12.4'
expect 'supported 1'
run "$simulated/old" devices
expect 'detect CUSTODY_OK'
expect 'supported 1'

SIMCUDA_VERSION=11080 run "$simulated/lib" versions
expect 'driver 11.8'
expect 'supported 0'

SIMCUDA_DEVICES=2 run "$simulated/lib" devices
expect_like '^2 CUDA devices were found$'
expect_like '^device 1 .*\[SUPPORTED\]$'
expect_like 'UUID +GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
expect_like 'compute capability +[0-9]+\.[0-9]+$'
expect '2 of 2 supported'

# The CUDA runtime and NVRTC, as far as they are asked.
mkdir "$work/toolkit"
cat >"$work/runtime.c" <<'C'
int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version)
{
	*version = 12080;
	return 0;
}
C
cat >"$work/nvrtc.c" <<'C'
int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 1;
	return 0;
}
C
cp "$simulated/lib/libcuda.so.1" "$work/toolkit/"
# Under the names that are looked for first, so that this machine's own do not matter.
# shellcheck disable=SC2086
$CC -shared -fPIC -o "$work/toolkit/libcudart.so.13" "$work/runtime.c" &&
	$CC -shared -fPIC -o "$work/toolkit/libnvrtc.so.13" "$work/nvrtc.c" ||
	fail 'no toolkit could be made'
run "$work/toolkit" versions
expect 'runtime 12.8'
expect 'nvrtc 13.1'
expect 'loaded 0'

exit $failed
