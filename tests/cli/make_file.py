#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the input files of the bats tests, with the standard library alone.

    make_file.py NAME OUT [OPTION=N...]    one file: a good one, or one with a defect
    make_file.py all GROUP DIRECTORY       a file per defect of the group, named after it; prints a line for each:
                                           the name and the words that the error line must hold, tabs between

Every defect is one function that changes a good file: two KV heads, four query heads, 20 tokens, 4 queries,
head_dim 3, value_dim 5, hidden size 7.
"""

import json
import random
import struct
import sys

SIZE = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
        "F8_E4M3": 1}


# ---------------------------------------------------------------- files

def count(shape):
    result = 1
    for extent in shape:
        result *= extent
    return result


class Tensor:
    def __init__(self, shape, dtype="F32", seed=0, blob=None):
        self.shape, self.dtype = list(shape), dtype
        numbers = random.Random(seed)
        if blob is not None:
            self.blob = blob
        elif dtype in ("F32", "F16", "F64"):
            code = {"F32": "f", "F16": "e", "F64": "d"}[dtype]
            self.blob = struct.pack(f"<{count(shape)}{code}", *(numbers.gauss(0, 1) for _ in range(count(shape))))
        elif dtype == "BF16":
            self.blob = b"".join(struct.pack("<f", numbers.gauss(0, 1))[2:] for _ in range(count(shape)))
        else:
            self.blob = bytes(count(shape) * SIZE[dtype])

    def put(self, index, number):
        """Sets one element of an F32 tensor."""
        self.blob = self.blob[:4 * index] + struct.pack("<f", number) + self.blob[4 * index + 4:]


class File:
    """Tensors, and what write() makes of them unless a defect overrides it."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.entries = {}           # name -> changes of its header entry
        self.header = None          # the header's text
        self.header_length = None   # what the first eight bytes claim
        self.metadata = None
        self.tail = b""
        self.keep_bytes = None      # cut to this many, from the end when negative
        self.zeros = 0              # a hole of this many bytes at the end, as the file system has them

    def text(self):
        header, at = {}, 0
        if self.metadata is not None:
            header["__metadata__"] = self.metadata
        for name, tensor in self.tensors.items():
            header[name] = {"dtype": tensor.dtype, "shape": tensor.shape,
                            "data_offsets": [at, at + len(tensor.blob)]}
            at += len(tensor.blob)
        for name, changes in self.entries.items():
            if not isinstance(changes, dict):
                header[name] = changes
                continue
            for key, value in changes.items():
                if value is None:
                    del header[name][key]
                else:
                    header[name][key] = value
        return json.dumps(header, separators=(",", ":")).encode()

    def write(self, path):
        header = self.header if self.header is not None else self.text()
        length = self.header_length if self.header_length is not None else len(header)
        raw = struct.pack("<Q", length) + header + b"".join(t.blob for t in self.tensors.values()) + self.tail
        if self.keep_bytes is not None:
            raw = raw[:self.keep_bytes]
        with open(path, "wb") as file:
            file.write(raw)
            if self.zeros:
                file.truncate(len(raw) + self.zeros)


def evict_tensors(layer=0, queries=4, tokens=20, d=3, dv=5, hidden=7, heads=4, kv=2, dtype="F32", seed=0):
    p = f"layers.{layer}."
    return {p + "query": Tensor([heads, queries, d], dtype, seed + 1),
            p + "key": Tensor([kv, tokens, d], dtype, seed + 2), p + "value": Tensor([kv, tokens, dv], dtype, seed + 3),
            p + "o_proj.weight": Tensor([hidden, heads * dv], dtype, seed + 4)}


def select_tensors(tokens=20, kv=2):
    return {"layers.0.attention": Tensor([kv, tokens], seed=5), "layers.0.norm": Tensor([kv, tokens], seed=6)}


# ---------------------------------------------------------------- good ones

def good(**options):
    layers = options.pop("layers", 1)
    tensors = {}
    for layer in range(layers):
        tensors.update(evict_tensors(layer, seed=10 * layer, **options))
    return File(tensors)


def good_select(**options):
    return File(select_tensors(**options))


def without_weight(**options):
    file = good(**options)
    del file.tensors["layers.0.o_proj.weight"]
    return file


def checkpoint(prefix="model.layers.", layer=0, hidden=7, columns=20, seed=4):
    """With other tensors beside the one that is wanted, as checkpoints have."""
    name = f"{prefix}{layer}.self_attn."
    return File({"model.embed_tokens.weight": Tensor([2, 2, 2, 2, 1], "F64"),
                 name + "o_proj.weight": Tensor([hidden, columns], seed=seed),
                 name + "q_proj.weight": Tensor([12, 7], "F16"), "lm_head.weight": Tensor([3, 7], "I8")})


def checkpoint_of_nothing():
    return File({"model.embed_tokens.weight": Tensor([2, 2])})


def metadata_and_strangers():
    """A good file: metadata, and tensors that the command does not know, of any type and rank."""
    file = good()
    file.metadata = {"tokens": "20", "note": "any text"}
    file.tensors.update({"layers.0.stranger": Tensor([], "F64"), "layers.00.key": Tensor([1], "I8"),
                         "layers.-1.key": Tensor([2], "BOOL"), "layers.99999999999.key": Tensor([0], "F32"),
                         "layers.1e0.key": Tensor([1] * 9, "U8"), "layers..key": Tensor([1], "F8_E4M3"),
                         "position": Tensor([0, 7], "I64")})
    # None of these is misaligned: wide elements first.
    order = sorted(file.tensors, key=lambda name: -SIZE[file.tensors[name].dtype])
    file.tensors = {name: file.tensors[name] for name in order}
    return file


def scaled(scale="0.0625"):
    """Of two layers, the second has a scale of its own."""
    file = good(layers=2)
    file.metadata = {"tokens": "20", "layers.1.scale": str(scale)}
    return file


def not_finite():
    file = good()
    file.tensors["layers.0.key"].put(0, float("nan"))
    file.tensors["layers.0.value"].put(7, float("inf"))
    file.tensors["layers.0.query"].put(47, float("-inf"))
    file.tensors["layers.0.o_proj.weight"].put(0, float("nan"))
    return file


def not_finite_value():
    file = good(layers=2)
    file.tensors["layers.1.value"].put(3, float("inf"))
    return file


def not_finite_select():
    file = good_select()
    file.tensors["layers.0.attention"].put(0, float("nan"))
    file.tensors["layers.0.norm"].put(1, float("inf"))
    return file


def far_larger_than_memory():
    """A good file with a tensor of a terabyte behind the others, which is a hole."""
    file = good()
    at = sum(len(tensor.blob) for tensor in file.tensors.values())
    header = json.loads(file.text())
    header["a.terabyte"] = {"dtype": "U8", "shape": [2**40], "data_offsets": [at, at + 2**40]}
    file.header, file.zeros = json.dumps(header).encode(), 2**40
    return file


GOOD = [good, good_select, far_larger_than_memory, without_weight, checkpoint, checkpoint_of_nothing, metadata_and_strangers, scaled, not_finite,
        not_finite_value, not_finite_select]

# ---------------------------------------------------------------- defects
# GROUP name -> {defect: (maker, the words that its error line must hold)}

DEFECTS = {"file": {}, "tensor": {}, "select": {}}


def defect(group, *words):
    def add(function):
        DEFECTS[group][function.__name__] = (function, words)
        return function
    return add


def changed(entry="layers.0.key", **changes):
    file = good()
    file.entries[entry] = changes
    return file


# ---- the file as a whole

@defect("file", "0 bytes")
def empty_file():
    file = good()
    file.keep_bytes = 0
    return file


@defect("file", "7", "8")
def shorter_than_the_header_length():
    file = good()
    file.keep_bytes = 7
    return file


@defect("file", "header", "24")
def header_beyond_the_file():
    file = good()
    file.header = b'{"a":1}'
    file.header_length = 24
    file.tensors = {}
    return file


@defect("file", "header", "100000000")
def header_of_100_megabytes_claimed():
    file = good()
    file.header_length = 100_000_000
    return file


