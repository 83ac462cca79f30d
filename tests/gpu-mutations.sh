#!/bin/sh
# The comparison of the GPU backends with the reference finds a defect put into a
# kernel: each mutation here must make it fail, and the kernels as they are must not.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
test=$top_builddir/tests/unit/test_gpu
[ -x "$test" ] || skip_all "no unit tests in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitizer's program cannot load objects without it"
[ -f "$top_builddir/tests/sim/lib/libckv_sim_kernels.so" ] || skip_all "no pretended devices in this build"

# The kernels and what builds them, below $work.
start() {
    rm -rf "$work/backends"
    mkdir -p "$work/backends/gpu" "$work/tests" &&
        cp -R "$top_srcdir/backends/gpu/dialect" "$top_srcdir/backends/gpu/kernels" \
            "$top_srcdir/backends/gpu/kernels.def" "$work/backends/gpu" &&
        cp -R "$top_srcdir/tests/sim" "$work/tests" && chmod -R u+w "$work"
}

# Builds what stands below $work and compares.
compare() {
    # Unquoted: CC may hold options.
    # shellcheck disable=SC2086
    $CC -std=gnu11 -O1 -w -ffp-contract=off -fvisibility=hidden -shared -fPIC -I"$work" -o "$work/kernels.so" \
        "$work/tests/sim/kernels.c" "$work/tests/sim/executor.c" "$work/tests/sim/fiber.c" \
        "$work/tests/sim/matrix.c" "$work/tests/sim/noise.c" -lm -lpthread || return 0
    CKV_SIM_KERNELS=$work/kernels.so CKV_TEST_LIGHT=$light CKV_TEST_FILTER=test_cuda timeout 120 "$test" >"$work/log" 2>&1
    status=$?
    grep -v -e '^\[' "$work/log" | head -n 3
    return "$status"
}

# mutation FILE NAME COMMAND...: COMMAND filters the file.
mutation() {
    file=$work/backends/gpu/kernels/$1
    name=$2
    shift 2
    start && "$@" <"$file" >"$work/mutant"
    refuse "there is something to change: $name" cmp -s "$file" "$work/mutant"
    cp "$work/mutant" "$file"
    refuse "found: $name" compare
}

# Drops the nth barrier of a file.
no_barrier() {
    awk -v n="$1" '/BARRIER\(\);/ && ++seen == n { next } { print }'
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
