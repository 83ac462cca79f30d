#!/bin/sh
# No kernel of the GPU backends uses memory that nobody has written, shared or the
# device's: valgrind looks on while they run on a pretended device.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
[ -x "$top_builddir/tests/unit/test_gpu" ] || skip_all "no unit tests in this build"
[ -z "$USE_SANITIZE" ] || skip_all "valgrind and sanitizers exclude each other"
command -v valgrind >/dev/null 2>&1 || skip_all "no valgrind"
echo '#include <valgrind/memcheck.h>' >"$work/header.c"
# Unquoted: CC may hold options.
# shellcheck disable=SC2086
$CC -fsyntax-only "$work/header.c" 2>/dev/null || skip_all "no header valgrind/memcheck.h: nothing is marked"
CKV_DISABLE=opencl # which may be a whole compiler
export CKV_DISABLE

# $1 runs without an error that valgrind reports.
clean() {
    valgrind --quiet --error-exitcode=99 --suppressions="$top_srcdir/tests/valgrind.supp" "$1" >"$work/log" 2>&1
    status=$?
    grep -e 'uninitialised' -A 3 "$work/log" | head -n 8
    [ "$status" -ne 99 ]
}

# Its planted defects read shared memory before it is written.
refuse "a kernel that reads what nobody wrote is found" clean "$top_builddir/tests/unit/test_executor"
CKV_TEST_FILTER=test_small
export CKV_TEST_FILTER
expect "the kernels read what was written" clean "$top_builddir/tests/unit/test_gpu"
finish
