"""A tiny llama with random weights as a GGUF file: for tests, which need llama.cpp's real server but no sense in its words.

Its vocabulary is bytes and nothing else (a token a byte), its chat template ChatML. 0.2 million parameters: a token takes
a fraction of a millisecond, the server starts at once. Needs the packages `gguf` and `numpy`.
"""

from pathlib import Path
from typing import Any

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_HIDDEN, _LAYERS, _HEADS, _FEED = 64, 2, 2, 128
_CONTROL, _NORMAL = 3, 1  # gguf's token types


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes 0 to 255 in byte-level BPE (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def write(path: Path, *, context: int = 4096, seed: int = 0) -> Path:
    """Write the model to `path` and return it. The same seed gives the same weights."""
    import gguf
    import numpy as np

    tokens = [*_SPECIAL, *byte_alphabet()]
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(_LAYERS)
    writer.add_context_length(context)
    writer.add_embedding_length(_HIDDEN)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    _add_tokenizer(writer, tokens)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0.0, 0.1, shape).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(_HIDDEN, dtype=np.float32))

    weights("token_embd", len(tokens), _HIDDEN)
    ones("output_norm")
    weights("output", len(tokens), _HIDDEN)
    for layer in range(_LAYERS):
        ones(f"blk.{layer}.attn_norm")
        ones(f"blk.{layer}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{layer}.{name}", _HIDDEN, _HIDDEN)
        weights(f"blk.{layer}.ffn_gate", _FEED, _HIDDEN)
        weights(f"blk.{layer}.ffn_up", _FEED, _HIDDEN)
        weights(f"blk.{layer}.ffn_down", _HIDDEN, _FEED)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any, tokens: list[str]) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([_CONTROL] * len(_SPECIAL) + [_NORMAL] * (len(tokens) - len(_SPECIAL)))
    writer.add_token_merges(["h e", "a n"])  # none would do, but llama.cpp refuses an empty list
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(_SPECIAL.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(_TEMPLATE)
