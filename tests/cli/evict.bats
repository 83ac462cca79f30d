#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv evict: its table, its JSON, W_O from a checkpoint, and its progress bar.

load helpers

setup() {
    need_python
    in_own_folder
}

@test "for people: a row for each layer, and the sum" {
    make_file good in.safetensors layers=3
    ckv evict in.safetensors -o out.safetensors --budget 10 --recent 2 --compact
    ends 0
    [[ ! -s ../stderr ]]
    says ../stdout in.safetensors out.safetensors "budget 10" "alpha 0.5" "recent 2" "max:7" \
        layer kept before after mass CriticalKV attention norms score norm select evict compact
    # 2 heads * 20 tokens * (3 + 5) numbers of 4 bytes, before; half of it after.
    [[ $(grep -cE '^ *[012] +4/2 +20 +10 +50\.0% +1\.25 KiB +640 B +[0-9.]+% ' ../stdout) -eq 3 ]]
    grep -Eq '^ *all +50\.0% +3\.75 KiB +1\.88 KiB ' ../stdout
    grep -Eq 'in [0-3] of 3 layers' ../stdout
}

@test "for people: no perturbation where none is wanted" {
    make_file good in.safetensors
    ckv evict in.safetensors -o out.safetensors --no-perturbation
    ends 0
    grep -Eq '^ *0 +4/2 +20 +8 +40\.0% +1\.25 KiB +512 B +- +- +- +- ' ../stdout
}

@test "for programs: all that the table says" {
    make_file good in.safetensors layers=2
    ckv evict in.safetensors -o out.safetensors --json --compact
    ends 0
    [[ ! -s ../stderr ]]
    json 'o["command"] == "evict" and o["status"] == "ok" and o["backend"] == "cpu"'
    json 'o["input"] == "in.safetensors" and o["output"] == "out.safetensors" and o["model"] is None'
    json 'o["policy"] == {"keep": "2/5", "budget": None, "alpha": "1/2", "epsilon": "0.0001", "window": 32,
        "recent": "window", "sinks": 0, "pool": "max:7", "budgets": "uniform", "norm": "l1", "skip": True}'
    json '[x["layer"] for x in o["layers"]] == [0, 1]'
    json 'all((x["query_heads"], x["kv_heads"], x["head_dim"], x["value_dim"], x["hidden"], x["tokens"], x["window"],
        x["budget"], x["stage1"], x["kept"], x["next_position"], x["bytes_before"], x["bytes_after"]) ==
        (4, 2, 3, 5, 7, 20, 4, 8, 4, 16, 20, 1280, 512) for x in o["layers"])'
    json 'all(0 <= x["stage1_mass"]["min"] <= x["stage1_mass"]["mean"] <= x["stage1_mass"]["max"] <= 1 for x in o["layers"])'
    json 'all(0 < x["perturbation"][s]["min"] <= x["perturbation"][s]["mean"] <= x["perturbation"][s]["max"]
        for x in o["layers"] for s in ("criticalkv", "attention_only"))'
    json 'all(x["seconds"][s] >= 0 for x in o["layers"] for s in ("projection", "evict", "compact"))'
    json 'o["total"]["layers"] == 2 and o["total"]["kept"] == 32 and o["total"]["bytes_before"] == 2560'
    json 'abs(o["total"]["stage1_mass"] - sum(x["stage1_mass"]["mean"] for x in o["layers"]) / 2) < 1e-12'
}

@test "for programs: no perturbation where none is wanted" {
    make_file good in.safetensors
    ckv evict in.safetensors -o out.safetensors --no-perturbation --json
    ends 0
    json 'o["layers"][0]["perturbation"] is None and o["layers"][0]["stage1_mass"] is None'
    json 'o["total"]["perturbation"] is None'
}

@test "a layer's own scale is shown, and no column without one" {
    make_file scaled in.safetensors
    ckv evict in.safetensors -o out.safetensors --keep 0.4
    ends 0
    [[ ! -s ../stderr ]]
    grep -Eq '^ *layer +heads +scale +tokens ' ../stdout
    grep -Eq '^ *0 +4/2 +- +20 +8 +40\.0% ' ../stdout
    grep -Eq '^ *1 +4/2 +0\.0625 +20 +8 +40\.0% ' ../stdout
    grep -Eq '^ *all +40\.0% ' ../stdout
    ckv evict in.safetensors -o out.safetensors --json
    ends 0
    json '[x["scale"] for x in o["layers"]] == [None, 0.0625]'
    ckv evict in.safetensors -o out.safetensors --layer 0
    ends 0
    run ! grep scale ../stdout
}

@test "a scale that is wrong is the matter of its layer alone" {
    make_file scaled in.safetensors scale=none
    refused 1 in.safetensors __metadata__ layers.1.scale none 2^40 -- evict in.safetensors -o out.safetensors
    ckv evict in.safetensors -o out.safetensors --layer 0
    ends 0
}

