# SPDX-License-Identifier: Apache-2.0
"""`ckv select` on attention and norm whose right answer is known by hand, or by a stable sort."""

from fractions import Fraction

import numpy as np
import pytest

from support import ckv, kept, needs_ckv, read, write

pytestmark = needs_ckv

STAGE1 = ["--recent", "0", "--alpha", "1"]      # by attention alone
STAGE2 = ["--recent", "0", "--alpha", "0"]      # by attention and norm alone


def select(tmp_path, attention, norm, *options, status=0):
    attention = np.atleast_2d(np.asarray(attention, np.float32))
    norm = np.ones_like(attention) if norm is None else np.atleast_2d(np.asarray(norm, np.float32))
    write(tmp_path / "in.safetensors", {"layers.0.attention": ("F32", attention), "layers.0.norm": ("F32", norm)})
    done = ckv("select", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", *options, status=status)
    return kept(read(tmp_path / "out.safetensors")), done.stderr


# ---------------------------------------------------------------- order

@pytest.mark.parametrize("attention, budget, want", [
    ([3, 2, 3, 2, 1, 1], 2, [0, 2]),
    ([3, 2, 3, 2, 1, 1], 3, [0, 1, 2]),
    ([.1, .9, .2, .8], 3, [1, 2, 3]),               # in order of time, not of score
    ([-0., +0., -0., +0.], 2, [0, 1]),              # both zeros are one number
    ([+0., -0., +0., -0.], 3, [0, 1, 2]),
    ([5] * 9, 4, [0, 1, 2, 3]),
    ([1e-45, 0, 2e-45, -0.], 2, [0, 2]),            # subnormals are numbers too
    ([-1, -2, -3, 0], 2, [0, 3]),
])
def test_greater_score_first_then_lower_position(tmp_path, attention, budget, want):
    assert select(tmp_path, attention, None, "--budget", budget, *STAGE1) == ([want], "")


@pytest.mark.parametrize("attention, budget, want", [
    ([-np.inf, -np.inf, -np.inf, 1], 2, [0, 3]),
    ([1, np.nan, 2, 0], 3, [0, 2, 3]),              # NaN ranks last
    ([np.nan, -1, np.nan, -np.inf], 3, [0, 1, 3]),
    ([np.nan] * 5, 2, [0, 1]),
    ([1, np.inf, 2, np.inf], 2, [1, 3]),
])
def test_numbers_that_are_not_finite(tmp_path, attention, budget, want):
    heads, errors = select(tmp_path, attention, None, "--budget", budget, *STAGE1)
    assert heads == [want]
    assert len(errors.splitlines()) == 1 and "layers.0.attention" in errors


def test_norms_that_are_not_finite(tmp_path):
    heads, errors = select(tmp_path, [1, 1, 1, 1], [np.nan, 1, 2, 3], "--budget", 3, *STAGE2)
    assert heads == [[1, 2, 3]]
    assert len(errors.splitlines()) == 1 and "layers.0.norm" in errors


@pytest.mark.parametrize("budget", [3, 4, 100])
def test_budget_of_all_is_no_more_than_all(tmp_path, budget):
    assert select(tmp_path, [.1, .9, .2], None, "--budget", budget, "--recent", 0)[0] == [[0, 1, 2]]


def test_cut_within_a_tie_of_a_long_row(tmp_path):
    """49152 scores, each at four positions, and two more: the set that a stable sort gives, every time."""
    scores = np.random.default_rng(1).permutation(49152).astype(np.float32)
    attention = np.concatenate([np.repeat(scores, 4), scores[:2]])
    want = np.sort(np.argsort(-attention, kind="stable")[:2051]).tolist()
    for _ in range(3):
        assert select(tmp_path, attention, None, "--budget", 2051, *STAGE1)[0] == [want]


# ---------------------------------------------------------------- stages

@pytest.mark.parametrize("window", [["--window", 0], ["--recent", 0], ["--window", 0, "--recent", 0]])
def test_first_stage_has_a_slot_where_anything_is_kept(tmp_path, window):
    """Half of one entry is none, rounded down; the second stage alone would keep position 1.  And a window of no
    tokens protects none."""
    assert select(tmp_path, [.5, .3, .2], [.1, 1, 1], "--keep", "0.5", "--alpha", "0.5", *window)[0] == [[0]]


def test_alpha_zero_is_no_first_stage(tmp_path):
    assert select(tmp_path, [.5, .3, .2], [.1, 1, 1], "--budget", 1, *STAGE2)[0] == [[1]]


def test_recent_tokens_are_kept_unless_told_otherwise(tmp_path):
    assert select(tmp_path, [.9] * 10 + [0] * 40, None, "--budget", 35)[0] == [[0, 1, 2] + list(range(18, 50))]
    assert select(tmp_path, [.9] * 10 + [0] * 40, None, "--budget", 35, "--window", 5)[0] == \
        [list(range(30)) + list(range(45, 50))]


def test_forced_entries_count_in_the_first_stage(tmp_path):
    """Of four slots of the first stage, three are forced: attention adds one, and the norm decides on the others."""
    attention = [0, .1, .2, .3, .4, .5, .6, .7, 0, 0]
    norm = [100, 90, 80, 1, 1, 1, 1, 1, 1, 1]
    heads, _ = select(tmp_path, attention, norm, "--budget", 8, "--alpha", "0.5", "--recent", 2, "--sinks", 1)
    assert heads == [[0, 1, 2, 5, 6, 7, 8, 9]]
    heads, _ = select(tmp_path, attention, norm, "--budget", 6, "--alpha", "0.5", "--recent", 2, "--sinks", 1)
    assert heads == [[0, 1, 2, 7, 8, 9]]


def test_epsilon_is_added_to_attention(tmp_path):
    attention, norm = [.5, 0, 0], [1, 100, 10]
    assert select(tmp_path, attention, norm, "--budget", 1, "--epsilon", "1e-4", *STAGE2)[0] == [[0]]
    assert select(tmp_path, attention, norm, "--budget", 1, "--epsilon", "1", *STAGE2)[0] == [[1]]


def test_heads_are_on_their_own(tmp_path):
    random = np.random.default_rng(2)
    attention, norm = random.random((5, 60)), random.random((5, 60))
    together, _ = select(tmp_path, attention, norm, "--budget", 17)
    for head in range(5):
        assert select(tmp_path, attention[head], norm[head], "--budget", 17)[0] == [together[head]]


# ---------------------------------------------------------------- exact shares

def misjudged(share):
    """Token counts up to 4096 of which some usual floating-point formula takes another share than the exact one."""
    tokens = np.arange(1, 4097)
    exact = tokens * share // 100
    ratio = share / 100
    formulas = (tokens * ratio, tokens * (1 - (1 - ratio)), tokens.astype(np.float32) * np.float32(ratio),
                tokens - tokens * (1 - ratio))
    wrong = np.zeros(len(tokens), bool)
    for formula in formulas:
        wrong |= np.floor(formula) != exact
    return tokens[wrong]


def write_layers(path, lengths, attention, norm):
    tensors = {}
    for length in lengths:
        length = int(length)
        tensors[f"layers.{length}.attention"] = ("F32", attention(length).reshape(1, length))
        tensors[f"layers.{length}.norm"] = ("F32", norm(length).reshape(1, length))
    write(path, tensors)


def counts(path, lengths):
    out = read(path)
    return {int(n): int(out[f"layers.{n}.kept_offsets"][1]) for n in lengths}


def test_shares_are_exact(tmp_path):
    """Every share of two digits, over all lengths up to 300 and the longer ones where floating point errs."""
    def ramp(n):
        return np.arange(n, dtype=np.float32)

    short = range(1, 301)
    write_layers(tmp_path / "short", short, ramp, ramp)
    checked = wrong = 0
    for share in range(1, 100):
        long = misjudged(share)[::3]
        write_layers(tmp_path / "long", long, ramp, ramp)
        for name, lengths in (("short", short), ("long", long)):
            if len(lengths) == 0:
                continue
            ckv("select", tmp_path / name, "-o", tmp_path / "out", "--keep", f"0.{share:02}")
            got = counts(tmp_path / "out", lengths)
            want = {int(n): max(1, int(n * Fraction(f"0.{share:02}"))) for n in lengths}
            assert got == want, f"--keep 0.{share:02}"
            checked += len(want)
            wrong += len(long) if name == "long" else 0
    assert checked > 30000 and wrong > 500


def test_shares_of_the_budget_are_exact(tmp_path):
    """The first stage takes positions from the front here, and the second from the end: alpha's share shows."""
    lengths = range(2, 302, 4)
    write_layers(tmp_path / "in", lengths, lambda n: np.linspace(1, .9, n), lambda n: np.linspace(1, 1000, n))
    for share in range(0, 101):
        alpha = Fraction(share, 100)
        ckv("select", tmp_path / "in", "-o", tmp_path / "out", "--keep", "0.5", "--recent", 0,
            "--alpha", f"{share // 100}.{share % 100:02}")
        out = read(tmp_path / "out")
        for n in lengths:
            budget = n // 2
            first = 0 if share == 0 else max(1, int(budget * alpha))
            want = list(range(first)) + list(range(n - (budget - first), n))
            assert out[f"layers.{n}.kept"].tolist() == want, (n, share)


# ---------------------------------------------------------------- random ones

def test_random_scores_against_a_stable_sort(tmp_path):
    """Both stages in single precision, with many ties."""
    random = np.random.default_rng(3)
    for _ in range(25):
        tokens = int(random.integers(1, 200))
        attention = (random.integers(0, 30, tokens) / 64).astype(np.float32)
        norm = (random.integers(0, 9, tokens) / 4).astype(np.float32)
        budget, recent, sinks = (int(random.integers(0, tokens + 3)) for _ in range(3))
        alpha = int(random.integers(0, 5))
        keep = np.zeros(tokens, bool)
        if budget >= tokens:
            keep[:] = True
        else:
            order = list(range(tokens - 1, max(tokens - recent, 0) - 1, -1)) + list(range(max(min(sinks, tokens - recent), 0)))
            keep[order[:budget]] = True
            first = 0 if alpha == 0 or budget == 0 else max(1, budget * alpha // 4)
            for score, total in ((attention, first), ((attention + np.float32(1e-4)) * norm, budget)):
                best = [i for i in np.argsort(-score, kind="stable") if not keep[i]]
                keep[best[:max(0, total - int(keep.sum()))]] = True
        heads, errors = select(tmp_path, attention, norm, "--budget", budget, "--recent", recent, "--sinks", sinks,
                               "--alpha", alpha / 4)
        assert heads == [np.flatnonzero(keep).tolist()] and errors == ""