@defect("file", "header", "100000001", "100000000")
def header_beyond_the_limit_of_the_format():
    file = good()
    file.header_length = 100_000_001
    return file


@defect("file", "header", str(2**64 - 1))
def header_length_of_all_ones():
    file = good()
    file.header_length = 2**64 - 1
    return file


@defect("file", "header", str(2**63))
def header_length_with_the_sign_bit():
    file = good()
    file.header_length = 2**63
    return file


@defect("file", "header", str(2**64 - 8))
def header_length_that_wraps_with_its_own_eight_bytes():
    file = good()
    file.header_length = 2**64 - 8
    return file


@defect("file", "header")
def header_length_of_zero():
    file = good()
    file.header, file.header_length = b"", 0
    return file


@defect("file", "header", "JSON")
def header_that_is_no_json():
    file = good()
    file.header = b'{"layers.0.key": oops}'
    return file


@defect("file", "header", "JSON")
def header_cut_in_its_middle():
    file = good()
    file.header_length = len(file.text()) // 2
    return file


@defect("file", "header")
def header_that_is_an_array():
    file = good()
    file.header = b"[]"
    return file


@defect("file", "header")
def header_that_starts_with_a_space():
    file = good()
    file.header = b" " + file.text()
    return file


@defect("file", "header")
def header_with_text_behind_its_json():
    file = good()
    file.header = file.text() + b"}"
    return file


@defect("file", "header")
def header_nested_very_deep():
    file = good()
    file.header = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return file


@defect("file", "header")
def header_that_is_not_utf8():
    file = good()
    file.header = file.text().replace(b"layers.0.key", b"layers.0.\xff\xfey")
    return file


@defect("file", "header")
def header_with_a_zero_byte():
    file = good()
    file.header = file.text().replace(b"layers.0.key", b"layers.0.k\0y")
    return file


@defect("file", "layers.0.key")
def duplicate_names():
    file = good()
    text = file.text()
    file.header = text[:-1] + b',"layers.0.key":' + text.split(b'"layers.0.key":')[1].split(b"}")[0] + b"}}"
    return file


@defect("file", "dtype")
def duplicate_keys_of_a_tensor():
    file = good()
    file.header = file.text().replace(b'"dtype":"F32"', b'"dtype":"F32","dtype":"F16"', 1)
    return file


@defect("file", "__metadata__")
def metadata_that_is_no_object():
    file = good()
    file.metadata = ["a"]
    return file


@defect("file", "__metadata__", "number")
def metadata_that_is_no_string():
    file = good()
    file.metadata = {"number": 5}
    return file


@defect("file", "layers.0.key")
def entry_that_is_no_object():
    file = good()
    file.entries["layers.0.key"] = [1]
    return file


@defect("file", "layers.0.key", "dtype")
def no_dtype():
    return changed(dtype=None)


@defect("file", "layers.0.key", "shape")
def no_shape():
    return changed(shape=None)


@defect("file", "layers.0.key", "data_offsets")
def no_offsets():
    return changed(data_offsets=None)


@defect("file", "layers.0.key", "dtype")
def dtype_that_is_a_number():
    return changed(dtype=32)


@defect("file", "layers.0.key", "dtype", "F33", "F32")
def dtype_that_nobody_knows():
    return changed(dtype="F33")


@defect("file", "layers.0.key", "shape")
def shape_that_is_a_number():
    return changed(shape=120)


@defect("file", "layers.0.key", "shape", "-20")
def negative_extent():
    return changed(shape=[2, -20, 3])


@defect("file", "layers.0.key", "shape", "20.5")
def extent_that_is_no_integer():
    return changed(shape=[2, 20.5, 3])


@defect("file", "layers.0.key", "shape", "twenty")
def extent_that_is_a_string():
    return changed(shape=[2, "twenty", 3])


@defect("file", "layers.0.key", str(2**40), "overflow")
def extents_whose_product_overflows():
    return changed(shape=[2**40, 2**40, 3])


