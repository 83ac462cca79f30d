# SPDX-License-Identifier: Apache-2.0
"""What the pytest files share: the command, safetensors files, and the oracle."""

import functools
import importlib.util
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "F64": "<f8", "U8": "u1"}
SOURCE = Path(os.environ.get("top_srcdir", Path(__file__).resolve().parent.parent))

needs_ckv = pytest.mark.skipif(not os.access(os.environ.get("CKV", ""), os.X_OK),
                               reason="the ckv command was not built: $CKV names no program")


# ---------------------------------------------------------------- the command

def ckv(*arguments, status=0, **options):
    """Runs the command; `status` is what it must exit with.  stdout and stderr come back as text."""
    done = subprocess.run([os.environ["CKV"], *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          **options)
    assert done.returncode == status, f"exit {done.returncode} of ckv {' '.join(map(str, arguments))}: {done.stderr}"
    return done


def ckv_json(*arguments, **options):
    return json.loads(ckv(*arguments, "--json", **options).stdout)


# ---------------------------------------------------------------- safetensors files

def to_bf16(values):
    """Round to nearest even, as bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def encode(dtype, values):
    if dtype == "BF16":
        return to_bf16(values)
    return np.asarray(values).astype(NUMPY[dtype])


def write(path, tensors):
    """tensors: name -> (dtype, values), stored in this order."""
    header, blobs, at = {}, [], 0
    for name, (dtype, values) in tensors.items():
        array = encode(dtype, values)
        blob = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return path


def read(path):
    """name -> array of the stored bits (BF16 as uint16).  Refuses what the format does not allow."""
    raw = Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + size])
    data, tensors, spans = raw[8 + size:], {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = np.dtype(NUMPY[entry["dtype"]])
        assert begin % dtype.itemsize == 0, f"{name} is misaligned in {path}"
        tensors[name] = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
        spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        assert begin == at, f"hole or overlap at byte {at} of {path}"
        at = end
    assert at == len(data), f"{len(data) - at} bytes behind the tensors of {path}"
    return tensors


def kept(tensors, layer=0):
    """The kept positions, one list a head, with the rules that every output obeys checked."""
    flat, offsets = tensors[f"layers.{layer}.kept"], tensors[f"layers.{layer}.kept_offsets"]
    assert flat.dtype == np.int32 and offsets.dtype == np.int32
    assert offsets[0] == 0 and offsets[-1] == len(flat) and (np.diff(offsets) >= 0).all()
    heads = [flat[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:])]
    for head in heads:
        assert all(a < b for a, b in zip(head, head[1:])), f"not strictly ascending: {head}"
    return heads


def layer(query, key, value, weight, dtype="F32", number=0):
    """One layer's tensors, each an array in `dtype` or a pair (dtype, array)."""
    names = ("query", "key", "value", "o_proj.weight")
    return {f"layers.{number}.{name}": x if isinstance(x, tuple) else (dtype, x)
            for name, x in zip(names, (query, key, value, weight))}


def random_layer(seed, query_heads=4, kv_heads=2, tokens=50, head_dim=9, value_dim=6, hidden=37, queries=8,
                 dtype="F32", number=0):
    random = np.random.default_rng(seed)
    return layer(random.standard_normal((query_heads, queries, head_dim)) * 2,
                 random.standard_normal((kv_heads, tokens, head_dim)) * 2,
                 random.standard_normal((kv_heads, tokens, value_dim)),
                 random.standard_normal((hidden, query_heads * value_dim)), dtype, number)


# ---------------------------------------------------------------- the oracle

def oracle_path():
    """$CKV_ORACLE, or shared/oracle/ckv_oracle.py in a folder beside the sources or beside one of their parents.

    Builds and release archives unpack below the source tree, hence the parents."""
    if "CKV_ORACLE" in os.environ:
        return Path(os.environ["CKV_ORACLE"])
    for parent in list(SOURCE.resolve().parents)[:6]:
        path = parent / "shared" / "oracle" / "ckv_oracle.py"
        if path.is_file():
            return path
    return None


@functools.lru_cache(maxsize=None)
def oracle():
    """The float64 oracle as a module; a test that asks for it is skipped where it is absent."""
    path = oracle_path()
    if path is None:
        pytest.skip("no ckv_oracle.py: set CKV_ORACLE to its path")
    spec = importlib.util.spec_from_file_location("ckv_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
