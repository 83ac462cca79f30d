#!/bin/sh
# The matrix routes of the norm in machine code: matrix instructions, and no spill.
# No GPU is needed, only the compilers.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

command -v python3 >/dev/null || skip_all "no python3"

routes='ckv_norm_mma_* ckv_norm_mfma_* ckv_norm_wmma_*'
inspect() {
    python3 "$top_srcdir/tools/inspect-kernels" --no-roofline --jobs 1 "$@"
}

# reports TEXT COMMAND...: it fails with status 1, and says TEXT.
reports() {
    text=$1
    shift
    "$@" >"$work/report" 2>&1
    status=$?
    cat "$work/report"
    [ "$status" -eq 1 ] && grep -q "$text" "$work/report"
}

# found ARCH: what was inspected beside, once its log has come.
found() {
    cat "$work/$1.log"
    return "$(cat "$work/$1.status")"
}

# start ARCH: inspects in the background.
start() {
    inspect --archs "$1" --kernel "$routes" --require-matrix >"$work/$1.log" 2>&1
    echo $? >"$work/$1.status"
}

# judge ARCH INSTRUCTION
judge() {
    if [ "$(cat "$work/$1.status")" -eq 77 ]; then
        skip_one "$1: the norm has $2 and does not spill" "$(sed 's/.*: no /no /' "$work/$1.log")"
    else
        expect "$1: the norm has $2 and does not spill" found "$1"
    fi
}

# Two at a time, so that neither of two processors waits long.
(start sm_80; start sm_90) &
nvidia=$!
start gfx1100
start gfx90a
start gfx942
wait "$nvidia"
judge sm_80 mma
judge sm_90 mma
judge gfx90a mfma
judge gfx942 mfma
judge gfx1100 wmma

# ---------------------------------------------------------------- controls

# A copy of the kernels' text that has only the norm, for speed; what the controls spoil.
copy() {
    rm -rf "$work/gpu"
    mkdir "$work/gpu"
    cp -R "$top_srcdir/backends/gpu/kernels" "$top_srcdir/backends/gpu/dialect" "$work/gpu"
    chmod -R u+w "$work/gpu"
    cat >"$work/gpu/kernels/all.h" <<'END'
#include "params.h"

#include "number.h"

#include "norm_int.h"
#include "norm_mfma.h"
#include "norm_mma.h"
END
    cp "$top_srcdir/backends/gpu/kernels.def" "$work/gpu"
}

# spoil FILE SED: the file of the copy differs thereafter.
spoil() {
    cp "$work/gpu/$1" "$work/before"
    sed "$2" "$work/before" >"$work/gpu/$1"
    ! cmp -s "$work/before" "$work/gpu/$1" || { echo "Bail out! no control: $1 is as before"; exit 99; }
}

spoiled() {
    inspect --source "$work/gpu" "$@"
}

if [ "$(cat "$work/sm_80.status")" -ne 77 ]; then
    copy
    expect "control: the smaller text passes" spoiled --archs sm_80 --kernel 'ckv_norm_mma_128' --require-matrix
    expect "so it does in the PTX" spoiled --archs sm_80 --kernel 'ckv_norm_mma_128' --require-matrix --ptx
    refuse "control: a kernel of another device is reported" spoiled --archs sm_80 --kernel 'ckv_norm_mfma_*'
    expect "control: the plain norm is reported" reports "ckv_norm_int, sm_80: no matrix instruction" \
        spoiled --archs sm_80 --kernel 'ckv_norm_int' --require-matrix
    expect "control: a spill is reported, with kernel and device" reports "ckv_norm_mma_128, sm_80: spills" \
        spoiled --archs sm_80 --kernel 'ckv_norm_mma_128' --nvcc-flags=--maxrregcount=64
    spoil dialect/cuda.h 's/asm("mma.sync.aligned.m16n8k32/d[0] += (i32)(a[0] * b[0]); if (0) &/'
    expect "control: plain code for mma is reported" reports "ckv_norm_mma_128, sm_80: no matrix instruction" \
        spoiled --archs sm_80 --kernel 'ckv_norm_mma_128' --require-matrix
else
    skip_one "controls with nvcc" "no nvcc"
fi

if [ "$(cat "$work/gfx90a.status")" -ne 77 ]; then
    copy
    spoil dialect/hip.h 's/c = __builtin_amdgcn_mfma_i32_16x16x16i8(/c[0] += (i32)(a * b); if (0) &/'
    expect "control: plain code for mfma is reported" reports "ckv_norm_mfma_128, gfx90a: no matrix instruction" \
        spoiled --archs gfx90a --kernel 'ckv_norm_mfma_128' --require-matrix
    copy
    spoil dialect/hip.h 's/^#define KERNEL(name, group)/& __attribute__((amdgpu_num_vgpr(24)))/'
    expect "control: a spill by clang is reported" reports "gfx90a: spills" \
        spoiled --archs gfx90a --kernel 'ckv_norm_mfma_*'
else
    skip_one "controls with clang" "no clang for AMD devices"
fi

none() {
    NVCC=/nowhere/nvcc CKV_HIP_CLANG=/nowhere/clang inspect
    [ $? -eq 77 ]
}
expect "without compilers nothing is claimed" none
finish
