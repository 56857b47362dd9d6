"""Errors of the workers of a DataLoader."""

from __future__ import annotations

from ...base import MXNetError

__all__ = ["WorkerDiedError", "WorkerError", "WorkerTimeoutError"]


class WorkerError(MXNetError):
    """A worker raised an exception that cannot be sent to this process."""


class WorkerDiedError(MXNetError):
    """The process of a worker has ended or is stopped."""


class WorkerTimeoutError(MXNetError, TimeoutError):
    """A worker did not deliver its batch in time."""

    def __init__(self, worker: str, timeout: float) -> None:
        super().__init__(
            f"DataLoader: {worker} did not deliver its batch within {timeout} seconds; make the "
            "data set faster or timeout longer"
        )
