#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ckv bench: what it times, counts and prints, and its error messages.
# Each test is a subshell of its own, where variables are set for what it runs.
# shellcheck disable=SC2030,SC2031

load helpers

setup() {
    in_own_folder
    cat >tiny.json <<'END'
{"name": "Tiny", "query_heads": 4, "kv_heads": 2, "head_dim": 16, "value_dim": 8, "hidden": 48}
END
}

# bench ARGUMENT...: on the tiny shape, in as little time as there is.
bench() {
    ckv bench --quick --shapes tiny.json --tokens 128 --repeats 2 --min-time 0 "$@"
}

# lines EXPRESSION: true for the lines of JSON in ../stdout, which Python sees as the
# list `lines`; `of(KEY=VALUE...)` are those that have these values.
lines() {
    "$PYTHON" -c '
import json, math, sys
def strict(text):
    return json.loads(text, parse_constant=lambda word: sys.exit(f"{word} is no JSON"))
lines = [strict(line) for line in open("../stdout")]
def of(**wanted):
    return [l for l in lines if all(l.get(k) == v for k, v in wanted.items())]
value = eval(f"({sys.argv[1]})")
if not value:
    sys.exit(f"not so: {sys.argv[1]}\n" + "\n".join(map(json.dumps, lines)))' "$1"
}

# make_blas NAME FLAG...: NAME.so, which stands in for OpenBLAS.
make_blas() {
    local name=$1
    shift
    # Unquoted: a compiler may hold options.
    # shellcheck disable=SC2086
    ${CC:-cc} -O2 -fPIC -shared "$@" -o "$name.so" "$top_srcdir/tests/cli/sgemm.c" ||
        skip "no compiler for a shared library"
}

need_openmp() {
    bench --json --no-peers --backend cpu --threads 2 --stages select
    lines 'of(threads=2)' 2>/dev/null || skip "built without OpenMP"
}

need_nth_element() {
    lines 'not of(kind="peer", stage="select")[0].get("missing")' 2>/dev/null || skip "built without a C++ compiler"
}

@test "every stage, a line of JSON each, with times in order and all that a script needs" {
    need_python
    bench --json
    ends 0
    [[ ! -s ../stderr ]]
    lines '[l["stage"] for l in of(kind="stage")] == ["score", "norm", "select", "compact", "layer"]'
    lines '[l["stage"] for l in of(kind="peer")] == ["score", "norm", "select", "compact"]'
    lines 'all(0 < l["min"] <= l["lower_quartile"] <= l["median"] <= l["upper_quartile"] <= l["max"] and l["repeats"] >= 1
        for l in lines if "median" in l)'
    lines 'all(l["version"] and l["machine"] and l["compiler"] and l["isa"] and l["backend"] and l["threads"] >= 1
        and l["load"] >= 0 and len(l["date"]) == 10 for l in lines)'
    lines 'all(l["shape"] == "Tiny" and l["tokens"] == 128 and l["keep"] == "0.4" and l["budget"] == 51
        and l["dtype"] == "bf16" for l in of(kind="stage"))'
    lines 'all(math.isclose(l["share"], l["floor"] / l["median"], rel_tol=1e-6) and l["floor"] > 0
        for l in of(kind="stage"))'
}

@test "the work of a known shape" {
    need_python
    bench --json --dtype f32 --no-peers
    ends 0
    # 4 heads x 32 queries x 128 keys x 16; K, Q and attention.
    lines '[(l["macs"], l["bytes"]) for l in of(stage="score")] == [(262144, 2*128*16*4 + 4*32*16*4 + 2*128*4)]'
    # 4 heads x 128 rows x 8 x 48; V, W_O in two bytes, norms.
    lines '[(l["macs"], l["bytes"]) for l in of(stage="norm")] == [(196608, 2*128*8*4 + 4*8*48*2 + 2*128*4)]'
    lines '[(l["macs"], l["bytes"]) for l in of(stage="select")] == [(256, 2*128*8 + 2*51*4)]'
    lines '[(l["macs"], l["bytes"]) for l in of(stage="compact")] == [(0, 2*2*51*(16 + 8)*4)]'
    bench --json --dtype f16 --no-peers --stages compact
    lines '[l["bytes"] for l in of(stage="compact")] == [2*2*51*(16 + 8)*2]'
}

