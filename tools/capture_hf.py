"""Capture from a Hugging Face transformers causal language model of any architecture.

Needs `torch` and `transformers` 4.48 or newer.  Keys and values are the cache that the model returns;
queries are what the model hands to its attention function, hence after any q/k norm and RoPE.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture_common import Capture, CaptureError, Layer, check_ids, pick_layers

NAME = "ckv_capture"
O_PROJ_NAMES = ("o_proj", "out_proj", "dense")


def one_line(e: BaseException) -> str:
    return " ".join(str(e).split())[:300] or type(e).__name__


@dataclass
class Seen:
    """What one layer's attention function was given."""

    module: Any
    query: Any              # [Hq,w,d]
    recent_keys: Any        # [Hkv,w,d], to prove that the cache holds what attention used
    scale: float


class Recorder:
    """An attention function for transformers' registry: records the chosen layers, then attends as sdpa does."""

    def __init__(self, layers: list[int], window: int):
        self.layers, self.window = set(layers), window
        self.seen: dict[int, Seen] = {}
        self.active = False

    def __call__(self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any,
                 scaling: float | None = None, **kwargs: Any) -> Any:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        layer = getattr(module, "layer_idx", None)
        if self.active and layer in self.layers:
            refuse_other_attention(layer, module, query, key, attention_mask, kwargs)
            self.seen[layer] = Seen(module, query[0, :, -self.window:].clone(), key[0, :, -self.window:].clone(),
                                    query.shape[-1] ** -0.5 if scaling is None else float(scaling))
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)


def refuse_other_attention(layer: int, module: Any, query: Any, key: Any, mask: Any, kwargs: dict[str, Any]) -> None:
    """The file describes causal softmax over all the keys: refuse what is not that, rather than misstate it."""
    n = key.shape[2]
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise CaptureError(f"layer {layer}: attention with a soft cap or sink logits, which a capture cannot express")
    sliding = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
    if query.shape[2] != n or (isinstance(sliding, int) and n > sliding):
        raise CaptureError(f"layer {layer}: a sliding window of {sliding} hides keys of these {n} tokens; "
                           f"use --tokens {sliding - 1} or a layer with full attention")
    if mask is None:
        causal = getattr(module, "is_causal", True)
    else:
        rows = mask[0, :, -32:, :n]         # some versions make it wider than the keys
        visible, hidden = (rows == 0, rows < -1e4) if rows.is_floating_point() else (rows, ~rows)
        want = visible.new_ones(n, n).tril()[-visible.shape[1]:]
        causal = bool((visible == want).all() and (hidden == ~want).all())
    if not causal:
        raise CaptureError(f"layer {layer}: its mask is not plain causal, which a capture cannot express")


def load_model(source: str, recorder: Recorder, compute: str, device: str) -> Any:
    import torch
    try:
        from transformers import AutoModelForCausalLM
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    except ImportError as e:
        raise CaptureError("--hf needs transformers 4.48 or newer") from e
    ALL_ATTENTION_FUNCTIONS.register(NAME, recorder) if hasattr(ALL_ATTENTION_FUNCTIONS, "register") \
        else ALL_ATTENTION_FUNCTIONS.update({NAME: recorder})
    try:    # newer versions build masks by the attention function's name, and none for a name they don't know
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    except ImportError:
        pass
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[compute]
    try:
        model = AutoModelForCausalLM.from_pretrained(source, attn_implementation=NAME)
        return model.to(device=device, dtype=dtype).eval()
    except Exception as e:
        if NAME in str(e):
            raise CaptureError(f"--hf {source}: this model does not attend through transformers' attention interface "
                               "in this version, so its queries cannot be captured") from e
        raise CaptureError(f"--hf {source}: {one_line(e)}") from e


def load_tokenizer(source: str) -> Any:
    from transformers import AutoTokenizer
    folder = Path(source)
    # some versions make an empty tokenizer for a folder that has none, and read every text as unknown tokens
    if folder.is_dir() and not any(any(folder.glob(g)) for g in ("*token*", "*vocab*", "*.model")):
        raise CaptureError(f"--hf {source}: no tokenizer in that folder; give --token-ids")
    try:
        return AutoTokenizer.from_pretrained(source)
    except Exception as e:
        raise CaptureError(f"--hf {source}: no tokenizer: {one_line(e)}") from e


