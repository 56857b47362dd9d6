"""Layers whose parameters are divided among the ranks of a process set (tensor parallelism).

All ranks of the set call a layer with the same input and get the same output, unless the layer is
documented to take or return shards. Gradients follow the same rule: an array that is equal on all
ranks has an equal gradient on them, so a trainer sums gradients over data-parallel ranks only.
"""

from __future__ import annotations

from .attention import ParallelSelfAttention
from .dense import ColumnParallelDense, RowParallelDense
from .embedding import VocabParallelEmbedding
from .loss import VocabParallelSoftmaxCELoss
from .norm import SequenceParallelLayerNorm
from .partial_fc import PartialFC
from .sharded_embedding import ShardedEmbedding

__all__ = [
    "ColumnParallelDense",
    "ParallelSelfAttention",
    "PartialFC",
    "RowParallelDense",
    "SequenceParallelLayerNorm",
    "ShardedEmbedding",
    "VocabParallelEmbedding",
    "VocabParallelSoftmaxCELoss",
]
