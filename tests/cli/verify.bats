#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv verify: its report, its digest, what it does with a difference, and what it refuses.

load helpers

setup() {
    in_own_folder
    # Devices of this machine have a test of their own below.
    export CKV_DISABLE=cuda,hip,opencl
    # Seven threads on few cores: those that wait must not spin.
    export OMP_WAIT_POLICY=passive
}

# stops STATUS: the last run ended so, whatever it printed.
stops() {
    [[ $status -eq $1 ]] || fail "exit $status, wanted $1; stderr: $(<../stderr); stdout: $(<../stdout)"
}

digest() {
    grep '^digest ' ../stdout
}

# planted BACKEND:STAGE: finds that, in found.safetensors.
planted() {
    ckv verify --problems 20 --backend "${1%%:*}" --plant "$1" --output found.safetensors
    stops 1
}

@test "all equal: rows for each backend, variant and stage, and no word on stderr" {
    ckv verify --problems 6 --backend ref,cpu
    ends 0
    [[ ! -s ../stderr ]] || fail "stderr: $(<../stderr)"
    for stage in score norm select compact evict; do
        grep -Eq "^ref +0 +- +$stage +6 +0 +[1-9][0-9,]* +0$" ../stdout
        grep -Eq "^cpu +0 +isa=portable +$stage +6 +0 +[1-9][0-9,]* +0$" ../stdout
    done
    grep -Eq '^cpu +0 +norm_block=192 +norm +6 ' ../stdout
    grep -Eq '^6 problems in [0-9.]+ s: [1-9][0-9,]* bits compared, 0 mismatches$' ../stdout
    [[ $(digest) =~ ^digest\ xxh128:[0-9a-f]{32}\ recipe\ 1\ seed\ 1\ problems\ 6$ ]]
    [[ -z $(find . -mindepth 1) ]]
}

@test "what is not run says why" {
    ckv verify --problems 1
    ends 0
    for backend in cuda hip opencl; do
        grep -Eq "^$backend +- +- +not run: switched off by CKV_DISABLE" ../stdout
    done
}

@test "the digest depends on seed and number of problems, and on nothing else" {
    ckv verify --problems 8 --backend ref
    wanted=$(digest)
    ckv verify --problems 8 --backend cpu,ref
    [[ $(digest) == "$wanted" ]]
    CKV_NUM_THREADS=5 ckv verify --seed 1 --problems 8 --backend cpu
    [[ $(digest) == "$wanted" ]]
    ckv verify --problems 8 --backend ref --seed 2
    [[ $(digest | cut -d ' ' -f 2) != "$(cut -d ' ' -f 2 <<<"$wanted")" ]]
    ckv verify --problems 9 --backend ref
    [[ $(digest | cut -d ' ' -f 2) != "$(cut -d ' ' -f 2 <<<"$wanted")" ]]
}

@test "the digest of the first problems is what it was on other machines, as docs/ci.md shows it" {
    ckv verify --problems 4 --backend ref
    [[ $(digest) == "digest xxh128:5f350b1815401d839fa3a5af46882985 recipe 1 seed 1 problems 4" ]] ||
        fail "$(digest): if what is drawn has changed, so must VERIFY_RECIPE"
    grep -qF "$(digest)" "$top_srcdir/docs/ci.md"
}

@test "minutes end it, and as many problems give the same digest" {
    ckv verify --minutes 0.03 --backend cpu
    ends 0
    by_time=$(digest)
    ckv verify --problems "${by_time##* }" --backend ref
    [[ $(digest) == "$by_time" ]]
}

@test "for programs: one document" {
    need_python
    ckv verify --problems 3 --seed 5 --json
    ends 0
    json 'o["seed"] == 5 and o["problems"] == 3 and o["mismatches"] == 0 and o["difference"] is None'
    json 'len(o["digest"]["value"]) == 32'
    json 'o["bits"] == sum(s["bits"] for t in o["targets"] for s in t["stages"]) > 0'
    json 'all(s["problems"] == 3 for t in o["targets"] for s in t["stages"])'
    json '{t["variant"] for t in o["targets"] if t["backend"] == "cpu"} >= {"isa=portable", "norm_block=96"}'
    json '{s["backend"] for s in o["skipped"]} >= {"cuda", "hip", "opencl"} and all(s["reason"] for s in o["skipped"])'
}

