"""Multi-head attention: the product, and layers with the projections before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....base import ShapeError, ValueError_
from ....block import HybridBlock
from ....nn.basic_layers import Dense
from .positions import places_along, rotate

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ....call_types import BlockOptions

__all__ = ["MultiHeadCrossAttention", "MultiHeadSelfAttention", "dot_product_attention"]

# Added to the scores of masked keys; becomes minus infinity in float16.
_HIDDEN = -1e30


def dot_product_attention(
    F: Any,  # noqa: N803 - name of 1.x
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    lengths: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Any:
    """Return ``softmax(query key^T * scale) value`` of each head.

    Parameters
    ----------
    F : module
        ``mx.nd`` or ``mx.sym``.
    query : NDArray or Symbol
        (batch, heads, query length, size).
    key, value : NDArray or Symbol
        (batch, heads, key length, size).
    mask : NDArray or Symbol, optional
        1 where a query attends to a key and 0 elsewhere, of a shape that broadcasts to
        (batch, heads, query length, key length).
    lengths : NDArray or Symbol, optional
        int32 of shape (batch,): later keys are padding, which no query attends to.
    causal : bool
        Query ``i`` attends to the keys up to ``i + key length - query length``.
    scale : float, optional
        ``1 / sqrt(size)`` by default.
    dropout : float
        Share of the weights that become 0 in training.

    Returns
    -------
    NDArray or Symbol
        (batch, heads, query length, size); rows of queries without keys are 0.
    """
    inputs = [query, key, value]
    if mask is not None:
        inputs.append(_added_to_scores(F, mask, query))
    if lengths is not None:
        inputs.append(F.cast(lengths, dtype="int32"))
    return F.contrib.dot_product_attention(
        *inputs,
        causal=causal,
        scale=scale,
        dropout=dropout,
        use_mask=mask is not None,
        use_length=lengths is not None,
    )


def _added_to_scores(F: Any, mask: Any, query: Any) -> Any:  # noqa: N803
    """Return 0 where the mask lets a query attend to a key, else `_HIDDEN`, in query's dtype."""
    zeros = F.sum(F.zeros_like(query), axis=(1, 2, 3), keepdims=True)
    shape = F.broadcast_add(F.cast(mask, dtype="float32"), F.cast(zeros, dtype="float32"))
    zeros = F.broadcast_like(zeros, shape)
    # The mask gets no gradient, because the operator would have to keep all scores for it.
    return F.BlockGrad(F.where(F.broadcast_like(mask, shape), zeros, zeros + _HIDDEN))


def _checked_heads(label: str, units: int, heads: int) -> None:
    if heads < 1 or units % heads:
        raise ValueError_(
            f"{label}: units must be a multiple of num_heads, got units {units} and num_heads "
            f"{heads}"
        )


def _split(F: Any, projected: Any, parts: int, heads: int) -> list[Any]:  # noqa: N803
    """Split (batch, length, parts * units) into ``parts`` arrays (batch, heads, length, size)."""
    x = F.reshape(projected, shape=(0, 0, -4, parts * heads, -1))
    x = F.transpose(x, axes=(0, 2, 1, 3))
    return [F.slice_axis(x, axis=1, begin=i * heads, end=(i + 1) * heads) for i in range(parts)]


def _merge(F: Any, mixed: Any) -> Any:  # noqa: N803
    """Turn (batch, heads, length, size) into (batch, length, units)."""
    return F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))


