#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# DLPack with NumPy, where there is a Python that has it; CUSTODY_TEST_PYTHON names one.
set -u

library=$top_builddir/.libs/libcustody.so
python=${CUSTODY_TEST_PYTHON:-${PYTHON3:-python3}}

if ! "$python" -c 'import numpy; assert hasattr(numpy, "from_dlpack")' 2>/dev/null; then
	echo 'test_numpy: no Python here that has NumPy' >&2
	exit 77
fi
# A sanitizer wants to be in the program, which is Python here.
if [ -n "${SANITIZE:-}" ]; then
	echo 'test_numpy: built with a sanitizer' >&2
	exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
export CUSTODY_LIBRARY=$library
LD_LIBRARY_PATH=$top_builddir/tests/support/simdriver/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	exec "$python" "$top_srcdir/tests/library/dlpack_numpy.py"
