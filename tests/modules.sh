#!/bin/sh
# Backends as modules, loaded by a core that was itself opened by a program not linked
# with it: found beside the library wherever that stands, and with the bits of the
# reference.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
load=$top_builddir/tests/modules/load
core=$top_builddir/tests/modules/.libs/libckv.so.0
[ -x "$load" ] || skip_all "no unit tests in this build"
[ -f "$core" ] || skip_all "no shared library in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitizer's program cannot load objects without it"
CKV_KERNEL_CACHE=off
export CKV_KERNEL_CACHE
unset CKV_MODULE_PATH CKV_BACKEND CKV_DEVICE CKV_DISABLE

# What `make install` makes of the library and its modules, in $work/first.
tree=$work/first
mkdir -p "$tree/lib/ckv"
cp "$core" "$tree/lib/libckv.so.0"
for backend in cuda hip opencl; do
    cp "$top_builddir/.libs/ckv-$backend.so" "$tree/lib/ckv/"
done

# run NAME VARIABLE=VALUE... -- ARGUMENT...: stdout in $work/NAME; nothing on stderr.
run() {
    name=$1
    shift
    set_variables=
    while [ "$1" != -- ]; do
        set_variables="$set_variables $1"
        shift
    done
    shift
    # Unquoted: none of the values has a blank.
    # shellcheck disable=SC2086
    env $set_variables "$load" "$@" >"$work/$name" 2>"$work/errors"
    status=$?
    cat "$work/$name" "$work/errors"
    [ ! -s "$work/errors" ] && return "$status"
}
kept() {
    grep '^kept' "$work/$1"
}
same_kept() {
    [ -n "$(kept "$1")" ] && [ "$(kept "$1")" = "$(kept "$2")" ]
}

expect "the reference, in a core opened RTLD_LOCAL" run ref CKV_DISABLE=cuda,hip,opencl -- "$tree/lib/libckv.so.0" ref
opencl_is_there() {
    run opencl CKV_DISABLE=cuda,hip -- "$tree/lib/libckv.so.0" opencl
}
if opencl_is_there >/dev/null; then
    expect "the module of OpenCL" opencl_is_there
    expect "the same is kept" same_kept ref opencl
    runs_on_opencl() {
        grep -q '^runs on opencl' "$work/opencl" && grep -q '^detail: query: shape' "$work/opencl"
    }
    expect "it is what ran, and errors are the library's" runs_on_opencl
    expect "the library closed and opened again" run again CKV_DISABLE=cuda,hip -- "$tree/lib/libckv.so.0" opencl again
    twice() {
        [ "$(kept again | sort -u)" = "$(kept ref)" ] && [ "$(kept again | wc -l)" -eq 2 ]
    }
    expect "with the same result, twice" twice
else
    skip_one "the module of OpenCL" "no OpenCL device"
fi

sim=$top_builddir/tests/sim/lib
if [ -f "$sim/libckv_sim.so" ]; then
    for backend in cuda hip; do
        expect "the module of $backend, on a pretended device" run $backend LD_LIBRARY_PATH="$sim" -- \
            "$tree/lib/libckv.so.0" $backend
        expect "$backend: the same is kept" same_kept ref $backend
        runs_on() {
            grep -q "^runs on $backend, Pretended" "$work/$backend"
        }
        expect "$backend: it is what ran" runs_on
    done
    alone() {
        CKV_SIM_REPORT=$work/report run alone LD_LIBRARY_PATH="$sim" CKV_DISABLE=opencl -- "$tree/lib/libckv.so.0" auto &&
            grep -q '^runs on cuda' "$work/alone"
    }
    expect "auto takes the first of the discrete ones" alone
fi

# The tree moved: nothing is left of where it was.
moved() {
    mv "$tree" "$work/second place" && tree="$work/second place" &&
        CKV_DISABLE=cuda,opencl "$load" "$tree/lib/libckv.so.0" cpu >"$work/moved" 2>&1 && cat "$work/moved" &&
        ! grep -q 'no ckv-' "$work/moved" && same_kept ref moved
}
expect "the install tree moved" moved
tree="$work/second place"

# Without its file, a backend is a row that says where it was looked for.
rm "$tree/lib/ckv/ckv-hip.so"
says_where() {
    CKV_DISABLE=cuda,opencl "$load" "$tree/lib/libckv.so.0" auto >"$work/where" 2>&1
    status=$?
    cat "$work/where"
    grep -F "hip:-1 not: a module of its own: no ckv-hip.so in " "$work/where" | grep -qF "second place/lib/ckv" &&
        [ "$status" -eq 0 ] && same_kept ref where
}
expect "a module that is not there" says_where

# One that cannot be read: an error when asked for, that names it and the loader's words.
echo 'no shared object' >"$tree/lib/ckv/ckv-hip.so"
unreadable() {
    CKV_DISABLE=cuda,opencl "$load" "$tree/lib/libckv.so.0" hip >"$work/unreadable" 2>"$work/errors"
    status=$?
    cat "$work/unreadable" "$work/errors"
    [ "$status" -eq 1 ] && [ ! -s "$work/errors" ] && grep -q "^error: options.backend 'hip': .*/lib/ckv/ckv-hip.so: " \
        "$work/unreadable" && grep -qE 'file too short|invalid ELF header' "$work/unreadable" &&
        grep -q 'there is: cpu:0' "$work/unreadable"
}
expect "asked for by name, a module that is none is an error" unreadable
falls_back() {
    CKV_DISABLE=cuda,opencl "$load" "$tree/lib/libckv.so.0" auto >"$work/falls" 2>"$work/errors" || return 1
    cat "$work/falls" "$work/errors"
    [ ! -s "$work/errors" ] && grep -q '^\* cpu:0' "$work/falls" && same_kept ref falls
}
expect "auto goes on without it" falls_back

# The first folder of CKV_MODULE_PATH has it, whatever stands beside the library.
mkdir "$work/folder"
cp "$top_builddir/.libs/ckv-hip.so" "$work/folder/"
by_path() {
    CKV_MODULE_PATH="$work/none:$work/folder" CKV_DISABLE=cuda,opencl "$load" "$tree/lib/libckv.so.0" cpu \
        >"$work/path" 2>&1 || return 1
    cat "$work/path"
    grep -F "hip:-1 not: " "$work/path" | grep -F "name clash" | grep -qF "$work/folder/ckv-hip.so"
}
expect "CKV_MODULE_PATH goes first" by_path

# Built in, a module of the same name is a row that says so.
if [ -f "$LIBCKV" ] && [ -z "$CKV_MODULES" ]; then
    clash() {
        CKV_MODULE_PATH="$work/folder" CKV_DISABLE=cuda,opencl "$load" "$LIBCKV" cpu >"$work/clash" 2>&1 || return 1
        cat "$work/clash"
        grep -qF "ckv-hip.so: name clash: 'hip' is built into the library" "$work/clash"
    }
    expect "a module of a backend that is built in" clash
fi
finish
