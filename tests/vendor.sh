#!/bin/sh
# Our declarations of CUDA, HIP, OpenCL and jansson say what their own headers say, where
# those are installed.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
lists=$top_srcdir/backends/gpu/vendor

# agree NAME FLAGS FOLDER: with the lists in FOLDER.
agree() {
    # Unquoted: CC and FLAGS may hold several words.
    # shellcheck disable=SC2086
    $CC -std=gnu11 -fsyntax-only -iquote "$3" $2 "$top_srcdir/tests/vendor/check_$1.c"
}

# control NAME FLAGS WHAT SED-SCRIPT FILE: lists that were made wrong are refused.
control() {
    rm -rf "$work/lists"
    cp -r "$lists" "$work/lists"
    sed "$4" "$lists/$5" >"$work/lists/$5"
    cmp -s "$lists/$5" "$work/lists/$5" && { expect "$1: $3: the control changes something" false; return; }
    refuse "$1: $3 is refused" agree "$1" "$2" "$work/lists"
}

# vendor NAME HAVE FLAGS CONSTANT TYPE FUNCTION: a control for each kind of line.
vendor() {
    if [ "$2" != yes ]; then
        skip_one "$1" "the vendor's header was not found"
        return
    fi
    expect "$1: our declarations are the vendor's" agree "$1" "$3" "$lists"
    control "$1" "$3" "another value" "s/^CONSTANT($4, .*/CONSTANT($4, 77)/" "$1.def"
    control "$1" "$3" "another type" "s/^SCALAR($5, .*/SCALAR($5, signed char)/" "$1.def"
    control "$1" "$3" "another prototype" "/^FUNCTION([a-zA-Z_]*, $6,/s/))/, int more))/" "$1.def"
}

vendor cuda "$VENDOR_CUDA" "$VENDOR_CUDA_CPPFLAGS" CU_MEMORYTYPE_HOST CUdeviceptr cuInit
vendor hip "$VENDOR_HIP" "$VENDOR_HIP_CPPFLAGS" hipErrorNoDevice hipDevice_t hipInit
vendor opencl "$VENDOR_OPENCL" "$VENDOR_OPENCL_CPPFLAGS" CL_CONTEXT_DEVICES cl_int clFinish

lists=$top_srcdir/lib
# shellcheck disable=SC2086
if echo '#include <jansson.h>' | $CC $JANSSON_CFLAGS -E -o /dev/null -x c - 2>/dev/null; then
    expect "jansson: our declarations are its own" agree jansson "$JANSSON_CFLAGS" "$lists"
    control jansson "$JANSSON_CFLAGS" "another value" "s/^CONSTANT(JSON_REAL, .*/CONSTANT(JSON_REAL, 77)/" jansson.def
    control jansson "$JANSSON_CFLAGS" "another prototype" "/^FUNCTION([a-z_ *]*, json_array_size,/s/))/, int more))/" jansson.def
else
    skip_one jansson "its header was not found"
fi
finish
