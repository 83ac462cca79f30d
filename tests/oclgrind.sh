#!/bin/sh
# The kernels under oclgrind, which interprets them and reports data races and accesses
# outside of buffers.  It exits 0 all the same: its log is what counts.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
test=$top_builddir/tests/unit/test_gpu
[ -x "$test" ] || skip_all "no unit tests in this build"
[ -z "$USE_SANITIZE" ] || skip_all "too slow with sanitizers"
command -v oclgrind-kernel >/dev/null 2>&1 || skip_all "no oclgrind"
for file in /usr/lib/oclgrind/liboclgrind-rt-icd.so /usr/lib/*/oclgrind/liboclgrind-rt-icd.so \
    /usr/local/lib/liboclgrind-rt-icd.so; do
    [ ! -f "$file" ] || icd=$file
done
[ -n "${icd-}" ] || skip_all "oclgrind's library for the OpenCL loader is not where it is known to be"
mkdir "$work/vendors"
echo "$icd" >"$work/vendors/oclgrind.icd"

# Of uninitialised memory it reports what valgrind knows to be written, so that is left
# to tests/gpu-valgrind.sh.
small() {
    OCL_ICD_VENDORS=$work/vendors OCLGRIND_DATA_RACES=1 OCLGRIND_LOG=$work/log \
        OCLGRIND_BUILD_OPTIONS=-cl-opt-disable CKV_KERNEL_CACHE=off CKV_TEST_GPU=real CKV_TEST_FILTER=test_small \
        timeout 500 "$test" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
}
silent() {
    head -n 12 "$work/log"
    [ -f "$work/log" ] && [ ! -s "$work/log" ]
}

reported() {
    head -n 3 "$work/log"
    grep -q -e "$1" "$work/log"
}

# Runs a kernel of this text over 64 items and a buffer of 64 numbers.
kernel() {
    printf '%s\n' "$1" >"$work/k.cl"
    printf 'k.cl\nk\n64 1 1\n64 1 1\n<size=256 fill=0>\n' >"$work/k.sim"
    (cd "$work" && timeout 60 oclgrind-kernel --data-races --build-options -cl-opt-disable --log "$work/log" k.sim)
}

kernel '__kernel void k(__global int *a) { int i = get_local_id(0); a[i] = i; barrier(1); a[i] += 1; }'
expect "a sound kernel is not reported" silent
kernel '__kernel void k(__global int *a) { int i = get_local_id(0); a[i] = a[63 - i] + 1; }'
expect "a race is reported" reported "data race"
kernel '__kernel void k(__global int *a) { int i = get_local_id(0); a[i + 1] = i; }'
expect "an access out of bounds is reported" reported "Invalid write"
rm -f "$work/log"
expect "a small problem gives the reference's bits" small
expect "nothing is reported" silent
finish
