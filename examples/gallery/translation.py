"""Translate English numbers into German with a small Transformer.

    python examples/gallery/translation.py
    python examples/gallery/translation.py --epochs 30 --picture translation.png

The corpus is made by this program: "three hundred forty seven" and "drei hundert sieben und
vierzig". German names the unit before the ten, so the network has to learn an order of words. It
has an encoder and a decoder of the layers of `mx.gluon.contrib.nn.transformer`. Prints the share
of held-out numbers that are translated without any error.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import transformer

PADDING, BEGIN, END = 0, 1, 2
ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english(number: int) -> list[str]:
    """Return the words of a number from 1 to 9,999."""
    for base, name in ((1000, "thousand"), (100, "hundred")):
        if number >= base:
            rest = english(number % base) if number % base else []
            return [*english(number // base), name, *rest]
    if number < 20:
        return [ENGLISH[number]]
    rest = [ENGLISH[number % 10]] if number % 10 else []
    return [ENGLISH_TENS[number // 10 - 2], *rest]


def german(number: int) -> list[str]:
    """Return the parts of the word for a number from 1 to 9,999."""
    for base, name in ((1000, "tausend"), (100, "hundert")):
        if number >= base:
            rest = german(number % base) if number % base else []
            return [*german(number // base), name, *rest]
    if number < 20:
        return [GERMAN[number]]
    rest = [GERMAN[number % 10], "und"] if number % 10 else []
    return [*rest, GERMAN_TENS[number // 10 - 2]]


class Vocabulary:
    """Numbers of words; 0 fills up, 1 begins and 2 ends a sentence."""

    def __init__(self, sentences: list[list[str]]) -> None:
        self.words = ["", "<", ">", *sorted({word for words in sentences for word in words})]
        self._codes = {word: number for number, word in enumerate(self.words)}

    def encode(self, sentences: list[list[str]]) -> np.ndarray:
        """Return (sentences, longest + 2) with begin, words, end and padding."""
        rows = [[BEGIN, *(self._codes[word] for word in words), END] for words in sentences]
        longest = max(map(len, rows))
        return np.array([row + [PADDING] * (longest - len(row)) for row in rows], "int32")

    def decode(self, row: np.ndarray) -> str:
        """Return the words before the end."""
        words = list(row)
        if END in words:
            words = words[: words.index(END)]
        return " ".join(self.words[word] for word in words if word > END)


class Translator(nn.HybridBlock):
    """An encoder of the source and a decoder of the target."""

    def __init__(self, source: int, target: int, units: int, layers: int) -> None:
        super().__init__()
        sizes = {"hidden_size": 2 * units, "num_heads": 4, "dropout": 0.1, "pre_norm": True}
        self.embeddings, self.positions = nn.HybridSequential(), nn.HybridSequential()
        for words in (source, target):
            self.embeddings.add(nn.Embedding(words, units))
            self.positions.add(transformer.LearnedPositions(24, units))
        self.encoder, self.decoder = nn.HybridSequential(), nn.HybridSequential()
        for _ in range(layers):
            self.encoder.add(transformer.TransformerEncoderCell(units, **sizes))
            self.decoder.add(transformer.TransformerDecoderCell(units, **sizes))
        self.scores = nn.Dense(target, flatten=False)

    def hybrid_forward(self, F: Any, source: Any, lengths: Any, target: Any) -> Any:  # noqa: N803
        """Return the scores of the words after each one of `target`."""
        memory = self.positions[0](self.embeddings[0](source))
        for cell in self.encoder:
            memory = cell(memory, lengths)
        x = self.positions[1](self.embeddings[1](target))
        for cell in self.decoder:
            x = cell(x, memory, None, lengths)
        return self.scores(x)


def translate(net: Translator, source: np.ndarray, steps: int) -> np.ndarray:
    """Return the likeliest word at each step, given the ones before."""
    inputs, lengths = nd.array(source, dtype="int32"), (source != PADDING).sum(axis=1)
    lengths = nd.array(lengths, dtype="int32")
    words = np.full((len(source), steps + 1), PADDING, "int32")
    words[:, 0] = BEGIN
    for step in range(steps):
        scores = net(inputs, lengths, nd.array(words[:, :steps], dtype="int32"))
        words[:, step + 1] = scores[:, step].asnumpy().argmax(axis=1)
    return words[:, 1:]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=3000, help="sentences of the corpus")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a small corpus and network")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the loss")
    args = parser.parse_args()
    largest = 10000
    if args.smoke:
        args.numbers, args.units, args.layers, args.epochs, largest = 600, 32, 1, 12, 1000
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    numbers = np.random.permutation(np.arange(1, largest))[: args.numbers]
    sources, targets = [english(n) for n in numbers], [german(n) for n in numbers]
    source_words, target_words = Vocabulary(sources), Vocabulary(targets)
    source, target = source_words.encode(sources), target_words.encode(targets)
    held_out = len(source) // 10
    net = Translator(len(source_words.words), len(target_words.words), args.units, args.layers)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    steps = args.epochs * (len(source) - held_out) // 32
    schedule = mx.lr_scheduler.CosineScheduler(steps, args.lr, warmup_steps=steps // 20)
    trainer = gluon.Trainer(
        net.collect_params(),
        "adam",
        {"lr_scheduler": schedule, "learning_rate": args.lr},
        clip_global_norm=1.0,
    )
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    dataset = gluon.data.ArrayDataset(source[held_out:], target[held_out:])
    losses = []
    for epoch in range(args.epochs):
        total = 0.0
        batches = gluon.data.DataLoader(dataset, 32, shuffle=True, last_batch="discard")
        for x, y in batches:
            lengths, labels = (x != PADDING).sum(axis=1), y[:, 1:]
            weight = (labels != PADDING).astype("float32").expand_dims(2)
            with autograd.record():
                loss = loss_function(net(x, lengths, y[:, :-1]), labels, weight)
            loss.backward()
            trainer.step(x.shape[0])
            total += loss.mean().asscalar()
        losses.append(total / len(batches))
        print(f"epoch {epoch}: loss {losses[-1]:.4f}", flush=True)

    answers = translate(net, source[:held_out], target.shape[1] - 1)
    pairs = [
        (target_words.decode(row), " ".join(words))
        for row, words in zip(answers, targets[:held_out])
    ]
    right = float(np.mean([answer == truth for answer, truth in pairs]))
    for (answer, truth), words in list(zip(pairs, sources))[:3]:
        mark = "" if answer == truth else f"  (right: {truth})"
        print(f"{' '.join(words)} -> {answer}{mark}")
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 2.5))
        axes.semilogy(losses)
        axes.set(xlabel="epoch", ylabel="loss", title=f"{right:.1%} translated without error")
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print(f"translated without error: {right:.3f}")
    return 0 if right > (0.3 if args.smoke else 0.95) else 1


if __name__ == "__main__":
    sys.exit(main())
