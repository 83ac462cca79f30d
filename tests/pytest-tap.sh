#!/bin/sh
# Runs one pytest file and prints TAP, which tests/conftest.py writes.
# SPDX-License-Identifier: Apache-2.0
if [ -z "$PYTHON" ]; then
    echo "1..0 # SKIP no python3 with numpy and pytest"
    exit 0
fi
# The source tree may be read-only.
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
exec 3>&1
report=$(CKV_TAP_FD=3 "$PYTHON" -m pytest -q -rs --color=no -p no:cacheprovider --rootdir "$top_srcdir/tests" "$@" 2>&1)
status=$?
# Only now, lest it get between the lines of TAP.
printf '%s\n' "$report" | sed 's/^/# /'
# 1: tests failed, and TAP says so already.
[ "$status" -eq 1 ] && exit 0
exit "$status"
