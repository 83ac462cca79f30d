#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tuning files as the command meets them: results and exit status do not depend on them,
# and what is wrong with them is told in one line.

load helpers

setup() {
    in_own_folder
    unset CKV_TUNE_DEFAULTS XDG_CACHE_HOME CKV_PARAMETERS
    export CKV_DISABLE=cuda,hip,opencl CKV_TUNE_CACHE=$PWD/../tuning.json
}

# same_result: `ckv evict` gives what it gives without tuning.
same_result() {
    [[ -f in.safetensors ]] || make_file good in.safetensors
    [[ -f ../plain.safetensors ]] ||
        CKV_TUNE_CACHE=off "$CKV" evict in.safetensors -o ../plain.safetensors >../plain.out || return
    rm -f out.safetensors
    ckv evict in.safetensors -o out.safetensors
    ends 0 && cmp out.safetensors ../plain.safetensors
}

@test "info shows every parameter with its value and source, and the file" {
    need_python
    ckv info
    ends 0
    [[ ! -s ../stderr ]]
    grep -Eq "^tuning file  .*/tuning.json$" ../stdout
    grep -Eq '^norm +norm_block +[0-9]+ +model ' ../stdout
    ckv info --json
    json 'o["tuning"]["path"].endswith("/tuning.json") and not o["tuning"]["trouble"]'
    json '{"isa", "norm_block", "skip_factor"} <= {p["name"] for p in o["tuning"]["parameters"]}'
    json 'all(p["source"] == "model" for p in o["tuning"]["parameters"])'
    CKV_PARAMETERS=norm_block=192 ckv info --json
    json '[(p["value"], p["source"]) for p in o["tuning"]["parameters"] if p["name"] == "norm_block"] == [(192, "environment")]'
}

@test "switched off, no path is looked for" {
    need_python
    CKV_TUNE_CACHE=off ckv info --json
    json 'o["tuning"]["path"] == "" and o["tuning"]["shipped"] == "" and "CKV_TUNE_CACHE" in o["tuning"]["reason"]'
}

@test "an entry made as docs/tuning.md says is taken" {
    need_python
    ckv info --json
    "$PYTHON" - ../stdout <<'END'
import json, os, re, sys
sys.path.insert(0, os.environ["top_srcdir"] + "/tests/fuzz")
sys.dont_write_bytecode = True
import make_corpus
said = json.load(open(sys.argv[1]))
backend, chip, arch, units, kernels = said["tuning"]["device"].split(", ")
vendor, name = chip.split(" ")
device = {"backend": backend, "vendor": vendor, "name": name, "arch": arch, "units": int(units.split()[0]),
          "memory_gib": 0, "local_bytes": 0, "driver": "", "compiler": "", "kernels": kernels.split()[1]}
bucket = {"tokens": 8192, "kv_heads": 8, "group": 4, "value_dim": 128, "hidden": 4096}
good = dict(device=device, library=said["version"], bucket=bucket)
open("../tuning.json", "wb").write(make_corpus.tuning(make_corpus.entry(**good, values={"norm_block": 384})))
bad = make_corpus.entry(**good, values={"norm_block": 384})
bad["values"] = {"norm_block": 192}
open("../changed.json", "wb").write(make_corpus.tuning(bad))
END
    ckv info --json
    [[ ! -s ../stderr ]]
    json 'o["tuning"]["accepted"] == 1'
    json '[(p["value"], p["source"]) for p in o["tuning"]["parameters"] if p["name"] == "norm_block"] == [(384, "user file")]'
    same_result
    CKV_TUNE_CACHE=$PWD/../changed.json ckv info --json
    ends 0
    says_in_one_line warning changed.json "entry 1: sum"
    json 'o["tuning"]["accepted"] == 0 and o["tuning"]["skipped"] == 1 and o["tuning"]["trouble"]'
}

@test "a file that is none changes no result and costs one line at most" {
    need_python
    mkdir ../folder ../closed && chmod 0555 ../closed
    mkfifo ../pipe
    : >../empty
    echo 'my diary' >../diary
    for file in folder pipe empty diary; do
        CKV_TUNE_CACHE=$PWD/../$file same_result || fail "$file"
        says_in_one_line "warning: tuning file" "$file"
    done
    for file in closed/tuning.json no/such/folder/tuning.json diary/below; do
        CKV_TUNE_CACHE=$PWD/../$file same_result || fail "$file"
        [[ ! -s ../stderr ]] || fail "$file: $(<../stderr)"
    done
}

@test "no home at all" {
    need_python
    unset CKV_TUNE_CACHE
    HOME=/nonexistent same_result
    [[ ! -s ../stderr ]]
    (unset HOME && same_result)
    [[ ! -s ../stderr ]]
}

@test "shipped defaults are added to by a tool that takes sound results alone" {
    need_python
    tool=${top_builddir-$top_srcdir}/autotune/merge-defaults
    [[ -x $tool ]] || skip "merge-defaults was not built"
    "$PYTHON" - <<'END'
import os, sys
sys.path.insert(0, os.environ["top_srcdir"] + "/tests/fuzz")
sys.dont_write_bytecode = True
from make_corpus import entry, tuning
def put(name, *entries):
    open(name, "wb").write(tuning(*entries))
put("slow.json", entry(), entry(stage="all", scope="context", bucket={}, values={"isa": "avx2"}))
put("fast.json", entry(values={"norm_block": 192}, time_ns=500))
put("bad-value.json", entry(values={"norm_block": 97}))
put("bad-name.json", entry(values={"norm_blok": 96}))
put("bad-stage.json", entry(stage="cook"))
put("half.json", entry(stage="evict", values={"bound_block": 96}))
put("untimed.json", entry(time_ns=0))
put("slower.json", entry(time_ns=2001))
put("undated.json", entry(date="today"))
put("damaged.json", {**entry(), "time_ns": 7})
END
    cp "$top_srcdir/autotune/defaults/defaults.json" defaults.json
    chmod u+w defaults.json
    for file in bad-value bad-name bad-stage half untimed slower undated damaged; do
        cp defaults.json before.json
        ! "$tool" defaults.json slow.json $file.json 2>../stderr || fail "$file was taken"
        says_in_one_line "merge-defaults: $file.json"
        cmp defaults.json before.json
    done
    "$tool" defaults.json slow.json | grep -q '2 entries new or faster, 2 in all'
    "$tool" defaults.json fast.json | grep -q '1 entries new or faster, 2 in all'
    "$tool" defaults.json slow.json | grep -q '0 entries new or faster, 2 in all'
    grep -q '"norm_block":192' defaults.json
    run ! grep -q '"norm_block":96' defaults.json
}

@test "the file that is shipped is sound" {
    need_python
    CKV_TUNE_DEFAULTS=$top_srcdir/autotune/defaults/defaults.json ckv info --json
    [[ ! -s ../stderr ]]
    json 'o["tuning"]["shipped"].endswith("defaults.json") and not o["tuning"]["trouble"] and o["tuning"]["skipped"] == 0'
}
