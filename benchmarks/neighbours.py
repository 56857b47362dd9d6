"""Busy processes, which run next to a measurement."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep busy processes running.

    Parameters
    ----------
    count : int
        Number of processes; each keeps one core busy and uses little memory.
    """
    command = [sys.executable, "-S", "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
