# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the bats files share.  Each test runs in a folder of its own.

bats_require_minimum_version 1.5.0

cli_folder=${BASH_SOURCE[0]%/*}
[[ $cli_folder == /* ]] || cli_folder=$PWD/$cli_folder

# The environment of `make check`, or a build in the source tree.
: "${top_srcdir:=$cli_folder/../..}"
: "${CKV:=$top_srcdir/ckv}"
: "${PYTHON:=python3}"

# What is tuned on this machine is no part of a test.
export CKV_TUNE_CACHE=${CKV_TUNE_CACHE-off}

# shellcheck disable=SC2034
capture=$top_srcdir/tests/data/smollm2-135m.safetensors

need_python() {
    "$PYTHON" -c '' 2>/dev/null || skip "no python3 to make the input files"
}

# make_file NAME OUT [OPTION=N]...: see make_file.py.
make_file() {
    "$PYTHON" "$cli_folder/make_file.py" "$@"
}

in_own_folder() {
    mkdir -p "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || return
}

# Says why, and fails.
fail() {
    printf '%s\n' "$@" >&2
    return 1
}

# ckv ARGUMENT...: runs the command; $status, the files ../stdout and ../stderr.
# They lie beside the folder so that they are no part of what it holds.
ckv() {
    status=0
    "$CKV" "$@" >../stdout 2>../stderr || status=$?
}

# ends STATUS: the last run did so, and a failing one printed nothing on stdout.
ends() {
    [[ $status -eq $1 ]] || fail "exit $status, wanted $1; stderr: $(<../stderr)" || return
    [[ $1 -eq 0 || ! -s ../stdout ]] || fail "a failing run printed: $(<../stdout)"
}

# says FILE WORD...: every word is in it.
says() {
    local text word
    text=$(<"$1")
    shift
    for word; do
        [[ $text == *"$word"* ]] || fail "no '$word' in: $text" || return
    done
}

# says_in_one_line WORD...: stderr is one line, with all the words.
says_in_one_line() {
    local lines LC_ALL=C
    mapfile lines <../stderr
    [[ ${#lines[@]} -eq 1 && ${lines[0]} == *$'\n' ]] || fail "wanted one line: ${lines[*]}" || return
    [[ ! ${lines[0]%$'\n'} =~ [[:cntrl:]] ]] || fail "control characters in: ${lines[0]}" || return
    says ../stderr "$@"
}

# Everything in the folder: names, inodes, times, and what an output holds.
listing() {
    find . -mindepth 1 -printf '%p %y %i %m %s %T@ %l\n'
    [[ ! -f out.safetensors ]] || tr -d '\0' <out.safetensors
}

# refused STATUS WORD... -- ARGUMENT...: ckv ends with the status and one line that
# has all the words, and leaves the folder as it was: with no output there (which
# is out.safetensors by convention), and with a previous one; $previous_outputs
# limits it to one of these.
refused() (
    # bats traces every command of a test, which makes long loops slow.
    trap - DEBUG
    want=$1 words=()
    shift
    while [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    shift
    for previous in ${previous_outputs-no yes}; do
        rm -f out.safetensors
        [[ $previous == no ]] || echo 'what was here before' >out.safetensors
        before=$(listing)
        ckv "$@"
        ends "$want" || fail "by: ckv $*" || return
        says_in_one_line "${words[@]}" || fail "by: ckv $*" || return
        [[ $(listing) == "$before" ]] || fail "the folder changed by: ckv $*" "$before" "now:" "$(listing)" || return
    done
    rm -f out.safetensors
)

# json EXPRESSION: true for the JSON in ../stdout, which Python sees as `o`.
json() {
    "$PYTHON" -c '
import json, math, sys
o = json.load(open("../stdout"), parse_constant=lambda text: sys.exit(f"{text} is no JSON"))
value = eval(sys.argv[1])
if not value:
    sys.exit(f"not so: {sys.argv[1]}\n{json.dumps(o, indent=1)}")' "$1"
}

# tensors FILE: the names of its tensors, sorted, one a line.
tensors() {
    "$PYTHON" -c '
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
header = json.loads(raw[8:8 + struct.unpack_from("<Q", raw)[0]])
print(*sorted(header), sep="\n")' "$1"
}

# Runs a command that may do no more than the user's own rights allow, root's
# included; false where that cannot be had.
unprivileged() {
    if [[ $(id -u) -eq 0 ]]; then
        setpriv --inh-caps=-all --bounding-set=-all --no-new-privs -- "$@"
    else
        "$@"
    fi
}
