#!/bin/sh
# The comparison of the GPU backends with the reference finds a defect put into a
# kernel: each mutation here must make it fail, and the kernels as they are must not.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/mutate.sh"
test=$top_builddir/tests/unit/test_gpu
[ -x "$test" ] || skip_all "no unit tests in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitizer's program cannot load objects without it"
[ -f "$top_builddir/tests/sim/lib/libckv_sim_kernels.so" ] || skip_all "no pretended devices in this build"

# Builds what stands below $work and compares.
compare() {
    build_kernels || return 0
    CKV_SIM_KERNELS=$work/kernels.so CKV_TEST_LIGHT=$light CKV_TEST_FULL=$((1 - light)) CKV_TEST_FILTER=test_cuda timeout 120 "$test" >"$work/log" 2>&1
    status=$?
    grep -v -e '^\[' "$work/log" | head -n 3
    [ "$status" -ne 124 ] || return 0 # too slow is not found
    return "$status"
}

# mutation FILE NAME COMMAND...: COMMAND filters the file.
mutation() {
    file=$work/backends/gpu/kernels/$1
    name=$2
    shift 2
    start
    expect "there is something to change: $name" change "$file" "$@"
    refuse "found: $name" compare
}

light=1
start
expect "the kernels as they are pass" compare
mutation score.h "a tile overwritten while others read it" no_barrier 1
mutation score.h "a tile read before it is there" no_barrier 2
mutation select.h "a histogram read before it is counted" no_barrier 2
mutation select.h "one tie too many" sed 's/is_in = seen < ties;/is_in = seen <= ties;/'
mutation score.h "a query that sees one key less" sed 's/p.tokens - p.window + j + 1/p.tokens - p.window + j/'
light=0 # one of few problems shows it
mutation score.h "a product fused with a sum" \
    sed 's/pooled = pooled \* p.pool_inverse;/sum = fma_rn(pooled, p.pool_inverse, sum); continue;/'
finish
