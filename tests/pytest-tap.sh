#!/bin/sh
# Runs one pytest file and prints TAP, which tests/conftest.py writes.
# SPDX-License-Identifier: Apache-2.0
if [ -z "$PYTHON" ]; then
    echo "1..0 # SKIP no python3 with numpy and pytest"
    exit 0
fi
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
# The source tree may be read-only, hence no cache; pytest's own report goes to
# stderr, which the log keeps.
exec 3>&1
CKV_TAP_FD=3 "$PYTHON" -m pytest -q -rs --color=no -p no:cacheprovider --rootdir "$top_srcdir/tests" "$@" >&2
status=$?
# 1: tests failed, and TAP says so; 5: none collected, told by the plan "1..0".
[ "$status" -eq 1 ] && exit 0
exit "$status"
