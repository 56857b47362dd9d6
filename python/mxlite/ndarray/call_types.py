"""Argument types that many functions of mx.nd share; used only in annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Union

from ..context import Context

if TYPE_CHECKING:
    from .._core import NDArray

ContextLike = Union[Context, str, None]
ShapeLike = Union[int, Sequence[int]]


class NameOption(TypedDict, total=False):
    """The keyword ``name`` of symbols, which has no effect for arrays."""

    name: str | None


class CallOptions(NameOption, total=False):
    """Keywords that operators accept in addition to their parameters."""

    out: NDArray | Sequence[NDArray] | None