# suites EXPRESSION: true of the XML in report.xml, which Python sees as `root`.
suites() {
    "$PYTHON" -c '
import sys, xml.etree.ElementTree as tree
root = tree.parse("report.xml").getroot()
cases = root.findall("testsuite/testcase")
count = lambda what: sum(case.find(what) is not None for case in cases)
if not eval(sys.argv[1]):
    sys.exit("not so: " + sys.argv[1] + "\n" + open("report.xml").read())' "$1"
}

# What the attributes say is what there is.
sums_up() {
    suites 'root.tag == "testsuites" and int(root.get("tests")) == len(cases)'
    suites 'all(int(s.get("tests")) == len(s.findall("testcase")) for s in root)'
    suites 'int(root.get("failures")) == count("failure") == sum(int(s.get("failures")) for s in root)'
    suites 'int(root.get("errors")) == count("error") == sum(int(s.get("errors")) for s in root)'
    suites 'int(root.get("skipped")) == count("skipped") == sum(int(s.get("skipped")) for s in root)'
    suites 'all(c.get("name") and c.get("classname") and float(c.get("time")) >= 0 for c in cases)'
}

@test "JUnit: a suite for each target, skipped ones with their reason" {
    need_python
    ckv verify --problems 2 --junit report.xml
    ends 0
    sums_up
    suites 'count("failure") == count("error") == 0 and count("skipped") >= 3'
    suites '"ref:0" in [s.get("name") for s in root] and "cpu:0 isa=portable" in [s.get("name") for s in root]'
    suites 'any("CKV_DISABLE" in x.get("message") for x in root.iter("skipped"))'
    suites 'any(p.get("name") == "digest" for p in root.iter("property"))'
}

@test "JUnit: a failure has the difference and how to see it again" {
    need_python
    ckv verify --problems 9 --backend cpu --plant cpu:norm --junit report.xml --output "a&b.safetensors"
    stops 1
    sums_up
    suites 'count("failure") == 1'
    suites '"wanted 0x" in next(root.iter("failure")).get("message")'
    suites 'next(root.iter("failure")).text.endswith("--replay '\''a&b.safetensors'\'' --plant cpu:norm")'
}

@test "a planted bit is found at every stage, made small, saved and replayed" {
    need_python
    for stage in score norm select compact evict; do
        rm -f found.safetensors
        planted "cpu:$stage"
        says_in_one_line "cpu:0 " ": $stage: " "wanted 0x"
        says ../stdout "group 2, tokens 37," "replay       ckv verify --replay found.safetensors --plant cpu:$stage"
        # 37 tokens of one number each, and what the header takes.
        [[ $(stat -c %s found.safetensors) -lt 2500 ]]
        ckv verify --replay found.safetensors --plant "cpu:$stage"
        stops 1
        says ../stdout "cpu:0 " " $stage: " "wanted 0x"
        ckv verify --replay found.safetensors
        ends 0
        says ../stdout "equal to the reference"
        ckv verify --replay found.safetensors --backend ref
        ends 0
    done
}

@test "the reference is held to its own bits in every layout" {
    planted ref:score
    says ../stderr "ref:0: score:"
}

@test "a difference is the same the second time" {
    planted cpu:evict
    mv found.safetensors first
    planted cpu:evict
    cmp first found.safetensors
}

@test "without --output the file's name says seed and problem" {
    ckv verify --seed 7 --problems 20 --backend cpu --plant cpu:score
    stops 1
    ls ckv-verify-planted-7-*.safetensors
}

