"""Self-attention whose heads are divided among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import ShapeError
from ...comm.groups import group_of
from ...gluon.block import HybridBlock
from ...ndarray import NDArray
from .dense import RowParallelDense
from .shards import entering, shard_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["ParallelSelfAttention"]


class ParallelSelfAttention(HybridBlock):
    """Attention of the positions of a sequence to each other; each rank computes some heads.

    Input and output are the same on all ranks, unless ``sequence_axis`` divides them.

    Parameters
    ----------
    units : int
        Features of a position, a multiple of ``num_heads``.
    num_heads : int
        A multiple of the number of ranks.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    causal : bool
        Whether a position attends to itself and earlier ones only.
    dropout : float
        Share of the attention weights that become 0 in training.
    sequence_axis : int, optional
        1: input and output are this rank's part of the positions (sequence parallelism).
    weight_initializer, proj_initializer : Initializer or str, optional
        Initializers of the weights before and after the attention.

    Raises
    ------
    ShapeError
        If the heads do not divide evenly among the ranks, or the units among the heads.

    Notes
    -----
    ``qkv_weight`` has the shape ``(3, units, units)``: rows of queries, of keys, of values. It is
    sharded along axis 1, as is ``qkv_bias`` of shape ``(3, units)``. Input and output
    ``(batch, length, units)``.
    """

    def __init__(
        self,
        units: int,
        num_heads: int,
        process_set: Any = None,
        *,
        causal: bool = False,
        dropout: float = 0.0,
        sequence_axis: int | None = None,
        weight_initializer: Any = None,
        proj_initializer: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        if num_heads < 1 or units % num_heads:
            raise ShapeError(
                f"{name}: units must be a multiple of num_heads, got {units} and {num_heads}"
            )
        self._group = group_of(name, process_set)
        self._heads = shard_sizes(name, "num_heads", num_heads, self._group, False)[0]
        self._units = self._heads * (units // num_heads)  # on this rank
        self._causal, self._dropout, self._sequence_axis = causal, dropout, sequence_axis
        with self.name_scope():
            for what, shape, init in (
                ("weight", (3, units, units), weight_initializer),
                ("bias", (3, units), "zeros"),
            ):
                param = self.params.get(
                    f"qkv_{what}", shape=shape, init=init, shard=(1, process_set)
                )
                param._same_loss = True
                setattr(self, f"qkv_{what}", param)
            self.proj = RowParallelDense(
                units,
                process_set,
                in_units=units,
                flatten=False,
                weight_initializer=proj_initializer,
                sequence_axis=sequence_axis,
                prefix="proj_",
            )

    def hybrid_forward(self, F: Any, x: Any, qkv_weight: Any, qkv_bias: Any) -> NDArray:  # noqa: N803
        """Compute this rank's heads, and sum their projections over the ranks."""
        qkv = F.FullyConnected(
            entering(F, x, self._group, self._sequence_axis),
            F.reshape(qkv_weight, shape=(-3, 0)),
            F.reshape(qkv_bias, shape=(-1,)),
            num_hidden=3 * self._units,
            flatten=False,
        )
        heads = F.transpose(F.reshape(qkv, shape=(0, 0, 3 * self._heads, -1)), axes=(0, 2, 1, 3))
        query, key, value = (
            F.slice_axis(heads, axis=1, begin=i * self._heads, end=(i + 1) * self._heads)
            for i in range(3)
        )
        mixed = F.contrib.dot_product_attention(
            query, key, value, causal=self._causal, dropout=self._dropout
        )
        mixed = F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
        return self.proj(mixed)
