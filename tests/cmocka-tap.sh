#!/bin/sh
# Runs a cmocka program and makes its TAP fit for automake's driver.
# SPDX-License-Identifier: Apache-2.0
#
# cmocka 1.1.5 (1) prints one plan for each group of a program, with the numbers
# starting anew; (2) calls a skipped test "not ok"; (3) gives no reason for it.
# So: one plan at the end, the sum of cmocka's, so that tests that never ran are
# missed; "ok N # SKIP reason", the reason being the last "# skip: reason" that
# the test printed.  The exit status is handed on unless it only repeats "not ok".
# A program that hangs is ended after CKV_TEST_TIMEOUT seconds; those that CKV_TEST_SKIP
# names are left out.
case " ${CKV_TEST_SKIP-} " in
    *" ${1##*/} "*)
        echo "1..0 # SKIP left out by CKV_TEST_SKIP"
        exit 0
        ;;
esac
CMOCKA_MESSAGE_OUTPUT=TAP
export CMOCKA_MESSAGE_OUTPUT
# The program of awk is in single quotes on purpose.
# shellcheck disable=SC2016
{
    # Unquoted: a command with options, or nothing.
    # shellcheck disable=SC2086
    timeout -k 10 "${CKV_TEST_TIMEOUT:-1200}" ${CKV_RUNNER-} "$@"
    echo "exit-status $?"
} | ${AWK:-awk} '
    /^1\.\.[0-9]+/ { planned += substr($0, 4); next }
    /^# skip: / { reason = substr($0, 9); next }
    /^exit-status [0-9]+$/ { status = $2; next }
    /^(not )?ok [0-9]+/ {
        line = $0
        sub(/^(not )?ok [0-9]+( -)? */, "", line)
        if (line ~ /^# SKIP/) {
            sub(/^# SKIP */, "", line)
            print "ok " ++ran " - " line " # SKIP " (reason == "" ? "no reason given" : reason)
        } else if ($1 == "not") {
            failed++
            print "not ok " ++ran " - " line
        } else
            print "ok " ++ran " - " line
        reason = ""
        next
    }
    { print }
    END {
        print "1.." planned + 0
        exit failed ? 0 : status
    }'
