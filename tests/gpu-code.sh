#!/bin/sh
# Kernels in machine code: matrix instructions where the norm should have them, and neither
# spills nor arrays in private memory.
# No GPU is needed, only the compilers.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

command -v python3 >/dev/null || skip_all "no python3"

routes='ckv_norm_mma_* ckv_norm_mfma_* ckv_norm_wmma_*'
inspect() {
    python3 "$top_srcdir/tools/inspect-kernels" --no-roofline --jobs 1 "$@"
}

# A copy of the kernels' text that has only the norm, or FILES, for speed: FOLDER [FILES].
copy() {
    mkdir "$work/$1"
    cp -R "$top_srcdir/backends/gpu/kernels" "$top_srcdir/backends/gpu/dialect" "$top_srcdir/backends/gpu/kernels.def" \
        "$top_srcdir/backends/gpu/costs.def" \
        "$work/$1"
    chmod -R u+w "$work/$1"
    sed -n "/^#include \"\(params\|number\|${2-norm_.*}\)\.h\"/p" "$top_srcdir/backends/gpu/kernels/all.h" |
        sort -t '"' -k 2,2 -r | sed 's/$/\n/' >"$work/$1/kernels/all.h"
}

# spoil FILE SED: the file in the work folder differs thereafter.
spoil() {
    cp "$work/$1" "$work/$1.before"
    sed "$2" "$work/$1.before" >"$work/$1"
    ! cmp -s "$work/$1.before" "$work/$1" || {
        echo "Bail out! no control: $1 is as before"
        exit 99
    }
}

# A copy with few kernels, and one thing spoiled in it: FOLDER FILE SED.
control() {
    copy "$1"
    spoil "$1/kernels/norm_mma.h" '/^NORM_MMA(ckv_norm_mma_\(32\|64\|96\|256\|[0-9]*x1\),/d'
    spoil "$1/kernels/norm_mfma.h" '/^NORM_TILES(ckv_norm_mfma_\(32\|64\|96\|256\|[0-9]*x1\),/d'
    [ $# -eq 1 ] || spoil "$1/$2" "$3"
}

# start NAME FOLDER OPTION...: inspects, for what is judged later.
start() {
    log=$work/$1
    folder=$2
    shift 2
    inspect --source "$work/$folder" "$@" >"$log.log" 2>&1
    echo $? >"$log.status"
}

# ends NAME STATUS TEXT: as it was to end, and saying so.
ends() {
    cat "$work/$1.log"
    [ "$(cat "$work/$1.status")" -eq "$2" ] && grep -q "$3" "$work/$1.log"
}

# judge TEST NAME STATUS TEXT
judge() {
    if [ "$(cat "$work/$2.status")" -eq 77 ]; then
        skip_one "$1" "$(sed 's/.*: no /no /' "$work/$2.log")"
    else
        expect "$1" ends "$2" "$3" "$4"
    fi
}

copy norm
control small
copy score score
copy rolled score
spoil rolled/kernels/score.h 's/UNROLL for (i32 r/for (i32 r/'
control plain_mma dialect/cuda.h 's/asm("mma.sync.aligned.m16n8k32/d[0] += (i32)(a[0] * b[0]); if (0) &/'
control spill_nvcc dialect/cuda.h 's/__launch_bounds__(group, least)/__launch_bounds__(group, 8)/'
control plain_mfma dialect/hip.h 's/c = __builtin_amdgcn_mfma_i32_16x16x16i8(/c[0] += (i32)(a * b); if (0) &/'
control spill_clang dialect/hip.h 's/^#define KERNEL(name, group)/& __attribute__((amdgpu_num_vgpr(24)))/'

# Two at a time.
(
    for arch in sm_80 sm_90; do
        start $arch norm --archs $arch --kernel "$routes" --require-matrix
    done
    for folder in small plain_mma spill_nvcc; do
        start $folder $folder --archs sm_80 --kernel 'ckv_norm_mma_*' --require-matrix
    done
    start score score --archs sm_90 --kernel 'ckv_row_*,ckv_attend_*'
    start rolled rolled --archs sm_90 --kernel ckv_row_sum_128
    start int small --archs sm_80 --kernel ckv_norm_int_16 --require-matrix
    start ptx small --archs sm_80 --kernel 'ckv_norm_mma_*' --require-matrix --ptx
    start ptx_plain small --archs sm_80 --kernel ckv_norm_int_16 --require-matrix --ptx
) &
nvidia=$!
for arch in gfx1100 gfx90a gfx942; do
    start $arch norm --archs $arch --kernel "$routes" --require-matrix
done
for folder in plain_mfma spill_clang; do
    start $folder $folder --archs gfx90a --kernel 'ckv_norm_mfma_*' --require-matrix
done
start other small --archs gfx90a --kernel 'ckv_norm_mma_*'
wait "$nvidia"

judge "sm_80: the norm has mma and does not spill" sm_80 0 ckv_norm_mma_128
judge "sm_90: the norm has mma and does not spill" sm_90 0 ckv_norm_mma_128
judge "gfx90a: the norm has mfma and does not spill" gfx90a 0 ckv_norm_mfma_128
judge "gfx942: the norm has mfma and does not spill" gfx942 0 ckv_norm_mfma_128
judge "gfx1100: the norm has wmma and does not spill" gfx1100 0 ckv_norm_wmma_128

judge "sm_90: the score has no private memory" score 0 ckv_row_sum_128
judge "control: a loop that indexes registers is reported" rolled 1 "ckv_row_sum_128, sm_90: has .* bytes of private memory"
judge "control: the text of the controls passes, unspoiled" small 0 ckv_norm_mma_128
judge "control: plain code for mma is reported" plain_mma 1 "ckv_norm_mma_128, sm_80: no matrix instruction"
judge "control: plain code for mfma is reported" plain_mfma 1 "ckv_norm_mfma_128, gfx90a: no matrix instruction"
judge "control: the plain norm is reported" int 1 "ckv_norm_int_16, sm_80: no matrix instruction"
judge "control: a spill by nvcc is reported" spill_nvcc 1 "ckv_norm_mma_128, sm_80: spills"
judge "control: a spill by clang is reported" spill_clang 1 "ckv_norm_mfma_128, gfx90a: spills"
judge "control: kernels of another device are missed" other 1 "gfx90a: has none of the kernels"
judge "the PTX shows mma too" ptx 0 "ckv_norm_mma_128.* 64 PTX"
judge "control: and not where there is none" ptx_plain 1 "ckv_norm_int_16, sm_80: no matrix instruction"

none() {
    NVCC=/nowhere/nvcc CKV_HIP_CLANG=/nowhere/clang inspect
    [ $? -eq 77 ]
}
expect "without compilers nothing is claimed" none
finish
