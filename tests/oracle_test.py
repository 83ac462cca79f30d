# SPDX-License-Identifier: Apache-2.0
"""`ckv evict --dump` against an oracle in float64 that was written apart from it.

The oracle is found as support.oracle_path says, and without it these tests are skipped.  It forgives a position
that differs from its own only where the score lies next to the cut.
"""

import argparse
import random

import numpy as np
import pytest

import support
from support import ckv, ckv_json, needs_ckv

pytestmark = needs_ckv

CASES = 200
NARROW = 60     # cases more, of a small hidden size
GROUPS = (1, 2, 3, 5, 7, 8)
WIDTHS = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 59, 63, 64, 65, 80, 96, 100, 127, 128, 129, 192, 255, 256, 257)
DTYPES = ("F32", "F16", "BF16")
CAPTURES = sorted((support.SOURCE / "tests" / "data").glob("*.safetensors"))
WORK = 2e7      # multiply-adds of one layer, about, so that the scalar reference takes a moment only


# ---------------------------------------------------------------- cases

def draw(number):
    """Case `number`: the file's sizes and the policy.  Every edge comes up several times in 200 cases.

    Those beyond have a small hidden size."""
    r = random.Random(number)
    group = GROUPS[number % len(GROUPS)]
    kv_heads = r.choice((1, 1, 2, 3))
    head_dim = WIDTHS[number % len(WIDTHS)] if number % 3 else r.randint(1, 257)
    value_dim = WIDTHS[(number * 7 + 3) % len(WIDTHS)] if number % 4 else r.randint(1, 257)
    queries = r.choice((1, 2, 3, 4, 8, 13, 32, 33))
    window = r.choice((queries, queries, 1, max(1, queries - 1), queries + 1, 32))
    effective = min(window, queries)
    width = r.choice((1, 2, 3, 4, 5, 7, 8, 11))
    pool = ("none", 1) if number % 5 == 4 else (("max", "avg")[number % 2], width)
    edges = (effective, effective + 1, effective + 2, effective + width - 1, effective + width, effective + width + 1,
             1, 2, max(1, effective - 1), r.randint(effective, 300), r.randint(effective, 300))
    tokens = edges[(number // len(GROUPS)) % len(edges)]
    hidden = r.choice((331, 397, 509, 577, 643) if number < CASES else (17, 37, 61, 97, 129, 251))
    room = int(WORK / (kv_heads * group * value_dim * hidden))
    if tokens > room > effective + width + 1:
        tokens = room
    budget = (None, None, None, tokens - 1, tokens, tokens + 1, 1, 0, effective, effective + 1)[number % 10]
    return argparse.Namespace(
        seed=number, layers=1 + (number % 16 == 0), q_heads=group * kv_heads, kv_heads=kv_heads, len=tokens,
        head_dim=head_dim, value_dim=value_dim, hidden=hidden, queries=queries, dtype="f32",
        window=window, pool=pool, count=budget, keep=r.choice(("0.4", "0.1", "0.5", "0.93", "0.07", "0.99", "0", "1")),
        alpha=r.choice(("0", "0.25", "0.5", "0.75", "1")), epsilon=r.choice((1e-4, 1e-2, 1.0, 6e-8)),
        recent=r.choice((None, None, 0, 1, 3, 50)), sinks=r.choice((0, 0, 1, 4)),
        dtypes=[r.choice(DTYPES) for _ in range(4)] if number % 4 == 3 else [DTYPES[number % 3]] * 4)


def save(path, tensors, dtypes):
    """In the types of the case, wide elements first, so that none is misaligned."""
    types = dict(zip(("query", "key", "value", "weight"), dtypes))
    typed = [(name, (types[name.split(".")[-1]], array)) for name, array in tensors.items()]
    support.oracle().save(path, dict(sorted(typed, key=lambda item: item[1][0] != "F32")))


def make(path, case):
    """The oracle's random file, with the types of the case."""
    oracle = support.oracle()
    sizes = argparse.Namespace(**{**vars(case), "window": case.queries})
    oracle.random_file(path, sizes)
    if set(case.dtypes) != {"F32"}:
        save(path, oracle.load(path), case.dtypes)


def options(case):
    given = ["--budget", case.count] if case.count is not None else ["--keep", case.keep]
    given += ["--alpha", case.alpha, "--epsilon", repr(case.epsilon), "--window", case.window, "--sinks", case.sinks]
    given += ["--pool", "none" if case.pool[0] == "none" else f"{case.pool[0]}:{case.pool[1]}"]
    return given if case.recent is None else given + ["--recent", case.recent]


def policy(**changes):
    """The defaults, as the oracle's command line has them."""
    return argparse.Namespace(**{**dict(
        window=32, recent=None, pool=("max", 7), norm="l1", keep="0.4", count=None, budgets="uniform", floor="0.2",
        alpha="0.5", epsilon=1e-4, sinks=0, rtol=2e-3, swap=0.01), **changes})


def complaints(given, got, case):
    """What the oracle's `check` finds wrong, for every layer."""
    oracle = support.oracle()
    bad = []
    for number in oracle.layers(given):
        query, key = given[f"layers.{number}.query"], given[f"layers.{number}.key"]
        tokens = key.shape[1]
        # The oracle wants a window that the queries and the tokens given can fill.
        window = min(case.window, query.shape[1], tokens)
        o = policy(window=window, recent=case.recent, pool=case.pool, count=case.count, keep=case.keep,
                   alpha=case.alpha, epsilon=case.epsilon, sinks=case.sinks)
        reference = oracle.evict_layer(given, number, o)
        hidden = len(given[f"layers.{number}.o_proj.weight"])
        found = oracle.check_layer(number, got, reference, o, tokens)[0]
        if not found:
            recent = window if case.recent is None else case.recent
            found = oracle.exact_selection(number, got, o, tokens, recent, reference[4])
        bad += found
    return bad


# ---------------------------------------------------------------- kept sets, attention and norm

@pytest.mark.parametrize("first", range(0, CASES + NARROW, 20))
def test_random_files(tmp_path, first):
    for number in range(first, first + 20):
        case = draw(number)
        make(tmp_path / "in", case)
        ckv("evict", tmp_path / "in", "-o", tmp_path / "out", "--dump", "--no-perturbation", *options(case))
        oracle = support.oracle()
        given, got = oracle.load(tmp_path / "in"), oracle.load(tmp_path / "out")
        assert {name for name in got if "attention" in name or "norm" in name} == \
            {f"layers.{i}.{x}" for i in range(case.layers) for x in ("attention", "norm")}
        bad = complaints(given, got, case)
        assert not bad, f"case {number}: {vars(case)}: {bad}"


def test_the_random_files_reach_the_edges():
    cases = [draw(number) for number in range(CASES)]
    assert {case.q_heads // case.kv_heads for case in cases} == set(GROUPS)
    for name in ("head_dim", "value_dim"):
        assert {1, 64, 127, 128, 257} <= {getattr(case, name) for case in cases}
    assert sum(case.head_dim != case.value_dim for case in cases) > 150
    assert any(case.len == case.window for case in cases) and any(case.len == case.window + 1 for case in cases)
    assert any(case.window > case.queries for case in cases) and any(case.queries > case.window for case in cases)
    assert any(case.queries > case.len for case in cases)
    assert {case.count - case.len for case in cases if case.count is not None} >= {-1, 0, 1}
    assert {0, 1} <= {case.count for case in cases}
    assert {"0", "0.25", "0.5", "1"} <= {case.alpha for case in cases}
    assert {tuple(case.dtypes) for case in cases} >= {(dtype,) * 4 for dtype in DTYPES}
    assert sum(len(set(case.dtypes)) > 1 for case in cases) > 30
    assert {"max", "avg", "none"} == {case.pool[0] for case in cases}
    assert sum(case.hidden % 8 != 0 for case in cases) > 150


@pytest.mark.parametrize("sizes", [(80, 80, 7), (96, 96, 7), (192, 192, 7), (59, 59, 7), (192, 128, 7), (192, 128, 60)])
def test_head_sizes_of_real_models(tmp_path, sizes):
    case = argparse.Namespace(**{**vars(draw(0)), "head_dim": sizes[0], "value_dim": sizes[1], "len": sizes[2],
                                 "queries": 2, "window": 2, "q_heads": 6, "kv_heads": 2, "layers": 1, "hidden": 367,
                                 "count": None, "keep": "0.5", "recent": 1, "dtypes": ["F16"] * 4})
    make(tmp_path / "in", case)
    ckv("evict", tmp_path / "in", "-o", tmp_path / "out", "--dump", *options(case))
    oracle = support.oracle()
    assert complaints(oracle.load(tmp_path / "in"), oracle.load(tmp_path / "out"), case) == []


def scaled(case, factors, path):
    make(path, case)
    oracle = support.oracle()
    tensors = oracle.load(path)
    for name, factor in factors.items():
        tensors[f"layers.0.{name}"] = tensors[f"layers.0.{name}"] * factor
    save(path, tensors, case.dtypes)


@pytest.mark.parametrize("dtype, factors", [
    ("F16", {"query": 30, "key": 30}),                      # logits far beyond half precision
    ("F16", {"value": 1000, "o_proj.weight": 1000}),        # and norms
    ("F16", {"value": 1e-3, "o_proj.weight": 1e-3}),
    ("F32", {"value": 1e9, "o_proj.weight": 1e9}),
    ("BF16", {"value": 1e-8, "o_proj.weight": 1e-3}),
])
def test_magnitudes_beyond_half_precision(tmp_path, dtype, factors):
    case = argparse.Namespace(**{**vars(draw(1)), "head_dim": 64, "value_dim": 40, "len": 200, "queries": 8,
                                 "window": 8, "q_heads": 4, "kv_heads": 2, "layers": 1, "hidden": 401, "alpha": "0.5",
                                 "count": 60, "recent": None, "sinks": 0, "pool": ("max", 5), "epsilon": 1e-4,
                                 "dtypes": [dtype] * 4})
    scaled(case, factors, tmp_path / "in")
    done = ckv("evict", tmp_path / "in", "-o", tmp_path / "out", "--dump", *options(case))
    assert done.stderr == ""
    oracle = support.oracle()
    assert complaints(oracle.load(tmp_path / "in"), oracle.load(tmp_path / "out"), case) == []


def test_there_are_captures():
    assert CAPTURES


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_captures(tmp_path, path):
    """The attention and norm of a capture once, and from them the kept sets of several policies."""
    oracle = support.oracle()
    given = oracle.load(path)
    case = policy()
    ckv("evict", path, "-o", tmp_path / "out", "--dump", "--no-perturbation")
    got = oracle.load(tmp_path / "out")
    assert len(oracle.layers(given)) >= 1
    assert complaints(given, got, case) == []
    for changes, given_options in (({"keep": "0.1"}, ["--keep", "0.1"]), ({"alpha": "1"}, ["--alpha", "1"]),
                                   ({"alpha": "0", "recent": 0, "sinks": 4},
                                    ["--alpha", "0", "--recent", "0", "--sinks", "4"])):
        o = policy(**changes)
        if o.recent is None:
            given_options = [*given_options, "--recent", "32"]     # `select` does not see the queries
        ckv("select", tmp_path / "out", "-o", tmp_path / "selected", *given_options)
        selected = {**got, **oracle.load(tmp_path / "selected")}
        for number in oracle.layers(given):
            heads, tokens = got[f"layers.{number}.norm"].shape
            per = np.full(heads, oracle.budget(tokens, o.keep))
            recent = 32 if o.recent is None else o.recent
            assert oracle.exact_selection(number, selected, o, tokens, recent, per) == [], changes


# ---------------------------------------------------------------- the check can fail

def test_a_corrupted_output_is_found(tmp_path):
    case = argparse.Namespace(**{**vars(draw(2)), "len": 300, "queries": 8, "window": 8, "q_heads": 4, "kv_heads": 2,
                                 "head_dim": 32, "value_dim": 32, "hidden": 401, "layers": 1, "count": 90,
                                 "alpha": "0.5", "recent": None, "sinks": 0, "pool": ("max", 3), "epsilon": 1e-4,
                                 "dtypes": ["F32"] * 4})
    make(tmp_path / "in", case)
    ckv("evict", tmp_path / "in", "-o", tmp_path / "out", "--dump", *options(case))
    oracle = support.oracle()
    given, good = oracle.load(tmp_path / "in"), oracle.load(tmp_path / "out")
    assert complaints(given, good, case) == []

    def corrupted(name, change):
        got = {key: array.copy() for key, array in good.items()}
        change(got[f"layers.0.{name}"])
        return complaints(given, got, case)

    flat, offsets = good["layers.0.kept"], good["layers.0.kept_offsets"]
    score = (good["layers.0.attention"][0] + 1e-4) * good["layers.0.norm"][0]
    head = flat[:offsets[1]]
    worst = min(set(range(300)) - set(head.tolist()), key=lambda i: score[i])
    best = max((i for i in head.tolist() if i < 292), key=lambda i: good["layers.0.attention"][0, i])

    def swap(kept):
        kept[:offsets[1]] = np.sort(np.where(head == best, worst, head))

    def drop_recent(kept):
        kept[:offsets[1]] = np.sort(np.where(head == 299, worst, head))

    def scale(array):
        array[1, 17] *= 1.1

    def spoil(array):
        array[0, 0] = np.nan

    def reverse(kept):
        kept[:offsets[1]] = kept[:offsets[1]][::-1].copy()

    def shift(kept_offsets):
        kept_offsets[1] -= 9

    for name, change in (("kept", swap), ("kept", drop_recent), ("kept", reverse), ("kept_offsets", shift),
                         ("attention", scale), ("attention", spoil), ("norm", scale), ("norm", spoil)):
        assert corrupted(name, change), f"{change.__name__} of {name} went unnoticed"


# ---------------------------------------------------------------- the report's numbers

def stage1_set(attention, budget, alpha, recent):
    """Forced and first-stage positions of one head, from the attention that was dumped."""
    oracle = support.oracle()
    tokens = len(attention)
    if budget >= tokens:
        return np.arange(tokens)
    keep = np.zeros(tokens, bool)
    keep[oracle.forced(tokens, budget, recent, 0)] = True
    keep[oracle.top(attention, oracle.stage1_count(budget, alpha) - int(keep.sum()), ~keep)] = True
    return np.flatnonzero(keep)


def measure(given, number, heads, stage1):
    """Attention mass and output perturbation of each query head, for the last query, in float64."""
    query, key, value, weight = (given[f"layers.{number}.{name}"] for name in ("query", "key", "value", "o_proj.weight"))
    group, width = len(query) // len(key), value.shape[2]
    mass, change = [], []
    for h, kept in enumerate(heads):
        own = slice(h * group, (h + 1) * group)
        change += support.oracle().perturbation(query[own, -1:], key[h], value[h],
                                                weight[:, own.start * width:own.stop * width], kept)[:, 0].tolist()
        logits = query[own, -1] @ key[h].T / np.sqrt(query.shape[2])
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        mass += (weights[:, stage1[h]].sum(-1) / weights.sum(-1)).tolist()
    return mass, change


def compare(spread, values, floor):
    for name, want in (("mean", np.mean(values)), ("min", np.min(values)), ("max", np.max(values))):
        # What cancels leaves rounding noise of the larger numbers, hence the floor.
        assert abs(spread[name] - want) <= 1e-9 * abs(want) + floor, (name, spread[name], want)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_mass_and_perturbation(tmp_path, group, dtype):
    oracle = support.oracle()
    for keep, alpha in (("0.4", "0.5"), ("0.1", "0.25"), ("0.9", "0"), ("0.02", "1"), ("1", "0.5")):
        case = argparse.Namespace(**{**vars(draw(group)), "len": 150, "queries": 6, "q_heads": 2 * group,
                                     "kv_heads": 2, "head_dim": 11 * group, "value_dim": 23, "hidden": 47,
                                     "layers": 2, "dtypes": [dtype] * 4})
        make(tmp_path / "in", case)
        report = ckv_json("evict", tmp_path / "in", "-o", tmp_path / "out", "--dump", "--keep", keep, "--alpha", alpha)
        ckv("evict", tmp_path / "in", "-o", tmp_path / "plain", "--keep", keep, "--alpha", "1")
        given, got, plain = (oracle.load(tmp_path / name) for name in ("in", "out", "plain"))
        assert len(report["layers"]) == 2
        means = []
        for number, layer in enumerate(report["layers"]):
            budget = oracle.budget(150, keep)
            assert (layer["layer"], layer["budget"], layer["tokens"]) == (number, budget, 150)
            heads = support.kept(got, number)
            stage1 = [stage1_set(row, budget, alpha, 6) for row in got[f"layers.{number}.attention"]]
            mass, change = measure(given, number, heads, stage1)
            change_plain = measure(given, number, support.kept(plain, number), stage1)[1]
            floor = 1e-13 * got[f"layers.{number}.norm"].max()
            compare(layer["stage1_mass"], mass, 1e-13)
            compare(layer["perturbation"]["criticalkv"], change, floor)
            compare(layer["perturbation"]["attention_only"], change_plain, floor)
            means.append((np.mean(mass), np.mean(change), np.mean(change_plain)))
        total = report["total"]
        for value, want in zip((total["stage1_mass"], total["perturbation"]["criticalkv"],
                                total["perturbation"]["attention_only"]), np.mean(means, axis=0)):
            assert abs(value - want) <= 1e-9 * abs(want) + floor


def test_perturbation_of_an_empty_cache_is_the_whole_output(tmp_path):
    case = argparse.Namespace(**{**vars(draw(5)), "len": 40, "q_heads": 4, "kv_heads": 2, "head_dim": 8, "queries": 4,
                                 "value_dim": 6, "hidden": 19, "layers": 1, "dtypes": ["F32"] * 4})
    make(tmp_path / "in", case)
    layer = ckv_json("evict", tmp_path / "in", "-o", tmp_path / "out", "--keep", "0")["layers"][0]
    given = support.oracle().load(tmp_path / "in")
    query, key, value, weight = (given[f"layers.0.{name}"] for name in ("query", "key", "value", "o_proj.weight"))
    want = []
    for h in range(4):
        logits = key[h // 2] @ query[h, -1] / np.sqrt(8)
        weights = np.exp(logits - logits.max())
        want.append(np.abs(weights / weights.sum() @ value[h // 2] @ weight[:, 6 * h:6 * h + 6].T).sum())
    compare(layer["perturbation"]["criticalkv"], want, 0)
    assert layer["stage1_mass"]["max"] == 0 and layer["kept"] == 0


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_mass_and_perturbation_of_captures(tmp_path, path):
    oracle = support.oracle()
    report = ckv_json("evict", path, "-o", tmp_path / "out", "--dump")
    given, got = oracle.load(path), oracle.load(tmp_path / "out")
    for layer in report["layers"]:
        number = layer["layer"]
        heads = support.kept(got, number)
        stage1 = [stage1_set(row, layer["budget"], "0.5", layer["window"]) for row in got[f"layers.{number}.attention"]]
        mass, change = measure(given, number, heads, stage1)
        compare(layer["stage1_mass"], mass, 1e-13)
        compare(layer["perturbation"]["criticalkv"], change, 1e-13 * got[f"layers.{number}.norm"].max())
    assert [layer["layer"] for layer in report["layers"]] == oracle.layers(given)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_criticalkv_changes_the_output_less_where_the_budget_is_tight(tmp_path, path):
    total = ckv_json("evict", path, "-o", tmp_path / "out", "--keep", "0.05")["total"]["perturbation"]
    assert total["criticalkv"] < total["attention_only"]
