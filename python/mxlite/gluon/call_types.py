"""Types by which checkers know what a block's call returns: what its forward is declared to return.

Used in annotations only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

if TYPE_CHECKING:
    from .parameter import ParameterDict

__all__ = ["BlockOptions", "HasForward", "HasHybridForward", "ParallelDenseOptions"]

R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[R_co]):
    """A block whose ``forward`` returns ``R_co``."""

    @property
    def forward(self) -> Callable[..., R_co]:
        """The method."""


class HasHybridForward(Protocol[R_co]):
    """A block whose ``hybrid_forward`` returns ``R_co``."""

    @property
    def hybrid_forward(self) -> Callable[..., R_co]:
        """The method."""


class BlockOptions(TypedDict, total=False):
    """Keywords that every layer passes on to `Block`."""

    prefix: str | None
    params: ParameterDict | None


class ParallelDenseOptions(BlockOptions, total=False):
    """Keywords that both dense layers of `gluon.contrib.parallel` have."""

    activation: str | None
    use_bias: bool
    flatten: bool
    dtype: Any
    weight_initializer: Any
    bias_initializer: Any
    in_units: int
    allow_uneven: bool
