# shellcheck shell=sh
# What test scripts share: TAP, a scratch folder, and a make of one's own.
# SPDX-License-Identifier: Apache-2.0
#
#   expect "NAME" COMMAND...   one test: COMMAND succeeds
#   refuse "NAME" COMMAND...   one test: COMMAND fails (controls: the check can fail)
#   skip_one "NAME" "REASON"   one test that cannot run here
#   skip_all "REASON"          instead of all tests
#   finish                     last
# What a test prints goes into its log, as comments.

tap_count=0
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# Neither the flags nor the job slots of the make that runs the test.
unset MAKEFLAGS MFLAGS MAKELEVEL

tap_line() {
    tap_count=$((tap_count + 1))
    sed 's/^/# /' "$work/tap"
    echo "$1 $tap_count - $2"
}

expect() {
    tap_name=$1
    shift
    if "$@" >"$work/tap" 2>&1; then tap_line ok "$tap_name"; else tap_line "not ok" "$tap_name"; fi
}

refuse() {
    tap_name=$1
    shift
    if "$@" >"$work/tap" 2>&1; then tap_line "not ok" "$tap_name"; else tap_line ok "$tap_name"; fi
}

skip_one() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

finish() {
    echo "1..$tap_count"
    exit 0
}