@test "names that are not UTF-8 do not spoil the JSON" {
    make_file good $'in\377.safetensors'
    ckv evict $'in\377.safetensors' -o $'out\376"\\.safetensors' --json
    ends 0
    json 'o["input"].startswith("in") and o["output"].endswith("\"\\.safetensors")'
}

@test "tensors that it does not know are let be" {
    make_file metadata_and_strangers in.safetensors
    ckv evict in.safetensors -o out.safetensors --json
    ends 0
    json '[x["layer"] for x in o["layers"]] == [0]'
    make_file good plain.safetensors
    ckv evict plain.safetensors -o plain-out.safetensors
    cmp out.safetensors plain-out.safetensors
}

@test "a file far larger than memory is not read whole" {
    make_file far_larger_than_memory in.safetensors 2>/dev/null || skip "no file of a terabyte here, even as a hole"
    status=0
    timeout 60 "$CKV" evict in.safetensors -o out.safetensors >../stdout 2>../stderr || status=$?
    ends 0
    make_file good plain.safetensors
    ckv evict plain.safetensors -o plain-out.safetensors
    cmp out.safetensors plain-out.safetensors
}

@test "at the budget of all tokens nothing is computed, and nothing changes" {
    make_file good in.safetensors
    ckv evict in.safetensors -o out.safetensors --json --keep 1
    ends 0
    json 'all(o["layers"][0]["seconds"][s] is None for s in ("score", "norm", "evict"))'
    json 'o["layers"][0]["exact_norms"] is None and o["total"]["exact_norms_share"] is None'
    json 'o["layers"][0]["perturbation"]["criticalkv"]["max"] == 0 and o["layers"][0]["kept_share"] == 1'
}

# ---------------------------------------------------------------- norms that are left out

