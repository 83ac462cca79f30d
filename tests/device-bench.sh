#!/bin/sh
# ckv-device-bench and tools/device-check, on whatever device OpenCL finds here, PoCL for
# instance.  Every comparison is seen to fail once.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

bench=$top_builddir/bench/device/ckv-device-bench
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME

# layer OPTION...: small sizes, nothing said but into a file.
layer() {
    "$bench" --backend opencl --tokens 300 --query-heads 4 --kv-heads 2 --head-dim 16 --value-dim 16 --hidden 64 \
        --repeats 3 --warm-up 1 --copy-mib 1 "$@" >"$work/out" 2>"$work/err"
}

# exits STATUS COMMAND...
exits() {
    wanted=$1
    shift
    "$@"
    got=$?
    [ "$got" -eq "$wanted" ] || { echo "exit $got, wanted $wanted"; cat "$work/out" "$work/err"; return 1; }
}

# spoiled STAGE WHAT: a changed bit is found there, and that stage is not timed.
spoiled() {
    exits 1 layer --spoil "$1" && grep -q "$2 .*differ from byte" "$work/err" && grep -q "^ *$1 *DIFFERENT" "$work/out" &&
        grep -q "^ *$1 " "$work/out" && ! grep -q "^ *$1  *[0-9]" "$work/out" && grep -q '^ *[a-z-]*  *[0-9]' "$work/out"
}

# lines COUNT KIND: of the JSON.
lines() {
    count=$(grep -c "^{\"kind\":\"$2\".*}\$" "$work/lines.jsonl")
    [ "$count" -eq "$1" ] || { echo "$count lines of $2, wanted $1"; return 1; }
}

says() {
    grep -q -e "$1" "$work/err" || { cat "$work/err"; return 1; }
}

bad_option() {
    said=$1
    shift
    exits 2 layer "$@" && says "$said"
}

no_device() {
    exits 77 layer --device nothing-of-that-name && says 'no device of backend opencl: .*nothing-of-that-name'
}

check() {
    "$top_srcdir/tools/device-check" --build "$top_builddir" --backend opencl --output "$work/measured" "$@" \
        >"$work/out" 2>"$work/err"
}

whole_check() {
    check --quick || { cat "$work/out" "$work/err"; return 1; }
    grep -q 'different or failed: 0' "$work"/measured/*.md && grep -q "result equals that of cpu: true" "$work"/measured/*.md &&
        grep -q '"kind":"device-test".*"failed":0' "$work"/measured/*.jsonl
}

expect "a bad size is named" bad_option "--tokens: '0', wanted an integer" --tokens 0
expect "a bad stage is named" bad_option "--spoil: 'all', wanted a stage" --spoil all
expect "heads that do not divide are named" bad_option "--query-heads: 5, wanted a multiple" --query-heads 5
expect "no device: exit status 77, and why" no_device

if exits 77 layer --no-check --repeats 1; then
    echo "# skip the rest: $(cat "$work/err")"
    finish
fi

expect "every stage has the host's bytes" exits 0 layer --json "$work/lines.jsonl" --dump "$work/dump"
expect "a line for each comparison" lines 6 device-check
expect "a line for each time" lines 6 device-time
expect "a line for the copy" lines 1 device-copy
refuse "another number of lines is noticed" lines 7 device-time
expect "norms are written" test -s "$work/dump/norm.bin"
expect "f16 and a head as wide as it gets" exits 0 layer --dtype f16 --value-dim 32 --reference ref
expect "a spoiled score is found" spoiled score attention
expect "a spoiled norm is found" spoiled norm norms
expect "a spoiled selection is found" spoiled select positions
expect "a spoiled compaction is found" spoiled compact values
expect "a spoiled eviction is found" spoiled evict positions
expect "a spoiled compaction in place is found" spoiled compact-in-place values
if [ -x "$top_builddir/tests/unit/test_compact" ] && [ -x "$top_builddir/ckv" ] && command -v bash >/dev/null; then
    expect "device-check runs whole" whole_check
fi
if command -v bash >/dev/null; then
    expect "the layer alone" check --quick --layer-only
    refuse "device-check fails with a spoiled stage" check --quick --layer-only -- --spoil norm
fi
finish
