"""Interruptions of a training, after which `run` continues it."""

from __future__ import annotations

from ...base import CommunicatorError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]


class HorovodInternalError(CommunicatorError):
    """The job has lost a process; `run` continues from the last commit.

    Scripts may raise it themselves, on all ranks. `run` raises it when the job cannot continue.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """The job gets more processes; `run` continues from the current state.

    Parameters
    ----------
    skip_sync : bool
        Whether all ranks have the same state already, and no new one joins.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync
