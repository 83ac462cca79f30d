#!/bin/sh
# What compilers make of the norm's kernels for GPUs: matrix instructions where the route
# is of those, and no register spilled to memory.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
inspect=$top_srcdir/tools/inspect-kernels
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || skip_all "no python3"

# sound ARCH PREFIX: the kernels of that prefix have matrix instructions and no spill.
sound() {
    "$python" "$inspect" --arch "$1" --kernel "$2" >"$work/kernels" 2>&1
    status=$?
    cat "$work/kernels"
    return "$status"
}

check() {
    if [ "$3" = yes ]; then
        expect "$1: $2*" sound "$1" "$2"
    else
        skip_one "$1: $2*" "no compiler for $1"
    fi
}

cuda=no
command -v nvcc >/dev/null 2>&1 && cuda=yes
hip=yes
for tool in clang-19 llvm-objdump-19 llvm-readelf-19; do
    command -v "$tool" >/dev/null 2>&1 || hip=no
done
for arch in sm_80 sm_90; do check "$arch" ckv_norm_mma_ "$cuda"; done
for arch in gfx90a gfx942; do check "$arch" ckv_norm_mfma_ "$hip"; done
check gfx1100 ckv_norm_wmma_ "$hip"

# Too few registers must show as spills, and a route that is not there as no kernel.
squeezed() {
    "$python" "$inspect" --arch sm_90 --kernel ckv_norm_mma_128 --option=-maxrregcount=64 \
        --option=-Xptxas --option=--override-directive-values >"$work/kernels" 2>&1
    status=$?
    cat "$work/kernels"
    # It must be the spill that it fails for.
    grep BAD "$work/kernels" || return 0
    return "$status"
}
if [ "$cuda" = yes ]; then
    refuse "a kernel that spills" squeezed
    refuse "a kernel that is not there" sound sm_90 ckv_norm_mfma_
else
    skip_one "a kernel that spills" "no nvcc"
fi
finish
