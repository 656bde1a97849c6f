#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs test_report*.py and test_merge*.py where Python can make traces; other tests need none.
# Its name is not theirs: make would take one log for both and run but one of them.
: "${PYTHON3:=}" "${top_srcdir:=.}"
if [ -z "$PYTHON3" ] || ! "$PYTHON3" -c 'import sqlite3' 2>/dev/null; then
	echo "there is no python3 with sqlite3"
	exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
for part in test_report test_report_frees test_report_ledger test_merge test_merge_columns; do
	"$PYTHON3" "$top_srcdir/tests/unit/$part.py" || exit 1
done
