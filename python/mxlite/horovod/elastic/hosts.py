"""Determines how many processes a job should have, and the command of a new process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from ... import ndarray as nd
from ...base import ValueError_
from ...comm import basics
from ...comm.job import JOB
from ..mpi_ops import Max, allreduce
from .errors import HostsUpdatedInterrupt

_POLL_SECONDS = 1.0
_SCRIPT_SECONDS = 60.0
_RETRY_SECONDS = 10.0


class Settings:
    """Options of `mxlite-run --elastic`, read from the environment variables that it sets."""

    def __init__(self) -> None:
        self.least = _whole("MXLITE_ELASTIC_MIN", 1)
        # Maximum number of processes. If it is 0, a job with a script has as many processes as the
        # script's hosts have slots, and a job without a script never starts further processes.
        self.most = _whole("MXLITE_ELASTIC_MAX", 0)
        self.timeout = _seconds("MXLITE_ELASTIC_TIMEOUT", 600.0)
        self.start_timeout = _seconds("MXLITE_ELASTIC_START_TIMEOUT", 60.0)
        # Maximum number of resets; 0 for no limit.
        self.resets = _whole("MXLITE_ELASTIC_RESET_LIMIT", 0)
        self.script = os.environ.get("MXLITE_ELASTIC_DISCOVERY", "")
        self.status = os.environ.get("MXLITE_ELASTIC_STATUS", "")


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text or default)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError_(
            f"environment variable {name} must be a number of seconds above 0, got {text!r}"
        )
    return value


def _whole(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if text and not text.isdigit():
        raise ValueError_(f"environment variable {name} must be a whole number, got {text!r}")
    return int(text or default)


_settings: Settings | None = None


def settings() -> Settings:
    """Return the settings, read once."""
    global _settings
    if _settings is None:
        _settings = Settings()
    return _settings


def command() -> list[str]:
    """Return the command line of this process, with which new processes are started."""
    words = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    return [os.fsdecode(word) for word in words]


class _Discovery:
    """Runs the host discovery script periodically, on rank 0."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._slots: int | None = None
        self._complained = False
        threading.Thread(target=self._ask, name="mxlite-hosts", daemon=True).start()

    def slots(self) -> int | None:
        """Return the number of slots in the script's last output, or None before the first."""
        return self._slots

    def _ask(self) -> None:
        while True:
            try:
                answer = subprocess.run(
                    self._script,
                    shell=True,
                    capture_output=True,
                    text=True,
                    timeout=_SCRIPT_SECONDS,
                    check=True,
                ).stdout
                self._slots = sum(_slots_of(line) for line in answer.splitlines() if line.strip())
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                if not self._complained:
                    print(f"mxlite: --host-discovery-script {self._script}: {error}", flush=True)
                self._complained = True
            time.sleep(_POLL_SECONDS)


def _slots_of(line: str) -> int:
    """Return the slots of a line ``host:slots``."""
    _, separator, count = line.strip().partition(":")
    if separator and not count.isdigit():
        raise ValueError_(f"host must have the form host:slots, got {line.strip()!r}")
    return int(count) if separator else 1


class _Wish:
    """Desired number of processes, on rank 0."""

    discovery: _Discovery | None = None
    tried = 0.0  # time at which processes were started last


def wanted_processes() -> int:
    """Return how many processes the job should have now; only the result on rank 0 is used."""
    known = settings()
    if not known.script:
        return known.most
    if _Wish.discovery is None:
        _Wish.discovery = _Discovery(known.script)
    slots = _Wish.discovery.slots()
    return basics.size() if slots is None else min(slots, known.most or slots)


def note_start() -> None:
    """Record that processes were started, so that the next attempt is delayed."""
    _Wish.tried = time.monotonic()


def check_updates() -> None:
    """Raise on all ranks if rank 0 wants more processes; has no cost if the job is full."""
    known = settings()
    if not basics.is_initialized() or not (known.script or basics.size() < known.most):
        return
    more = 0
    if basics.rank() == 0 and time.monotonic() - _Wish.tried > _RETRY_SECONDS:
        more = int(wanted_processes() > basics.size())
    flag: Any = nd.array([more], dtype="int32")
    if int(allreduce(flag, op=Max, name="elastic.hosts").asscalar()):
        raise HostsUpdatedInterrupt()


def tell_success() -> None:
    """Report to `mxlite-run` that the training has succeeded although processes were lost."""
    folder = settings().status
    if folder and not JOB.failed:
        with contextlib.suppress(OSError):
            Path(folder, f"done.{os.getpid()}").touch()
