"""Tests of tools/capture.py; run `pytest -rs` to see what was skipped and why.

Needs numpy.  Models are tiny and made here from random weights; nothing is downloaded.
"""
from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
TOOL = HERE.parent / "tools" / "capture.py"
SHIPPED = HERE / "data" / "smollm2-135m.safetensors"
PROSE = HERE / "data" / "prose.txt"
sys.path.insert(0, str(TOOL.parent))
import capture  # noqa: E402

WINDOW = 8
NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str], dict[str, str]]:
    """Tensors as float32, their stored types, and the metadata."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + size])
    meta = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        low, high = t["data_offsets"]
        a = np.frombuffer(raw[8 + size + low:8 + size + high], NUMPY_TYPES[t["dtype"]])
        a = (a.astype(np.uint32) << 16).view(np.float32) if t["dtype"] == "BF16" else a.astype(np.float32)
        tensors[name] = a.reshape(t["shape"])
    assert (8 + size) % 8 == 0 and max(t["data_offsets"][1] for t in header.values()) == len(raw) - 8 - size
    return tensors, {name: t["dtype"] for name, t in header.items()}, meta


def attention_output(t: dict[str, np.ndarray], layer: int, scale: float) -> np.ndarray:
    """What the attention module must have given for the window's queries, in float64: [w,D]."""
    q, k, v, wo = (t[f"layers.{layer}.{x}"].astype(np.float64) for x in ("query", "key", "value", "o_proj.weight"))
    (hq, w, _), (hkv, n, _) = q.shape, k.shape
    k, v = (np.repeat(x, hq // hkv, axis=0) for x in (k, v))
    logit = np.einsum("hqd,hnd->hqn", q, k) * scale
    logit[:, np.arange(n)[None] > (n - w + np.arange(w))[:, None]] = -np.inf
    e = np.exp(logit - logit.max(-1, keepdims=True))
    out = np.einsum("hqn,hnd->qhd", e / e.sum(-1, keepdims=True), v)
    return out.reshape(w, -1) @ wo.T


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)


def failure(capsys: Any, code: int, *arguments: object) -> str:
    """Run in this process, expect `code` and one line of error."""
    try:
        got = capture.main([str(a) for a in arguments])
    except SystemExit as e:
        got = e.code
    error = capsys.readouterr().err
    assert got == code, error
    assert code == 2 or error.count("\n") == 1
    return error


# ---------------------------------------------------------------- the command line
def test_help_and_usage_errors() -> None:
    shown = tool("--help")
    assert shown.returncode == 0 and "layers.N.query" in shown.stdout
    for bad in ([], ["--smollm2"], ["--smollm2", "--text", PROSE],
                ["--smollm2", "--text", PROSE, "--window", "0", "-o", "x"]):
        got = tool(*bad)
        assert got.returncode == 2 and "error:" in got.stderr.splitlines()[-1]


def test_missing_files(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out.safetensors"
    assert "no-text" in failure(capsys, 1, "--gguf", "none.gguf", "--text", tmp_path / "no-text", "-o", out)
    assert "exists" in failure(capsys, 2, "--gguf", "x", "--text", PROSE, "-o", tmp_path / "no-folder" / "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in failure(capsys, 1, "--gguf", "x", "--text", tmp_path / "binary", "-o", out)
    (tmp_path / "words").write_text("12 twelve")
    assert "twelve" in failure(capsys, 1, "--gguf", "x", "--token-ids", tmp_path / "words", "-o", out)
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    assert "no such file" in failure(capsys, 1, "--gguf", "none.gguf", "--text", PROSE, "-o", out)
    (tmp_path / "not.gguf").write_bytes(b"hello" * 20)
    assert "GGUF" in failure(capsys, 1, "--gguf", tmp_path / "not.gguf", "--text", PROSE, "-o", out)
    assert not out.exists()


def test_picking_layers() -> None:
    from capture_common import UsageError, pick_layers
    assert pick_layers(["first,middle,last"], 30) == [0, 15, 29]
    assert pick_layers(["3", "1,last", "3"], 5) == [1, 3, 4]
    assert pick_layers(["first,middle,last"], 1) == [0]
    assert pick_layers(["all"], 3) == [0, 1, 2]
    for bad in ("5", "-1", "", "middel", "1.0", "\u0663"):
        with pytest.raises(UsageError):
            pick_layers([bad], 5)


def test_rounding_and_range() -> None:
    from capture_common import CaptureError, to_bytes
    x = np.array([1.0, -0.0, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1e-40], np.float32)
    bits = np.frombuffer(to_bytes(x, "bf16", "x"), "<u2")
    assert bits.tolist() == [0x3F80, 0x8000, 0x3F80, 0x3F82, 0x0001]     # ties go to the even neighbour
    assert to_bytes(x, "f32", "x") == x.tobytes()
    for value, dtype in ((np.nan, "f32"), (np.inf, "bf16"), (7e4, "f16"), (3.4e38, "bf16")):
        with pytest.raises(CaptureError):
            to_bytes(np.array([value], np.float32), dtype, "x")


# ---------------------------------------------------------------- the shipped capture
def test_shipped_capture() -> None:
    tensors, types, meta = read_safetensors(SHIPPED)
    n = int(meta["tokens"])
    assert n == 2017 and set(types.values()) == {"BF16"}
    want = {"query": (9, 32, 64), "key": (3, n, 64), "value": (3, n, 64), "o_proj.weight": (576, 576)}
    assert {k: v.shape for k, v in tensors.items()} == {f"layers.{i}.{x}": s for i in (0, 15, 29)
                                                       for x, s in want.items()}
    for name, a in tensors.items():
        assert np.isfinite(a).all() and a.std() > 1e-3, name


def test_smollm2_gives_the_shipped_capture_again(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    import capture_gguf
    from capture_common import CaptureError
    try:
        capture_gguf.find_smollm2()
    except CaptureError as e:
        pytest.skip(str(e))
    out = tmp_path / "out.safetensors"
    assert capture.main(["--smollm2", "--text", str(PROSE), "--tokens", "48", "--dtype", "f32", "-o", str(out)]) == 0
    got, shipped = read_safetensors(out)[0], read_safetensors(SHIPPED)[0]
    for name, a in shipped.items():     # later tokens change no earlier key or value
        if name.endswith(".query"):
            continue
        b = got[name]
        a = a[:, :48] if name.endswith((".key", ".value")) else a
        assert np.allclose(a, b, rtol=2 ** -8, atol=2e-3), name


# ---------------------------------------------------------------- tiny Hugging Face models
SMALL = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 256}


def tiny_config(kind: str) -> Any:
    import transformers as tf
    if kind == "llama":
        return tf.LlamaConfig(**SMALL, tie_word_embeddings=False)
    if kind == "qwen3":
        return tf.Qwen3Config(**SMALL, head_dim=20)
    if kind == "gemma3":
        return tf.Gemma3TextConfig(**{**SMALL, "num_key_value_heads": 1}, head_dim=16, query_pre_attn_scalar=5,
                                   sliding_window=24, layer_types=["sliding_attention", "full_attention"] * 2)
    if kind == "neox":
        return tf.GPTNeoXConfig(**{k: v for k, v in SMALL.items() if k != "num_key_value_heads"}, rotary_pct=0.5)
    if kind == "gpt2":
        return tf.GPT2Config(n_embd=48, n_layer=2, n_head=4, vocab_size=97, n_positions=64)
    raise AssertionError(kind)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """kind -> (folder, model), made on first use."""
    torch = pytest.importorskip("torch", reason="the package torch is not installed")
    tf = pytest.importorskip("transformers", reason="the package transformers is not installed")
    made: dict[str, tuple[Path, Any]] = {}

    def make(kind: str) -> tuple[Path, Any]:
        if kind not in made:
            torch.manual_seed(7)
            try:
                model = tf.AutoModelForCausalLM.from_config(tiny_config(kind), attn_implementation="eager").eval()
            except AttributeError as e:
                pytest.skip(f"this transformers has no such model ({e})")
            with torch.no_grad():       # fresh weights are so small that attention is nearly flat; make it peak
                for name, p in model.named_parameters():
                    if p.ndim == 2:
                        p.normal_(0, 0.3)
                    elif "norm" in name:
                        p.add_(torch.randn_like(p) * 0.2)
            folder = tmp_path_factory.mktemp(kind)
            model.save_pretrained(folder)
            made[kind] = folder, model
        return made[kind]
    return make


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ids") / "ids"
    path.write_text(" ".join(map(str, np.random.default_rng(5).integers(0, 97, 40))))
    return path


def module_outputs(model: Any, ids: list[int]) -> dict[int, np.ndarray]:
    """Each attention module's own output, from transformers' eager attention."""
    import torch
    got: dict[int, np.ndarray] = {}

    def keep(module: Any, _: Any, out: Any) -> None:
        got[module.layer_idx] = out[0][0].numpy()

    hooks = [m.register_forward_hook(keep) for m in model.modules()
             if hasattr(m, "layer_idx") and any(hasattr(m, name) for name in ("o_proj", "dense"))]
    with torch.inference_mode():
        model(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return got


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3", "neox"])
def test_hf_capture_explains_the_module(kind: str, models: Any, ids: Path, tmp_path: Path, capsys: Any) -> None:
    folder, model = models(kind)
    out = tmp_path / "out.safetensors"
    n = 23 if kind == "gemma3" else 40      # all that its sliding layers keep
    code = capture.main(["--hf", str(folder), "--token-ids", str(ids), "--tokens", str(n), "--layer", "all", "--dtype",
                         "f32", "--window", str(WINDOW), "-o", str(out)])
    error = capsys.readouterr().err
    if kind == "neox" and "in this version" in error:
        pytest.skip("this transformers runs GPT-NeoX outside its attention interface")
    assert code == 0, error
    tensors, _, meta = read_safetensors(out)
    outputs = module_outputs(model, [int(i) for i in ids.read_text().split()][:n])
    for layer in range(4):
        q = tensors[f"layers.{layer}.query"]
        heads = model.config.num_attention_heads
        assert q.shape[:2] == (heads, WINDOW)
        assert tensors[f"layers.{layer}.key"].shape == (getattr(model.config, "num_key_value_heads", heads), n,
                                                        q.shape[2])
        scale = float(meta.get(f"layers.{layer}.scale", q.shape[2] ** -0.5))
        got, want = attention_output(tensors, layer, scale), outputs[layer][-WINDOW:]
        if kind == "neox":
            bias = model.state_dict()[f"gpt_neox.layers.{layer}.attention.dense.bias"]
            want = want - bias.numpy()
        assert np.abs(got - want).max() < 1e-4 * np.abs(want).max()
    assert ("layers.0.scale" in meta) == (kind == "gemma3")


def test_hf_same_bytes_every_time(models: Any, ids: Path, tmp_path: Path) -> None:
    folder, _ = models("llama")
    for name in ("a", "b"):
        assert capture.main(["--hf", str(folder), "--token-ids", str(ids), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    assert read_safetensors(tmp_path / "a")[0].keys() >= {"layers.0.key", "layers.2.key", "layers.3.key"}


def test_hf_refusals(models: Any, ids: Path, tmp_path: Path, capsys: Any) -> None:
    out = ["-o", tmp_path / "out"]
    folder, _ = models("gemma3")
    capsys.readouterr()
    given = ["--token-ids", ids, *out]
    assert "sliding window" in failure(capsys, 1, "--hf", folder, "--layer", "0", *given)
    assert "layers 0 to 3" in failure(capsys, 2, "--hf", folder, "--layer", "4", *given)
    assert "no tokenizer" in failure(capsys, 1, "--hf", folder, "--text", PROSE, *out)
    assert "missing" in failure(capsys, 1, "--hf", tmp_path / "missing", *given)
    (tmp_path / "large").write_text("3 97")
    assert "vocabulary" in failure(capsys, 1, "--hf", folder, "--token-ids", tmp_path / "large", *out)
    (tmp_path / "empty").write_text("")
    assert "no tokens" in failure(capsys, 1, "--hf", folder, "--token-ids", tmp_path / "empty", *out)
    (tmp_path / "long").write_text("1 " * 65)
    folder, _ = models("gpt2")
    capsys.readouterr()
    assert "o_proj" in failure(capsys, 1, "--hf", folder, *given)
    assert "65 tokens" in failure(capsys, 1, "--hf", folder, "--token-ids", tmp_path / "long", *out)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- a tiny GGUF file
def write_gguf(path: Path, model: Any) -> None:
    """The Llama model as GGUF stores one: the rows of each rotary pair side by side."""
    import gguf
    c = model.config
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_block_count(c.num_hidden_layers)
    w.add_embedding_length(c.hidden_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_token_list([f"t{i}" for i in range(c.vocab_size)])
    state = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    w.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    w.add_tensor("output_norm.weight", state["model.norm.weight"])
    w.add_tensor("output.weight", state["lm_head.weight"])
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    for i in range(c.num_hidden_layers):
        for ours, theirs in names.items():
            a = state[f"model.layers.{i}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k"):
                d = c.hidden_size // c.num_attention_heads
                order = [h + j + half for h in range(0, len(a), d) for j in range(d // 2) for half in (0, d // 2)]
                a = np.ascontiguousarray(a[order])
            w.add_tensor(f"blk.{i}.{ours}.weight", a)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def test_gguf_and_hf_agree(models: Any, ids: Path, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    import torch
    import capture_gguf
    folder, model = models("llama")
    write_gguf(tmp_path / "m.gguf", model)
    common = ["--token-ids", str(ids), "--layer", "all", "--dtype", "f32", "--window", str(WINDOW), "-o"]
    assert capture.main(["--gguf", str(tmp_path / "m.gguf"), *common, str(tmp_path / "a")]) == 0
    assert capture.main(["--hf", str(folder), *common, str(tmp_path / "b")]) == 0
    a, b = read_safetensors(tmp_path / "a")[0], read_safetensors(tmp_path / "b")[0]
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].shape == b[name].shape
        assert np.abs(a[name] - b[name]).max() < 1e-4 * np.abs(b[name]).max(), name
    runner = capture_gguf.Llama(capture_gguf.GgufFile(tmp_path / "m.gguf"))
    tokens = [int(i) for i in ids.read_text().split()]
    whole = runner.logits(runner.forward(tokens))
    with torch.inference_mode():
        want = model(torch.tensor([tokens])).logits[0].numpy()
    assert np.abs(whole - want).max() < 1e-4 * np.abs(want).max()
    cache: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    runner.forward(tokens[:30], cache)          # in two parts, as when it answers
    assert np.allclose(runner.logits(runner.forward(tokens[30:], cache)), whole[30:], atol=1e-4)


def test_gguf_refuses_other_architectures(tmp_path: Path, ids: Path, capsys: Any) -> None:
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    w = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "mamba")
    w.add_block_count(1)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    error = failure(capsys, 1, "--gguf", tmp_path / "m.gguf", "--token-ids", ids, "-o", tmp_path / "out")
    assert "mamba" in error