@test "limits: four, with one thread and with all; the layer's floor is the sum of its stages'" {
    need_python
    need_openmp
    bench --json --threads 2 --backend cpu --no-peers
    ends 0
    lines '[(l["limit"], l["limit_threads"]) for l in of(kind="limit")] ==
        [(x, n) for x in ("fma", "integer", "read", "copy") for n in (1, 2)]'
    lines 'all(math.isclose(l["rate"] * l["min"], [o for o in of(kind="limit") if o is l][0]["rate"] * l["min"])
        and l["rate"] > 1e6 for l in of(kind="limit"))'
    lines 'all(math.isclose(l["floor"], l["macs" if l["unit"] == "MAC/s" else "bytes"] / l["limit_rate"], rel_tol=1e-6)
        for l in of(kind="stage") if l["stage"] != "layer")'
    lines 'math.isclose(of(stage="layer")[0]["floor"], sum(of(stage=s)[0][amount] / of(stage="layer")[0]["limit_rates"][r]
        for s, amount, r in (("score", "macs", "fma"), ("norm", "macs", "integer"), ("select", "bytes", "read"))),
        rel_tol=1e-6)'
    bench --json --threads 1 --no-peers --stages score
    lines '[l["limit_threads"] for l in of(kind="limit")] == [1] * 4'
}

@test "only the stages, tokens and shares asked for; what does not depend on a share, once" {
    need_python
    ckv bench --quick --shapes tiny.json --json --no-peers --tokens 64,1K --keep 0.5 --keep 0.1 --stages norm,select
    ends 0
    lines '[(l["stage"], l["tokens"], l["keep"], l["budget"]) for l in of(kind="stage")] == [
        ("norm", 64, "0.5", 32), ("select", 64, "0.5", 32), ("select", 64, "0.1", 6),
        ("norm", 1024, "0.5", 512), ("select", 1024, "0.5", 512), ("select", 1024, "0.1", 102)]'
    lines '[l["kind"] for l in lines if l["kind"] not in ("stage", "limit")] == []'
}

@test "every backend, on as many threads as it has" {
    need_python
    bench --json --no-peers --backend ref --threads 2
    ends 0
    lines 'all(l["backend"] == "ref" and l["threads"] == 1 for l in lines)'
    need_openmp
    bench --json --no-peers --backend cpu --threads 2
    ends 0
    lines 'all(l["backend"] == "cpu" and l["threads"] == 2 for l in lines)'
}

@test "a capture: each of its layers, with its own tokens" {
    need_python
    ckv bench --quick --json --shapes "$capture" --stages score,select --repeats 1 --min-time 0 --no-peers
    ends 0
    lines '[l["shape"] for l in of(kind="stage", stage="select")] ==
        ["smollm2-135m.safetensors layer %d" % n for n in (0, 15, 29)]'
    lines 'all(l["tokens"] == 2017 and l["hidden"] == 576 and l["kv_heads"] == 3 for l in of(kind="stage"))'
}

@test "the peers' results are ours: with any threads, any type, and on a capture" {
    need_python
    make_blas right
    export CKV_OPENBLAS=$PWD/right.so
    bench --json
    ends 0
    need_nth_element
    for arguments in "--threads 1" "--threads 2" "--threads 3" "--dtype f32" "--dtype f16" "--keep 0.1,0.5" \
        "--tokens 64 --keep 0.9" "--tokens 100 --keep 0.01"; do
        # shellcheck disable=SC2086
        bench --json $arguments
        ends 0 || fail "by: $arguments" || return
        lines 'of(kind="agreement") and all(l["agrees"] and l["norm_error"] < 1e-2 and l["kept_overlap"] > 0.98
            and l["attention_error"] < 1e-5 for l in of(kind="agreement"))' || fail "by: $arguments" || return
    done
    ckv bench --quick --json --shapes "$capture" --stages score,norm,select --repeats 1 --min-time 0
    ends 0
    lines 'len(of(kind="agreement", agrees=True)) == 3'
}

@test "the same made-up layer with any number of threads" {
    need_python
    make_blas right
    export CKV_OPENBLAS=$PWD/right.so
    for threads in 1 2 3; do
        CKV_NUM_THREADS=$threads bench --json
        ends 0
        need_nth_element
        "$PYTHON" -c '
import json
for line in map(json.loads, open("../stdout")):
    if line["kind"] == "agreement":
        print([line[k] for k in ("attention_error", "norm_error", "kept_overlap")])' >agreement-$threads
        [[ -s agreement-$threads ]]
        cmp agreement-1 agreement-$threads
    done
}

