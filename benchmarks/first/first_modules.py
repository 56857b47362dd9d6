"""The language model of the benchmark as a module of PyTorch; pickles of it name this file."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    """Words of shape (length, batch) to scores of the next words.

    Parameters
    ----------
    words, units, layers : int
        Size.
    """

    def __init__(self, words, units, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, units)
        self.lstm = nn.LSTM(units, units, layers)
        self.dense = nn.Linear(units, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores of shape (length, batch, words)."""
        return self.dense(self.lstm(self.embedding(x))[0])


def mxnet_name(name):
    """Return the name in Gluon's file of a parameter of :class:`LanguageModel`."""
    part, _, kind = name.partition(".")
    if part != "lstm":
        return f"{'embedding dense'.split().index(part) * 2}.{kind}"
    kind, gates, layer = kind.split("_")
    return f"1._unfused.{layer[1:]}.{'i2h' if gates == 'ih' else 'h2h'}_{kind}"
