"""Errors of the workers of a DataLoader."""

from __future__ import annotations

from ...base import MXNetError

__all__ = ["WorkerDiedError", "WorkerError", "WorkerTimeoutError"]


class WorkerError(MXNetError):
    """A worker failed with something that cannot be raised again here."""


class WorkerDiedError(MXNetError):
    """The process of a worker is gone or stopped."""


class WorkerTimeoutError(MXNetError, TimeoutError):
    """A worker did not deliver its batch in time."""

    def __init__(self, worker: str, timeout: float) -> None:
        super().__init__(
            f"DataLoader: {worker} did not deliver its batch within {timeout} seconds; make the "
            "data set faster or timeout longer"
        )