@test "a peer whose results are not ours is an error" {
    need_python
    # Its norms, from values 8 wide; then its attention, from keys 16 wide.
    make_blas wrong -DWRONG_K=8
    export CKV_OPENBLAS=$PWD/wrong.so
    bench --json
    need_nth_element
    [[ $status -eq 1 ]]
    says_in_one_line Tiny peers compared
    lines '[(l["agrees"], l["norm_error"] > 1e-2, l["attention_error"] < 1e-5)
        for l in of(kind="agreement")] == [(False, True, True)]'
    make_blas other -DWRONG_K=16
    CKV_OPENBLAS=$PWD/other.so bench --json
    [[ $status -eq 1 ]]
    lines '[(l["agrees"], l["norm_error"] < 1e-2, l["attention_error"] > 1e-2)
        for l in of(kind="agreement")] == [(False, True, True)]'
    make_blas nan -DWRONG_K=8 "-DWRONG=(0.0f/0.0f)"
    CKV_OPENBLAS=$PWD/nan.so bench --json
    [[ $status -eq 1 ]]
    lines '[(l["agrees"], l["norm_error"]) for l in of(kind="agreement")] == [(False, None)]'
}

@test "without OpenBLAS its peers are missing, with the reason, and the rest is there" {
    need_python
    export CKV_OPENBLAS=/nowhere/libopenblas.so
    bench --json
    ends 0
    lines '[l["stage"] for l in of(kind="stage")] == ["score", "norm", "select", "compact", "layer"]'
    lines 'all("/nowhere/libopenblas.so" in l["missing"] and "median" not in l
        for l in of(kind="peer") if l["stage"] in ("score", "norm"))'
    lines '"median" in of(kind="peer", stage="compact")[0] and not of(kind="agreement")'
    bench
    ends 0
    says ../stdout /nowhere/libopenblas.so memcpy
    : >empty.so
    CKV_OPENBLAS=$PWD/empty.so bench
    ends 0
    says ../stdout empty.so
}

@test "tables: limits, stages, shares, peers" {
    make_blas right
    export CKV_OPENBLAS=$PWD/right.so
    need_python
    need_openmp
    bench --threads 2
    ends 0
    says ../stdout "limits of this machine" "2 threads" GMAC/s GB/s "TestBLAS 1.2.3 (plain)" Tiny \
        "keep 0.4 (51)" score norm select compact layer "sum of its stages" memcpy
    [[ $(grep -c '^  \(score\|norm\|select\|compact\|layer\) ' ../stdout) -eq 5 ]]
}

@test "the targets, small" {
    need_python
    make_blas right -O3
    export CKV_OPENBLAS=$PWD/right.so
    need_openmp
    ckv bench --targets --quick --shapes tiny.json --threads 2 --repeats 1 --min-time 0 --json
    ends 0
    # Of so small a layer, what is left of it without the score may be nothing.
    lines 'all((l["median"] > 0 or l["target"].startswith("norm + selection"))
        and math.isclose(l["ratio"], l["against_seconds"] / l["median"], rel_tol=1e-6) for l in of(kind="target"))'
    lines '{l["target"] for l in of(kind="target")} == {"dense norm, 1K tokens",
        "norm + selection, 1K tokens, keep 0.4", "norm + selection, 1K tokens, keep 0.2",
        "whole layer, 1K tokens, keep 0.4", "select, 2 x 8K", "score + pool, 2K tokens",
        "whole layer, 2K tokens, keep 0.4", "compact, 2K tokens, keep 0.4"}'
    # The floors that depend on the run: the norms that were computed, the rows that were kept.
    lines 'any("% of the norms" in l["against"] for l in of(kind="target", target="whole layer, 2K tokens, keep 0.4"))'
    lines 'any("read, not written" in l["against"] for l in of(kind="target", target="compact, 2K tokens, keep 0.4"))'
    ckv bench --targets --quick --shapes tiny.json --threads 1 --repeats 1 --min-time 0
    ends 0
    says ../stdout "dense norm" "score + pool" "measured limit" floors %
    [[ $(<../stdout) != *"1 thread, beside"* ]]
}

