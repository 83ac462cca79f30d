# SPDX-License-Identifier: Apache-2.0
"""`ckv evict` on small inputs whose right answer is known by hand."""

import json
import os
import struct

import numpy as np
import pytest

import support
from support import ckv, kept, layer, needs_ckv, read, write

pytestmark = needs_ckv


def evict(tmp_path, tensors, *options):
    write(tmp_path / "in.safetensors", tensors)
    ckv("evict", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", *options)
    return read(tmp_path / "out.safetensors")


def flat_layer(tokens, queries, query_heads=1, kv_heads=1, width=4, hidden=4):
    """Zero queries: attention is flat, so that every score ties."""
    return layer(np.zeros((query_heads, queries, width)), np.ones((kv_heads, tokens, width)),
                 np.ones((kv_heads, tokens, width)), np.ones((hidden, query_heads * width)))


# ---------------------------------------------------------------- forced entries

def test_window_survives_flat_attention(tmp_path):
    out = evict(tmp_path, flat_layer(8, 4), "--window", 4, "--keep", "0.5")
    assert kept(out) == [[4, 5, 6, 7]]


def test_window_survives_value_rows_of_zero(tmp_path):
    tensors = flat_layer(8, 4)
    tensors["layers.0.value"][1][0, 6:] = 0
    out = evict(tmp_path, tensors, "--window", 4, "--keep", "0.5", "--alpha", "0.5")
    assert kept(out) == [[4, 5, 6, 7]]


def test_sink_survives_a_value_row_of_zero(tmp_path):
    tensors = flat_layer(4, 1)
    tensors["layers.0.value"][1][0, 0] = 0
    out = evict(tmp_path, tensors, "--window", 1, "--recent", 0, "--sinks", 1, "--budget", 2)
    assert kept(out) == [[0, 1]]


def test_recent_zero_protects_nothing(tmp_path):
    """The window's own attention counts as zero, so that with flat attention the first rows win."""
    out = evict(tmp_path, flat_layer(8, 4), "--window", 4, "--recent", 0, "--keep", "0.5")
    assert kept(out) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("recent, sinks, budget, want", [
    (4, 2, 3, [5, 6, 7]),           # too many forced: the most recent first
    (4, 2, 5, [0, 4, 5, 6, 7]),     # then the sinks from the front
    (4, 2, 6, [0, 1, 4, 5, 6, 7]),
    (8, 8, 3, [5, 6, 7]),           # more of both than there are tokens
    (6, 6, 7, [0, 2, 3, 4, 5, 6, 7]),
])
def test_forced_entries_beyond_the_budget(tmp_path, recent, sinks, budget, want):
    out = evict(tmp_path, flat_layer(8, 4), "--window", 4, "--recent", recent, "--sinks", sinks, "--budget", budget)
    assert kept(out) == [want]


# ---------------------------------------------------------------- budgets

@pytest.mark.parametrize("tokens, keep, count", [
    (2, "0.4", 1), (10, "0.1", 1), (10, "0", 0), (3, "0.5", 1), (500, "0.93", 465), (500, ".07", 35), (100, "1", 100),
    (100, "1.000", 100), (7, "0.000000000001", 1), (1, "0.999999999999", 1), (300, "0.07", 21), (100, "0.29", 29),
])
def test_share_of_the_tokens(tmp_path, tokens, keep, count):
    out = evict(tmp_path, flat_layer(tokens, 1), "--window", 1, "--keep", keep)
    assert [len(head) for head in kept(out)] == [count]


@pytest.mark.parametrize("budget", [100, 101, 128, 2**40, 2**63 - 1])
def test_budget_of_all_tokens_keeps_all(tmp_path, budget):
    tensors = support.random_layer(3, tokens=100, dtype="BF16")
    out = evict(tmp_path, tensors, "--budget", budget, "--compact", "--dump")
    assert kept(out) == [list(range(100))] * 2
    for name in ("key", "value"):
        assert out[f"layers.0.{name}"].tobytes() == read(tmp_path / "in.safetensors")[f"layers.0.{name}"].tobytes()


def test_budget_of_nothing(tmp_path):
    out = evict(tmp_path, support.random_layer(4), "--budget", 0, "--compact")
    assert kept(out) == [[], []]
    assert out["layers.0.key"].shape == (2, 0, 9) and out["layers.0.value"].shape == (2, 0, 6)


def test_fewer_queries_than_the_window(tmp_path):
    """The window is then the queries given: one token is recent, not 32."""
    out = evict(tmp_path, flat_layer(100, 1), "--budget", 3)
    assert kept(out) == [[0, 1, 99]]


# ---------------------------------------------------------------- attention

def test_causal_mask_within_the_window(tmp_path):
    """Queries before the window are ignored; of its two, the first sees three keys and the second four."""
    out = evict(tmp_path, flat_layer(4, 4), "--window", 2, "--pool", "none", "--dump")
    attention = out["layers.0.attention"][0]
    assert attention[0] == attention[1] and abs(attention[0] - 7 / 24) < 1e-6
    assert attention[2:].tolist() == [0, 0]


def test_causal_mask_with_more_keys_than_queries(tmp_path):
    out = evict(tmp_path, flat_layer(8, 2), "--pool", "none", "--dump")
    attention = out["layers.0.attention"][0]
    assert np.allclose(attention[:6], (1 / 7 + 1 / 8) / 2, rtol=1e-6) and (attention[6:] == 0).all()


def one_hot_layer(prefix, hot, value_dim=2):
    """One query, and query heads in one group, each of which attends to one key of the prefix alone."""
    key = np.zeros((1, prefix + 1, prefix))
    key[0, :prefix] = np.eye(prefix)
    query = np.zeros((len(hot), 1, prefix))
    for head, position in enumerate(hot):
        query[head, 0, position] = 1000
    return layer(query, key, np.ones((1, prefix + 1, value_dim)), np.ones((3, len(hot) * value_dim)))


def test_pooling_comes_before_the_mean_over_the_group(tmp_path):
    out = evict(tmp_path, one_hot_layer(3, [0, 2]), "--pool", "max:3", "--dump")
    assert out["layers.0.attention"].tolist() == [[.5, 1, .5, 0]]


def test_average_pool_counts_the_outside_as_zero(tmp_path):
    out = evict(tmp_path, one_hot_layer(6, [0]), "--pool", "avg:5", "--dump")
    fifth = float(np.float32(1) / np.float32(5))
    assert out["layers.0.attention"].tolist() == [[fifth, fifth, fifth, 0, 0, 0, 0]]


def test_max_pool_ignores_the_outside(tmp_path):
    out = evict(tmp_path, one_hot_layer(6, [5]), "--pool", "max:3", "--dump")
    assert out["layers.0.attention"].tolist() == [[0, 0, 0, 0, 1, 1, 0]]


def test_no_pool(tmp_path):
    for pool in ("none", "max:1", "avg:1"):
        out = evict(tmp_path, one_hot_layer(6, [5]), "--pool", pool, "--dump")
        assert out["layers.0.attention"].tolist() == [[0, 0, 0, 0, 0, 1, 0]], pool


def test_pool_wider_than_the_prefix(tmp_path):
    out = evict(tmp_path, one_hot_layer(3, [1]), "--pool", "max:99", "--dump")
    assert out["layers.0.attention"].tolist() == [[1, 1, 1, 0]]


# ---------------------------------------------------------------- the logits' scale

def write_with_metadata(path, tensors, metadata):
    raw = write(path, tensors).read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    text = json.dumps({"__metadata__": metadata, **json.loads(raw[8:8 + size])}).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size:])
    return path


