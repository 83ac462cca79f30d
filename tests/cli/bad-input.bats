#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Input that cannot be processed: one line that names the tensor or option, the
# value and what was wanted, status 1 (2 for options), and the folder as it was.

load helpers

setup() {
    need_python
    in_own_folder
}

# every_defect GROUP COMMAND [OPTION]...: all files of a group of make_file.py.
every_defect() {
    local group=$1 words failed=0 checked=0
    shift
    mkdir ../bad
    make_file all "$group" ../bad >../defects
    while IFS=$'\t' read -r -a words; do
        checked=$((checked + 1))
        refused 1 "${words[@]}" -- "$@" "../bad/${words[0]}" -o out.safetensors || failed=$((failed + 1))
    done <../defects
    [[ $checked -ge 10 && $failed -eq 0 ]] || fail "$failed of $checked files"
}

@test "files that are no safetensors files, or lie about what they hold" {
    every_defect file evict
}

some_defects=(empty_file header_beyond_the_file header_that_is_no_json duplicate_names overlapping_offsets
    misaligned_offsets last_byte_missing extents_whose_product_overflows)

@test "some of these for select" {
    for name in "${some_defects[@]}"; do
        make_file "$name" "$name"
        refused 1 "$name" -- select "$name" -o out.safetensors
    done
}

@test "some of these as the checkpoint" {
    make_file without_weight in.safetensors
    for name in "${some_defects[@]}"; do
        make_file "$name" "$name"
        refused 1 "$name" -- evict in.safetensors --model "$name" -o out.safetensors
    done
}

@test "tensors of evict that are missing or do not fit" {
    every_defect tensor evict
}

@test "tensors of select that are missing or do not fit" {
    every_defect select select
}

@test "defects are found whatever the budget, and whatever is asked for" {
    for name in value_shorter_than_key no_query value_of_2_0_5 weight_too_narrow scale_in_words; do
        make_file "$name" in.safetensors
        for options in "--keep 0" "--keep 1" "--budget 100" "--no-perturbation" "--json" "--compact --dump"; do
            # shellcheck disable=SC2086
            refused 1 layers.0. -- evict in.safetensors -o out.safetensors $options
        done
    done
}

@test "a layer that is in order is not written when another is not" {
    make_file second_layer_incomplete in.safetensors
    refused 1 layers.1.value -- evict in.safetensors -o out.safetensors
    ckv evict in.safetensors -o out.safetensors --layer 0
    ends 0
    [[ -s out.safetensors ]]
}

@test "the widest window and pool that the arithmetic allows, and beyond" {
    # Five queries in a window, two heads in a group: a width of 2^17 / 10 and no more.
    make_file good in.safetensors queries=5
    ckv evict in.safetensors -o out.safetensors --pool avg:13107
    ends 0
    refused 1 13108 -- evict in.safetensors -o out.safetensors --pool avg:13108
    refused 1 2147483647 -- evict in.safetensors -o out.safetensors --pool avg:2147483647
}

@test "a file that is not there" {
    refused 1 nowhere.safetensors -- evict nowhere.safetensors -o out.safetensors
    refused 1 nowhere.safetensors -- select nowhere.safetensors -o out.safetensors
    make_file without_weight in.safetensors
    refused 1 nowhere.safetensors -- evict in.safetensors --model nowhere.safetensors -o out.safetensors
}

@test "a folder, a pipe and a device in place of the input" {
    mkdir folder
    mkfifo pipe
    refused 1 folder directory -- evict folder -o out.safetensors
    refused 1 folder directory -- evict folder/ -o out.safetensors
    refused 1 . directory -- select . -o out.safetensors
    refused 1 pipe -- evict pipe -o out.safetensors
    refused 1 /dev/null -- evict /dev/null -o out.safetensors
    make_file without_weight in.safetensors
    refused 1 folder directory -- evict in.safetensors --model folder -o out.safetensors
}

