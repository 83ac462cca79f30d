#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the fuzzers: a few tiny inputs, each near one branch of what it meets.

    make_corpus.py [FOLDER]     (default: corpus beside this script; a folder there for each fuzzer)

Run it again after a change here and commit what it wrote; the same bytes come out everywhere.
"""
import json
import pathlib
import struct
import sys

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "U8": 1, "F64": 8}


def file(tensors, metadata=None, header=None, tail=b"", length=None):
    """tensors: name -> (dtype, shape).  `header`, `tail` and `length` tell lies."""
    entries, data = {}, b""
    if metadata is not None:
        entries["__metadata__"] = metadata
    for name, (dtype, shape) in sorted(tensors.items(), key=lambda item: -SIZES[item[1][0]]):
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes((7 * i + 3) % 256 for i in range(size))
    text = json.dumps(entries, separators=(",", ":")).encode() if header is None else header
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data + tail


def layer(number, dtype="BF16"):
    return {
        f"layers.{number}.query": (dtype, [2, 1, 3]),
        f"layers.{number}.key": (dtype, [1, 4, 3]),
        f"layers.{number}.value": (dtype, [1, 4, 2]),
        f"layers.{number}.o_proj.weight": (dtype, [3, 4]),
    }


def scores(number):
    return {f"layers.{number}.attention": ("F32", [1, 3]), f"layers.{number}.norm": ("F32", [1, 3])}


def one(dtype='"F32"', shape="[2]", offsets="[0,8]", more=""):
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{more}}}}}'.encode()


SEEDS = {
    "bytes-0": b"",
    "bytes-7": b"\x02\0\0\0\0\0\0",
    "bytes-8": struct.pack("<Q", 0),
    "no-tensor": file({}),
    "layer": file(layer(0)),
    "layers-mixed": file({**layer(0, "F32"), **layer(15, "F16"), **layer(2147483647)}, {"format": "pt"}),
    "scores": file({**scores(0), **scores(3)}),
    "both": file({**layer(1), "pad": ("U8", [2]), **scores(1)}),
    "no-value": file({k: v for k, v in layer(0).items() if not k.endswith("value")}),
    "wrong-rank": file({**layer(0), "layers.0.key": ("BF16", [4, 3])}),
    "wrong-width": file({**layer(0), "layers.0.o_proj.weight": ("BF16", [3, 5])}),
    "wrong-heads": file({**layer(0), "layers.0.query": ("BF16", [3, 1, 3]), "layers.0.key": ("BF16", [2, 4, 3])}),
    "wrong-dtype": file({**layer(0), "layers.0.value": ("F64", [1, 4, 2])}),
    "empty-tensor": file({**layer(0), "layers.0.key": ("BF16", [1, 0, 3])}),
    "scalar": file({"a": ("F32", [])}),
    "rank-9": file({"a": ("U8", [1, 1, 1, 1, 1, 1, 1, 1, 3])}),
    "names": file({"layers.01.key": ("U8", [1]), "layers.99999999999.key": ("U8", [1]), "layers..key": ("U8", [1])}),
    "metadata-number": file({}, {"format": 1}),
    "scale": file({**layer(0), **layer(3)}, {"tokens": "4", "layers.3.scale": "0.0625"}),
    "scale-wrong": file(layer(0), {"layers.0.scale": "0x1p-4"}),
    "header-too-long": file(layer(0), length=1 << 20),
    "header-huge": file(layer(0), length=(1 << 64) - 1),
    "header-array": file({}, header=b"[1,2]"),
    "header-space": file({}, header=b" {}"),
    "header-broken": file({}, header=b'{"a":{"dtype":'),
    "header-twice": file({}, header=b'{"layers.0.o_proj.weight":1,"layers.0.o_proj.weight":2}'),
    "header-deep": file({}, header=b'{"a":' + b"[" * 60 + b"]" * 60 + b"}"),
    "entry-number": file({}, header=b'{"a":1}'),
    "entry-more": file({}, header=one(more=',"extra":null'), tail=bytes(8)),
    "dtype-unknown": file({}, header=one(dtype='"F31"'), tail=bytes(8)),
    "dtype-number": file({}, header=one(dtype="32"), tail=bytes(8)),
    "dtype-4-bits": file({}, header=one(dtype='"F4"', shape="[3]", offsets="[0,2]"), tail=bytes(2)),
    "shape-negative": file({}, header=one(shape="[-2]"), tail=bytes(8)),
    "shape-real": file({}, header=one(shape="[2.0]"), tail=bytes(8)),
    "shape-huge": file({}, header=one(shape="[4294967296,4294967296]"), tail=bytes(8)),
    "shape-string": file({}, header=one(shape='"2"'), tail=bytes(8)),
    "offsets-reversed": file({}, header=one(offsets="[8,0]"), tail=bytes(8)),
    "offsets-beyond": file({}, header=one(offsets="[8,16]"), tail=bytes(8)),
    "offsets-short": file({}, header=one(offsets="[0,4]"), tail=bytes(8)),
    "offsets-three": file({}, header=one(offsets="[0,4,8]"), tail=bytes(8)),
    "offsets-huge": file({}, header=one(offsets="[0,99999999999999999999]"), tail=bytes(8)),
    "offsets-hole": file({}, header=one(offsets="[4,12]"), tail=bytes(12)),
    "offsets-misaligned": file(
        {}, header=b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                   b'"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}', tail=bytes(5)),
    "offsets-overlap": file(
        {}, header=b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
                   b'"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', tail=bytes(8)),
    "trailing": file(layer(0), tail=b"\0"),
}


# ---- fuzz_kernels: a problem's sizes, then the bits of its elements

def problem(heads=1, group=2, tokens=40, queries=6, head_dim=9, value_dim=9, hidden=20, seven_bits=False,
            dtypes=(0,) * 4, layouts=(0,) * 4, window=6, budget=15, pool=1, alpha=4, sinks=0, recent=-1, pool_width=5,
            threads=1, bits=None):
    """In the order of the fields in fuzz_kernels.c; each counts from its least value, dtypes from F32."""
    header = [heads - 1, group - 1, tokens - 1, queries - 1, head_dim - 1, value_dim - 1,
              hidden - 1 + (64 if seven_bits else 0) * 2,
              sum(dtype << (2 * t) for t, dtype in enumerate(dtypes)), layouts[0] | layouts[1] << 4,
              layouts[2] | layouts[3] << 4, window - 1, budget, pool | alpha << 2, sinks | (recent + 1) << 3,
              pool_width - 1, threads - 1]
    if bits is None:  # numbers near 1, of both signs, in every dtype
        bits = bytes(byte for i in range(97) for byte in (0x3c + 0x80 * (i % 3 == 0) + i % 4, (i * 37 + 11) % 256))
    return bytes(header) + bits


KERNEL_SEEDS = {
    "plain": problem(),
    "halves": problem(dtypes=(1, 1, 1, 1), tokens=97, value_dim=18, hidden=49, threads=3),
    "brains": problem(dtypes=(2, 2, 2, 2), layouts=(1, 2, 3, 4), head_dim=17, queries=13, window=13),
    "mixed": problem(heads=2, group=3, dtypes=(0, 1, 2, 1), layouts=(4, 3, 2, 1), sinks=4, recent=3, pool=2, threads=2),
    "seven-bits": problem(hidden=40, seven_bits=True, value_dim=5, dtypes=(2, 2, 2, 2)),
    "all-kept": problem(tokens=17, budget=17),
    "none-kept": problem(budget=0),
    "one-token": problem(tokens=1, queries=1, window=1, budget=0),
    "stage-1": problem(alpha=8, recent=0, budget=20),
    "stage-2": problem(alpha=0, recent=0, budget=20),
    "zeros": problem(bits=bytes(4)),
    "no-elements": problem(bits=b""),
    "not-finite": problem(bits=b"\x7f\xc0\x00\x01\x3f\x80\x00\x00\xff\x80\x00\x00\x40\x00"),
    "subnormal": problem(dtypes=(1, 1, 1, 1), bits=b"\x00\x01\x83\xff\x3c\x00\x00\x00\x04\x00"),
    "short": b"\x01\x02",
}


# ---- fuzz_tuning: tuning files, docs/tuning.md

def checksum(entry):
    """FNV-1a of the entry without its sum, keys sorted, no blanks."""
    value = 0xcbf29ce484222325
    for byte in json.dumps({k: v for k, v in entry.items() if k != "sum"}, sort_keys=True,
                           separators=(",", ":")).encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def entry(**changes):
    made = {
        "device": {"backend": "cpu", "vendor": "amd", "name": "epyc", "arch": "x86-64-v3", "units": 2, "memory_gib": 0,
                   "local_bytes": 0, "driver": "", "compiler": "gcc 12.2.0", "kernels": "22fc6c67aebe1fba"},
        "library": "0.1.0", "stage": "norm", "scope": "plan", "bucket": {"tokens": 8192, "hidden": 4096},
        "values": {"norm_block": 96}, "time_ns": 1000, "default_ns": 2000, "date": "2026-01-31", **changes}
    made["sum"] = checksum(made)
    return made


def tuning(*entries, version=1, separators=(",", ":")):
    lines = ",\n".join(e if isinstance(e, str) else json.dumps(e, separators=separators) for e in entries)
    return f'{{"format":"ckv-tuning","version":{version},"entries":[\n{lines}\n]}}\n'.encode()


TUNING_SEEDS = {
    "empty": b"",
    "no-entries": tuning(),
    "one": tuning(entry()),
    "two": tuning(entry(), entry(stage="all", scope="context", bucket={}, values={"isa": "avx2"})),
    "with-blanks": tuning(entry(), separators=(", ", ": ")),
    "unknown-field": tuning(entry(joules=7)),
    "wrong-sum": tuning({**entry(), "time_ns": 5}),
    "out-of-range": tuning(entry(values={"norm_block": 2**31}), entry(values={"norm_block": -1}), entry()),
    "real": tuning(entry(values={"norm_block": 1.5})),
    "not-entries": tuning("7", "[]", "null", '"x"', entry()),
    "truncated": tuning(entry(), entry(stage="score"))[:-40],
    "broken-line": tuning('{"device":', entry()),
    "later-version": tuning(entry(), version=2),
    "deep": b'{"format":"ckv-tuning","version":1,"entries":' + b"[" * 40,
    "twice": tuning('{"sum":"","sum":""}', entry()),
}


def main():
    here = pathlib.Path(__file__).resolve().parent
    top = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "corpus"
    for fuzzer, seeds in (("safetensors", SEEDS), ("kernels", KERNEL_SEEDS), ("tuning", TUNING_SEEDS)):
        folder = top / fuzzer
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
