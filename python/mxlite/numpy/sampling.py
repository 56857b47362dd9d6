"""The common part of samplers: check parameters; find shape, dtype and context of the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, TypeError_, ValueError_
from .arguments import broadcast_shape, default_dtype, from_host, shape_in, store
from .manipulation import expand_to
from .ndarray import as_np_ndarray, ndarray

_cast = _core.op("Cast")
_full = _core.op("_full")
_detach = _core.op("BlockGrad")

# Rules for parameters: the expected value in errors, and the condition.
NOT_NEGATIVE = ("at least 0", lambda x: x >= 0)
POSITIVE = ("above 0", lambda x: x > 0)
PROBABILITY = ("between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def _check(who: str, name: str, value: Any, rule: Any) -> None:
    """Raise if a parameter, or an element of it, is invalid; NaN is invalid."""
    expected, holds = rule
    if isinstance(value, ndarray):
        if value._traced:
            return  # a traced array has no values
        values = value.asnumpy()
    else:
        values = np.asarray(value)
    wrong = values[~holds(values)]
    if wrong.size:
        raise ValueError_(f"{who}: {name} must be {expected}, got {wrong.flat[0]}")


def _parameter(who: str, name: str, value: Any) -> Any:
    """Return a number or an np array."""
    if isinstance(value, ndarray):
        return value
    if isinstance(value, (int, float, np.generic)):
        return float(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return from_host(
            np.asarray(value, np.float32 if isinstance(value, (list, tuple)) else None), None
        )
    raise TypeError_(
        f"{who}: {name} must be a number or an mx.np array, got {type(value).__name__}"
    )


class Call:
    """The parameters of one call, and the shape, dtype and context of its result."""

    def __init__(
        self,
        who: str,
        params: dict[str, Any],
        rules: dict[str, Any],
        size: Any,
        dtype: Any,
        ctx: Any,
        out: Any,
        in_front: bool = False,
    ) -> None:
        self.who = f"random.{who}"
        self.out = out
        self.params = {name: _parameter(self.who, name, v) for name, v in params.items()}
        for name, rule in rules.items():
            _check(self.who, name, self.params[name], rule)
        arrays = [p for p in self.params.values() if isinstance(p, ndarray)]
        self.dtype = default_dtype(dtype)
        if out is not None and dtype is None:
            self.dtype = out.dtype
        self.ctx = arrays[0].ctx if arrays and ctx is None else ctx
        self.shape = self._shape([p.shape for p in arrays], size, in_front)

    def _shape(self, given: list[Any], size: Any, in_front: bool) -> tuple[int, ...]:
        own = broadcast_shape(given, self.who) if given else ()
        if size is None:
            return self.out.shape if self.out is not None and not given else own
        wanted = shape_in(size)
        if in_front:
            return wanted + own
        if given and broadcast_shape([own, wanted], self.who) != wanted:
            raise ShapeError(
                f"{self.who}: size must hold the parameters of shape {own}, got {wanted}"
            )
        return wanted

    def noise(self, op: Any) -> ndarray:
        """Return standard draws of the result's shape."""
        return as_np_ndarray(op(shape=self.shape, dtype=self.dtype, ctx=self.ctx))

    def values(self, detached: bool = False) -> list[Any]:
        """Return the parameters: numbers, and arrays in the result's dtype."""
        found = []
        for value in self.params.values():
            if isinstance(value, ndarray):
                value = _cast(value, dtype=self.dtype)
                found.append(_detach(value) if detached else value)
            else:
                found.append(value)
        return found

    def arrays(self) -> list[ndarray]:
        """Return the parameters as arrays of the result's shape, without gradient."""
        made = []
        for value in self.values(detached=True):
            if not isinstance(value, ndarray):
                value = as_np_ndarray(
                    _full(shape=self.shape, value=value, dtype=self.dtype, ctx=self.ctx)
                )
            made.append(expand_to(value, self.shape))
        return made

    def finish(self, result: Any) -> ndarray:
        """Return the result, in ``out`` if that is given."""
        return store(result, self.out, self.who)
