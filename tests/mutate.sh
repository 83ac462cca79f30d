# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Copies of the sources to put defects into, and what is built of them.  Sourced after tap.sh.

# The kernels of GPUs and what builds them, below $work.
start() {
    rm -rf "$work/backends"
    mkdir -p "$work/backends/gpu" "$work/tests" &&
        cp -R "$top_srcdir/backends/gpu/dialect" "$top_srcdir/backends/gpu/kernels" \
            "$top_srcdir/backends/gpu/kernels.def" "$work/backends/gpu" &&
        cp -R "$top_srcdir/tests/sim" "$work/tests" && chmod -R u+w "$work"
}

# Builds what stands below $work: $work/kernels.so, for CKV_SIM_KERNELS.
build_kernels() {
    # Unquoted: CC may hold options.
    # shellcheck disable=SC2086
    $CC -std=gnu11 -O1 -w -ffp-contract=off -fvisibility=hidden -shared -fPIC -I"$work" -o "$work/kernels.so" \
        "$work/tests/sim/kernels.c" "$work/tests/sim/executor.c" "$work/tests/sim/fiber.c" \
        "$work/tests/sim/matrix.c" "$work/tests/sim/noise.c" -lm -lpthread
}

# The library without GPUs and without kernels that need flags of their own, below $work/library.
start_library() {
    rm -rf "$work/library"
    mkdir -p "$work/library/backends" &&
        cp -R "$top_srcdir/include" "$top_srcdir/lib" "$work/library" &&
        cp -R "$top_srcdir/backends/ref" "$top_srcdir/backends/cpu" "$work/library/backends" &&
        cp "$top_builddir/backends/cpu_sources.c" "$work/library/lib" && chmod -R u+w "$work/library"
}

# Builds it: $work/library/libckv.so.0.  Objects that are there stay: remove those of what was changed.
build_library() {
    set --
    for folder in . include lib backends/ref backends/cpu; do
        set -- "$@" "-I$work/library/$folder"
    done
    for source in "$work"/library/lib/*.c "$work"/library/backends/ref/*.c "$work"/library/backends/cpu/*.c; do
        object=${source%.c}.o
        case $source in */kernels_avx* | */kernels_neon*) continue ;; esac
        # shellcheck disable=SC2086
        [ -f "$object" ] ||
            $CC -std=gnu11 -O1 -w -ffp-contract=off -DCKV_WITHOUT_GPU -fPIC -c -o "$object" "$@" "$source" || return
    done
    # shellcheck disable=SC2086
    $CC -shared -Wl,--no-undefined -o "$work/library/libckv.so.0" "$work"/library/lib/*.o "$work"/library/backends/*/*.o -lm -lpthread
}

# no_barrier N: a filter that drops the nth barrier of a file.
no_barrier() {
    awk -v n="$1" '/BARRIER\(\);/ && ++seen == n { next } { print }'
}

# change FILE COMMAND...: COMMAND filters the file; false where that changes nothing.
change() {
    changed=$1
    shift
    "$@" <"$changed" >"$work/mutant" && ! cmp -s "$changed" "$work/mutant" && cp "$work/mutant" "$changed"
}