def evict_scaled(tmp_path, tensors, metadata, *options):
    """The tensors that come out, and the report, for a file with this __metadata__ (None: none)."""
    path = tmp_path / "in.safetensors"
    if metadata is None:
        write(path, tensors)
    else:
        write_with_metadata(path, tensors, metadata)
    report = support.ckv_json("evict", path, "-o", tmp_path / "out.safetensors", *options)
    return {name: array.tobytes() for name, array in read(tmp_path / "out.safetensors").items()}, report


def measured(report):
    return [(layer["stage1_mass"], layer["perturbation"]) for layer in report["layers"]]


@pytest.mark.parametrize("scale, factor", [("0.25", 2), ("2.5e-1", 2), (".25", 2), ("0.25000", 2), ("25E-2", 2),
                                           ("0.0625", 0.5), ("1", 8), ("1e+0", 8)])
def test_scale_in_the_metadata_is_that_of_the_logits(tmp_path, scale, factor):
    """Width 64: by default 1/8.  Queries times a power of two give the same bits, of the measured cost too."""
    tensors = support.random_layer(20, head_dim=64, number=3)
    first, report = evict_scaled(tmp_path, tensors, {"layers.3.scale": scale}, "--dump")
    assert report["layers"][0]["scale"] == float(scale)
    default, _ = evict_scaled(tmp_path, tensors, None, "--dump")
    assert first["layers.3.attention"] != default["layers.3.attention"]
    dtype, query = tensors["layers.3.query"]
    tensors["layers.3.query"] = (dtype, support.encode(dtype, query) * np.float32(factor))
    second, plain = evict_scaled(tmp_path, tensors, None, "--dump")
    assert plain["layers"][0]["scale"] is None
    assert first == second and measured(report) == measured(plain)


