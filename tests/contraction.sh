#!/bin/sh
# The recorded results notice what a compiler must not do.  As it is written, the
# reference hardly has a product that could be fused with a sum, so one statement is
# joined, as another backend might have it: right with contraction off, found out
# with contraction on.  The same for -ffast-math.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
case $(uname -m) in
x86_64)
    fma=-mfma
    grep -q -w fma /proc/cpuinfo 2>/dev/null || skip_all "this processor has no fused multiply-add"
    ;;
aarch64) fma= ;;
*) skip_all "whether compilers fuse for this processor is not known here" ;;
esac
score=$top_srcdir/backends/ref/score.c
joined=$work/joined.c
sed 's/pooled = pooled \* plan->pool_inverse;/sum[i] = sum[i] + pooled * plan->pool_inverse; continue;/' \
    "$score" >"$joined"

# Builds with score.c taken from $1 and the flags that follow, and runs.
build() {
    from=$1
    shift
    set -- "$@" "$top_builddir/backends/cpu_sources.c"
    for folder in . include lib backends/ref backends/cpu; do
        set -- "$@" "-I$top_srcdir/$folder"
    done
    for source in "$top_srcdir"/backends/ref/*.c "$top_srcdir"/backends/cpu/*.c; do
        case $source in
        "$score" | */kernels_avx* | */kernels_neon*) ;;
        *) set -- "$@" "$source" ;;
        esac
    done
    # Unquoted: CC may hold options.
    # shellcheck disable=SC2086
    $CC -std=gnu11 -O2 -w -DCKV_WITHOUT_GPU -o "$work/print" "$@" "$from" "$top_srcdir"/tests/golden/print.c \
        "$top_srcdir"/tests/unit/golden.c "$top_srcdir"/tests/unit/support.c "$top_srcdir"/tools/arrange.c "$top_srcdir"/tools/draw.c "$top_srcdir"/lib/*.c -lm &&
        "$work/print" >"$work/lines"
}

# What the last build printed is what is recorded.
matches() {
    diff "$top_srcdir/tests/golden/reference.txt" "$work/lines" >"$work/differ" && return 0
    echo "$(grep -c '^>' "$work/differ") lines differ, the first from < to >:"
    grep -m 1 '^<' "$work/differ"
    grep -m 1 '^>' "$work/differ"
    return 1
}

refuse "backends/ref/score.c has the statement to join" cmp -s "$score" "$joined"
expect "the reference builds" build "$score" -ffp-contract=off
expect "its results are those recorded" matches
expect "the joined one builds" build "$joined" -ffp-contract=off
expect "its results are those recorded" matches
# shellcheck disable=SC2086
expect "the joined one builds with contraction" build "$joined" -ffp-contract=fast $fma
refuse "its results are refused" matches
expect "the reference builds with -ffast-math" build "$score" -ffast-math
refuse "its results are refused" matches
finish
