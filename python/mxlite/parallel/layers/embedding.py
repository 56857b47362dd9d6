"""Embedding whose rows are divided among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._typed_init import check_sizes
from ...comm.groups import group_of
from ...gluon.block import HybridBlock
from ...ndarray import NDArray
from .shards import shard_sizes, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["VocabParallelEmbedding"]


class VocabParallelEmbedding(HybridBlock):
    """Rows of a matrix chosen by index; each rank of a process set has a shard of the rows.

    Input and output are the same on all ranks, unless ``sequence_axis`` divides the output. The
    sizes of the shards differ by one at most.

    The weight has the shape ``(input_dim, output_dim)`` and is sharded along axis 0. Output
    ``x.shape + (output_dim,)``.

    Parameters
    ----------
    input_dim : int
        Number of rows of the whole matrix, at least one for each rank. Indices outside of it are
        clipped, as in `gluon.nn.Embedding`.
    output_dim : int
        Length of each row of the weight.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    dtype : str or numpy type
    weight_initializer : Initializer or str, optional
    sequence_axis : int, optional
        The output is this rank's part along this axis (sequence parallelism), which must divide
        evenly.
    """

    _node_op = "embedding"

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        process_set: Any = None,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sequence_axis: int | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        check_sizes(name, 1, input_dim=input_dim, output_dim=output_dim)
        self._input_dim = input_dim
        self._output_dim = output_dim
        self._dtype = dtype
        self._sequence_axis = sequence_axis
        self._group = group_of(name, process_set)
        sizes = shard_sizes(name, "input_dim", input_dim, self._group, allow_uneven=True)
        self._begin = sum(sizes[: self._group.index])
        self._size = sizes[self._group.index]
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(input_dim, output_dim),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
                shard=(0, process_set),
                allow_uneven=True,
            )
            self.weight._same_loss = self.weight._graph_of_rank = True

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> NDArray:  # noqa: N803
        """Look up the rows that this rank has, and sum over ranks."""
        row = F.clip(F.cast(x, dtype="int64"), 0, self._input_dim - 1) - self._begin
        own = (row >= 0) * (row < self._size)
        rows = F.Embedding(
            row, weight, input_dim=self._size, output_dim=self._output_dim, dtype=self._dtype
        )
        # Uses where() instead of a product with the mask, so that NaN in other rows has no effect.
        flat = F.reshape(rows, shape=(-1, self._output_dim))
        flat = F.where(F.reshape(own, shape=(-1,)), flat, F.zeros_like(flat))
        return summed(F, F.reshape_like(flat, rows), self._group, self._sequence_axis)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._input_dim} -> {self._output_dim}, {self._dtype}, "
            f"rank {self._group.index} of {self._group.size})"
        )