@test "with JSON a difference is in the document" {
    need_python
    ckv verify --problems 20 --backend cpu --plant cpu:select --output found.safetensors --json
    stops 1
    json 'o["mismatches"] == 1 and o["digest"] is None'
    json 'o["difference"]["stage"] == "select" and o["difference"]["problem"]["tokens"] == 37'
    json 'o["difference"]["replay"].startswith("ckv verify --replay found.safetensors")'
}

# interrupted SIGNAL... -- ARGUMENT...: a long run that gets the signals once it is under way; all but the first one at
# the same time as the last.  Shells start what runs behind them with SIGINT ignored, and so may be what started this
# test; so Python starts it, with the usual actions.
interrupted() {
    status=0
    "$PYTHON" - "$CKV" "$@" >../status <<'END' || return
import os, signal, subprocess, sys, time
end = sys.argv.index("--")
names = sys.argv[2:end]
for name in names:
    signal.signal(getattr(signal, name), signal.SIG_DFL)
with open("../stdout", "wb") as out, open("../stderr", "wb") as err:
    run = subprocess.Popen([sys.argv[1], "verify", *sys.argv[end + 1:]], stdout=out, stderr=err)
    time.sleep(1.5)
    assert run.poll() is None, "it ended by itself"
    run.send_signal(signal.SIGSTOP)
    for name in names:
        run.send_signal(getattr(signal, name))
    run.send_signal(signal.SIGCONT)
    print(run.wait(60))
END
    status=$(<../status)
}

@test "a signal ends it after a whole problem: the reports are there and say so" {
    need_python
    interrupted SIGINT -- --minutes 5 --backend ref --junit report.xml
    stops 130
    says_in_one_line "interrupted by SIGINT after "
    grep -q '^interrupted by SIGINT$' ../stdout
    grep -Eq '^[1-9][0-9]* problems in [0-9.]+ s: ' ../stdout
    grep -Eq '^ref +0 +- +evict +[1-9]' ../stdout
    sums_up
    suites 'count("error") == 1 and next(root.iter("error")).get("message").startswith("interrupted by SIGINT after ")'
    number=$(sed -n 's/^\([0-9]*\) problems in .*/\1/p' ../stdout)
    by_signal=$(digest)
    ckv verify --problems "$number" --backend ref
    [[ $(digest) == "$by_signal" ]]
    interrupted SIGTERM -- --minutes 5 --backend cpu --json --junit report.xml
    stops 143
    json 'o["interrupted"] == "SIGTERM" and o["problems"] > 0 and o["difference"] is None and o["digest"]'
    json 'all(s["problems"] + t["left_out"] == o["problems"] for t in o["targets"] for s in t["stages"])'
    sums_up
    suites 'any(p.get("name") == "digest" for p in root.iter("property"))'
    ckv verify --problems 1 --backend ref --json
    json 'o["interrupted"] is None'
}

@test "a second signal ends it at once" {
    need_python
    interrupted SIGINT SIGTERM -- --minutes 5 --backend ref
    [[ $status -eq -15 && ! -s ../stdout ]] || fail "$status: $(<../stdout)"
}

@test "backends and parts of devices' names in any case, as the library has them" {
    need_python
    ckv info --json
    name=$("$PYTHON" -c 'import json; print([x["name"] for x in json.load(open("../stdout"))["backends"] if x["selected"]][0])')
    for text in CPU "Cpu:${name^^}" "cpu:${name:1}" cpu:00; do
        ckv verify --problems 1 --backend "$text" --json
        ends 0
        json '{t["backend"] for t in o["targets"]} == {"cpu"}'
    done
    ckv verify --problems 1 --backend "ref:SCALAR Ref,CPU" --json
    ends 0
    json '{t["backend"] for t in o["targets"]} == {"ref", "cpu"}'
    refused 3 "--backend: 'REF:vector': no such device" -- verify --backend REF:vector --problems 1
    refused 3 "--backend: 'cpu:0x': no such device" -- verify --backend cpu:0x --problems 1
}

