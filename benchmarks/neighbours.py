"""Other programs on the machine: busy processes beside a measurement."""

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
        How many; each computes on one core without a pause and touches little memory.
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
