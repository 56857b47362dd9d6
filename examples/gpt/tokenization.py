"""GPT-2's tokenizer, from the package tokenizers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

END = "<|endoftext|>"


def train_tokenizer(texts: Iterator[str], size: int, out: Path) -> Any:
    """Train a vocabulary and write it to ``OUT-vocab.json`` and ``OUT-merges.txt``."""
    tokenizer = _class()()
    tokenizer.train_from_iterator(texts, size, special_tokens=[END], show_progress=False)
    tokenizer.save_model(str(out.parent), out.name)
    return tokenizer


def load_tokenizer(vocab: str, merges: str) -> Any:
    """Return the tokenizer of a JSON file of tokens and a file of merges."""
    for path in (vocab, merges):
        if not Path(path).is_file():
            raise SystemExit(f"gpt: there is no file {path}")
    return _class()(vocab, merges)


def _class() -> Any:
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError as error:
        raise SystemExit(
            f"gpt: the package tokenizers is missing ({error}): pip install tokenizers"
        ) from error
    return ByteLevelBPETokenizer
