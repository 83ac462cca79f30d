#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The command line: help, version, the manual, and options with wrong values.

load helpers

setup() {
    in_own_folder
}

manual=$top_srcdir/tools/ckv.1

@test "help goes to standard output" {
    for arguments in --help "evict --help" "select --help" "info --help" "bench --help" "tune --help" "verify --help"; do
        # shellcheck disable=SC2086
        ckv $arguments
        ends 0
        [[ ! -s ../stderr ]]
        says ../stdout ckv
    done
    ckv --help
    says ../stdout evict select info bench tune verify --help --version
}

@test "help names every option and its default" {
    ckv evict --help
    says ../stdout --keep --budget --alpha --epsilon --window --recent --sinks --pool --budgets --norm --model --layer \
        --compact --dump --json --backend --threads --no-perturbation --no-skip -o 0.4 0.5 1e-4 32 max:7 uniform l1
    ckv select --help
    says ../stdout --keep --budget --alpha --epsilon --window --recent --sinks --pool --budgets --norm -o
    ckv info --help
    says ../stdout --json
    ckv bench --help
    says ../stdout --shapes --tokens --keep --stages --dtype --all --targets --backend --threads --repeats --min-time \
        --quick --no-peers --json Llama-3.1-8B 4K,16K 0.4 bf16 0.3
    ckv tune --help
    says ../stdout --backend --kernels --shapes --tokens --threads --budget --exhaustive --dry-run --output --json 60s \
        4K,16K Llama-3.2-1B,Llama-3.1-8B,Qwen2.5-32B
    ckv verify --help
    says ../stdout --seed --problems --minutes --backend --replay --output --junit --json --plant "default 1"
}

@test "version" {
    ckv --version
    ends 0
    [[ ! -s ../stderr && $(wc -l <../stdout) -eq 1 ]]
    grep -Eq '^ckv [0-9]+\.[0-9]+\.[0-9]+$' ../stdout
    says ../stdout "${VERSION-}"
}