@test "fewer norms, the same file" {
    ckv evict "$capture" -o out.safetensors --json
    ends 0
    json 'all(0 < x["exact_norms"] < 0.6 * x["kv_heads"] * x["tokens"] for x in o["layers"])'
    json 'all(x["exact_norms_share"] == x["exact_norms"] / (x["kv_heads"] * x["tokens"]) for x in o["layers"])'
    json 'o["total"]["exact_norms"] == sum(x["exact_norms"] for x in o["layers"])'
    json 'all(x["seconds"]["evict"] > 0 and x["seconds"]["norm"] is None for x in o["layers"])'
    perturbation=$("$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["total"]["perturbation"])' <../stdout)
    ckv evict "$capture" -o all.safetensors --json --no-skip
    ends 0
    cmp out.safetensors all.safetensors
    json 'o["policy"]["skip"] is False and o["total"]["exact_norms_share"] == 1'
    json 'all(x["seconds"][s] > 0 for x in o["layers"] for s in ("score", "norm", "select"))'
    json 'all(x["seconds"]["evict"] is None for x in o["layers"])'
    [[ $("$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["total"]["perturbation"])' <../stdout) == "$perturbation" ]]
}

@test "the table tells how many, and --dump has all" {
    ckv evict "$capture" -o out.safetensors --layer 15 --no-perturbation
    ends 0
    grep -Eq '^ *15 .* [1-5][0-9]\.[0-9]% +- +- +- +[0-9.]+ +-$' ../stdout
    ckv evict "$capture" -o dump.safetensors --layer 15 --no-perturbation --dump
    ends 0
    grep -Eq '^ *15 .* 100\.0% +[0-9.]+ +[0-9.]+ +[0-9.]+ +- +-$' ../stdout
    "$PYTHON" - <<'EOF'
import json, struct
raw = open("dump.safetensors", "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
begin, end = json.loads(raw[8:8 + size])["layers.15.norm"]["data_offsets"]
norms = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + size + begin:8 + size + end])
assert len(norms) == 3 * 2017 and min(norms) > 0
EOF
}

# ---------------------------------------------------------------- W_O from a checkpoint

# Whatever holds it, W_O is that of the good file.
same_as_plain() {
    make_file good plain.safetensors
    "$CKV" evict plain.safetensors -o want.safetensors --dump >/dev/null
    make_file without_weight in.safetensors
    ckv evict in.safetensors -o out.safetensors --dump --model "$1"
    ends 0
    cmp want.safetensors out.safetensors
}

@test "W_O from a checkpoint of one file" {
    make_file checkpoint model.safetensors
    same_as_plain model.safetensors
}

@test "W_O from a checkpoint is taken even where the input has one" {
    make_file good in.safetensors
    make_file checkpoint other.safetensors seed=99
    ckv evict in.safetensors -o plain.safetensors --dump
    ckv evict in.safetensors -o out.safetensors --dump --model other.safetensors
    ends 0
    run ! cmp -s plain.safetensors out.safetensors
}

@test "W_O from a checkpoint of several files" {
    mkdir model
    make_file checkpoint model/model-00001-of-00002.safetensors layer=1
    make_file checkpoint model/model-00002-of-00002.safetensors
    cat >model/model.safetensors.index.json <<'END'
{"metadata": {"total_size": 1}, "weight_map": {
  "model.layers.1.self_attn.o_proj.weight": "model-00001-of-00002.safetensors",
  "model.layers.0.self_attn.o_proj.weight": "model-00002-of-00002.safetensors"}}
END
    same_as_plain model/model.safetensors.index.json
    (cd model && "$CKV" evict ../in.safetensors -o ../out2.safetensors --dump --model model.safetensors.index.json >/dev/null)
    cmp want.safetensors out2.safetensors
}

@test "a checkpoint without the layer, or of another model" {
    make_file without_weight in.safetensors
    name=model.layers.0.self_attn.o_proj.weight
    make_file checkpoint_of_nothing model.safetensors
    refused 1 model.safetensors "$name" -- evict in.safetensors -o out.safetensors --model model.safetensors
    make_file checkpoint model.safetensors layer=5
    refused 1 model.safetensors "$name" -- evict in.safetensors -o out.safetensors --model model.safetensors
    make_file checkpoint model.safetensors columns=19
    refused 1 model.safetensors "$name" "[7,19]" 20 -- evict in.safetensors -o out.safetensors --model model.safetensors
}

@test "an index that is damaged, or names what is not there" {
    make_file without_weight in.safetensors
    index=model.safetensors.index.json name=model.layers.0.self_attn.o_proj.weight
    for text in '' '{' '[]' '{"weight_map": []}' '{}'; do
        printf '%s' "$text" >$index
        refused 1 $index -- evict in.safetensors -o out.safetensors --model $index
    done
    echo '{"weight_map": {}}' >$index
    refused 1 $index $name -- evict in.safetensors -o out.safetensors --model $index
    for target in '"nowhere.safetensors"' '5' '""' '"../nowhere.safetensors"' '"/etc/passwd"' '"."'; do
        echo '{"weight_map": {"'$name'": '"$target"'}}' >$index
        refused 1 -- evict in.safetensors -o out.safetensors --model $index
    done
    # The file is there, but not the tensor.
    make_file checkpoint_of_nothing shard.safetensors
    echo '{"weight_map": {"'$name'": "shard.safetensors"}}' >$index
    refused 1 shard.safetensors $name -- evict in.safetensors -o out.safetensors --model $index
}

@test "NaN in a checkpoint is told of the file that holds it" {
    make_file without_weight in.safetensors
    make_file good nan.safetensors
    "$PYTHON" - <<'END'
import struct
name = b"model.layers.0.self_attn.o_proj.weight"
header = b'{"' + name + b'":{"dtype":"F32","shape":[7,20],"data_offsets":[0,560]}}'
open("model.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<140f", *[float("nan")] * 140))
END
    ckv evict in.safetensors -o out.safetensors --model model.safetensors
    ends 0
    says_in_one_line warning model.safetensors o_proj.weight
}

# ---------------------------------------------------------------- the shipped capture and its progress bar

@test "the shipped capture at the default budget" {
    [[ -r $capture ]]
    ckv evict "$capture" -o out.safetensors --json --layer 0
    ends 0
    [[ ! -s ../stderr ]]    # no bar: this is no terminal
    json 'o["layers"][0]["tokens"] >= 1000 and abs(o["layers"][0]["kept_share"] - 0.4) < 0.001'
}

@test "a progress bar on a terminal, and only there" {
    script --version >/dev/null 2>&1 || skip "no script(1) to make a terminal"
    [[ -r $capture ]]
    export CKV capture
    # shellcheck disable=SC2016
    script -qefc '"$CKV" evict "$capture" -o out.safetensors --backend ref --no-skip >table' typescript >/dev/null </dev/null
    bar=$(tr '\r' '\n' <typescript)
    for word in layer % score norm; do
        [[ $bar == *"$word"* ]] || fail "no '$word' in the bar: $bar"
    done
    # And nothing of it is left: the last thing done to the line is to wipe it.
    [[ $(tr -d '\n' <typescript) == *$'\r\e[K'* ]]
    says table CriticalKV
    [[ $(tr -d '\0' <table) != *$'\e'* ]]
}

@test "short work has no bar" {
    script --version >/dev/null 2>&1 || skip "no script(1) to make a terminal"
    make_file good in.safetensors
    export CKV
    # shellcheck disable=SC2016
    script -qefc '"$CKV" evict in.safetensors -o out.safetensors >table' typescript >/dev/null </dev/null
    [[ $(<typescript) != *%* && -s out.safetensors ]]
}
