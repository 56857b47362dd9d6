"""Train a word language model with LSTM layers and tied weights.

    python examples/gallery/word_language_model.py                    Python's help texts
    python examples/gallery/word_language_model.py book.txt --units 400 --epochs 20

Embedding and output layer share their weights, as in the models of Press and Wolf. Prints the
perplexity of held-out text, that of the words' frequencies alone, and a sample.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd

UNKNOWN = "<unk>"


class WordModel(gluon.HybridBlock):
    """Scores of the next word; input (steps, batch), output (steps, batch, words)."""

    def __init__(self, words: int, units: int, layers: int, dropout: float) -> None:
        super().__init__()
        self._words = words
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(words, units))
            self.bias = self.params.get("bias", shape=(words,), init="zeros")
            self.lstm = gluon.rnn.LSTM(units, layers, dropout=dropout, input_size=units)
            self.dropout = gluon.nn.Dropout(dropout)

    def hybrid_forward(self, F, x, state, *, weight, bias):  # noqa: N803
        """Return scores and the state after the last step."""
        x = F.Embedding(x, weight, input_dim=self._words, output_dim=self.weight.shape[1])
        x, state = self.lstm(self.dropout(x), state)
        scores = F.FullyConnected(
            self.dropout(x), weight, bias, num_hidden=self._words, flatten=False
        )
        return scores, state


def read_words(files: list[str], limit: int) -> list[str]:
    """Return words and punctuation marks of files, or of Python's help texts."""
    if files:
        text = "\n".join(Path(file).read_text(encoding="utf-8") for file in files)
    else:
        text = "\n".join(topics[name] for name in sorted(topics))
    return re.findall(r"\w+|[^\w\s]", text.lower())[:limit]


def cut(codes: np.ndarray, columns: int, steps: int) -> list[nd.NDArray]:
    """Return pieces (steps + 1, columns); each begins with the last row of the one before."""
    length = len(codes) // columns
    table = codes[: length * columns].reshape(columns, length).T
    return [nd.array(table[i : i + steps + 1]) for i in range(0, length - steps, steps)]


def run(net: WordModel, pieces: list[nd.NDArray], trainer: gluon.Trainer | None) -> float:
    """Read the text once, and learn if there is a trainer. Return the perplexity."""
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    state = net.lstm.begin_state(pieces[0].shape[1])
    losses = []
    for piece in pieces:
        state = [s.detach() for s in state]
        with autograd.record(train_mode=trainer is not None):
            scores, state = net(piece[:-1], state)
            loss = loss_function(scores, piece[1:]).mean()
        if trainer is not None:
            loss.backward()
            trainer.step(1)
        losses.append(loss.detach())
    return math.exp(nd.concat(*losses, dim=0).mean().asscalar())


def write(net: WordModel, words: list[str], length: int) -> str:
    """Let the network write, and return the words with spaces between them."""
    state = net.lstm.begin_state(1)
    current, text = words.index("the"), ["the"]
    for _ in range(length):
        scores, state = net(nd.array([[current]]), state)
        scores[0, 0, words.index(UNKNOWN)] = -1e9
        current = int(nd.random.multinomial(nd.softmax(scores[0, 0] / 0.8)).asscalar())
        text.append(words[current])
    return " ".join(text)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="text files (UTF-8)")
    parser.add_argument("--words", type=int, default=3000, help="size of the vocabulary")
    parser.add_argument("--limit", type=int, default=150000, help="words that are read")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="less text, a smaller network")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the perplexities")
    args = parser.parse_args()
    if args.smoke:
        args.words, args.limit, args.units, args.layers, args.epochs = 600, 30000, 64, 1, 5
        args.lr = 0.015
    mx.random.seed(args.seed)
    text = read_words(args.files, args.limit)
    words = [UNKNOWN] + [word for word, _ in Counter(text).most_common(args.words - 1)]
    code = {word: number for number, word in enumerate(words)}
    codes = np.array([code.get(word, 0) for word in text], "int32")
    split = len(codes) * 9 // 10
    training, held_out = (cut(part, args.batch_size, 32) for part in (codes[:split], codes[split:]))
    shares = np.bincount(codes[:split], minlength=len(words)) + 1.0
    simple = math.exp(-np.log(shares / shares.sum())[codes[split:]].mean())
    print(f"{len(text)} words, {len(words)} different, perplexity of their shares {simple:.1f}")

    net = WordModel(len(words), args.units, args.layers, args.dropout)
    net.initialize(mx.init.Uniform(0.1))
    net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": args.lr}, clip_global_norm=1.0
    )
    history = []
    for epoch in range(args.epochs):
        history.append((run(net, training, trainer), run(net, held_out, None)))
        print(f"epoch {epoch}: perplexity {history[-1][0]:.1f}, held out {history[-1][1]:.1f}")
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 2.5))
        axes.semilogy(history, label=["training", "held out"])
        axes.axhline(simple, color="gray", linestyle=":", label="shares of words")
        axes.set(xlabel="epoch", ylabel="perplexity")
        axes.legend()
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print(write(net, words, 40))
    print(f"perplexity of held-out text {history[-1][1]:.1f}, of the shares of words {simple:.1f}")
    return 0 if history[-1][1] < simple * 0.75 else 1


if __name__ == "__main__":
    sys.exit(main())