@test "a file that may not be read" {
    make_file good in.safetensors
    chmod 000 in.safetensors
    ! unprivileged true || ! unprivileged cat in.safetensors 2>/dev/null || skip "permissions do not bind this user"
    unprivileged true || skip "no way to give up root's privileges"
    before=$(listing)
    status=0
    unprivileged "$CKV" evict in.safetensors -o out.safetensors >../stdout 2>../stderr || status=$?
    ends 1
    says_in_one_line in.safetensors "ermission"
    [[ $(listing) == "$before" ]]
}

@test "names with control characters stay on one line" {
    make_file good $'in\n\033[31m.safetensors'
    ckv evict $'in\n\033[31m.safetensors' -o out.safetensors --layer 5
    ends 1
    says_in_one_line --layer 5
}

@test "a file cut short while it is in use" {
    [[ -r $capture ]]
    cp "$capture" in.safetensors
    chmod u+w in.safetensors
    # The slow backend, so that it is in use for long enough.
    "$CKV" evict in.safetensors -o out.safetensors --no-perturbation --backend ref >../stdout 2>../stderr 3>&- &
    process=$!
    for _ in {1..500}; do
        [[ $(find . -type f | wc -l) -ge 2 ]] && break
        sleep 0.01
    done
    truncate -s 100000 in.safetensors
    status=0
    wait "$process" || status=$?
    ends 1
    says_in_one_line in.safetensors
    [[ $(find . -type f) == ./in.safetensors ]]
}

# ---------------------------------------------------------------- NaN and infinity

@test "NaN and infinity are processed, with a warning for each tensor and a status" {
    make_file not_finite in.safetensors
    ckv evict in.safetensors -o out.safetensors --dump --compact --json
    ends 0
    [[ $(wc -l <../stderr) -eq 4 ]]
    for name in query key value o_proj.weight; do
        grep -F "layers.0.$name" ../stderr | grep -qi warning
    done
    json 'o["status"] == "nonfinite"'
    json 'sorted(o["layers"][0]["nonfinite"]) == ["layers.0." + x for x in ("key", "o_proj.weight", "query", "value")]'
    json 'all(math.isfinite(x) for x in o["layers"][0]["stage1_mass"].values())'
    json 'all(math.isfinite(x) for s in ("criticalkv", "attention_only") for x in o["layers"][0]["perturbation"][s].values())'
    "$PYTHON" - out.safetensors <<'END'
import json, math, struct, sys
raw = open(sys.argv[1], "rb").read()
size = struct.unpack_from("<Q", raw)[0]
header = json.loads(raw[8:8 + size])
for name in ("layers.0.attention", "layers.0.norm"):
    begin, end = header[name]["data_offsets"]
    numbers = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + size + begin:8 + size + end])
    assert len(numbers) == 40 and all(map(math.isfinite, numbers)), name
END
}

@test "the warning names the layer, and the other layers have no status" {
    make_file not_finite_value in.safetensors
    ckv evict in.safetensors -o out.safetensors --json
    ends 0
    says_in_one_line warning layers.1.value
    json 'o["status"] == "nonfinite" and [x["nonfinite"] for x in o["layers"]] == [[], ["layers.1.value"]]'
}

@test "the same in the attention and norm of select" {
    make_file not_finite_select in.safetensors
    ckv select in.safetensors -o out.safetensors --json
    ends 0
    [[ $(wc -l <../stderr) -eq 2 ]]
    says ../stderr layers.0.attention layers.0.norm
    json 'o["status"] == "nonfinite" and sorted(o["layers"][0]["nonfinite"]) == ["layers.0.attention", "layers.0.norm"]'
}

@test "finite input has no warning, and says so" {
    make_file good in.safetensors
    ckv evict in.safetensors -o out.safetensors --json
    ends 0
    [[ ! -s ../stderr ]]
    json 'o["status"] == "ok" and o["layers"][0]["nonfinite"] == []'
}
