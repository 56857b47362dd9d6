"""Accuracy of small trained networks before and after quantization to int8.

    python benchmarks/learning/int8_accuracy.py --json out.json

Two networks learn scikit-learn's digits, and a BERT of two layers tells documentation strings of
three installed packages apart. Ranges come from training data, accuracies from other data.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mxlite as mx
from command_line import add_options
from common import report, table, write_json
from mxlite import autograd, gluon
from mxlite.contrib import quantization
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn.transformer import BERTClassifier, BERTModel
from mxlite.gluon.model_zoo.vision import BasicBlockV1, ResNetV1

PACKAGES = ("numpy", "scipy", "sklearn")
TEXTS = 1000  # texts of each package
WORDS, LENGTH = 8192, 48
MODES = ("naive", "entropy")
Data = tuple[np.ndarray, np.ndarray]


def digits() -> Data:
    """Return 1797 images of 8 x 8 pixels and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.images[:, None] / 16).astype(np.float32), found.target.astype(np.float32)


def documentation() -> Data:
    """Return the first words of documentation strings as numbers, and the packages."""
    rows, labels = [], []
    for label, package in enumerate(PACKAGES):
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        texts: set[str] = set()
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    text = ast.get_docstring(node) or ""
                    # Removes the names of the packages, because they would reveal the class.
                    texts.add(re.sub("|".join(PACKAGES), "", text.lower())[:1000])
            if len(texts) > 2 * TEXTS:
                break
        chosen = [words for t in sorted(texts) if len(words := re.findall(r"[a-z]+", t)) >= 8]
        order = np.random.RandomState(0).permutation(len(chosen))[:TEXTS]
        for i in order:
            numbers = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in chosen[i][:LENGTH]]
            rows.append(numbers + [0] * (LENGTH - len(numbers)))
            labels.append(label)
    return np.array(rows, np.float32), np.array(labels, np.float32)


def convolutional() -> gluon.HybridBlock:
    """Return two convolutions and two linear layers."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D())
    net.add(nn.Conv2D(32, 3, padding=1, activation="relu"), nn.Flatten())
    net.add(nn.Dense(64, activation="relu"), nn.Dense(10))
    return net


def residual() -> gluon.HybridBlock:
    """Return a ResNet of eight layers for small images."""
    return ResNetV1(BasicBlockV1, [1, 1, 1], [16, 16, 32, 64], classes=10, thumbnail=True)


def bert() -> gluon.HybridBlock:
    """Return a classifier on a BERT of two layers."""
    model = BERTModel(WORDS, 64, 256, 2, 2, max_length=LENGTH)
    return BERTClassifier(model, num_classes=len(PACKAGES))


NETWORKS: dict[str, tuple[Callable[[], gluon.HybridBlock], Callable[[], Data], int, float]] = {
    "digits, convolutions": (convolutional, digits, 12, 2e-3),
    "digits, ResNet-8": (residual, digits, 12, 2e-3),
    "texts, bert_2_64_2": (bert, documentation, 6, 1e-3),
}


def percent(net: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Return how many of a hundred samples are classified correctly."""
    parts = [mx.nd.array(x[i : i + 100]) for i in range(0, len(x), 100)]
    found = np.concatenate([net(part).argmax(axis=1).asnumpy() for part in parts])
    return 100 * float((found == y).mean())


def accuracies(name: str) -> dict[str, Any]:
    """Train a network; return its accuracies on a quarter of the data that it has not seen."""
    make, read, epochs, rate = NETWORKS[name]
    x, y = read()
    order = np.random.RandomState(1).permutation(len(x))
    x, y, split = x[order], y[order], len(x) * 3 // 4
    mx.random.seed(1)
    np.random.seed(1)
    net = make()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": rate})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    train = gluon.data.ArrayDataset(x[:split], y[:split])
    for _ in range(epochs):
        for data, label in gluon.data.DataLoader(train, 50, shuffle=True):
            with autograd.record():
                value = loss(net(data), label)
            value.backward()
            trainer.step(len(data))
    row: dict[str, Any] = {"network": name, "samples": len(x) - split}
    row["float32"] = percent(net, x[split:], y[split:])
    batches = [mx.nd.array(x[i : i + 50]) for i in range(0, 400, 50)]
    for mode in MODES:
        quantized = quantization.quantize_net_v2(
            net, quantize_mode="smart", quantize_granularity="channel-wise",
            calib_data=batches, calib_mode=mode,
        )  # fmt: skip
        quantized.hybridize(static_alloc=True)
        row[mode] = percent(quantized, x[split:], y[split:])
    return row


def main() -> None:
    """Print the table and write the file that the command line names."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(line, "json")
    options = line.parse_args()
    rows = [accuracies(name) for name in NETWORKS]
    kinds = ("float32", *MODES)
    cells = [
        [row["network"], str(row["samples"]), *(f"{row[k]:.2f} %" for k in kinds)] for row in rows
    ]
    print(table(["network", "samples", *kinds], cells))
    if options.json:
        write_json(options.json, report("int8_accuracy", {"networks": list(NETWORKS)}, rows))


if __name__ == "__main__":
    main()