def test_scale_is_that_of_its_layer_alone(tmp_path):
    tensors = {**support.random_layer(21, number=0), **support.random_layer(22, number=10)}
    plain, _ = evict_scaled(tmp_path, tensors, None, "--dump")
    out, report = evict_scaled(tmp_path, tensors, {"layers.10.scale": "0.03125"}, "--dump")
    assert [layer["scale"] for layer in report["layers"]] == [None, 0.03125]
    for name in ("attention", "norm", "kept"):
        assert out[f"layers.0.{name}"] == plain[f"layers.0.{name}"]
    assert out["layers.10.norm"] == plain["layers.10.norm"]
    assert out["layers.10.attention"] != plain["layers.10.attention"]


def test_metadata_without_a_scale_changes_nothing(tmp_path):
    tensors = support.random_layer(23)
    plain, report = evict_scaled(tmp_path, tensors, None, "--dump")
    for metadata in ({}, {"tokens": "50"}, {"layers.1.scale": "none", "scale": "2", "layers.00.scale": "2"}):
        out, again = evict_scaled(tmp_path, tensors, metadata, "--dump")
        assert out == plain and measured(again) == measured(report)
        assert again["layers"][0]["scale"] is None


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_scale_at_its_limits(tmp_path, scale):
    _, report = evict_scaled(tmp_path, support.random_layer(24), {"layers.0.scale": repr(scale)})
    assert report["layers"][0]["scale"] == scale


@pytest.mark.parametrize("scale", ["", " ", "0", "-0.25", "+0.25", " 0.25", "0.25 ", "0.25x", "1e", "1,5", "0x1p-2",
                                   "nan", "inf", "infinity", "1e999", "1e-999", "none", "1/8", "9.0949e-13",
                                   "1099511627776.01", ".", "0.25\n", "\u0663"])
def test_scale_that_is_wrong(tmp_path, scale):
    path = write_with_metadata(tmp_path / "in.safetensors", support.random_layer(25), {"layers.0.scale": scale})
    done = ckv("evict", path, "-o", tmp_path / "out.safetensors", status=1)
    assert len(done.stderr.splitlines()) == 1 and not done.stdout
    for word in ("in.safetensors", "__metadata__", "layers.0.scale", f"'{scale}'".replace("\n", "?"), "wanted"):
        assert word in done.stderr
    assert not (tmp_path / "out.safetensors").exists()


# ---------------------------------------------------------------- norm

