#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv tune: options, budgets, the tuning file, and that no result depends on it.

load helpers

setup() {
    in_own_folder
    export CKV_TUNE_CACHE=$PWD/cache/tuning.json CKV_DISABLE=cuda,hip,opencl
    unset CKV_PARAMETERS CKV_CPU_ISA
    cat >tiny.json <<'EOF'
{"name": "tiny", "query_heads": 4, "kv_heads": 2, "head_dim": 32, "hidden": 256}
EOF
}

# On a layer that takes no time.
tune_tiny() {
    ckv tune --backend cpu --shapes tiny.json --tokens 300 "$@"
}

files() {
    find . -type f ! -name tiny.json | sort
}

@test "wrong options: one line that names the option, the value and what was wanted" {
    export previous_outputs=no
    refused 2 --budget "'soon'" 60s -- tune --budget soon
    refused 2 --budget "'-1s'" 60s -- tune --budget=-1s
    refused 2 --budget "'5 s'" 60s -- tune --budget '5 s'
    refused 2 --budget "'2d'" 60s -- tune --budget 2d
    refused 2 --kernels "'norms'" norm -- tune --kernels score,norms
    refused 2 --kernels empty -- tune --kernels score,,norm
    refused 2 --shapes "'Llama'" Llama-3.1-8B -- tune --shapes Llama
    refused 2 --shapes "'x.safetensors'" .json -- tune --shapes x.safetensors
    refused 2 --tokens "'63'" 64 -- tune --tokens 63
    refused 2 --threads "'0'" 1 -- tune --threads 0
    refused 2 --backend "':'" NAME -- tune --backend :
    refused 2 --output "''" file -- tune --output=
    refused 2 "'more'" options -- tune more
    refused 2 --exhaustive --budget -- tune --exhaustive --budget 0
    refused 1 nowhere.json -- tune --shapes nowhere.json
    refused 1 "'nothing'" "'nothing'" ref -- tune --backend nothing
}

@test "a dry run shows the space and the ranks, runs nothing and writes nothing" {
    tune_tiny --dry-run
    ends 0
    [[ ! -s ../stderr && -z $(files) ]]
    says ../stdout norm_block isa 'candidates, by the model' '(default)' 'nothing was run'
}

@test "a dry run as JSON" {
    need_python
    tune_tiny --dry-run --json
    ends 0
    [[ -z $(files) ]]
    json '(o["dry_run"] and o["file"] is None and o["backend"] == "cpu" and
          all(x["default"] in x["values"] for x in o["space"]) and
          [r for x in o["results"] for r in x["ranking"] if r["values"] == {"norm_block": 96}] and
          all("seconds" not in x for x in o["results"]))'
}

@test "tuning: a table, a file, and every bit as before" {
    need_python
    make_file good in.safetensors
    ckv evict in.safetensors -o before.safetensors --backend cpu --dump --compact
    ends 0
    tune_tiny --budget 30s --kernels norm,select
    ends 0
    says ../stdout 'default, ms' 'tuned, ms' gain 'of limit' norm_block= "saved in $CKV_TUNE_CACHE"
    [[ ! -s ../stderr && -s $CKV_TUNE_CACHE ]]
    "$PYTHON" -c '
import json, sys
entries = json.load(open(sys.argv[1]))["entries"]
assert entries and {e["stage"] for e in entries} <= {"all", "score", "norm", "select", "compact", "evict"}, entries
assert all(0 < e["time_ns"] <= e["default_ns"] * 1.2 for e in entries), entries' "$CKV_TUNE_CACHE"
    ckv evict in.safetensors -o after.safetensors --backend cpu --dump --compact
    ends 0
    cmp before.safetensors after.safetensors
}

@test "what was tuned is what is used from then on" {
    need_python
    tune_tiny --budget 9s --kernels norm --json
    ends 0
    "$PYTHON" -c '
import json
r = json.load(open("../stdout"))["results"][0]
assert r["saved"] and r["stage"] == "norm" and r["scope"] == "plan", r
assert r["values"]["norm_block"] in (96, 192, 288, 384), r'
    [[ $(files) == *cache/tuning.json* ]]
}

