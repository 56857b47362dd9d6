"""Layer normalization of positions that are divided among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...comm.groups import group_of
from ...gluon.nn.norm_layers import LayerNorm
from ...ndarray import NDArray
from .shards import entering

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["SequenceParallelLayerNorm"]


class SequenceParallelLayerNorm(LayerNorm):
    """`gluon.nn.LayerNorm` of which each rank of a process set computes a part of the positions.

    Gradients of ``gamma`` and ``beta`` are summed over the ranks.

    Parameters
    ----------
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    in_channels : int
        Size of the last axis; 0 takes it from the first input.
    epsilon : float

    Notes
    -----
    Input and output: this rank's part, ``(..., in_channels)``.
    """

    def __init__(
        self,
        process_set: Any = None,
        in_channels: int = 0,
        epsilon: float = 1e-5,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(epsilon=epsilon, in_channels=in_channels, **kwargs)
        self._group = group_of(type(self).__name__, process_set)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> NDArray:  # noqa: N803
        """Normalize this rank's positions."""
        gamma, beta = (entering(F, array, self._group) for array in (gamma, beta))
        return super().hybrid_forward(F, data, gamma, beta)