def test_norm_beyond_the_half_precision_range(tmp_path):
    tensors = layer(np.zeros((1, 1, 4)), np.zeros((1, 3, 4)), np.ones((1, 3, 64)), np.full((4096, 64), .25), "F16")
    out = evict(tmp_path, tensors, "--budget", 2, "--dump")
    assert out["layers.0.norm"].tolist() == [[65536.0] * 3]


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32"])
def test_logits_beyond_the_half_precision_range(tmp_path, dtype):
    """Scaled logits of 741455: attention is flat, and finite."""
    tensors = layer(np.full((1, 2, 128), 256), np.full((1, 10, 128), 256), np.ones((1, 10, 8)), np.ones((5, 8)), dtype)
    out = evict(tmp_path, tensors, "--budget", 4, "--pool", "none", "--dump")
    assert np.allclose(out["layers.0.attention"][0, :8], (1 / 9 + 1 / 10) / 2, rtol=1e-6)
    assert out["layers.0.norm"].tolist() == [[40.0] * 10]
    assert kept(out) == [[0, 1, 8, 9]]


def test_norm_is_the_mean_over_heads_of_each_norm(tmp_path):
    """The second query head's projection is the first's negated: the norm of their sum would be 0."""
    weight = np.array([[1., -2, 4], [8, 1, -1]])
    tensors = layer(np.zeros((2, 1, 4)), np.zeros((1, 2, 4)), np.array([[[1., 0, 0], [0, 2, 0]]]),
                    np.hstack([weight, -weight]))
    out = evict(tmp_path, tensors, "--budget", 1, "--dump")
    assert out["layers.0.norm"].tolist() == [[9.0, 6.0]]


