#!/bin/sh
# PoCL makes loops of work-groups in several ways, each by a compiler pass of its own: the
# reference's bits by three of them.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
test=$top_builddir/tests/unit/test_gpu
[ -x "$test" ] || skip_all "no unit tests in this build"
[ -n "${CKV-}" ] && ! "$CKV" info 2>/dev/null | grep -q '^opencl .* yes' && skip_all "no OpenCL device"

solve() {
    POCL_WORK_GROUP_METHOD=$1 POCL_CACHE_DIR=$work/$1 CKV_KERNEL_CACHE=off CKV_TEST_LIGHT=1 \
        CKV_TEST_FILTER=test_opencl timeout 300 "$test" >"$work/log" 2>&1
    status=$?
    cat "$work/log"
    [ "$status" -eq 0 ] && grep -q 'PASSED  \] 1 test' "$work/log"
}

for method in loops loopvec cbs; do
    expect "random problems, work-groups by $method" solve "$method"
done
finish
