"""Write a trained network as a Hugging Face `deepseek_v3` folder."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.model.training.network import Network
from engine.model.training.shape import BOS, EOS, NUM_BYTES, PAD


def tensors(network: Network) -> dict[str, Tensor]:
    """Every tensor under its Hugging Face name; packed experts become one tensor a projection."""
    named: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if name.endswith("experts.gate_up"):
            stem = f"model.{name.removesuffix('.gate_up')}"
            for expert, packed in enumerate(value):
                gate, up = packed.t().chunk(2)
                named[f"{stem}.{expert}.gate_proj.weight"] = gate
                named[f"{stem}.{expert}.up_proj.weight"] = up
        elif name.endswith("experts.down"):
            stem = f"model.{name.removesuffix('.down')}"
            for expert, packed in enumerate(value):
                named[f"{stem}.{expert}.down_proj.weight"] = packed.t()
        else:
            named[name if name.startswith("lm_head") else f"model.{name}"] = value
    return {name: value.detach().clone(memory_format=torch.contiguous_format)
            for name, value in named.items()}  # fmt: skip


def byte_alphabet() -> dict[str, int]:
    """The visible character that a byte-level BPE writes for each byte, mapped to that byte.

    Printable Latin-1 bytes stand for themselves, the others are shifted past U+0100 in order
    (GPT-2's rule). A vocabulary without merges then gives token id = byte.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(NUM_BYTES) if byte not in printable]
    return {
        chr(byte if byte in printable else NUM_BYTES + hidden.index(byte)): byte
        for byte in range(NUM_BYTES)
    }


def tokenizer_json() -> dict[str, object]:
    """A `tokenizers` file whose ids 0–255 are bytes, with three specials after them."""
    specials = {"<|bos|>": BOS, "<|eos|>": EOS, "<|pad|>": PAD}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
    }  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": text, **flags, "special": True}
            for text, number in specials.items()
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False, "vocab": {**byte_alphabet(), **specials}, "merges": [],
        },
    }  # fmt: skip


def write_checkpoint(network: Network, folder: Path) -> None:
    """Write config.json, tokenizer.json and model.safetensors (last, so a folder is whole)."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", network.shape.config_json())
    _write_json(folder / "tokenizer.json", tokenizer_json())
    save_file(tensors(network), folder / "model.safetensors", metadata={"format": "pt"})


def _write_json(path: Path, body: object) -> None:
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
