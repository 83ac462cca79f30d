"""What the capture sources share: the captured layer, layer choice, errors and the file writer."""
from __future__ import annotations

import json
import math
import os
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DTYPES = {"bf16": "BF16", "f16": "F16", "f32": "F32"}


class CaptureError(Exception):
    """A failure that the user can act on; its text is the one line that is printed."""


class UsageError(CaptureError):
    """The command line asks for something that cannot be."""


@dataclass
class Layer:
    """One attention layer as float32 arrays, query and key after RoPE.

    query [Hq,w,d], key [Hkv,n,d], value [Hkv,n,dv], o_proj [D,Hq*dv].
    """

    index: int
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    o_proj: np.ndarray
    scale: float

    def check(self) -> None:
        """Refuse shapes that do not describe grouped-query attention with an output projection."""
        (hq, w, d), (hkv, n, dk) = self.query.shape, self.key.shape
        if d != dk or hkv == 0 or hq % hkv or self.value.shape[:2] != (hkv, n) or w > n:
            raise CaptureError(f"layer {self.index}: query {self.query.shape}, key {self.key.shape} and value "
                               f"{self.value.shape} do not belong to one grouped-query attention")
        if self.o_proj.shape[1] != hq * self.value.shape[2]:
            raise CaptureError(f"layer {self.index}: output projection {self.o_proj.shape} does not take "
                               f"{hq} heads of {self.value.shape[2]}")


@dataclass
class Capture:
    """What a source hands back: the layers, how many tokens were read, and notes for the user."""

    layers: list[Layer]
    tokens: int
    notes: list[str]


def pick_layers(wanted: list[str], count: int) -> list[int]:
    """Layer numbers, ascending and each once, from numbers and the names first, middle, last and all."""
    names = {"first": [0], "middle": [count // 2], "last": [count - 1], "all": list(range(count))}
    picked: set[int] = set()
    for word in (w.strip() for item in wanted for w in item.split(",")):
        if word in names:
            picked.update(names[word])
        elif word.isascii() and word.isdigit():
            if int(word) >= count:
                raise UsageError(f"--layer {word}: the model has layers 0 to {count - 1}")
            picked.add(int(word))
        else:
            raise UsageError(f"--layer {word!r}: not a layer number, first, middle, last or all")
    return sorted(picked)


def check_ids(ids: list[int], vocabulary: int) -> None:
    if not ids:
        raise CaptureError("the text has no tokens")
    bad = next((i for i in ids if not 0 <= i < vocabulary), None)
    if bad is not None:
        raise CaptureError(f"token {bad} is outside the model's vocabulary of {vocabulary}")


def to_bytes(array: np.ndarray, dtype: str, name: str) -> bytes:
    """Little-endian bytes, rounded to nearest even; what the type cannot hold is an error, never an infinity."""
    x = np.ascontiguousarray(array, dtype="<f4")
    if not np.isfinite(x).all():
        raise CaptureError(f"{name}: the model gave NaN or infinity")
    if dtype == "f32":
        return x.tobytes()
    if dtype == "f16":
        with np.errstate(over="ignore"):
            half = x.astype("<f2")
        if not np.isfinite(half).all():
            raise CaptureError(f"{name}: {np.abs(x).max():.4g} does not fit f16; use --dtype bf16 or f32")
        return half.tobytes()
    bits = x.view("<u4").astype(np.uint64)
    high = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    if ((high & 0x7F80) == 0x7F80).any():
        raise CaptureError(f"{name}: {np.abs(x).max():.4g} does not fit bf16; use --dtype f32")
    return high.astype("<u2").tobytes()


def metadata(capture: Capture) -> dict[str, str]:
    """The token count, and the scale of a layer whose scale is not the usual 1/sqrt(d)."""
    meta = {"tokens": str(capture.tokens)}
    for layer in capture.layers:
        if not math.isclose(layer.scale, layer.query.shape[2] ** -0.5, rel_tol=1e-6):
            meta[f"layers.{layer.index}.scale"] = repr(layer.scale)
    return meta


def write_safetensors(path: Path, capture: Capture, dtype: str) -> int:
    """Write the layers and return the file's size.

    The bytes depend on the capture alone, and the file appears whole or not at all.
    """
    header: dict[str, object] = {"__metadata__": metadata(capture)}
    blobs: list[bytes] = []
    at = 0
    for layer in capture.layers:
        layer.check()
        for name, array in (("query", layer.query), ("key", layer.key), ("value", layer.value),
                            ("o_proj.weight", layer.o_proj)):
            name = f"layers.{layer.index}.{name}"
            blob = to_bytes(array, dtype, name)
            header[name] = {"dtype": DTYPES[dtype], "shape": list(array.shape), "data_offsets": [at, at + len(blob)]}
            at += len(blob)
            blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    replace_file(path, [struct.pack("<Q", len(text)), text, *blobs])
    return 8 + len(text) + at


def replace_file(path: Path, parts: list[bytes]) -> None:
    """Write beside `path` and rename over it, with the permissions an ordinary new file would get."""
    mask = os.umask(0)
    os.umask(mask)
    try:
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as e:
        raise CaptureError(f"cannot write in {path.parent}: {e.strerror}") from e
    try:
        with os.fdopen(fd, "wb") as f:
            for part in parts:
                f.write(part)
            os.fchmod(f.fileno(), 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException as e:
        os.unlink(temporary)
        if isinstance(e, OSError):
            raise CaptureError(f"cannot write {path}: {e.strerror}") from e
        raise
