#!/bin/sh
# Runs a clang that makes a code object for an AMD device, and says which kernels use private
# memory or spill vector registers to it (scalar ones go to lanes of a vector register):
#   compile_hip.sh warn|error CLANG OPTION...     with error, such a kernel is one
# SPDX-License-Identifier: Apache-2.0
set -eu
export LC_ALL=C

gate=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$@" -Rpass-analysis=kernel-resource-usage 2>"$log"; then
    cat "$log" >&2
    exit 1
fi
# What the remarks do not say is the compiler's own word.  A remark has two lines of source behind it.
awk -v gate="$gate" '
    / remark: .*\[-Rpass-analysis=kernel-resource-usage\]$/ {
        quoted = 0
        if (match($0, /Function Name: [A-Za-z0-9_]+/))
            name = substr($0, RSTART + 15, RLENGTH - 15)
        if (/(ScratchSize \[bytes\/lane\]|VGPRs Spill): *[1-9]/) {
            sub(/^.* remark: */, "")
            sub(/ \[-Rpass.*/, "")
            print "compile_hip.sh: " name ": " $0
            bad = 1
        }
        next
    }
    /^ *[0-9]* \|/ { next }
    { print }
    END { exit bad && gate == "error" }' "$log" >&2
