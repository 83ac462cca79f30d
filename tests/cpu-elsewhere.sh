#!/bin/sh
# The CPU backend's kernels for instruction sets that this machine may lack, against
# the recorded results: AVX-512 with SIMDe's plain C in place of the instructions,
# AVX-VNNI with AVX2's, AArch64 under qemu; and the choice of instruction set on older
# processors.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

# build OUTPUT COMPILER FLAGS...: tests/golden/print.c as OUTPUT, tests/cpu/compare.c as
# OUTPUT-compare and tests/cpu/skips.c as OUTPUT-skips, with the whole library but the
# kernels that need flags of their own; those come among the flags.
build() {
    output=$1 compiler=$2
    shift 2
    set -- "$@" "$top_builddir/backends/cpu_sources.c"
    for folder in . include lib backends/ref backends/cpu; do
        set -- "$@" "-I$top_srcdir/$folder"
    done
    for source in "$top_srcdir"/lib/*.c "$top_srcdir"/backends/ref/*.c "$top_srcdir"/backends/cpu/*.c; do
        case $source in */kernels_avx* | */kernels_neon*) ;; *) set -- "$@" "$source" ;; esac
    done
    # Unquoted: a compiler may hold options.
    # shellcheck disable=SC2086
    $compiler -std=gnu11 -O2 -w -ffp-contract=off -DCKV_WITHOUT_GPU -o "$output" "$@" "$top_srcdir"/tests/golden/print.c \
        "$top_srcdir"/tests/unit/golden.c "$top_srcdir"/tests/unit/support.c "$top_srcdir"/tools/arrange.c "$top_srcdir"/tools/draw.c -lm &&
        $compiler -std=gnu11 -O2 -w -ffp-contract=off -DCKV_WITHOUT_GPU -o "$output-compare" "$@" "$top_srcdir"/tests/cpu/compare.c \
            "$top_srcdir"/tests/unit/hostile.c "$top_srcdir"/tests/unit/outcome.c "$top_srcdir"/tests/unit/support.c "$top_srcdir"/tools/arrange.c "$top_srcdir"/tools/draw.c -lm &&
        $compiler -std=gnu11 -O2 -w -ffp-contract=off -DCKV_WITHOUT_GPU -o "$output-skips" "$@" "$top_srcdir"/tests/cpu/skips.c \
            "$top_srcdir"/tests/unit/golden.c "$top_srcdir"/tests/unit/support.c "$top_srcdir"/tools/arrange.c "$top_srcdir"/tools/draw.c -lm
}

# skips ISA COMMAND...: leaves norms out, and keeps what it should.
skips() {
    isa=$1
    shift
    CKV_CPU_ISA=$isa "$@"
}

# emulate ISA: its kernels with the emulated intrinsics, as an object.
emulate() {
    # shellcheck disable=SC2086
    $CC -std=gnu11 -O2 -w -ffp-contract=off -c -o "$work/$1.o" -DSIMDE_ENABLE_NATIVE_ALIASES \
        -DCKV_CPU_EMULATED='"tests/cpu/emulated_avx512.h"' "-I$top_srcdir" "-I$top_srcdir/include" \
        "-I$top_srcdir/backends/cpu" $native "$top_srcdir/backends/cpu/kernels_$1.c"
}

# prints ISA COMMAND...: its lines are those recorded.
prints() {
    isa=$1
    shift
    CKV_TEST_BACKEND=cpu CKV_CPU_ISA=$isa "$@" >"$work/lines" && diff "$top_srcdir/tests/golden/reference.txt" "$work/lines"
}

skipped() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

have_header() {
    # shellcheck disable=SC2086
    echo "#include <$1>" | $CC -E -o /dev/null -x c - 2>/dev/null
}

# ---------------------------------------------------------------- AVX-512, AVX-VNNI