@test "as JSON: one document with times, ends and reasons" {
    need_python
    tune_tiny --budget 9s --kernels select --json --output there.json
    ends 0
    json 'o["budget"] == 9 and o["seconds"] < 60 and not o["stopped"] and o["file"].endswith("there.json")'
    json '(all(x["measured"] in ("score", "norm", "select", "compact", "evict") and (x["ratio"] or 1) <= 1 and
              (x["changed"] or x["values"] == x["default"]) and x["ending"] in ("done", "budget")
              for x in o["results"]))'
    [[ -s there.json && ! -e $CKV_TUNE_CACHE ]]
}

# A backend whose candidates must not win: tests/modules/planted.c.
plant() {
    local module=${top_builddir:-.}/tests/modules/lib/planted.so
    [[ -f $module && -z ${USE_SANITIZE-} ]] || skip "no module with planted candidates in this build"
    mkdir -p modules
    cp "$module" modules/ckv-planted.so
    export CKV_MODULE_PATH=$PWD/modules
}

@test "planted candidates: one wrong in a bit, one that spins, one that dies and one that fails are rejected" {
    need_python
    plant
    ckv tune --backend planted --shapes tiny.json --tokens 300 --budget 25s --json
    ends 0
    json '([(x["stage"], x["values"], x["changed"], x["saved"]) for x in o["results"]] ==
          [("norm", {"kind": "faster"}, True, True)])'
    json '({x["values"]["kind"]: x["reason"].split(" (")[0].split(" within")[0]
           for x in o["results"][0]["rejected"] if x["values"]["kind"] != "fails"} ==
          {"wrong": "other bits than the reference\u0027s", "spins": "no answer", "dies": "ended by signal 4"})'
    json '[x for x in o["results"][0]["rejected"] if x["values"]["kind"] == "fails" and "workspace" in x["reason"]]'
    # What was found is what plans have from now on.
    ckv info --backend planted
    says ../stdout faster
    CKV_TUNE_CACHE=off ckv info --backend planted
    says ../stdout slow
    PLANTED=all ckv tune --backend planted --shapes tiny.json --tokens 300 --budget 5s --output other.json
    [[ $status -eq 1 ]] || fail "exit $status, wanted 1"
    says_in_one_line 'nothing could be tuned: norm, tiny, 300 tokens: the default could not be timed: ended by signal 4'
    says ../stdout 'could not be timed' 'kind=slow (default)' 'nothing was saved' 'rejected: norm' 'signal 4'
    [[ ! -e other.json ]]
    PLANTED=all ckv tune --backend planted --shapes tiny.json --tokens 300 --budget 5s --output other.json --json
    [[ $status -eq 1 ]] || fail "exit $status, wanted 1"
    json '[x["ending"] for x in o["results"]] == ["default failed"] and o["file"] is None'
}

@test "without a budget nothing runs and nothing is written" {
    need_python
    tune_tiny --budget 0 --json
    ends 0
    [[ -z $(files) ]]
    json '(o["seconds"] < 5 and o["results"] and
          all(x["ending"] == "model" and not x["changed"] and x["seconds"] is None for x in o["results"]))'
}

@test "a budget of 200 ms is kept to within a launch, on a layer whose launch is longer" {
    local start=$EPOCHREALTIME
    ckv tune --backend cpu --shapes Llama-3.1-8B --tokens 16K --budget 200ms
    ends 0
    says ../stdout 'the time was up' '(default)'
    # Generous: the machine may be busy.  The search without a limit takes minutes.
    "$PYTHON" -c 'import sys; sys.exit(float(sys.argv[2]) - float(sys.argv[1]) > 15)' "$start" "$EPOCHREALTIME"
}

@test "every candidate: the search's choice beside the best of all" {
    need_python
    tune_tiny --budget 3s --kernels select --exhaustive --json
    ends 0
    json 'o["results"][0]["tried"] == o["results"][0]["candidates"] or o["results"][0]["ending"] == "budget"'
    json 'o["results"][0]["exhaustive"] is None or o["results"][0]["exhaustive"]["searched_to_best"] > 0'
}

