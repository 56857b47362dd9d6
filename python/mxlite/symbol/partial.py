"""Unknown dimensions, for shape rules written in Python."""

from __future__ import annotations

from typing import Any, Optional

Shape = Optional[tuple[int, ...]]  # -1 for an unknown dimension, None for an unknown shape


class _UnknownDim(int):
    """An unknown dimension that is passed to a shape rule; as in 1.x, its value is 0.

    Results of arithmetic with it are unknown, too. Ordering it raises an error, so that a rule that
    needs the dimension fails instead of taking a wrong branch.
    """

    def _unknown(self, *_: Any) -> _UnknownDim:
        return self

    def _undecided(self, other: Any) -> bool:
        raise ValueError(f"a dimension that is not known yet is compared with {other}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = _unknown
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _unknown  # type: ignore[assignment]
    __round__ = __ceil__ = __floor__ = _unknown
    __lt__ = __le__ = __gt__ = __ge__ = _undecided


UNKNOWN = _UnknownDim()


def may_equal(a: Shape, b: Shape) -> bool:
    """Return whether two shapes are equal in all dimensions that both know."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(m == n or -1 in (m, n) for m, n in zip(a, b))
