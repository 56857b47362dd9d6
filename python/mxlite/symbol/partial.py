"""Dimensions that are not known yet, for shape rules written in Python."""

from __future__ import annotations

from typing import Any, Optional

__all__ = ["UNKNOWN", "may_equal"]

Shape = Optional[tuple[int, ...]]  # -1: unknown dimension, None: unknown altogether


class _UnknownDim(int):
    """A dimension that a rule is given before it is known: 0, as 1.x writes it.

    What is computed from it is unknown, too. It cannot be ordered, so that a rule that has to know
    the dimension raises an error instead of taking one of two branches.
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
    """Say whether two shapes are equal, as far as they are known."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(m == n or -1 in (m, n) for m, n in zip(a, b))