@defect("file", "layers.0.key", str(2**59 + 15), "overflow")
def extents_whose_product_wraps_to_the_right_size():
    """2^62 + 120 elements of four bytes are 480 bytes in 64 bits, and so are 120."""
    return changed(shape=[2, 4, 2**59 + 15])


@defect("file", "layers.0.key")
def extents_whose_product_is_far_too_large():
    return changed(shape=[2**30, 2**30, 1])


@defect("file", "layers.0.key", "shape", str(2**63))
def extent_beyond_63_bits():
    return changed(shape=[2**63, 20, 3])


@defect("file", "layers.0.key", "shape", str(2**64))
def extent_beyond_64_bits():
    """The first of two."""
    file = changed(shape=[2**64, 20, 3])
    file.entries["layers.0.value"] = {"shape": [2, 20, 2**65]}
    return file


@defect("file", "layers.0.key", "shape", str(-2**63 - 1))
def negative_extent_beyond_64_bits():
    return changed(shape=[2, -2**63 - 1, 3])


@defect("file", "layers.0.key", "offsets", "672", "192")
def offsets_in_the_wrong_order():
    return changed(data_offsets=[672, 192])


@defect("file", "layers.0.key", "offsets", "900000480")
def offsets_beyond_the_file():
    return changed(data_offsets=[900000000, 900000480])


@defect("file", "layers.0.key", str(2**63 - 1))
def offsets_at_the_end_of_the_number_range():
    return changed(data_offsets=[2**63 - 481, 2**63 - 1])


@defect("file", "layers.0.key", "offsets")
def negative_offsets():
    return changed(data_offsets=[-480, 0])


@defect("file", "layers.0.key", "offsets")
def offsets_that_are_no_integers():
    return changed(data_offsets=[192.0, 672.0])


@defect("file", "layers.0.key", "offsets")
def three_offsets():
    return changed(data_offsets=[192, 672, 672])


@defect("file", "layers.0.key", "layers.0.query", "overlap")
def overlapping_offsets():
    return changed(data_offsets=[188, 668])


@defect("file", "layers.0.value", "layers.0.key", "overlap")
def two_tensors_in_one_place():
    file = good(dv=3)
    file.entries["layers.0.value"] = {"data_offsets": [192, 672]}
    return file


@defect("file", "hole")
def hole_between_tensors():
    file = good()
    tensors = list(file.tensors.items())
    file.tensors = dict([*tensors[:2], ("gap", Tensor([4])), *tensors[2:]])
    header = json.loads(file.text())
    del header["gap"]
    file.header = json.dumps(header).encode()
    return file


@defect("file", "layers.0.key", "misaligned", "4")
def misaligned_offsets():
    file = good()
    tensors = list(file.tensors.items())
    file.tensors = dict([*tensors[:1], ("two.bytes", Tensor([2], "U8")), *tensors[1:]])
    return file


@defect("file", "layers.0.key", "476", "480")
def offsets_that_lie_about_the_size():
    return changed(data_offsets=[192, 668])


@defect("file", "layers.0.key", "480", "960")
def dtype_that_does_not_fit_the_size():
    return changed(dtype="F64")


@defect("file", "layers.0.o_proj.weight", "short")
def last_byte_missing():
    file = good()
    file.keep_bytes = -1
    return file


@defect("file", "layers.0.")
def data_missing():
    file = good()
    file.keep_bytes = 8 + len(file.text())
    return file


@defect("file", "3 bytes")
def bytes_behind_the_data():
    file = good()
    file.tail = b"abc"
    return file


@defect("file", "layers.0")
def no_tensors():
    return File({})


@defect("file", "layers.0")
def no_tensor_with_a_name_that_is_known():
    return File({"model.embed_tokens.weight": Tensor([2, 2])})


# ---- the tensors of evict

def without(name):
    def make():
        file = good()
        del file.tensors[f"layers.0.{name}"]
        return file
    make.__name__ = f"no_{name.replace('.', '_')}"
    return make


def replaced(name, tensor, **options):
    file = good(**options)
    file.tensors[f"layers.0.{name}"] = tensor
    return file


for _name in ("query", "key", "value", "o_proj.weight"):
    defect("tensor", f"layers.0.{_name}", "missing")(without(_name))


