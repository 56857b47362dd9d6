"""Layers whose parameters are divided among the ranks of a process set (tensor parallelism).

All ranks of the set call a layer with the same input and get the same output, unless the layer says
that one of them is a rank's shard. Gradients follow the same rule: what all ranks have has the same
gradient on all of them, so that a trainer sums gradients over the data-parallel ranks only.
"""

from __future__ import annotations

from .dense import ColumnParallelDense, RowParallelDense
from .embedding import VocabParallelEmbedding
from .loss import VocabParallelSoftmaxCELoss

__all__ = [
    "ColumnParallelDense",
    "RowParallelDense",
    "VocabParallelEmbedding",
    "VocabParallelSoftmaxCELoss",
]