@test "what the environment holds is not tuned" {
    need_python
    CKV_PARAMETERS=cpu.norm_block=192 tune_tiny --budget 0 --json
    ends 0
    json '([x["held"] for x in o["space"] if x["name"] == "norm_block"] == [True] and
          "norm" not in [x["stage"] for x in o["results"]])'
}

@test "a backend without a choice" {
    ckv tune --backend ref --shapes tiny.json --tokens 300
    ends 0
    says ../stdout 'nothing to tune'
    [[ -z $(files) ]]
}

# unwritable WORD... -- OPTION...: an error before anything is measured, which leaves nothing behind.
unwritable() {
    local before words=() start=$SECONDS
    while [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    shift
    before=$(listing)
    tune_tiny --budget 60s --kernels select "$@"
    ends 1
    says_in_one_line 'tuning file' "${words[@]}"
    [[ $(listing) == "$before" ]] || fail "the folder changed by: $*" "$before" "now:" "$(listing)"
    [[ $((SECONDS - start)) -lt 30 ]] || fail "it took $((SECONDS - start)) s"
}

@test "a file that cannot be written is an error before anything is measured" {
    mkdir -p folder/there closed
    echo '{"what": "else"}' >other.json
    ln -s round.json round.json
    unwritable folder/there 'not a file' -- --output folder/there
    unwritable other.json/none.json 'Not a directory' -- --output other.json/none.json
    unwritable folder/ 'Is a directory' -- --output folder/
    unwritable other.json 'not a tuning file' -- --output other.json
    unwritable round.json 'symbolic links' -- --output round.json
    export CKV_TUNE_CACHE=$PWD/folder/there
    unwritable folder/there 'not a file' --
    HOME='' XDG_CACHE_HOME='' CKV_TUNE_CACHE='' unwritable HOME --
    # What would not write does not mind, nor does anything but the tuning itself.
    tune_tiny --budget 0 --output folder
    ends 0
    tune_tiny --dry-run --output folder
    ends 0
    ckv info
    ends 0
}

@test "a folder that may not be written is an error before anything is measured" {
    mkdir closed
    chmod 0555 closed
    unprivileged true || skip "rights cannot be given up here"
    status=0
    unprivileged "$CKV" tune --backend cpu --shapes tiny.json --tokens 300 --kernels select --output closed/new/t.json \
        >../stdout 2>../stderr || status=$?
    ends 1
    says_in_one_line 'tuning file closed/new/t.json: Permission denied'
    [[ -z $(find closed -mindepth 1) ]]
}

@test "a link to no file is followed, and stays" {
    need_python
    mkdir folder
    ln -s folder/new.json link.json
    tune_tiny --budget 5s --kernels select --output link.json
    ends 0
    [[ -L link.json && -s folder/new.json ]]
}

@test "a file that cannot be written in the end: an error, after the table" {
    command -v flock >/dev/null || skip "no flock"
    : >held.json.lock
    flock held.json.lock "$CKV" tune --backend cpu --shapes tiny.json --tokens 300 --budget 2s --kernels select \
        --output held.json >../stdout 2>../stderr && fail "it ended with 0"
    says ../stdout 'default, ms' 'nothing was saved'
    says_in_one_line 'tuning file held.json: locked by another process'
    [[ ! -e held.json && -e held.json.lock ]]
}

@test "a signal ends it with what is finished" {
    local pid
    "$CKV" tune --backend cpu --shapes Llama-3.2-1B --tokens 4K --budget 4s --json >../stdout 2>../stderr &
    pid=$!
    sleep 2
    # Shells start what runs behind them with SIGINT ignored, which stays so.
    kill -TERM "$pid"
    wait "$pid"
    need_python
    json 'o["stopped"] and o["results"] and o["results"][-1]["ending"] in ("stopped", "budget", "done")'
    [[ ! -s ../stderr ]]
}