@defect("tensor", "layers.1.value", "missing")
def second_layer_incomplete():
    file = good(layers=2)
    del file.tensors["layers.1.value"]
    return file


@defect("tensor", "layers.0.query", "[12,4]", "3")
def query_of_rank_2():
    return replaced("query", Tensor([12, 4]))


@defect("tensor", "layers.0.key", "[1,2,20,3]", "3")
def key_of_rank_4():
    return replaced("key", Tensor([1, 2, 20, 3]))


@defect("tensor", "layers.0.value", "[200]", "3")
def value_of_rank_1():
    return replaced("value", Tensor([200]))


@defect("tensor", "layers.0.o_proj.weight", "[7,4,5]", "2")
def weight_of_rank_3():
    return replaced("o_proj.weight", Tensor([7, 4, 5]))


@defect("tensor", "layers.0.o_proj.weight", "[]", "2")
def weight_of_rank_0():
    return replaced("o_proj.weight", Tensor([]))


@defect("tensor", "layers.0.query", "[1,1,1,1,1,1,1,1,", "3")
def query_of_rank_1000():
    return replaced("query", Tensor([1] * 1000))


@defect("tensor", "layers.0.query", "5", "2", "multiple")
def query_heads_no_multiple_of_kv_heads():
    return replaced("query", Tensor([5, 4, 3]))


@defect("tensor", "layers.0.query", "1", "2", "multiple")
def fewer_query_heads_than_kv_heads():
    return replaced("query", Tensor([1, 4, 3]))


@defect("tensor", "layers.0.o_proj.weight", "[7,19]", "20")
def weight_too_narrow():
    return replaced("o_proj.weight", Tensor([7, 19]))


@defect("tensor", "layers.0.o_proj.weight", "[7,10]", "20")
def weight_of_kv_heads_alone():
    return replaced("o_proj.weight", Tensor([7, 10]))


@defect("tensor", "layers.0.o_proj.weight", "[20,7]", "20")
def weight_transposed():
    return replaced("o_proj.weight", Tensor([20, 7]))


@defect("tensor", "layers.0.value", "[2,19,5]", "20")
def value_shorter_than_key():
    return replaced("value", Tensor([2, 19, 5]))


@defect("tensor", "layers.0.value", "[2,21,5]", "20")
def value_longer_than_key():
    return replaced("value", Tensor([2, 21, 5]))


@defect("tensor", "layers.0.value", "[1,20,5]", "2")
def value_with_other_heads_than_key():
    return replaced("value", Tensor([1, 20, 5]))


@defect("tensor", "layers.0.key", "[2,20,4]", "3")
def key_wider_than_query():
    return replaced("key", Tensor([2, 20, 4]))


def other_dtype(name, shape, dtype):
    def make():
        return replaced(name, Tensor(shape, dtype))
    make.__name__ = f"{name.replace('.', '_')}_in_{dtype}"
    return make


for _name, _shape, _dtype in (("query", [4, 4, 3], "I32"), ("key", [2, 20, 3], "F64"), ("value", [2, 20, 5], "F8_E4M3"),
                              ("value", [2, 20, 5], "I8"), ("o_proj.weight", [7, 20], "U8"),
                              ("o_proj.weight", [7, 20], "BOOL"), ("query", [4, 4, 3], "I16")):
    defect("tensor", f"layers.0.{_name}", _dtype, "BF16")(other_dtype(_name, _shape, _dtype))


def empty_extent(name, shape):
    def make():
        return replaced(name, Tensor(shape))
    make.__name__ = f"{name.replace('.', '_')}_of_{'_'.join(map(str, shape))}"
    return make


for _name, _shape in (("query", [4, 4, 3]), ("key", [2, 20, 3]), ("value", [2, 20, 5]), ("o_proj.weight", [7, 20])):
    for _axis in range(len(_shape)):
        _changed = [0 if axis == _axis else extent for axis, extent in enumerate(_shape)]
        defect("tensor", f"layers.0.{_name}", "[" + ",".join(map(str, _changed)) + "]", "0")(empty_extent(_name, _changed))


