#!/bin/sh
# GPU drivers that are absent, broken, busy or switched off: `ckv info` says which, and
# everything else goes on.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
[ -x "$CKV" ] || skip_all "no ckv command in this build"
unset CKV_DISABLE OCL_ICD_VENDORS

# fake FOLDER FLAG...: libcuda.so.1 in FOLDER.
fake() {
    folder=$work/$1
    mkdir -p "$folder"
    shift
    # Unquoted: CC may hold several words.
    # shellcheck disable=SC2086
    $CC -std=gnu11 -shared -fPIC -I"$top_srcdir" "$@" -o "$folder/libcuda.so.1" \
        "$top_srcdir/tests/drivers/fake_cuda.c" "$top_srcdir/tests/drivers/fake_rest.c"
}

# shows BACKEND WHAT VARIABLE=VALUE...: the backend's row of ckv info, and a choice made.
shows() {
    backend=$1 what=$2
    shift 2
    env "$@" "$CKV" info >"$work/info" 2>"$work/errors" || return 1
    cat "$work/info" "$work/errors"
    grep "^$backend " "$work/info" | grep -qF "$what" && grep -q 'yes, auto' "$work/info"
}

# The same, and no warning.
says() {
    shows "$@" && [ ! -s "$work/errors" ]
}

# chosen BACKEND VARIABLE=VALUE...: what auto takes.
chosen() {
    backend=$1
    shift
    env "$@" "$CKV" info >"$work/info" && cat "$work/info" && grep -q "^$backend .*yes, auto" "$work/info"
}

# fails_for WHAT VARIABLE=VALUE...: a backend asked for by name ends with the reason.
fails_for() {
    what=$1
    shift
    env "$@" "$CKV" evict "$top_srcdir/tests/data/smollm2-135m.safetensors" -o "$work/out" --backend cuda \
        >"$work/info" 2>&1
    status=$?
    cat "$work/info"
    [ "$status" -ne 0 ] && grep -qF "$what" "$work/info"
}

if fake broken -DINIT=CUDA_ERROR_STUB_LIBRARY >"$work/tap" 2>&1 && fake bare -DCOUNT=0 && fake busy -DRETAIN=46 &&
    fake lacking -DcuLaunchKernel=cuSomethingElse; then
    expect "a stub of libcuda" says cuda "cuInit: CUDA_ERROR_STUB_LIBRARY (34)" LD_LIBRARY_PATH="$work/broken"
    expect "no device" says cuda "CUDA_ERROR_NO_DEVICE (100)" LD_LIBRARY_PATH="$work/bare"
    expect "a function that is missing" says cuda "libcuda.so.1: no function cuLaunchKernel" \
        LD_LIBRARY_PATH="$work/lacking"
    expect "a device that cannot be opened" says cuda "CUDA_ERROR_DEVICE_UNAVAILABLE" LD_LIBRARY_PATH="$work/busy"
    expect "auto takes the next one" chosen cpu LD_LIBRARY_PATH="$work/busy" CKV_DISABLE=hip,opencl
    refuse "a row that says something else" says cuda "no such text" LD_LIBRARY_PATH="$work/busy"
    expect "asked for by name, a stub is an error" fails_for "CUDA_ERROR_STUB_LIBRARY" LD_LIBRARY_PATH="$work/broken"
    expect "asked for by name, a busy device is an error" fails_for "CUDA_ERROR_DEVICE_UNAVAILABLE" \
        LD_LIBRARY_PATH="$work/busy"
    expect "switched off" says cuda "switched off by CKV_DISABLE" LD_LIBRARY_PATH="$work/busy" \
        CKV_DISABLE=opencl,cuda FAKE_CUDA_LOADED="$work/loaded"
    refuse "and not loaded" test -e "$work/loaded"
    expect "a part of the name switches nothing off" shows cuda "CUDA_ERROR_DEVICE_UNAVAILABLE" \
        LD_LIBRARY_PATH="$work/busy" CKV_DISABLE=cud,cudax FAKE_CUDA_LOADED="$work/loaded"
    expect "but for a warning" grep -q "CKV_DISABLE: 'cudax': no such backend here" "$work/errors"
    expect "and so it was loaded" test -e "$work/loaded"
    rm -f "$work/loaded"
    expect "another backend can be asked for by name" env LD_LIBRARY_PATH="$work/busy" \
        FAKE_CUDA_LOADED="$work/loaded" "$CKV" evict "$top_srcdir/tests/data/smollm2-135m.safetensors" \
        -o "$work/out" --backend cpu
    refuse "and no driver is loaded for it" test -e "$work/loaded"
else
    skip_one "broken drivers" "no shared library can be built with $CC"
fi

mkdir "$work/text" "$work/icd"
echo "no library at all" >"$work/text/libcuda.so.1"
expect "a text in the library's place" says cuda "libcuda.so.1" LD_LIBRARY_PATH="$work/text"
expect "all of them switched off" chosen cpu CKV_DISABLE=cuda,hip,opencl
for backend in cuda hip opencl; do
    expect "$backend: switched off" says $backend "switched off by CKV_DISABLE" CKV_DISABLE=cuda,hip,opencl
done

if env CKV_DISABLE=cuda,hip "$CKV" info | grep -q '^opencl .*libOpenCL'; then
    skip_one "OpenCL's loader" "no libOpenCL.so.1"
else
    expect "OpenCL: no platform" says opencl "CL_PLATFORM_NOT_FOUND_KHR (-1001)" OCL_ICD_VENDORS="$work/nothing"
    echo "$work/text/libcuda.so.1" >"$work/icd/text.icd"
    expect "OpenCL: a text in a platform's place" says opencl "clGetPlatformIDs" OCL_ICD_VENDORS="$work/icd"
fi
finish
