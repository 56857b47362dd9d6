"""Make a vocabulary and pre-training samples from text. gluon-nlp: ``create_pretraining_data``.

    python prepare.py books/*.txt manual/*.html --out data --vocab_size 8192 --whole_word_mask
    python prepare.py raw.txt --raw --out data --vocab vocab.txt --max_seq_length 512

Each file of prose is a document; with ``--raw``, files have one sentence a line and a blank line
between documents. The program writes ``vocab.txt``, ``train.npz``, ``eval.npz`` and ``text.json``,
which has the numbers of documents, sentences and tokens, and a checksum that identifies the text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from masked_instances import Recipe, make_samples
from pretraining_samples import write_samples
from text_documents import file_documents, held_out, sentence_documents
from wordpiece import WordPiece, read_vocabulary, train_vocabulary, write_vocabulary


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make pre-training samples from text.")
    add = parser.add_argument
    add("files", nargs="+", type=Path, help="text or HTML")
    add("--out", type=Path, required=True, help="folder")
    add("--raw", action="store_true", help="one sentence a line, blank lines between documents")
    add("--vocab", help="vocab.txt; trained from the text if none")
    add("--vocab_size", type=int, default=8192)
    add("--max_seq_length", type=int, default=128)
    add("--max_predictions_per_seq", type=int, default=20)
    add("--masked_lm_prob", type=float, default=0.15)
    add("--short_seq_prob", type=float, default=0.1)
    add("--whole_word_mask", action="store_true")
    add("--dupe_factor", type=int, default=1, help="samples with other masks of the same text")
    add("--eval_share", type=float, default=0.05, help="share of the documents that is held out")
    add("--seed", type=int, default=0)
    return parser


def named_documents(opt: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """Return name and sentences of each document."""
    if not opt.raw:
        return list(file_documents(opt.files))
    return [
        (f"{path.name}:{number}", document)
        for path in opt.files
        for number, document in enumerate(sentence_documents(path))
    ]


def main(arguments: list[str] | None = None) -> int:
    opt = make_parser().parse_args(arguments)
    if opt.dupe_factor < 1 or not 0 < opt.eval_share < 1:
        raise SystemExit(
            "bert: --dupe_factor must be at least 1 and --eval_share between 0 and 1, got "
            f"{opt.dupe_factor} and {opt.eval_share}"
        )
    if not 0 <= opt.short_seq_prob <= 1 or not 0 <= opt.seed < 2**32:
        raise SystemExit(
            "bert: --short_seq_prob must be 0 to 1 and --seed 0 to 2**32 - 1, got "
            f"{opt.short_seq_prob} and {opt.seed}"
        )
    documents = named_documents(opt)
    chosen_names = held_out([name for name, _ in documents], opt.eval_share)
    parts: dict[str, list[list[str]]] = {"train": [], "eval": []}
    for name, found in documents:
        parts["eval" if name in chosen_names else "train"].append(found)
    try:
        opt.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"bert: --out {opt.out} is no folder: {error.strerror}") from None
    if opt.vocab:
        vocabulary = read_vocabulary(opt.vocab)
    else:
        lines = (sentence for document in parts["train"] for sentence in document)
        vocabulary = train_vocabulary(lines, opt.vocab_size)
    write_vocabulary(opt.out / "vocab.txt", vocabulary)
    pieces = WordPiece(vocabulary)
    recipe = Recipe(
        opt.max_seq_length, opt.max_predictions_per_seq, opt.masked_lm_prob, opt.short_seq_prob,
        opt.whole_word_mask,
    )  # fmt: skip
    summary: dict[str, object] = {
        "vocabulary": len(vocabulary),
        "max_seq_length": opt.max_seq_length,
    }
    for part, chosen in parts.items():
        encoded = [[pieces.encode(sentence) for sentence in document] for document in chosen]
        samples = make_samples(encoded, pieces, recipe, opt.dupe_factor, opt.seed)
        write_samples(opt.out / f"{part}.npz", samples)
        text = "\n\n".join("\n".join(document) for document in chosen)
        summary[part] = {
            "documents": len(chosen),
            "sentences": sum(map(len, chosen)),
            "tokens": sum(len(sentence) for document in encoded for sentence in document),
            "samples": len(samples),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    (opt.out / "text.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
