"""Error classes (MXNet 1.x: ``mxnet.error``)."""

from __future__ import annotations

from ..base import MXNetError, error_types, register_error

__all__ = ["InternalError", "MXNetError", "register"]

register = register_error


class InternalError(MXNetError):
    """An internal error; please report it."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


error_types["InternalError"] = InternalError
