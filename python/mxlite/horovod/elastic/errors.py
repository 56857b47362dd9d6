"""What interrupts a training that `run` then takes up again."""

from __future__ import annotations

from ...base import CommunicatorError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]


class HorovodInternalError(CommunicatorError):
    """The job has lost a process; `run` goes on from the last commit.

    Scripts may raise it themselves, on all ranks. It leaves `run` when the job cannot go on.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """The job gets more processes; `run` goes on where the training is.

    Parameters
    ----------
    skip_sync : bool
        Whether all ranks have the same state already, and no new one joins.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync
