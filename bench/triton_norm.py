#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The norm of spec 5 in floating point, in Triton and in plain torch, on an NVIDIA or AMD GPU.

The quantity is the same: for each value row, the L1 norm of V W_h averaged over its
group's query heads.  bf16 or f16 goes into the matrix units, fp32 comes out.  The bits
differ from libckv's, which quantises; by how much is printed.

FOLDER is what `ckv-device-bench --dump FOLDER` wrote: meta.json, value.bin [Hkv, n, dv],
weight.bin [D, Hq * dv], norm.bin [Hkv, n] f32.
"""

import argparse
import datetime
import json
import os
import sys

import numpy
import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"ROWS": rows, "OUTPUTS": outputs}, num_warps=warps, num_stages=stages)
    for rows, outputs, warps, stages in [
        (64, 128, 4, 3),
        (128, 64, 4, 3),
        (128, 128, 4, 3),
        (128, 128, 8, 3),
        (128, 128, 8, 4),
        (128, 256, 8, 3),
        (256, 64, 8, 3),
        (256, 128, 8, 3),
    ]
]


@triton.autotune(configs=CONFIGS, key=["tokens", "hidden", "WIDTH"])
@triton.jit
def norm_kernel(
    value, weight, norm, tokens, hidden, columns, group, scale,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """A tile of rows of one KV head stays in registers or shared memory; the group's
    weights stream past it, and every product is folded into the sums of magnitudes."""
    kv_head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, WIDTH)
    v = tl.load(
        value + kv_head * tokens * WIDTH + rows[:, None].to(tl.int64) * WIDTH + channels[None, :],
        mask=rows[:, None] < tokens,
        other=0.0,
    )
    total = tl.zeros([ROWS], dtype=tl.float32)
    for head in range(group):
        w_head = weight + (kv_head * group + head) * WIDTH
        for first in range(0, hidden, OUTPUTS):
            outputs = first + tl.arange(0, OUTPUTS)
            w = tl.load(
                w_head + outputs[None, :].to(tl.int64) * columns + channels[:, None],
                mask=outputs[None, :] < hidden,
                other=0.0,
            )
            total += tl.sum(tl.abs(tl.dot(v, w, out_dtype=tl.float32)), axis=1)
    tl.store(norm + kv_head * tokens + rows, total * scale, mask=rows < tokens)


def triton_norm(value, weight, heads):
    kv_heads, tokens, width = value.shape
    hidden, columns = weight.shape
    group = heads // kv_heads
    norm = torch.empty(kv_heads, tokens, dtype=torch.float32, device=value.device)

    def grid(meta):
        return triton.cdiv(tokens, meta["ROWS"]), kv_heads

    norm_kernel[grid](value, weight, norm, tokens, hidden, columns, group, 1.0 / group, WIDTH=width)
    return norm


def torch_norm(value, weight, heads, rows=4096):
    """A matrix product of a head and some rows at a time, its magnitudes, their sum."""
    kv_heads, tokens, width = value.shape
    group = heads // kv_heads
    norm = torch.zeros(kv_heads, tokens, dtype=torch.float32, device=value.device)
    for kv_head in range(kv_heads):
        for first in range(0, tokens, rows):
            part = value[kv_head, first : first + rows]
            for head in range(kv_head * group, (kv_head + 1) * group):
                output = part @ weight[:, head * width : (head + 1) * width].T
                norm[kv_head, first : first + rows] += output.abs().sum(dim=1, dtype=torch.float32)
    return norm / group


def timed(call, repeats, warm_up):
    """Seconds of each run, by events; a run's result."""
    for _ in range(warm_up):
        result = call()
    torch.cuda.synchronize()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in pairs:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(end) * 1e-3 for start, end in pairs), result


def read(folder, device):
    with open(os.path.join(folder, "meta.json"), encoding="utf-8") as file:
        meta = json.load(file)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[meta["dtype"]]

    def raw(name):
        return torch.from_numpy(numpy.fromfile(os.path.join(folder, name), dtype=numpy.int16)).view(dtype).to(device)

    value = raw("value.bin").view(meta["kv_heads"], meta["tokens"], meta["value_dim"])
    weight = raw("weight.bin").view(meta["hidden"], meta["query_heads"] * meta["value_dim"])
    path = os.path.join(folder, "norm.bin")
    norm = None
    if os.path.exists(path):
        norm = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).view(meta["kv_heads"], meta["tokens"])
        norm = norm.to(device)
    return meta, value, weight, norm


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--json", help="a file that gets a line for each peer")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("triton_norm.py: torch sees no GPU", file=sys.stderr)
        return 77
    meta, value, weight, wanted = read(options.folder, "cuda")
    operations = 2.0 * meta["query_heads"] * meta["tokens"] * meta["value_dim"] * meta["hidden"]
    peers = {
        f"triton {triton.__version__}": lambda: triton_norm(value, weight, meta["query_heads"]),
        f"torch {torch.__version__}": lambda: torch_norm(value, weight, meta["query_heads"]),
    }
    for peer, call in peers.items():
        samples, norm = timed(call, options.repeats, options.warm_up)
        median = (samples[(len(samples) - 1) // 2] + samples[len(samples) // 2]) / 2
        line = {
            "kind": "device-peer",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "device": torch.cuda.get_device_name(),
            "peer": peer,
            "stage": "norm",
            **meta,
            "median": median,
            "min": samples[0],
            "max": samples[-1],
            "repeats": len(samples),
            "flops": operations,
        }
        if peer.startswith("triton"):
            line["config"] = str(norm_kernel.best_config).replace('"', "").replace(",", ";")
        text = ""
        if wanted is not None:
            relative = (norm - wanted).abs() / wanted.abs().clamp_min(1e-30)
            line["max_relative_difference"] = float(f"{relative.max().item():.3g}")
            line["mean_relative_difference"] = float(f"{relative.mean().item():.3g}")
            text = f", relative difference to libckv: mean {relative.mean().item():.2e}, max {relative.max().item():.2e}"
        print(f"{peer}: {median * 1e3:.4f} ms, {operations / median * 1e-12:.0f} TFLOP/s{text}")
        if "config" in line:
            print(f"  {line['config']}")
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