class MultiHeadSelfAttention(HybridBlock):
    """Self-attention: each position of a sequence attends to all positions of the sequence.

    ``qkv.weight`` holds the rows of the queries, then those of the keys, then those of the values,
    each with the heads one after another.

    Parameters
    ----------
    units : int
        Features of a position, a multiple of ``num_heads``.
    num_heads : int
    dropout : float
        Share of the attention weights that become 0 in training.
    causal : bool
        Whether a position attends to itself and earlier ones only.
    rotary_base : float, optional
        Rotates queries and keys by their positions; 10000 is usual. None: no rotation.
    use_bias : bool
    """

    def __init__(
        self,
        units: int,
        num_heads: int,
        dropout: float = 0.0,
        causal: bool = False,
        rotary_base: float | None = None,
        use_bias: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        _checked_heads(type(self).__name__, units, num_heads)
        if rotary_base is not None and units // num_heads % 2:
            raise ValueError_(
                "MultiHeadSelfAttention: number of features of a head must be even for rotary "
                f"positions, got {units // num_heads}"
            )
        self._heads, self._dropout, self._causal = num_heads, dropout, causal
        self._size, self._rotary_base = units // num_heads, rotary_base
        with self.name_scope():
            self.qkv = Dense(3 * units, flatten=False, use_bias=use_bias, in_units=units)
            self.proj = Dense(units, flatten=False, use_bias=use_bias, in_units=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
        cache: Any = None,
    ) -> Any:
        """Return (batch, length, units), and the new cache if one is given.

        Parameters
        ----------
        F : module
        x : NDArray or Symbol
            (batch, length, units).
        lengths : NDArray or Symbol, optional
            (batch,): number of positions that are not padding. Not with a cache.
        mask : NDArray or Symbol, optional
            As in `dot_product_attention`.
        positions : NDArray or Symbol, optional
            float32 of shape (length,): positions of ``x`` in the sequence. Required with a cache,
            where they must be consecutive.
        cache : list of two NDArrays or Symbols, optional
            Keys and values of earlier positions, (batch, heads, longest length, size) each.
        """
        _check_units(self, x, self._heads * self._size)
        query, key, value = _split(F, self.qkv(x), 3, self._heads)
        if self._rotary_base is not None:
            places = places_along(F, x, 1) if positions is None else positions
            query, key = (rotate(F, p, places, self._size, self._rotary_base) for p in (query, key))
        if cache is None:
            mixed = dot_product_attention(
                F, query, key, value, mask, lengths, self._causal, None, self._dropout
            )
            return self.proj(_merge(F, mixed))
        if positions is None:
            raise ValueError_(
                "MultiHeadSelfAttention: with a cache, positions must be an array of shape "
                "(length,), got None"
            )
        if lengths is not None:
            raise ValueError_(
                "MultiHeadSelfAttention: with a cache, lengths must be None, got "
                f"{type(lengths).__name__}"
            )
        key = _with_new(F, cache[0], key, positions)
        value = _with_new(F, cache[1], value, positions)
        mixed = dot_product_attention(
            F, query, key, value, _seen(F, key, positions, mask), None, False, None, self._dropout
        )
        return self.proj(_merge(F, mixed)), key, value


def _with_new(F: Any, cached: Any, new: Any, positions: Any) -> Any:  # noqa: N803
    """Return the cached keys or values, with the new ones written at their positions."""
    # Keys of all sequences and heads are rows of one table; float64 is exact for their numbers.
    narrow = F.slice_axis(cached, axis=-1, begin=0, end=1)
    rows = F.contrib.arange_like(F.cast(F.reshape(narrow, shape=(-3, -3)), dtype="float64"))
    rows = F.cast(F.take(rows, positions, axis=1, mode="clip"), dtype="int64")
    table, values = (F.reshape(x, shape=(-1, 0), reverse=True) for x in (cached, new))
    return F.reshape_like(F.contrib.index_copy(table, F.reshape(rows, shape=(-1,)), values), cached)


def _seen(F: Any, key: Any, positions: Any, mask: Any) -> Any:  # noqa: N803
    """Return the mask for which a position attends to itself and earlier positions of the cache."""
    places = places_along(F, key, 2)
    rows = F.reshape(positions, shape=(1, 1, -1, 1))
    seen = F.broadcast_lesser_equal(F.reshape(places, shape=(1, 1, 1, -1)), rows)
    return seen if mask is None else F.broadcast_mul(seen, F.cast(mask, dtype="float32"))


class MultiHeadCrossAttention(HybridBlock):
    """Cross-attention: the positions of a sequence attend to those of an encoder's output.

    ``key_value.weight`` holds the rows of the keys, then those of the values.

    Parameters
    ----------
    units : int
        Features of a position of both, a multiple of ``num_heads``.
    num_heads : int
    dropout : float
        Share of the attention weights that become 0 in training.
    use_bias : bool
    """

    def __init__(
        self,
        units: int,
        num_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        _checked_heads(type(self).__name__, units, num_heads)
        self._heads, self._dropout, self._units = num_heads, dropout, units
        with self.name_scope():
            self.query = Dense(units, flatten=False, use_bias=use_bias, in_units=units)
            self.key_value = Dense(2 * units, flatten=False, use_bias=use_bias, in_units=units)
            self.proj = Dense(units, flatten=False, use_bias=use_bias, in_units=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        memory: Any,
        lengths: Any = None,
        mask: Any = None,
    ) -> Any:
        """Return (batch, length, units).

        Parameters
        ----------
        F : module
        x : NDArray or Symbol
            (batch, length, units).
        memory : NDArray or Symbol
            (batch, memory length, units).
        lengths : NDArray or Symbol, optional
            (batch,): number of positions of ``memory`` that are not padding.
        mask : NDArray or Symbol, optional
            As in `dot_product_attention`.
        """
        _check_units(self, x, self._units)
        _check_units(self, memory, self._units)
        (query,) = _split(F, self.query(x), 1, self._heads)
        key, value = _split(F, self.key_value(memory), 2, self._heads)
        mixed = dot_product_attention(
            F, query, key, value, mask, lengths, False, None, self._dropout
        )
        return self.proj(_merge(F, mixed))


def _check_units(block: HybridBlock, x: Any, units: int) -> None:
    """Raise ShapeError for an array that is not (batch, length, units); symbols have no shape."""
    shape = getattr(x, "shape", None)
    if shape is not None and (len(shape) != 3 or shape[2] != units):
        raise ShapeError(
            f"{type(block).__name__}: data must have shape (batch, length, {units}), got "
            f"{tuple(shape)}"
        )
