#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv select: its table, its JSON, its output.

load helpers

setup() {
    need_python
    in_own_folder
    make_file good_select in.safetensors
}

@test "for people: a row for each layer" {
    ckv select in.safetensors -o out.safetensors --budget 5
    ends 0
    [[ ! -s ../stderr ]]
    says ../stdout in.safetensors out.safetensors "budget 5" "alpha 0.5" tokens kept
    # layer, KV heads, tokens, kept per head, share
    grep -Eq '^ *0 +2 +20 +5 +25\.0% ' ../stdout
}

@test "for programs: the policy and the counts" {
    ckv select in.safetensors -o out.safetensors --budget 5 --recent 2 --sinks 1 --alpha 0.25 --epsilon 0.5 --json
    ends 0
    json 'o["command"] == "select" and o["status"] == "ok"'
    json 'o["policy"]["budget"] == 5 and o["policy"]["keep"] is None and o["policy"]["alpha"] == "1/4"'
    json 'o["policy"]["recent"] == 2 and o["policy"]["sinks"] == 1 and float(o["policy"]["epsilon"]) == 0.5'
    json '[(x["layer"], x["kv_heads"], x["tokens"], x["budget"], x["kept"]) for x in o["layers"]] == [(0, 2, 20, 5, 10)]'
    json 'o["layers"][0]["next_position"] == 20 and o["total"]["kept"] == 10'
}

@test "the output holds the kept sets and nothing else" {
    ckv select in.safetensors -o out.safetensors
    ends 0
    [[ $(tensors out.safetensors) == $'layers.0.kept\nlayers.0.kept_offsets' ]]
}

@test "the bytes depend on input and policy alone" {
    ckv select in.safetensors -o first.safetensors --keep 0.3 --recent 0
    for options in "" --json "--backend ref" "--threads 3" "--layer 0"; do
        # shellcheck disable=SC2086
        ckv select in.safetensors -o out.safetensors --keep 0.3 --recent 0 $options
        ends 0
        cmp first.safetensors out.safetensors
    done
    ckv select in.safetensors -o out.safetensors --keep 0.3 --recent 1
    run ! cmp -s first.safetensors out.safetensors
}