def test_projection_that_is_not_square(tmp_path):
    """Four heads of three channels onto six: 12 columns, and no two sizes of the layer agree."""
    tensors = support.random_layer(5, query_heads=4, kv_heads=2, head_dim=3, value_dim=3, hidden=6)
    out = evict(tmp_path, tensors, "--budget", 10, "--dump")
    value, weight = tensors["layers.0.value"][1], tensors["layers.0.o_proj.weight"][1]
    want = np.array([np.mean([np.abs(value[h // 2] @ weight[:, 3 * h:3 * h + 3].T).sum(-1)
                              for h in (2 * g, 2 * g + 1)], axis=0) for g in (0, 1)])
    assert np.abs(out["layers.0.norm"] / want - 1).max() < 0.02


# ---------------------------------------------------------------- what comes out

def test_nothing_but_what_was_asked_for(tmp_path):
    tensors = support.random_layer(6)
    names = {"kept", "kept_offsets"}
    for options, more in (([], set()), (["--dump"], {"attention", "norm"}), (["--compact"], {"key", "value"}),
                          (["--compact", "--dump"], {"attention", "norm", "key", "value"})):
        out = evict(tmp_path, tensors, *options)
        assert set(out) == {f"layers.0.{name}" for name in names | more}


def test_shapes_and_types_of_what_comes_out(tmp_path):
    out = evict(tmp_path, support.random_layer(7, dtype="F16"), "--keep", "0.5", "--compact", "--dump")
    shapes = {name.removeprefix("layers.0."): (x.dtype.str, x.shape) for name, x in out.items()}
    assert shapes == {"kept": ("<i4", (50,)), "kept_offsets": ("<i4", (3,)), "attention": ("<f4", (2, 50)),
                      "norm": ("<f4", (2, 50)), "key": ("<f2", (2, 25, 9)), "value": ("<f2", (2, 25, 6))}


@pytest.mark.parametrize("query, key, value, weight", [
    ("F32", "F32", "F32", "F32"), ("F16", "F16", "F16", "F16"), ("BF16", "BF16", "BF16", "BF16"),
    ("F32", "F16", "BF16", "F16"), ("BF16", "F32", "F16", "BF16")])
def test_compacted_rows_are_the_kept_rows_byte_for_byte(tmp_path, query, key, value, weight):
    tensors = {**support.random_layer(8, tokens=77, number=0), **support.random_layer(9, kv_heads=4, number=3)}
    types = dict(zip(("query", "key", "value", "weight"), (query, key, value, weight)))
    tensors = {name: (types[name.split(".")[-1]], array) for name, (_, array) in tensors.items()}
    out = evict(tmp_path, tensors, "--budget", 20, "--window", 5, "--compact")
    given = read(tmp_path / "in.safetensors")
    for number in (0, 3):
        heads = kept(out, number)
        assert all(len(head) == 20 for head in heads)
        for name in ("key", "value"):
            source, moved = given[f"layers.{number}.{name}"], out[f"layers.{number}.{name}"]
            assert moved.dtype == source.dtype
            assert moved.tobytes() == b"".join(source[h, head].tobytes() for h, head in enumerate(heads))


def test_compacted_rows_keep_every_bit_pattern(tmp_path):
    """NaN payloads, infinities, subnormals and negative zero move as they are."""
    tensors = support.random_layer(10, tokens=64, value_dim=64, dtype="F16")
    odd = np.arange(2 * 64 * 64, dtype=np.uint16) * 8 + 5
    tensors["layers.0.value"] = ("F16", odd.view(np.float16).reshape(2, 64, 64))
    out = evict(tmp_path, tensors, "--budget", 40, "--compact")
    heads = kept(out)
    given = read(tmp_path / "in.safetensors")["layers.0.value"]
    assert out["layers.0.value"].tobytes() == b"".join(given[h, head].tobytes() for h, head in enumerate(heads))


def test_positions_are_those_of_the_cache_given(tmp_path):
    """300 tokens, 128 kept: rows are renumbered in the compacted cache alone."""
    tensors = support.random_layer(11, tokens=300)
    out = evict(tmp_path, tensors, "--budget", 128, "--compact")
    for head in kept(out):
        assert len(head) == 128 and head[-8:] == list(range(292, 300))
    assert out["layers.0.key"].shape == (2, 128, 9)


def test_half_precision_gives_what_the_same_numbers_give_in_single(tmp_path):
    for dtype in ("F16", "BF16"):
        narrow = support.random_layer(12, tokens=257, head_dim=33, value_dim=20, hidden=100, dtype=dtype)
        wide = {}
        for name, (_, array) in narrow.items():
            bits = support.encode(dtype, array)
            wide[name] = ("F32", (bits.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else bits)
        policy = ["--budget", 100, "--dump"]
        first, second = evict(tmp_path, narrow, *policy), evict(tmp_path, wide, *policy)
        assert {name: x.tobytes() for name, x in first.items()} == {name: x.tobytes() for name, x in second.items()}


def test_only_the_layers_asked_for(tmp_path):
    tensors = {}
    for number in (0, 2, 10, 1000):
        tensors.update(support.random_layer(number, number=number))
    write(tmp_path / "in.safetensors", tensors)

    def layers(*options):
        ckv("evict", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", *options)
        return sorted({int(name.split(".")[1]) for name in read(tmp_path / "out.safetensors")})

    assert layers() == [0, 2, 10, 1000]
    assert layers("--layer", 10) == [10]
    assert layers("--layer", 1000, "--layer", 0, "--layer", 1000) == [0, 1000]
    alone = read(tmp_path / "out.safetensors")
    layers()
    for name, array in alone.items():
        assert read(tmp_path / "out.safetensors")[name].tobytes() == array.tobytes(), "a layer depends on others"


# ---------------------------------------------------------------- bytes that depend on nothing else

def test_the_same_bytes_however_it_is_run(tmp_path):
    tensors = {**support.random_layer(13, tokens=200, number=1), **support.random_layer(14, dtype="BF16", number=0)}
    path = write(tmp_path / "in.safetensors", tensors)
    policy = ["--keep", "0.3", "--window", "6", "--compact", "--dump"]
    (tmp_path / "below").mkdir()

    def run(out, *options, **more):
        ckv("evict", *options, **more)
        return (tmp_path / out).read_bytes()

    want = run("first", path, "-o", tmp_path / "first", *policy)
    assert len(want) > 1000
    for i in range(3):
        assert run("again", path, "-o", tmp_path / "again", *policy) == want, "repeats differ"
    for threads in (1, 2, 3, 4):
        assert run("t", path, "-o", tmp_path / "t", *policy, "--threads", threads) == want, f"--threads {threads}"
    for options in (["--backend", "ref"], ["--backend", "ref:0"], ["--backend", "auto"], ["--json"],
                    ["--no-perturbation"], ["--json", "--no-perturbation"], ["--layer", "0", "--layer", "1"],
                    ["--budgets", "uniform", "--norm", "l1"]):
        assert run("o", path, "-o", tmp_path / "o", *policy, *options) == want, options
    assert run("below/another.name", "../in.safetensors", "-o", "another.name", *policy,
               cwd=tmp_path / "below") == want, "another folder and name"
    assert run("e", path, "-o", tmp_path / "e", *policy,
               env={**os.environ, "LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "HOME": "/nowhere"}) == want, "environment"
    for seed in range(3):
        names = list(tensors)
        np.random.default_rng(seed).shuffle(names)
        write(tmp_path / "shuffled", {name: tensors[name] for name in names})
        assert run("s", tmp_path / "shuffled", "-o", tmp_path / "s", *policy) == want, f"order {names}"


@pytest.mark.parametrize("write_default, wanted", [
    (["--keep", "0.4"], True), (["--keep", "0.40"], True), (["--keep", ".400000000000"], True),
    (["--alpha", "0.5", "--epsilon", "1e-4", "--window", "32", "--sinks", "0", "--pool", "max:7"], True),
    (["--recent", "32"], True), (["--budget", "120"], True),
    (["--keep", "0.39"], False), (["--alpha", "0.25"], False), (["--window", "31"], False), (["--sinks", "9"], False),
    (["--pool", "avg:5"], False), (["--pool", "none"], False)])
def test_defaults_are_those_documented(tmp_path, write_default, wanted):
    """Options that spell a default out change nothing; any other value changes the dump or the kept set."""
    tensors = support.random_layer(15, tokens=300, queries=40)
    evict(tmp_path, tensors, "--dump")
    plain = (tmp_path / "out.safetensors").read_bytes()
    evict(tmp_path, tensors, "--dump", *write_default)
    assert ((tmp_path / "out.safetensors").read_bytes() == plain) == wanted


def test_kept_sets_can_be_selected_from_the_dump(tmp_path):
    tensors = {**support.random_layer(16, tokens=150, number=0), **support.random_layer(17, number=7)}
    for i, policy in enumerate((["--keep", "0.4", "--recent", 8], ["--budget", 30, "--alpha", "0", "--recent", 0],
                                ["--budget", 30, "--alpha", "1", "--recent", 0, "--sinks", 3],
                                ["--keep", "0.77", "--alpha", "0.25", "--recent", 8, "--epsilon", "0.5"])):
        out = evict(tmp_path, tensors, "--dump", *policy)
        ckv("select", tmp_path / "out.safetensors", "-o", tmp_path / "again", *policy)
        again = read(tmp_path / "again")
        assert set(again) == {f"layers.{n}.{x}" for n in (0, 7) for x in ("kept", "kept_offsets")}
        for name, array in again.items():
            assert array.tobytes() == out[name].tobytes(), (i, name)


# ---------------------------------------------------------------- NaN and infinity

@pytest.mark.parametrize("name", ["query", "key", "value", "o_proj.weight"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_numbers_that_are_not_finite(tmp_path, name, number, dtype):
    tensors = support.random_layer(18, dtype=dtype)
    array = tensors[f"layers.0.{name}"][1]
    array[(0,) * array.ndim] = number
    write(tmp_path / "in.safetensors", tensors)
    done = ckv("evict", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", "--dump")
    warnings = [line for line in done.stderr.splitlines() if f"layers.0.{name}" in line]
    assert len(warnings) == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    out = read(tmp_path / "out.safetensors")
    assert np.isfinite(out["layers.0.attention"]).all() and np.isfinite(out["layers.0.norm"]).all()
    assert [len(head) for head in kept(out)] == [20, 20]