# The AVX2 parts of these files run as they are where the processor has them.
native=
if [ "$(uname -m)" = x86_64 ] && grep -q -w avx2 /proc/cpuinfo 2>/dev/null; then native="-mavx2 -mfma -mf16c"; fi

# emulated ISA...: with those instruction sets emulated.
emulated() {
    for isa in "$@"; do
        expect "$isa builds with emulated instructions" emulate "$isa"
    done
    defines=$(echo " $*" | tr '[:lower:]' '[:upper:]' | sed 's/ / -DCKV_CPU_/g')
    objects=$(echo " $*" | sed "s| \([^ ]*\)| $work/\1.o|g")
    # shellcheck disable=SC2086
    expect "the program builds" build "$work/emulated" "$CC" $defines $objects
    for isa in "$@"; do
        expect "$isa gives the recorded results" prints "$isa" "$work/emulated"
        expect "$isa is as the reference at the edges" "$work/emulated-compare" "$isa" 2
        expect "$isa leaves norms out" skips "$isa" "$work/emulated-skips"
    done
    refuse "an unknown one gives none" prints z80 "$work/emulated"
}

if [ -z "$native" ]; then
    skipped "AVX-512 and AVX-VNNI emulated" "this processor has no AVX2"
else
    emulated avxvnni
    if have_header simde/x86/avx512.h; then
        emulated avx512 avx512vnni
    else
        skipped "AVX-512 emulated" "no SIMDe (libsimde-dev)"
    fi
fi

# ---------------------------------------------------------------- AArch64

cross=aarch64-linux-gnu-gcc
if ! command -v $cross >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    skipped "AArch64 under qemu" "no $cross or no qemu-aarch64 (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
else
    CC="$cross -O3" native=-march=armv8.2-a+dotprod expect "neon_dotprod builds" emulate neon_dotprod
    CC="$cross -O3" native=-march=armv8.2-a+i8mm expect "neon_i8mm builds" emulate neon_i8mm
    expect "the program builds for AArch64" build "$work/arm" $cross -static -O3 -DCKV_CPU_NEON -DCKV_CPU_NEON_DOTPROD \
        -DCKV_CPU_NEON_I8MM "$top_srcdir/backends/cpu/kernels_neon.c" "$work/neon_dotprod.o" "$work/neon_i8mm.o"
    for isa in neon_i8mm neon_dotprod neon portable; do
        expect "AArch64: $isa gives the recorded results" prints $isa qemu-aarch64 -cpu max "$work/arm"
        expect "AArch64: $isa is as the reference at the edges" qemu-aarch64 -cpu max "$work/arm-compare" $isa 5
        expect "AArch64: $isa leaves norms out" skips $isa qemu-aarch64 -cpu max "$work/arm-skips"
    done
    # A processor of ARMv8.0 has neither.
    for isa in neon_i8mm neon_dotprod; do
        refuse "Cortex-A57 has no $isa" prints $isa qemu-aarch64 -cpu cortex-a57 "$work/arm"
    done
fi

# ---------------------------------------------------------------- other processors

# chooses CPU ISA: the first that the list names on that processor.
chooses() {
    qemu-x86_64 -cpu "$1" "$top_builddir/tests/cpu/isas" >"$work/isas" || return 1
    cat "$work/isas"
    [ "$(head -n 1 "$work/isas")" = "$2" ]
}

if [ "$(uname -m)" != x86_64 ] || ! command -v qemu-x86_64 >/dev/null; then
    skipped "other x86-64 processors" "no qemu-x86_64 (qemu-user), or not x86-64 here"
elif [ ! -x "$top_builddir/tests/cpu/isas" ] || [ -n "$USE_SANITIZE" ]; then
    skipped "other x86-64 processors" "no plain build of the tests"
else
    expect "Nehalem takes plain C" chooses Nehalem portable
    expect "qemu's greatest takes AVX2" chooses max avx2
    expect "without AVX2 it takes plain C" chooses max,-avx2 portable
    expect "without FMA it takes plain C" chooses max,-fma portable
fi
finish
