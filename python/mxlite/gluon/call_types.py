"""Protocols for annotations: the return types of blocks, and members that modules use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

if TYPE_CHECKING:
    from .parameter import Parameter, ParameterDict

__all__ = ["BlockLike", "BlockOptions", "HasForward", "HasHybridForward", "ParallelDenseOptions"]

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


class BlockLike(Protocol):
    """The part of a block that modules below `Block` use."""

    _empty_prefix: bool

    @property
    def name(self) -> str:
        """See `Block`."""

    @property
    def prefix(self) -> str:
        """See `Block`."""

    @property
    def params(self) -> ParameterDict:
        """See `Block`."""

    @property
    def _children(self) -> Mapping[str, BlockLike]: ...

    @property
    def _reg_params(self) -> Mapping[str, Parameter]: ...

    def save_parameters(self, filename: str) -> None:
        """See `Block`."""

    def forward(self, *args: Any) -> Any:
        """See `Block`."""


class BlockOptions(TypedDict, total=False):
    """Keywords that every layer passes to `Block`."""

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
    sequence_axis: int | None
