"""Libraries with additional operators (MXNet 1.x: ``mxnet.library``): not supported."""

from __future__ import annotations

from ..base import NotSupportedError

__all__ = ["load"]


def load(path: str, verbose: bool = True) -> None:
    """Raise for a library compiled against MXNet's C interface.

    Raises
    ------
    NotSupportedError
        Always; ``mx.operator.CustomOp`` is the way to add an operator.
    """
    raise NotSupportedError(
        f"library.load: {path!r}: libraries for MXNet's C interface cannot be loaded, "
        "write the operator as mx.operator.CustomOp"
    )