@test "the manual names every option, every file format and every exit status" {
    [[ -s $manual ]]
    # Its source, whether in mdoc or in man: no formatter is needed.
    man=$(sed 's/\bFl -/--/g; s/\\-/-/g; s/\\f[BIRP]//g; s/\\&//g' "$manual")
    for command in evict select info bench tune verify; do
        ckv "$command" --help
        mapfile -t options < <(grep -oE -e '--[a-z][a-z-]+' ../stdout | sort -u)
        [[ ${#options[@]} -ge 3 ]]
        for option in "${options[@]}"; do
            [[ $man == *"$option"* ]] || fail "the manual does not name $option of $command"
        done
    done
    for word in layers.N.query layers.N.key layers.N.value layers.N.o_proj.weight layers.N.kept layers.N.kept_offsets \
        layers.N.attention layers.N.norm model.layers.N.self_attn.o_proj.weight "EXIT STATUS"; do
        [[ ${man^^} == *"${word^^}"* ]] || fail "the manual does not name $word"
    done
}

@test "the manual has no formatting errors" {
    command -v groff >/dev/null || skip "no groff"
    [[ -s $manual ]]
    [[ -z $(groff -mandoc -Tutf8 -ww -rLL=78n "$manual" 2>&1 >/dev/null) ]]
}

# usage WORD... -- ARGUMENT...: wrong usage, told on stderr alone, and nothing happens.
usage() {
    local words=()
    while [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    shift
    ckv "$@"
    ends 2 || fail "by: ckv $*" || return
    [[ -s ../stderr ]] || fail "nothing said by: ckv $*" || return
    says ../stderr "${words[@]}" || return
    [[ -z $(find . -mindepth 1 ! -name '*.safetensors') && ! -e out.safetensors ]] || fail "left something: ckv $*"
}

@test "no command, and one that does not exist" {
    usage evict select info bench tune verify --
    usage nonsense evict -- nonsense
    usage Evict -- Evict
    usage -- ""
    usage --nonsense -- --nonsense
}

@test "no input, no output, and too many of them" {
    need_python
    make_file good in.safetensors
    usage IN -- evict
    usage IN -- evict -o out.safetensors
    usage -o -- evict in.safetensors
    usage -o -- select in.safetensors
    usage other.safetensors -- evict in.safetensors other.safetensors -o out.safetensors
    usage other -- info other
    usage other -- bench other
    usage other -- tune other
    usage other -- verify other
}

@test "options that do not exist, and options without their value" {
    need_python
    make_file good in.safetensors
    usage --nonsense -- evict in.safetensors -o out.safetensors --nonsense
    usage --nonsense -- info --nonsense
    usage --nonsense -- bench --nonsense
    usage --nonsense -- tune --nonsense
    usage --nonsense -- verify --nonsense
    usage keep -- evict in.safetensors -o out.safetensors --keep
    usage dump -- evict in.safetensors -o out.safetensors --dump=yes
    # What only evict offers:
    for option in --dump --compact --no-perturbation --no-skip --model=in.safetensors; do
        usage "${option%%=*}" -- select in.safetensors -o out.safetensors "$option"
    done
}

# wrong OPTION WANTED VALUE...: each value in one line that names the option, the
# value and what was wanted.
wrong() {
    local option=$1 wanted=$2 value
    shift 2
    refused 2 "$option" "$1" "$wanted" -- evict in.safetensors -o out.safetensors "$option=$1" || return
    for value; do
        previous_outputs=yes refused 2 "$option" "$value" "$wanted" -- \
            evict in.safetensors -o out.safetensors "$option" "$value" || return
    done
}

@test "shares outside 0 to 1, or not decimal" {
    need_python
    make_file good in.safetensors
    values=(1.1 1.000000000001 2 -0.1 -1 nan inf -inf 40% 1/2 0x1 1e-1 .. . "0,4" "" " 0.4" "0.4 " +0.4 abc
        0.1234567890123 99999999999999999999)
    wrong --keep 1 "${values[@]}"
    wrong --alpha 1 "${values[@]}"
}

@test "counts that are none" {
    need_python
    make_file good in.safetensors
    wrong --budget integer -1 -9223372036854775808 1.5 abc "" 0x10 " 5" "5 " 9223372036854775808 99999999999999999999 1e3
    for option in --window --recent --sinks; do
        wrong "$option" integer -1 1.5 abc "" 2147483648 99999999999999999999
    done
    wrong --window 1 0
    wrong --threads integer 0 -1 abc "" 1.5 2147483648
    wrong --layer integer -1 abc "" 1.5 2147483648 0x1
}

@test "an epsilon outside its range" {
    need_python
    make_file good in.safetensors
    wrong --epsilon 1 0 -1 1.0001 2 1e-9 5.9e-8 nan inf abc "" "1 " 0x
    for epsilon in 1 6e-8 0.5 1e-4 1e-0; do
        ckv evict in.safetensors -o out.safetensors --epsilon "$epsilon"
        ends 0
    done
}

@test "pools, budgets and norms that are not offered" {
    need_python
    make_file good in.safetensors
    wrong --pool max: max:0 max:-1 max:abc max:1.5 avg:0 avg: mean:5 median max:7:7 "" none:3 MAX:7 max:2147483648
    # Counts for each head are not offered, whatever their number.
    wrong --budgets uniform 5,5 5,5,5 5 adaptive "" ,
    wrong --norm l1 l2 "" L1
}

@test "both a share and a budget" {
    need_python
    make_file good in.safetensors
    refused 2 --keep --budget -- evict in.safetensors -o out.safetensors --keep 0.5 --budget 5
    refused 2 --keep --budget -- evict in.safetensors -o out.safetensors --budget 5 --keep 0.4
    refused 2 --keep --budget -- select in.safetensors -o out.safetensors --budget 5 --keep 0.4
}

@test "layers that the file does not have" {
    need_python
    make_file good in.safetensors layers=3
    refused 1 --layer 7 "0, 1, 2" -- evict in.safetensors -o out.safetensors --layer 7
    refused 1 --layer 3 -- evict in.safetensors -o out.safetensors --layer 1 --layer 3
    make_file good_select in.safetensors
    refused 1 --layer 1 0 -- select in.safetensors -o out.safetensors --layer 1
}

@test "backends and devices that are not there" {
    need_python
    make_file good in.safetensors
    refused 1 --backend nonsense ref -- evict in.safetensors -o out.safetensors --backend nonsense
    refused 1 --backend ref:7 -- evict in.safetensors -o out.safetensors --backend ref:7
    refused 1 --backend ref:nonsense -- evict in.safetensors -o out.safetensors --backend ref:nonsense
    refused 1 --backend nonsense ref -- select in.safetensors -o out.safetensors --backend nonsense
    wrong --backend NAME "" : ref: :0
}

@test "wrong usage is found before the input is looked at" {
    refused 2 --keep 7 -- evict nowhere.safetensors -o out.safetensors --keep 7
}

@test "an argument that looks like an option, behind --" {
    need_python
    make_file good ./--in.safetensors
    ckv evict -o out.safetensors -- --in.safetensors
    ends 0
    [[ -s out.safetensors ]]
}
