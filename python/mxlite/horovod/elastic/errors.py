"""Exceptions after which `run` continues a training."""

from __future__ import annotations

from ...base import CommunicatorError


class HorovodInternalError(CommunicatorError):
    """The job has lost a process; `run` continues from the last commit.

    Scripts may raise it themselves, on all ranks. `run` raises it when the job cannot continue.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """Processes are waiting to join the job; `run` continues from the current state.

    Parameters
    ----------
    skip_sync : bool
        Whether all ranks already have the same state, and no new rank joins.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync
