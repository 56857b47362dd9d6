"""Time limit of the tests of a mutant: processor time, so that a busy machine makes no hangs.

Waiting for ever takes no processor time, so a wall clock ends that.
"""

from __future__ import annotations

import signal

STOPPED = (signal.SIGXCPU, signal.SIGKILL)  # what ends a process at the limit of processor time
WAIT = 30  # seconds that a process may wait for one of processor time


def limit_for(seconds: float) -> int:
    """Return the limit for tests that take ``seconds`` of processor time without a mutant."""
    return int(20 + 4 * seconds)
