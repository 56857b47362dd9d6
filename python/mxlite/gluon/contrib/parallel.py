"""Layers whose parameters are divided among processes (``mx.gluon.contrib.parallel``)."""

from __future__ import annotations

from ...parallel.layers import (
    ColumnParallelDense,
    RowParallelDense,
    VocabParallelEmbedding,
    VocabParallelSoftmaxCELoss,
)

__all__ = [
    "ColumnParallelDense",
    "RowParallelDense",
    "VocabParallelEmbedding",
    "VocabParallelSoftmaxCELoss",
]