@defect("tensor", "layers.0", "value_dim", "513", "512")
def value_dim_beyond_its_limit():
    return good(dv=513)


@defect("tensor", "layers.0", "head_dim", "32769", "32768")
def head_dim_beyond_its_limit():
    return good(d=32769, queries=1, tokens=2)


@defect("tensor", "layers.0", "hidden", "32769", "32768")
def hidden_beyond_its_limit():
    return good(hidden=32769, dv=1)


@defect("tensor", "layers.0", "tokens", str(2**22 + 1), str(2**22))
def tokens_beyond_their_limit():
    """Its keys and values are a hole in the file."""
    tokens = 2**22 + 1
    file = File({"layers.0.query": Tensor([1, 1, 1]), "layers.0.o_proj.weight": Tensor([1, 1])})
    small = sum(len(tensor.blob) for tensor in file.tensors.values())
    at = small
    header = json.loads(file.text())
    for name in ("key", "value"):
        header[f"layers.0.{name}"] = {"dtype": "F16", "shape": [1, tokens, 1], "data_offsets": [at, at + 2 * tokens]}
        at += 2 * tokens
    file.header = json.dumps(header).encode()
    file.zeros = at - small
    return file


def scale(text):
    file = good()
    file.metadata = {"layers.0.scale": text}
    return file


@defect("tensor", "__metadata__", "layers.0.scale", "0x1p-4", "2^40")
def scale_in_hexadecimal():
    return scale("0x1p-4")


@defect("tensor", "__metadata__", "layers.0.scale", "one", "2^40")
def scale_in_words():
    return scale("one")


@defect("tensor", "__metadata__", "layers.0.scale", "1e13", "2^40")
def scale_beyond_its_limit():
    return scale("1e13")


# ---- the tensors of select

@defect("select", "layers.0.attention", "missing")
def no_attention():
    file = good_select()
    del file.tensors["layers.0.attention"]
    return file


@defect("select", "layers.0.norm", "missing")
def no_norm():
    file = good_select()
    del file.tensors["layers.0.norm"]
    return file


@defect("select", "layers.0.norm", "[2,19]", "20")
def norm_of_another_length():
    file = good_select()
    file.tensors["layers.0.norm"] = Tensor([2, 19])
    return file


@defect("select", "layers.0.norm", "[1,20]", "2")
def norm_of_other_heads():
    file = good_select()
    file.tensors["layers.0.norm"] = Tensor([1, 20])
    return file


@defect("select", "layers.0.attention", "[40]", "2")
def attention_of_rank_1():
    file = good_select()
    file.tensors["layers.0.attention"] = Tensor([40])
    return file


@defect("select", "layers.0.attention", "BF16", "F32")
def attention_in_bf16():
    file = good_select()
    file.tensors["layers.0.attention"] = Tensor([2, 20], "BF16")
    return file


@defect("select", "layers.0.norm", "F64", "F32")
def norm_in_f64():
    file = File({"layers.0.norm": Tensor([2, 20], "F64"), "layers.0.attention": Tensor([2, 20])})
    return file


@defect("select", "layers.0.attention", "[2,0]", "0")
def attention_of_no_tokens():
    return good_select(tokens=0)


@defect("select", "layers.0.attention", "[0,20]", "0")
def attention_of_no_heads():
    return good_select(kv=0)


@defect("select", "layers.0.attention")
def only_what_evict_reads():
    return good()


# ---------------------------------------------------------------- the command line

def value(text):
    return int(text) if text.isdigit() else text


def main(arguments):
    if arguments[0] == "all":
        for name, (maker, words) in DEFECTS[arguments[1]].items():
            maker().write(f"{arguments[2]}/{name}")
            print(name, *words, sep="\t")
        return
    makers = {maker.__name__: maker for maker in GOOD}
    for group in DEFECTS.values():
        makers.update({name: maker for name, (maker, _) in group.items()})
    name, path, *options = arguments
    makers[name](**{key: value(text) for key, text in (option.split("=") for option in options)}).write(path)


main(sys.argv[1:])
