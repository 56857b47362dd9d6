"""BERT's encoder as users of MXNet 1.x write it, with the interleaved attention products.

The size is that of BERT-base. Arrays are (length, batch, units), as these products take them.
"""

from __future__ import annotations

from typing import Any

import mxlite as mx
from mxlite.gluon import nn
from mxlite.gluon.block import HybridBlock

VOCABULARY = 30522
EPSILON = 1e-12


class EncoderLayer(HybridBlock):
    """Self-attention and a feed-forward part, each with its residual and normalization.

    Parameters
    ----------
    units : int
        Features of a token.
    heads : int
        Attention heads.
    """

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units)
            self.project = nn.Dense(units, flatten=False, in_units=units)
            self.attention_norm = nn.LayerNorm(epsilon=EPSILON, in_channels=units)
            self.expand = nn.Dense(4 * units, flatten=False, in_units=units)
            self.activation = nn.GELU()
            self.contract = nn.Dense(units, flatten=False, in_units=4 * units)
            self.norm = nn.LayerNorm(epsilon=EPSILON, in_channels=units)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - name of 1.x
        """Return (length, batch, units) for the same shape."""
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self.heads)
        attention = F.softmax(scores, axis=-1)
        mixed = F.contrib.interleaved_matmul_selfatt_valatt(qkv, attention, heads=self.heads)
        x = self.attention_norm(x + self.project(mixed))
        return self.norm(x + self.contract(self.activation(self.expand(x))))


class Bert(HybridBlock):
    """Token ids of shape (batch, length) to the pooled first token of shape (batch, units).

    Parameters
    ----------
    layers, units, heads : int
        Size; the defaults are BERT-base's.
    length : int
        Tokens of a sequence.
    """

    def __init__(
        self, layers: int = 12, units: int = 768, heads: int = 12, length: int = 128
    ) -> None:
        super().__init__()
        with self.name_scope():
            self.embedding = nn.Embedding(VOCABULARY, units)
            self.positions = self.params.get("positions", shape=(length, units))
            self.norm = nn.LayerNorm(epsilon=EPSILON, in_channels=units)
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(EncoderLayer(units, heads))
            self.pooler = nn.Dense(units, flatten=False, in_units=units, activation="tanh")

    def hybrid_forward(self, F: Any, tokens: Any, positions: Any) -> Any:  # noqa: N803
        """Return the pooled first token."""
        x = self.embedding(F.transpose(tokens))
        x = self.norm(F.broadcast_add(x, F.expand_dims(positions, axis=1)))
        first = F.slice_axis(self.layers(x), axis=0, begin=0, end=1)
        return self.pooler(F.reshape(first, shape=(-3, 0)))


def bert_base(length: int) -> Bert:
    """Return BERT-base with random parameters, for sequences of so many tokens."""
    net = Bert(length=length)
    net.initialize(mx.init.Normal(0.02))
    return net