# changed FROM TO: bad.safetensors is good.safetensors with another header.
changed() {
    "$PYTHON" - "$1" "$2" <<'END'
import struct, sys
raw = open("good.safetensors", "rb").read()
size = struct.unpack_from("<Q", raw)[0]
header = raw[8:8 + size].decode().rstrip(" ")
changed = header.replace(sys.argv[1], sys.argv[2])
assert changed != header, sys.argv[1]
changed = changed.encode()
changed += b" " * (-len(changed) % 8)
open("bad.safetensors", "wb").write(struct.pack("<Q", len(changed)) + changed + raw[8 + size:])
END
}

@test "a replayed file that names what is not here: the file and its fields, not an option" {
    need_python
    planted cpu:norm
    mv found.safetensors good.safetensors
    changed '"backend":"cpu"' '"backend":"cuda"'
    ckv verify --replay bad.safetensors
    ends 3
    says_in_one_line "ckv: bad.safetensors: __metadata__: backend 'cuda', device '0': switched off by CKV_DISABLE" \
        '; --backend says'
    changed '"device":"0"' '"device":"7"'
    ckv verify --replay bad.safetensors
    ends 3
    says_in_one_line "ckv: bad.safetensors: __metadata__: backend 'cpu', device '7': no such device"
    changed '"variant":"' '"variant":"no_such_'
    ckv verify --replay bad.safetensors
    ends 3
    says_in_one_line "ckv: bad.safetensors: __metadata__: variant 'no_such_"
    # Where the option says it, the option is named.
    ckv verify --replay bad.safetensors --backend hip
    ends 3
    says_in_one_line "ckv: --backend: 'hip': switched off"
}

@test "wrong options end with 2 and one line" {
    refused 2 "--seed: '-1': wanted an integer" -- verify --seed -1
    refused 2 "--problems: '0': wanted an integer from 1" -- verify --problems 0
    refused 2 "--problems: '3x': wanted an integer" -- verify --problems 3x
    refused 2 "--minutes: '0': wanted minutes above 0" -- verify --minutes 0
    refused 2 "--minutes: '1h': wanted minutes" -- verify --minutes 1h
    refused 2 "--backend: '': wanted a list" -- verify --backend ref,,cpu
    refused 2 "--backend: 'ref:': wanted a list" -- verify --backend ref:
    refused 2 "--backend: 'vulkan': wanted ref, cpu, cuda, hip or opencl" -- verify --backend ref,vulkan --problems 1
    refused 2 "--plant: 'cpu': wanted BACKEND:STAGE" -- verify --plant cpu
    refused 2 "--plant: 'cpu:sort': wanted BACKEND:STAGE" -- verify --plant cpu:sort
    refused 2 "--plant: 'tpu:norm': wanted BACKEND:STAGE" -- verify --plant tpu:norm
    refused 2 "--plant: 'ref:norm': nothing is run on ref" -- verify --problems 1 --backend cpu --plant ref:norm
    refused 2 "--output: 'x': the file of --junit too" -- verify --problems 1 --junit x --output x
    refused 2 "'more': an argument, wanted options alone" -- verify more
    refused 2 "--replay: given with --seed" -- verify --replay x --seed 1
    refused 2 "--replay: given with --junit" -- verify --replay x --json
}

@test "a backend that is named and cannot be used is an error" {
    refused 3 "--backend: 'cuda': switched off by CKV_DISABLE" -- verify --backend cuda --problems 1
    refused 3 "--backend: 'cpu:7': no such device" -- verify --backend cpu:7 --problems 1
}

