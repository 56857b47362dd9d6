"""Positions of tokens: a learned vector for each, or a rotation of queries and keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .....base import ShapeError
from ....block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ....call_types import BlockOptions

__all__ = ["LearnedPositions", "places_along", "rotate"]


class LearnedPositions(HybridBlock):
    """Adds a learned vector for each position.

    Parameters
    ----------
    max_length : int
        Number of positions.
    units : int
        Features of a position.
    """

    def __init__(self, max_length: int, units: int, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._max_length = max_length
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(max_length, units))

    def hybrid_forward(self, F: Any, x: Any, positions: Any = None, *, weight: Any) -> Any:  # noqa: N803
        """Return ``x`` of shape (batch, length, units) plus the vectors of its positions.

        Parameters
        ----------
        F : module
        x : NDArray or Symbol
        positions : NDArray or Symbol, optional
            (length,); 0, 1, 2, ... by default.
        weight : NDArray or Symbol
            (max_length, units).
        """
        shape = getattr(x, "shape", None)
        if shape is not None and shape[1] > self._max_length:
            raise ShapeError(
                f"{type(self).__name__}: number of tokens must be at most max_length = "
                f"{self._max_length}, got {shape[1]}; shorten the sequence or make the model with "
                "more positions"
            )
        if positions is None:
            vectors = F.slice_like(F.expand_dims(weight, axis=0), x, axes=(1,))
        else:
            vectors = F.expand_dims(F.take(weight, positions, axis=0), axis=0)
        return F.broadcast_add(x, vectors)


def places_along(F: Any, x: Any, axis: int) -> Any:  # noqa: N803
    """Return 0, 1, 2, ... along an axis that is not the last one, in float32.

    ``arange_like`` returns the dtype of its input, but float16 is exact only up to 2048.
    """
    narrow = F.slice_axis(x, axis=-1, begin=0, end=1)
    return F.contrib.arange_like(F.cast(narrow, dtype="float32"), axis=axis)


def rotate(F: Any, x: Any, positions: Any, size: int, base: float) -> Any:  # noqa: N803
    """Rotate pairs of features by angles proportional to the position (Su et al., 2021).

    Parameters
    ----------
    F : module
        ``mx.nd`` or ``mx.sym``.
    x : NDArray or Symbol
        (batch, heads, length, size): feature ``i`` of the first half forms a pair with feature
        ``i`` of the second half.
    positions : NDArray or Symbol
        (length,).
    size : int
        Features of a head, an even number.
    base : float
        Pair ``i`` rotates by ``position / base ** (2 * i / size)``.

    Returns
    -------
    NDArray or Symbol
        Has the shape and the dtype of ``x``.
    """
    half = size // 2
    pairs = F.arange(0, half, dtype="float32")
    rates = F.exp(pairs * (-2.0 * math.log(base) / size))
    places = F.reshape(F.cast(positions, dtype="float32"), shape=(-1, 1))
    angles = F.broadcast_mul(places, F.reshape(rates, shape=(1, -1)))
    angles = F.reshape(angles, shape=(1, 1, -1, half))
    # The widest dtype is float32, or float64 if `x` has it.
    wide, cosine, sine = F.amp_multicast(x, F.cos(angles), F.sin(angles), num_outputs=3)
    first = F.slice_axis(wide, axis=3, begin=0, end=half)
    second = F.slice_axis(wide, axis=3, begin=half, end=size)
    turned = F.concat(
        F.broadcast_mul(first, cosine) - F.broadcast_mul(second, sine),
        F.broadcast_mul(second, cosine) + F.broadcast_mul(first, sine),
        dim=3,
    )
    return F.amp_multicast(x, turned, num_outputs=2, cast_narrow=True)[1]
