#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the command runs on: by --backend, by the environment, and by itself.

load helpers

setup() {
    need_python
    in_own_folder
    make_file good in.safetensors
    # What there is must not depend on the machine.
    export CKV_DISABLE=cuda,hip,opencl
    unset CKV_BACKEND CKV_DEVICE CKV_MODULE_PATH
}

@test "the report says what ran: backend, device and variant" {
    ckv evict in.safetensors -o out.safetensors --backend ref
    ends 0
    says ../stdout "backend ref (scalar reference, scalar); "
    ckv evict in.safetensors -o out.safetensors --backend REF --json
    json '(o["backend"], o["device"], o["variant"]) == ("ref", "scalar reference", "scalar")'
    CKV_CPU_ISA=portable ckv evict in.safetensors -o out.safetensors --json
    json '(o["backend"], o["variant"]) == ("cpu", "portable")'
    CKV_CPU_ISA=portable ckv evict in.safetensors -o out.safetensors
    says ../stdout "backend cpu (portable); "
}

@test "the environment chooses where no option does" {
    CKV_BACKEND=ref ckv evict in.safetensors -o out.safetensors --json
    ends 0
    json 'o["backend"] == "ref"'
    CKV_BACKEND=ref:0 ckv evict in.safetensors -o out.safetensors --json
    json 'o["backend"] == "ref"'
    CKV_DEVICE=reference ckv evict in.safetensors -o out.safetensors --json
    json 'o["backend"] == "ref"'
    CKV_BACKEND=ref ckv evict in.safetensors -o out.safetensors --json --backend cpu
    json 'o["backend"] == "cpu"'
    CKV_BACKEND=ref ckv evict in.safetensors -o out.safetensors --json --backend auto
    json 'o["backend"] == "ref"'
    ckv evict in.safetensors -o out.safetensors --json
    json 'o["backend"] == "cpu"'
}

@test "what is not there is an error that says who asked and what there is" {
    refused 1 "--backend: 'nonsense'" "options.backend 'nonsense': no such backend" "there is: cpu:0" -- \
        evict in.safetensors -o out.safetensors --backend nonsense
    export CKV_BACKEND=nonsense
    refused 1 "CKV_BACKEND 'nonsense': no such backend" "there is: cpu:0" "ref:0" "CKV_DISABLE" -- \
        evict in.safetensors -o out.safetensors
    export CKV_BACKEND=cpu:7
    refused 1 "CKV_BACKEND 'cpu', CKV_BACKEND's device '7': no such device" -- evict in.safetensors -o out.safetensors
    export CKV_BACKEND=cpu CKV_DEVICE=8
    refused 1 "CKV_DEVICE '8': no such device" -- evict in.safetensors -o out.safetensors
    unset CKV_BACKEND
    refused 1 "CKV_DEVICE '8': no such device" -- select in.safetensors -o out.safetensors
    refused 1 "options.backend 'cuda', CKV_DEVICE '8': switched off by CKV_DISABLE" -- \
        evict in.safetensors -o out.safetensors --backend cuda
}

@test "an instruction set or threads that cannot be had are errors, and a row of info" {
    for isa in z80 AVX2; do
        export CKV_CPU_ISA=$isa
        refused 1 "auto: CKV_CPU_ISA '$isa': no such instruction set, wanted one of: " portable "there is: ref:0" -- \
            evict in.safetensors -o out.safetensors
        ckv info
        ends 0
        grep -Eq "^cpu +- +no +CKV_CPU_ISA '$isa': no such instruction set, wanted one of: .*portable" ../stdout
        says ../stdout "nothing chosen: auto: CKV_CPU_ISA '$isa'"
        ckv evict in.safetensors -o out.safetensors --backend ref
        ends 0
    done
    unset CKV_CPU_ISA
    for threads in 0 -1 two 4294967297; do
        export CKV_NUM_THREADS=$threads
        refused 1 "CKV_NUM_THREADS '$threads', wanted a number of threads from 1 to 1024" -- \
            evict in.safetensors -o out.safetensors
        refused 1 "CKV_NUM_THREADS '$threads', wanted" -- tune --dry-run
        refused 1 "CKV_NUM_THREADS '$threads', wanted" -- bench
        ckv info
        ends 0
        says ../stdout "nothing chosen: CKV_NUM_THREADS '$threads', wanted"
        ckv evict in.safetensors -o out.safetensors --threads 2
        ends 0
    done
}

@test "info shows the choice, and who made it" {
    ckv info --backend ref
    ends 0
    grep -Eq '^ref +0 +yes, --backend +scalar reference \(scalar\)$' ../stdout
    CKV_BACKEND=ref ckv info
    grep -Eq '^ref +0 +yes, CKV_BACKEND +scalar reference' ../stdout
    CKV_DEVICE=reference ckv info
    grep -Eq '^ref +0 +yes, CKV_DEVICE +scalar reference' ../stdout
    ckv info
    grep -Eq '^cpu +0 +yes, auto ' ../stdout
    CKV_CPU_ISA=portable ckv info --json
    json '[x["variant"] for x in o["backends"] if x["selected"]] == ["portable"] and o["chosen_by"] == "auto"'
    json 'all(x["selected"] or x["variant"] is None for x in o["backends"])'
}

@test "info warns of names in CKV_DISABLE that switch nothing off" {
    CKV_DISABLE=CUDA,hip,opencl,cudda ckv info
    ends 0
    says_in_one_line "warning: CKV_DISABLE: 'cudda': no such backend here, wanted some of: cuda, hip, opencl, cpu"
    grep -Eq '^cuda +- +no +switched off by CKV_DISABLE$' ../stdout
    CKV_DISABLE=cuda,hip,opencl,ref ckv info --json
    ends 0
    says_in_one_line "warning: CKV_DISABLE: 'ref': cannot be switched off"
    CKV_DISABLE="cuda, hip opencl,," ckv info
    ends 0
    [[ ! -s ../stderr ]]
    CKV_DISABLE=cuda,hip,opencl,mine ckv evict in.safetensors -o out.safetensors
    ends 0
    [[ ! -s ../stderr ]]
}

@test "info lists all there is where nothing can be chosen" {
    CKV_BACKEND=nonsense ckv info
    ends 0
    [[ ! -s ../stderr ]]
    says ../stdout "nothing chosen: CKV_BACKEND 'nonsense': no such backend"
    grep -Eq '^cpu +0 +yes ' ../stdout
    grep -Eq '^ref +0 +yes ' ../stdout
    ckv info --backend cuda --json
    ends 0
    json 'o["chosen_by"] is None and "options.backend" in o["error"] and not any(x["selected"] for x in o["backends"])'
    json 'len(o["backends"]) >= 5'
    ckv info --json
    json 'o["error"] is None'
}

@test "a module that is none is a row, and an error when it is asked for" {
    mkdir modules
    echo text >modules/ckv-mine.so
    export CKV_MODULE_PATH=$PWD/modules
    ckv info
    ends 0
    grep -Eq '^mine +- +no +/.*/modules/ckv-mine.so: file too short$' ../stdout
    grep -Eq '^cpu +0 +yes, auto ' ../stdout
    refused 1 "options.backend 'mine': $PWD/modules/ckv-mine.so: file too short" "there is: cpu:0" -- \
        evict in.safetensors -o out.safetensors --backend mine
    ckv evict in.safetensors -o out.safetensors
    ends 0
    [[ ! -s ../stderr ]]
}
