#!/bin/sh
# ckv verify finds a defect put into a backend, makes the problem that shows it small, and
# runs it again from its file: with the defect it differs, without it does not.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/mutate.sh"
OMP_WAIT_POLICY=passive
export OMP_WAIT_POLICY
ckv=$top_builddir/.libs/ckv
lib=$top_builddir/tests/sim/lib
[ -x "$ckv" ] || skip_all "no ckv command in this build"
[ -e "$top_builddir/.libs/libckv.so.0" ] || skip_all "no shared library in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitizer's program cannot load objects without it"
"$PYTHON" -c '' 2>/dev/null || skip_all "no python3 to read the report"

# verify FOLDER ARGUMENT...: with the libraries of that folder in front; the exit status.
verify() {
    libraries=$1
    shift
    (cd "$work/run" && LD_LIBRARY_PATH=$libraries:$top_builddir/.libs timeout 120 "$ckv" verify "$@" >report 2>errors)
    status=$?
    [ "$status" -le 1 ] || cat "$work/run/errors"
    return "$status"
}

# small STAGES TOKENS: of a problem that was found, at one of the stages, no more is left than so many tokens, and few of
# everything else.
small() {
    "$PYTHON" - "$work/run/report" "$1" "$2" <<'END'
import json, sys
found = json.load(open(sys.argv[1]))["difference"]
print(found["what"], found["problem"])
sizes = dict(found["problem"])
tokens = sizes.pop("tokens")
sys.exit(not (found["stage"] in sys.argv[2].split() and tokens <= int(sys.argv[3]) and max(sizes.values()) <= 4))
END
}

# mutation NAME BACKEND STAGES TOKENS: the defect that stands below $work is found.
mutation() {
    rm -rf "$work/run"
    mkdir -p "$work/run"
    verify "$mutant" --seed 2 --problems 60 --backend "$2" --output found.safetensors --json
    status=$?
    tail -n 1 "$work/run/errors" | sed 's/^/# /'
    expect "found: $1" [ "$status" -eq 1 ]
    expect "small: $1" small "$3" "$4"
    verify "$mutant" --replay found.safetensors
    status=$?
    expect "replayed: $1" [ "$status" -eq 1 ]
    unset CKV_SIM_KERNELS
    expect "gone without it: $1" verify "$sound" --replay found.safetensors --backend "$2"
}

# ---------------------------------------------------------------- the CPU backend

kernels=$work/library/backends/cpu/kernels_score.h
mutant=$work/library sound=$top_builddir/.libs
mkdir -p "$work/run"

start_library
expect "the library builds" build_library
expect "as it is, it passes" verify "$mutant" --problems 12 --backend cpu

rm "$work/library/backends/cpu/kernels_portable.o"
expect "there is a rounding to add" change "$kernels" \
    sed 's/vf_fma(p, vf_mul(r, r), rl)/vf_add(vf_mul(p, vf_mul(r, r)), rl)/'
expect "the library builds with it" build_library
mutation "a product rounded before it is added" cpu "score evict" 8

# ---------------------------------------------------------------- a GPU's kernels

if [ -f "$lib/libckv_sim_kernels.so" ]; then
    mutant=$lib sound=$lib
    start
    expect "there is a comparison to change" change "$work/backends/gpu/kernels/select.h" \
        sed 's/is_in = seen < ties;/is_in = seen <= ties;/'
    expect "the kernels build with it" build_kernels
    CKV_SIM_KERNELS=$work/kernels.so
    export CKV_SIM_KERNELS
    mutation "one tie too many" cuda "select evict" 8
    start
    expect "there is a product to fuse" change "$work/backends/gpu/kernels/score.h" \
        sed 's/pooled = pooled \* p.pool_inverse;/sum = fma_rn(pooled, p.pool_inverse, sum); continue;/'
    expect "the kernels build with that" build_kernels
    CKV_SIM_KERNELS=$work/kernels.so
    export CKV_SIM_KERNELS
    mutation "a product fused with a sum" hip "score evict" 8
else
    skip_one "GPUs' kernels" "no pretended devices in this build"
fi
finish
