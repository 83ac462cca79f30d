#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv info: version, build, backends and devices.

load helpers

setup() {
    in_own_folder
}

@test "for people: the version, the build, and each backend with what it runs on" {
    ckv info
    ends 0
    [[ ! -s ../stderr ]]
    says ../stdout "${VERSION-}" compiler backend
    grep -Eq '^ref .*yes' ../stdout
}

@test "for programs: the same" {
    need_python
    ckv info --json
    ends 0
    [[ ! -s ../stderr ]]
    json 'o["version"] == "'"${VERSION-}"'" or not "'"${VERSION-}"'"'
    json 'o["build"]["compiler"] and o["build"]["machine"]'
    json '[x["available"] for x in o["backends"] if x["backend"] == "ref"] == [True]'
    json 'sum(x["selected"] for x in o["backends"]) == 1'
}

@test "every row that is not available says why, and none that is does" {
    need_python
    ckv info --json
    json 'all(bool(x["reason"]) != x["available"] for x in o["backends"])'
    json 'all(x["available"] or not x["selected"] for x in o["backends"])'
}

@test "each available device can be asked for, and says that it ran" {
    need_python
    make_file good in.safetensors
    ckv info --json
    "$PYTHON" -c '
import json
for x in json.load(open("../stdout"))["backends"]:
    if x["available"]:
        print(x["backend"] + ("" if x["device"] is None else ":%d" % x["device"]))' >../devices
    [[ -s ../devices ]]
    while read -r device; do
        ckv evict in.safetensors -o out.safetensors --json --backend "$device"
        ends 0
        json 'o["backend"] == "'"${device%%:*}"'"'
    done <../devices
}

@test "it writes no file" {
    ckv info
    ckv info --json
    [[ -z $(find . -mindepth 1) ]]
}

@test "a backend that is switched off says so" {
    CKV_DISABLE=cuda,hip,opencl ckv info
    ends 0
    for backend in cuda hip opencl; do
        grep -Eq "^$backend +- +no +switched off by CKV_DISABLE" ../stdout
    done
}