@test "shipped shapes by name, in any case" {
    need_python
    ckv bench --quick --json --no-peers --shapes smollm2-135m,SmolLM2-135M --tokens 64 --stages select --repeats 1
    ends 0
    lines '[(l["shape"], l["query_heads"], l["kv_heads"], l["head_dim"], l["value_dim"], l["hidden"])
        for l in of(kind="stage")] == [("SmolLM2-135M", 9, 3, 64, 64, 576)] * 2'
    for file in "$top_srcdir"/bench/shapes/*.json; do
        "$PYTHON" -c 'import json, sys; json.load(open(sys.argv[1]))["query_heads"]' "$file"
    done
    mkdir elsewhere
    sed 's/Tiny/Mine/' tiny.json >elsewhere/mistral-7b.json
    CKV_SHAPES=$PWD/elsewhere ckv bench --quick --json --no-peers --shapes Mistral-7B --tokens 64 --stages select --repeats 1
    lines '[l["shape"] for l in of(kind="stage")] == ["Mine"]'
}

# wrong OPTION WANTED VALUE...: each value in one line with the option, the value and what
# was wanted, before anything is measured.
wrong() {
    local option=$1 wanted=$2 value
    shift 2
    for value; do
        refused 2 "$option" "$value" "$wanted" -- bench "$option=$value" || return
    done
}

@test "options with wrong values" {
    export previous_outputs=no
    wrong --tokens integer 63 -1 abc 1.5K 4194305 4097K 1M 99999999999999999999 4Kx
    refused 2 --tokens "''" empty -- bench --tokens 128,,256
    refused 2 --shapes "''" empty -- bench --shapes=
    refused 2 --tokens 12 -- bench --tokens 128,12
    wrong --keep "between 0 and 1" 0 1 1.5 -0.1 abc 1e-1
    wrong --stages score scores norms all
    wrong --dtype bf16 f64 F32 ""
    wrong --repeats integer 0 -1 abc 1001 1K ""
    wrong --min-time seconds -1 abc "" 3601 1s nan
    wrong --threads integer 0 1025 abc ""
    wrong --backend NAME "" : cpu:
    wrong --shapes Llama-3.1-8B llama Llama-3.1
    refused 2 --all --targets -- bench --all --targets
    refused 2 --targets --tokens -- bench --targets --tokens 4K
    refused 2 --targets --keep -- bench --targets --keep 0.4
    refused 2 --targets --stages -- bench --targets --stages norm
    refused 2 --targets -- bench --targets --shapes all
    refused 2 nonsense -- bench nonsense
    refused 2 --tokens 16 -- bench --tokens 64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64
}

@test "backends and files that are not there, or not what they should be" {
    need_python
    refused 1 --backend nonsense ref -- bench --backend nonsense
    refused 1 nowhere.json -- bench --shapes nowhere.json
    refused 1 ./nowhere -- bench --shapes ./nowhere
    refused 1 nowhere.safetensors -- bench --shapes nowhere.safetensors
    make_file good_select scores.safetensors
    refused 1 scores.safetensors query missing -- bench --shapes scores.safetensors
    cp "$capture" capture.safetensors
    refused 1 --targets capture.safetensors -- bench --targets --shapes capture.safetensors
    # The second is looked at before the first is measured.
    refused 1 nowhere.json -- bench --shapes tiny.json,nowhere.json
}

# shape WORD... -- TEXT: a shape file with this text is refused in one line with the words.
shape() {
    local words=()
    while [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    printf '%s\n' "$2" >bad.json
    refused 1 bad.json "${words[@]}" -- bench --shapes bad.json
}

@test "shape files that are wrong" {
    export previous_outputs=no
    rest='"head_dim": 8, "hidden": 8'
    shape "line 2" -- '{'
    shape object -- '[1]'
    shape name missing -- '{"query_heads": 2, "kv_heads": 1, '"$rest"'}'
    shape name -- '{"name": "", "query_heads": 2, "kv_heads": 1, '"$rest"'}'
    shape query_heads missing -- '{"name": "x", "kv_heads": 1, '"$rest"'}'
    shape query_heads 0 -- '{"name": "x", "query_heads": 0, "kv_heads": 1, '"$rest"'}'
    shape kv_heads integer -- '{"name": "x", "query_heads": 2, "kv_heads": "1", '"$rest"'}'
    shape kv_heads integer -- '{"name": "x", "query_heads": 2, "kv_heads": 1.5, '"$rest"'}'
    shape query_heads 3 multiple 2 -- '{"name": "x", "query_heads": 3, "kv_heads": 2, '"$rest"'}'
    shape hidden 32769 -- '{"name": "x", "query_heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 32769}'
    shape value_dim 513 -- '{"name": "x", "query_heads": 2, "kv_heads": 1, "value_dim": 513, '"$rest"'}'
    shape head_dim 1024 value_dim -- '{"name": "x", "query_heads": 2, "kv_heads": 1, "head_dim": 1024, "hidden": 8}'
    shape queryheads key -- '{"name": "x", "queryheads": 2, "query_heads": 2, "kv_heads": 1, '"$rest"'}'
    shape "line 1" -- '{"name": "x", "name": "y", "query_heads": 2, "kv_heads": 1, '"$rest"'}'
}