def cached(cache: Any, layer: int) -> tuple[Any, Any]:
    """A layer's keys and values [Hkv,n,d] of the one sequence, from any of the cache classes."""
    try:
        if hasattr(cache, "layers"):
            pair = cache.layers[layer].keys, cache.layers[layer].values
        elif hasattr(cache, "key_cache"):
            pair = cache.key_cache[layer], cache.value_cache[layer]
        else:
            pair = cache[layer][0], cache[layer][1]
        return pair[0][0], pair[1][0]
    except (IndexError, KeyError, TypeError, AttributeError) as e:
        raise CaptureError(f"layer {layer}: no keys and values of its own in the model's cache "
                           f"({type(cache).__name__})") from e


def output_projection(module: Any, layer: int) -> Any:
    """The weight [D,Hq*dv] of the attention module's one linear output projection."""
    import torch
    found = [(name, getattr(module, name)) for name in O_PROJ_NAMES if hasattr(module, name)]
    if len(found) != 1:
        what = " and ".join(name for name, _ in found) or "none"
        raise CaptureError(f"layer {layer}: want one of {', '.join(O_PROJ_NAMES)} in {type(module).__name__}, "
                           f"found {what}")
    name, linear = found[0]
    weight = getattr(linear, "weight", None)
    if not isinstance(linear, torch.nn.Linear) or not weight.is_floating_point():
        raise CaptureError(f"layer {layer}: {name} is a {type(linear).__name__}, not a plain linear layer")
    return weight


def to_layer(index: int, seen: Seen, cache: Any, tokens: int) -> Layer:
    import torch
    keys, values = cached(cache, index)
    if keys.shape[1] != tokens:
        raise CaptureError(f"layer {index}: its cache holds {keys.shape[1]} of {tokens} tokens; "
                           f"use --tokens {keys.shape[1]} or a layer with full attention")
    if not torch.equal(keys[:, -seen.recent_keys.shape[1]:], seen.recent_keys):
        raise CaptureError(f"layer {index}: its cache does not hold the keys that attention used")
    weight = output_projection(seen.module, index)
    q, k, v, wo = (t.detach().float().cpu().numpy() for t in (seen.query, keys, values, weight))
    return Layer(index, q, k, v, wo, seen.scale)


def run(model: Any, batch: Any, recorder: Recorder) -> Any:
    """Read the tokens and return the cache, by the decoder without its head: nobody needs each token's logits."""
    recorder.active = True
    try:
        cache = model.base_model(batch, use_cache=True).past_key_values
    except (RuntimeError, IndexError, ValueError) as e:     # out of memory, past the last position, ...
        raise CaptureError(f"the model could not read {batch.shape[1]} tokens: {one_line(e)}") from e
    finally:
        recorder.active = False
    return cache


def report(model: Any, tokenizer: Any, ids: Any, answer: int) -> list[str]:
    loss = model(ids, labels=ids).loss
    out = model.generate(ids, attention_mask=ids.new_ones(ids.shape), max_new_tokens=answer, do_sample=False,
                         pad_token_id=0)[0, ids.shape[1]:].tolist()
    return [f"perplexity {float(loss.exp()):.2f}",
            f"answer {tokenizer.decode(out, skip_special_tokens=True) if tokenizer else out!r}"]


def capture(source: str, text: str | None, ids: list[int] | None, wanted: list[str], window: int,
            limit: int | None, answer: int, compute: str, device: str) -> Capture:
    try:
        import torch
        import transformers
    except ImportError as e:
        raise CaptureError(f"--hf needs the Python packages torch and transformers ({e})") from e
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    recorder = Recorder([], window)
    model = load_model(source, recorder, compute, device)
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    recorder.layers = set(pick_layers(wanted, config.num_hidden_layers))
    tokenizer = load_tokenizer(source) if ids is None else None
    ids = (tokenizer(text)["input_ids"] if ids is None else ids)[:limit]
    check_ids(ids, config.vocab_size)
    batch = torch.tensor([ids], device=device)
    with torch.inference_mode():
        cache = run(model, batch, recorder)
        missing = sorted(recorder.layers - recorder.seen.keys())
        if missing:
            raise CaptureError(f"layer {missing[0]}: {type(model).__name__} does not attend there through "
                               "transformers' attention interface, so its queries cannot be captured")
        layers = [to_layer(i, recorder.seen[i], cache, len(ids)) for i in sorted(recorder.layers)]
        del cache
        notes = report(model, tokenizer, batch, answer) if answer else []
    return Capture(layers, len(ids), notes)
