"""The simulator's tokenizer and chat template: simple, deterministic, the same for prompts and answers.

One token is a word (pieces of at most 12 characters), one CJK character, or one other sign; white space goes with what
follows it.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

from simulator.kv import BlockHash

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"[{_CJK}]|[^\W{_CJK}]{{1,12}}|[^\w\s]")
_HAS_CJK = re.compile(f"[{_CJK}]")
END = "<|end|>"  # closes a message; when the model generates it, the answer is over


def tokenize(text: str) -> list[str]:
    """The tokens of `text`, without the white space between them."""
    return _PIECE.findall(text)


def has_cjk(text: str) -> bool:
    return _HAS_CJK.search(text) is not None


def apply_template(messages: Iterable[tuple[str, str]]) -> list[str]:
    """The tokens of a whole prompt of (role, text) messages: 3 more a message, and 2 that open the answer."""
    tokens: list[str] = []
    for role, text in messages:
        tokens += ["<|start|>", f"<|{role}|>", *tokenize(text), END]
    return [*tokens, "<|start|>", "<|assistant|>"]


def block_hashes(tokens: Sequence[str], block_tokens: int) -> list[BlockHash]:
    """One hash for each full block of `tokens`; each stands for its own tokens and all before them."""
    hashes: list[BlockHash] = []
    previous = b""
    for start in range(0, len(tokens) - block_tokens + 1, block_tokens):
        block = "\x00".join(tokens[start : start + block_tokens])
        previous = hashlib.blake2b(previous + block.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        hashes.append(previous)
    return hashes
