"""Writes training data for gluon-nlp's BERT script: texts, a vocabulary, samples (Python 3.8).

    PYTHONPATH=.cache/gluonnlp/mxnet python texts.py FOLDER SCRIPTS

The texts are the chapters of the language reference that every Python contains
(``pydoc_data.topics``). Each is a document, and every tenth is for evaluation. sentencepiece trains
the vocabulary, and gluon-nlp's create_pretraining_data.py makes ``train/part-000.npz`` and
``dev/part-000.npz``.
"""

import re
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

LENGTH, PREDICTIONS, VOCABULARY = 64, 10, 2000


def sentences(text):
    """Return the sentences of a chapter that have at least four words."""
    parts = re.split(r"(?<=[.:;])\s+|\n\s*\n", text)
    lines = [" ".join(part.split()) for part in parts]
    return [line for line in lines if len(re.findall(r"[A-Za-z]{2,}", line)) >= 4]


def main():
    """Write all files, which are equal for the same Python and packages."""
    import sentencepiece  # only the side that writes needs it

    folder, scripts = (Path(a).resolve() for a in sys.argv[1:])
    documents = [sentences(topics[name]) for name in sorted(topics)]
    documents = [lines for lines in documents if len(lines) > 1]
    texts = {"train": [], "dev": []}
    for i, lines in enumerate(documents):
        texts["dev" if i % 10 == 0 else "train"].append("\n".join(lines) + "\n")
    for name, parts in texts.items():
        (folder / (name + ".txt")).write_text("\n".join(parts), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(folder / "train.txt"),
        model_prefix=str(folder / "vocabulary"),
        vocab_size=VOCABULARY,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        user_defined_symbols=["[MASK]", "[SEP]", "[CLS]"],
        num_threads=1,
    )
    for name in texts:
        command = [sys.executable, str(scripts / "data" / "create_pretraining_data.py")]
        command += ["--input_file", str(folder / (name + ".txt")), "--num_workers", "1"]
        command += ["--output_dir", str(folder / name)]
        command += ["--sentencepiece", str(folder / "vocabulary.model")]
        command += ["--max_seq_length", str(LENGTH), "--dupe_factor", "1"]
        command += ["--max_predictions_per_seq", str(PREDICTIONS)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
