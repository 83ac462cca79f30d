#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bench/compare, bench/plot and bench/report, on a small file of results.

load helpers

setup() {
    need_python
    in_own_folder
    export PYTHON
    canned=$top_srcdir/tests/cli/canned-bench.jsonl
}

# script NAME ARGUMENT...: $status, ../stdout, ../stderr.
script() {
    local name=$1 interpreter=$PYTHON
    shift
    if [[ $name == plot ]]; then interpreter=/bin/sh; fi
    status=0
    "$interpreter" "$top_srcdir/bench/$name" "$@" >../stdout 2>../stderr || status=$?
}

# scaled STAGE FACTOR: the results with that stage of ckv so many times slower, on stdout.
scaled() {
    "$PYTHON" -c '
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line["kind"] == "stage" and line["stage"] == sys.argv[2]:
        for key in ("median", "min", "max", "lower_quartile", "upper_quartile"):
            line[key] *= float(sys.argv[3])
    print(json.dumps(line))' "$canned" "$1" "$2"
}

# row WORD...: a line of ../stdout has all the words.
row() {
    local line word
    while read -r line; do
        for word; do
            [[ $line == *"$word"* ]] || continue 2
        done
        return 0
    done <../stdout
    fail "no line with '$*' in: $(<../stdout)"
}

@test "compare: what exceeds the spread, and what does not" {
    scaled norm 1.5 >b.jsonl
    script compare "$canned" b.jsonl
    ends 0
    row "norm (ckv)" 1.500 slower
    row "score (ckv)" 1.000 "within the spread"
    row "norm (OpenBLAS" 1.000 "within the spread"
    row limit fma
    row "Test machine" avx2
    [[ $(grep -c slower ../stdout) -eq 2 ]] # and the last line, which counts
    script compare b.jsonl "$canned"
    row "norm (ckv)" 0.667 faster
    scaled norm 1.005 >b.jsonl
    script compare "$canned" b.jsonl
    row "norm (ckv)" 1.005 "within the spread"
    [[ $(<../stdout) != *slower* && $(<../stdout) != *faster* ]]
}

@test "compare: results that only one file has" {
    grep -v '"stage":"select"' "$canned" >b.jsonl
    script compare "$canned" b.jsonl
    ends 0
    row "only in A" "select (ckv)"
    [[ $(<../stdout) != *"only in B"* ]]
}

@test "compare: bad input" {
    script compare "$canned"
    [[ $status -eq 2 && ! -s ../stdout ]]
    says_in_one_line "1 given" two
    script compare "$canned" nowhere.jsonl
    [[ $status -eq 1 ]]
    says_in_one_line nowhere.jsonl
    : >empty.jsonl
    script compare empty.jsonl "$canned"
    [[ $status -eq 1 ]]
    says_in_one_line empty.jsonl "no result"
    { head -n 2 "$canned" && echo '{"kind": "stage", '; } >broken.jsonl
    script compare "$canned" broken.jsonl
    [[ $status -eq 1 ]]
    says_in_one_line broken.jsonl "line 3"
    echo '[1]' >list.jsonl
    script compare list.jsonl "$canned"
    [[ $status -eq 1 ]]
    says_in_one_line list.jsonl "line 1"
}

@test "plot: roofline and stages, as SVG and PNG" {
    command -v gnuplot >/dev/null || skip "no gnuplot"
    script plot "$canned" pictures
    ends 0
    for picture in roofline stages; do
        says pictures/$picture.svg "<svg" "Test machine"
        [[ $(head -c 8 pictures/$picture.png | od -An -tx1 | tr -d ' ') == 89504e470d0a1a0a ]]
    done
    says pictures/roofline.svg "norm SmolLM2-135M 4K" vpmaddwd
    says pictures/stages.svg "compact, SmolLM2-135M 4K keep 0.4"
}

@test "plot: bad input, and no gnuplot" {
    script plot
    [[ $status -eq 2 ]]
    says_in_one_line "RESULTS.jsonl"
    script plot nowhere.jsonl
    [[ $status -eq 1 ]]
    says_in_one_line nowhere.jsonl
    GNUPLOT=no-such-gnuplot script plot "$canned"
    [[ $status -eq 1 ]]
    says_in_one_line gnuplot "not found"
    command -v gnuplot >/dev/null || skip "no gnuplot"
    echo '{' >broken.jsonl
    script plot broken.jsonl pictures
    [[ $status -eq 1 && ! -e pictures/roofline.svg ]]
    says_in_one_line broken.jsonl JSON
}

@test "report: a page from results, and from a run" {
    script report --results "$canned" -o page.md
    ends 0
    says page.md "Test machine" 2026-01-31 "bench/report" vpmaddwd SmolLM2-135M "| norm |" OpenBLAS
    script report "$CKV" --quick --shapes SmolLM2-135M --tokens 1K -o page.md --save saved.jsonl
    ends 0
    says page.md SmolLM2-135M "dense norm" "| compact |"
    script report --results saved.jsonl -o again.md
    ends 0
    cmp <(grep '^|' page.md) <(grep '^|' again.md)
}

@test "report: bad input" {
    script report
    [[ $status -eq 2 ]]
    says ../stderr CKV --results
    script report --results nowhere.jsonl -o page.md
    [[ $status -eq 1 && ! -e page.md ]]
    says_in_one_line nowhere.jsonl
    script report ./no-such-ckv -o page.md
    [[ $status -eq 1 && ! -e page.md ]]
    says ../stderr "no-such-ckv: No such file"
    script report "$CKV" --shapes nowhere.json -o page.md
    [[ $status -eq 1 && ! -e page.md ]]
    says ../stderr nowhere.json
}