@test "files that cannot be replayed" {
    need_python
    refused 3 "nothing.safetensors" -- verify --replay nothing.safetensors
    make_file good in.safetensors
    refused 3 "in.safetensors: __metadata__: no ckv.verify" -- verify --replay in.safetensors
    planted cpu:evict
    mv found.safetensors good.safetensors
    # Each line: what is replaced, by what, and words of the error.
    while IFS='|' read -r from to words; do
        changed "$from" "$to"
        ckv verify --replay bad.safetensors
        ends 3
        says_in_one_line "$words"
    done <<'END'
"stage":"evict"|"stage":"sort"|stage: 'sort': wanted score
"backend":"cpu"|"backend":"tpu"|backend: 'tpu': wanted ref
"tokens":"37"|"tokens":"38"|wanted a dtype and a shape that fit the metadata
"tokens":"37"|"tokens":"0"|tokens: '0': wanted an integer from 1
"threads":"1"|"threads":"x"|threads: 'x': wanted an integer
"in.key":"dense+0"|"in.key":"dense"|in.key: 'dense': wanted a layout
"in.key":"dense+0"|"in.key":"dense+64"|in.key: '64': wanted an integer
"out.norm":"dense+0"|"out.norm":"one-row+0"|out.norm: 'one-row+0': wanted a layout
"epsilon":"0x1.a36e2ep-14"|"epsilon":"small"|epsilon: 'small': wanted a number
"pool":"none"|"pool":"min"|pool: 'min': wanted none
layers.0.query|layers.0.other|no tensor layers.0.query
"window":"1"|"window":"0"|window
END
}

@test "a difference that cannot be saved, and reports that cannot be written, are errors" {
    ckv verify --problems 9 --backend cpu --plant cpu:score --output none/found.safetensors
    stops 3
    says ../stderr "none/found.safetensors"
    ckv verify --problems 1 --backend ref --junit none/report.xml
    ends 3
    says_in_one_line "--junit: 'none/report.xml'"
    status=0
    "$CKV" verify --problems 1 --backend ref >/dev/full 2>../stderr || status=$?
    stops 3
    says ../stderr "standard output: cannot be written"
}

@test "this machine's OpenCL devices, and pretended CUDA and HIP ones" {
    need_python
    unset CKV_DISABLE
    [[ -f ${top_builddir-.}/tests/sim/lib/libckv_sim.so && -z ${USE_SANITIZE-} ]] || skip "no pretended devices in this build"
    export CKV_SIM_CUDA=sm_90 CKV_SIM_HIP=gfx942
    LD_LIBRARY_PATH=$top_builddir/tests/sim/lib ckv verify --problems 1 --json
    ends 0
    json '{t["backend"] for t in o["targets"]} >= {"ref", "cpu", "cuda", "hip"}'
    json 'all(s["problems"] > 0 for t in o["targets"] for s in t["stages"])'
    json 'any(t["backend"] == "cuda" and t["variant"] == "norm_route=matrix" for t in o["targets"])'
    for backend in cuda hip; do
        LD_LIBRARY_PATH=$top_builddir/tests/sim/lib ckv verify --problems 9 --backend "$backend" --plant "$backend:norm" \
            --output found.safetensors
        stops 1
        says ../stdout "tokens 37,"
        LD_LIBRARY_PATH=$top_builddir/tests/sim/lib ckv verify --replay found.safetensors --plant "$backend:norm"
        stops 1
        LD_LIBRARY_PATH=$top_builddir/tests/sim/lib ckv verify --replay found.safetensors
        ends 0
        ckv verify --replay found.safetensors --backend cpu
        ends 0
    done
}

@test "a device that fails ends the run: which, at what, and its problem" {
    need_python
    unset CKV_DISABLE
    [[ -f ${top_builddir-.}/tests/sim/lib/libckv_sim.so && -z ${USE_SANITIZE-} ]] || skip "no pretended devices in this build"
    CKV_SIM_CUDA=sm_90 CKV_SIM_FAIL=kernel:50 LD_LIBRARY_PATH=$top_builddir/tests/sim/lib \
        ckv verify --problems 9 --backend cuda --output found.safetensors --junit report.xml --json
    stops 3
    says_in_one_line "cuda:0" "status 11" "CUDA_ERROR_LAUNCH_FAILED"
    json 'o["errors"] >= 1 and o["mismatches"] == 0 and o["digest"] is None and o["difference"]["error"]'
    sums_up
    suites 'count("error") == 1 and "CUDA_ERROR" in next(root.iter("error")).get("message")'
    CKV_SIM_CUDA=sm_90 LD_LIBRARY_PATH=$top_builddir/tests/sim/lib ckv verify --replay found.safetensors
    ends 0
}
