#!/bin/sh
# OpenCL devices: two of PoCL's, of which one cannot build its kernels; none at all, in
# several ways; folders that cannot be written.  Always a result or an error that says
# which devices there are, and nothing else on standard error.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
[ -x "$CKV" ] || skip_all "no ckv command in this build"
unset CKV_BACKEND CKV_DEVICE OCL_ICD_VENDORS POCL_DEVICES
CKV_DISABLE=cuda,hip CKV_KERNEL_CACHE=off
export CKV_DISABLE CKV_KERNEL_CACHE
capture=$top_srcdir/tests/data/smollm2-135m.safetensors
"$CKV" info >"$work/info" 2>&1
grep -q '^opencl .*libOpenCL' "$work/info" && skip_all "no libOpenCL.so.1"

# run STATUS VARIABLE=VALUE... -- ARGUMENT...: of ckv; standard error is empty after 0, and
# one line after anything else.
run() {
    wanted=$1
    shift
    for word in "$@"; do
        shift
        [ "$word" != -- ] || { word=$CKV; }
        set -- "$@" "$word"
    done
    env "$@" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/out" "$work/err"
    [ "$status" -eq "$wanted" ] && [ "$(wc -l <"$work/err")" -eq "$((wanted == 0 ? 0 : 1))" ]
}
# line PATTERN: one is in the output.
line() {
    grep -Eq "$1" "$work/out" "$work/err"
}
evict() {
    run "$@" -- evict "$capture" -o "$work/result" --layer 15 --no-perturbation "$backend_option" "$backend_value"
}
# evicts ON OPTION VARIABLE=VALUE...
evicts() {
    on=$1 backend_option=--backend backend_value=$2
    shift 2
    evict 0 "$@" && line "^backend $on"
}
# refuses PATTERN OPTION VARIABLE=VALUE...
refuses() {
    pattern=$1 backend_option=--backend backend_value=$2
    shift 2
    evict 1 "$@" && line "$pattern"
}
info() {
    pattern=$1
    shift
    run 0 "$@" -- info && line "$pattern"
}

two="POCL_DEVICES=pthread basic"
if info '^opencl +1 +yes' "$two" >/dev/null 2>&1; then
    first=$(sed -n 's/^opencl *0 *yes *\([a-z]*\).*/\1/p' "$work/out")
    second=$(sed -n 's/^opencl *1 *yes *\([a-z]*\).*/\1/p' "$work/out")
    differ() {
        echo "'$first' '$second'"
        [ -n "$first" ] && [ -n "$second" ] && [ "$first" != "$second" ]
    }
    expect "two devices of two names" differ
    expect "the first by its index" evicts "opencl .$first" opencl:0 "$two"
    expect "the second by its index" evicts "opencl .$second" opencl:1 "$two"
    expect "the first by its name" evicts "opencl .$first" "opencl:$first" "$two"
    expect "the second by its name, in capitals" evicts "opencl .$second" \
        "opencl:$(echo "$second" | tr '[:lower:]' '[:upper:]')" "$two"
    expect "one that is not there: both are listed" refuses "no such device; there is: opencl:0 .$first.*opencl:1 .$second" \
        opencl:2 "$two"
    expect "nor by name" refuses "options.device 'nonsense': no such device; there is: opencl:0" opencl:nonsense "$two"
    expect "auto leaves devices that are the CPU alone" evicts "cpu" auto "$two"
    by_environment() {
        run 0 "$two" CKV_BACKEND=opencl CKV_DEVICE="$second" -- evict "$capture" -o "$work/result" --layer 15 \
            --no-perturbation && line "^backend opencl .$second"
    }
    expect "by the environment" by_environment

    # One of them cannot build its kernels.
    real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libOpenCL\.so\.1 .*=> //p' | head -n 1)
    mkdir "$work/shim"
    # Unquoted: CC may hold options.
    # shellcheck disable=SC2086
    if [ -n "$real" ] && [ -z "$USE_SANITIZE" ] &&
        $CC -std=gnu11 -w -shared -fPIC -I"$top_srcdir" -o "$work/shim/libOpenCL.so.1" \
            "$top_srcdir/tests/drivers/shim_opencl.c" >"$work/tap" 2>&1; then
        shim="LD_LIBRARY_PATH=$work/shim"
        expect "the shim alone changes nothing" evicts "opencl .$first" opencl:0 "$two" "$shim" SHIM_OPENCL="$real"
        expect "one that cannot be built, asked for" refuses "opencl:0: .*the test does not want it built.*there is: " \
            opencl:0 "$two" "$shim" SHIM_OPENCL="$real" SHIM_FAIL="$first"
        expect "the other one is taken" evicts "opencl .$second" opencl "$two" "$shim" SHIM_OPENCL="$real" \
            SHIM_FAIL="$first"
        says_why() {
            run 0 "$two" "$shim" SHIM_OPENCL="$real" SHIM_FAIL="$first" -- info --backend opencl &&
                line "^opencl +0 +no +.*the test does not want it built" && line "^opencl +1 +yes, --backend +$second"
        }
        expect "and the table says why" says_why
        expect "both" refuses "the test does not want it built" opencl "$two" "$shim" SHIM_OPENCL="$real" SHIM_FAIL=
    else
        skip_one "one device that cannot build" "no shim for libOpenCL here"
    fi
else
    skip_one "two devices" "no PoCL with pthread and basic"
fi

# No platform, and one that is a text.
mkdir "$work/vendors"
echo "a text, and no library" >"$work/text"
echo "$work/text" >"$work/vendors/text.icd"
for vendors in /nonexistent "$work/vendors"; do
    expect "no platform in $vendors" info '^opencl +- +no ' OCL_ICD_VENDORS="$vendors"
    expect "the CPU is taken" evicts cpu auto OCL_ICD_VENDORS="$vendors"
done

# Folders that no one can write to, for PoCL's files and for ours: it works or says why.
for variable in HOME XDG_CACHE_HOME POCL_CACHE_DIR; do
    expect "auto with $variable that cannot be written" evicts cpu auto $variable=/proc/nowhere CKV_KERNEL_CACHE=
    works_or_says_why() {
        backend_option=--backend backend_value=opencl
        evict 0 "$variable"=/proc/nowhere CKV_KERNEL_CACHE= >/dev/null ||
            { evict 1 "$variable"=/proc/nowhere CKV_KERNEL_CACHE= && line "options.backend 'opencl': .*; there is: cpu:0"; }
    }
    expect "OpenCL with $variable that cannot be written: a result, or an error that says why" works_or_says_why
done

# No driver at all: the CPU, and not a word.
none() {
    mkdir -p "$work/none"
    for name in libcuda.so.1 libamdhip64.so.7 libamdhip64.so.6 libamdhip64.so.5 libamdhip64.so libOpenCL.so.1; do
        echo "no library" >"$work/none/$name"
    done
    run 0 LD_LIBRARY_PATH="$work/none" CKV_DISABLE= -- evict "$capture" -o "$work/result" --layer 15 --no-perturbation &&
        line '^backend cpu'
}
expect "no driver can be loaded: the CPU" none
finish
