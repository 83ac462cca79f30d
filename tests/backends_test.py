# SPDX-License-Identifier: Apache-2.0
"""`ckv evict --dump` writes the same bytes on every backend, for each instruction set of this machine and 1 to 4
threads, on OpenCL, and on pretended CUDA and HIP devices: on the capture, and on random files."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import support
from support import SOURCE, ckv, ckv_json, layer, needs_ckv, read, write

pytestmark = needs_ckv

CAPTURE = SOURCE / "tests" / "data" / "smollm2-135m.safetensors"
LIGHT = os.environ.get("CKV_TEST_LIGHT") == "1"
FULL = os.environ.get("CKV_TEST_FULL") == "1"
FILES = 10 if LIGHT else 300 if FULL else 60
GPU_FILES = 4 if LIGHT else 100 if FULL else 20
PRETENDED = Path(os.environ.get("top_builddir", ".")) / "tests" / "sim" / "lib"
TYPES = ("F32", "F16", "BF16")


def instruction_sets():
    """What tests/cpu/isas prints, or the one that is chosen where that was not built."""
    program = Path(os.environ.get("top_builddir", ".")) / "tests" / "cpu" / "isas"
    if not program.is_file():
        return [None]
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def dump(path, out, backend, isa, threads, *options):
    environment = {name: text for name, text in os.environ.items() if name != "CKV_CPU_ISA"}
    if backend in ("cuda", "hip"):
        environment["LD_LIBRARY_PATH"] = str(PRETENDED)
        environment["CKV_KERNEL_CACHE"] = "off"
    if isa is not None:
        environment["CKV_CPU_ISA"] = isa
    ckv("evict", path, "-o", out, "--dump", "--compact", "--no-perturbation", "--backend", backend,
        "--threads", threads, *options, env=environment)
    return out.read_bytes()


def random_file(path, seed):
    """One layer of any small shape, types and ranges of numbers; now and then a number that is none."""
    random = np.random.default_rng(seed)
    kv_heads, group = random.integers(1, 4), random.integers(1, 5)
    tokens, queries = random.integers(1, 210), random.integers(1, 40)
    head_dim, value_dim = random.integers(1, 70), random.integers(1, 70)
    hidden = random.integers(1, 100) if seed % 8 else random.integers(1024, 1100)
    shapes = ((kv_heads * group, queries, head_dim), (kv_heads, tokens, head_dim), (kv_heads, tokens, value_dim),
              (hidden, kv_heads * group * value_dim))
    arrays = []
    for shape in shapes:
        array = random.standard_normal(shape) * 2.0 ** random.integers(-6, 4)
        if random.integers(0, 4) == 0:
            array *= 2.0 ** random.integers(-5, 6, shape)
        if random.integers(0, 6) == 0:
            array.flat[random.integers(0, array.size)] = random.choice([np.nan, np.inf, -np.inf])
        arrays.append((str(random.choice(TYPES)), array))
    # Wide elements first, so that none is misaligned.
    write(path, dict(sorted(layer(*arrays).items(), key=lambda item: item[1][0] != "F32")))
    pool = ("max:7", "avg:5", "none", "max:4")[random.integers(0, 4)]
    return ["--keep", f"{random.integers(0, 11) / 10}", "--alpha", f"{random.integers(0, 5) / 4}", "--window",
            random.integers(1, 40), "--sinks", random.integers(0, 5), "--pool", pool]


needs_time = pytest.mark.skipif(LIGHT, reason="CKV_TEST_LIGHT: the reference takes long over the capture")


@needs_time
@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("options", [[], ["--keep", "0.1", "--alpha", "0.25", "--pool", "avg:5", "--sinks", "4"]])
def test_capture(tmp_path, isa, options):
    want = dump(CAPTURE, tmp_path / "ref", "ref", None, 1, *options)
    for threads in (1, 2, 3, 4):
        assert dump(CAPTURE, tmp_path / "cpu", "cpu", isa, threads, *options) == want, f"{threads} threads"


def test_random_files(tmp_path):
    sets, path = instruction_sets(), tmp_path / "in.safetensors"
    for seed in range(FILES):
        options = random_file(path, seed)
        want = dump(path, tmp_path / "ref", "ref", None, 1, *options)
        for i, isa in enumerate(sets):
            threads = (seed + i) % 4 + 1
            got = dump(path, tmp_path / "cpu", "cpu", isa, threads, *options)
            assert got == want, f"file {seed}, {isa}, {threads} threads"


@pytest.fixture(params=["opencl", "cuda", "hip"])
def gpu(request):
    """A backend that has a device: OpenCL's of this machine, pretended ones of CUDA and HIP."""
    if request.param != "opencl" and (not (PRETENDED / "libckv_sim.so").is_file() or os.environ.get("USE_SANITIZE")):
        pytest.skip("no pretended devices, or a sanitizer's program, which cannot load them")
    if request.param == "opencl" and not any(
            row["backend"] == "opencl" and row["available"] for row in ckv_json("info")["backends"]):
        pytest.skip("no OpenCL device on this machine")
    return request.param


@needs_time
def test_capture_on_gpus(tmp_path, gpu):
    for options in [[], ["--keep", "0.1", "--alpha", "0.25", "--pool", "avg:5"]]:
        want = dump(CAPTURE, tmp_path / "ref", "ref", None, 1, *options)
        assert dump(CAPTURE, tmp_path / gpu, gpu, None, 1, *options) == want


def test_random_files_on_gpus(tmp_path, gpu):
    path = tmp_path / "in.safetensors"
    for seed in range(1000, 1000 + GPU_FILES):
        options = random_file(path, seed)
        want = dump(path, tmp_path / "ref", "ref", None, 1, *options)
        assert dump(path, tmp_path / gpu, gpu, None, 1, *options) == want, f"file {seed}"


def test_comparison_can_fail(tmp_path):
    """One bit of one weight shows in the dump."""
    tensors = support.random_layer(1)
    write(tmp_path / "a", tensors)
    array = tensors["layers.0.o_proj.weight"][1]
    array[-1, -1] += 0.25
    write(tmp_path / "b", tensors)
    want = dump(tmp_path / "a", tmp_path / "out", "ref", None, 2)
    assert dump(tmp_path / "b", tmp_path / "out", "cpu", None, 2) != want
    assert read(tmp_path / "out")["layers.0.norm"].shape == (2, 50)
