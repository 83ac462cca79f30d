#!/bin/sh
# The command on machines with pretended GPUs, with a broken driver, with one that
# fails at any call while it is asked for devices, and with none.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
lib=$top_builddir/tests/sim/lib
[ -f "$lib/libckv_sim.so" ] || skip_all "no pretended devices in this build"
[ -x "$CKV" ] || skip_all "no ckv command in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitizer's program cannot load objects without it"
CKV_KERNEL_CACHE=off
export CKV_KERNEL_CACHE

# What ckv info says of backend $1, with libraries from folder $2.
info() {
    LD_LIBRARY_PATH=$2 "$CKV" info >"$work/info" 2>&1 || return 1
    grep -E "^$1 " "$work/info"
}
says() {
    info "$1" "$2" | tee "$work/line"
    grep -q -e "$3" "$work/line"
}

expect "a CUDA device is found" says cuda "$lib" 'yes.*Pretended sm_90'
expect "a HIP device is found" says hip "$lib" 'yes.*Pretended gfx942'

# No library: an empty folder in front does not hide this machine's own.
mkdir "$work/broken"
echo 'int ckv_nothing;' >"$work/nothing.c"
for name in libcuda.so.1 libamdhip64.so.7; do
    # Unquoted: CC may hold options.
    # shellcheck disable=SC2086
    $CC -shared -fPIC -o "$work/broken/$name" "$work/nothing.c"
done
expect "a CUDA library without its functions" says cuda "$work/broken" 'no .*cuInit'
expect "a HIP library without its functions" says hip "$work/broken" 'no .*hipInit'
echo 'not a library' >"$work/broken/libcuda.so.1"
expect "a CUDA library that is none" says cuda "$work/broken" 'no .*libcuda.so.1'
expect "the others work all the same" says ref "$work/broken" 'yes'

stub() {
    CKV_SIM_FAIL=cuInit:1:34 says cuda "$lib" 'no .*STUB_LIBRARY'
}
expect "a stub in the driver's place" stub
no_device() {
    CKV_SIM_CUDA='' says cuda "$lib" 'no .*NO_DEVICE' && CKV_SIM_HIP='' says hip "$lib" 'no .*NO_DEVICE'
}
expect "a driver without a device" no_device

# Every call while devices are looked for: no crash, and the reference is always there.
fails_anywhere() {
    nth=1
    while [ "$nth" -le 40 ]; do
        CKV_SIM_FAIL=any:$nth CKV_SIM_REPORT=$work/report says ref "$lib" yes || return 1
        nth=$((nth + 1))
    done
    # Nothing is left behind in any of these.
    ! grep -v -e 'memory 0 streams 0 events 0 modules 0 contexts 0 programs 0 no complaint$' "$work/report"
}
expect "any call fails while devices are looked for" fails_anywhere
finish
