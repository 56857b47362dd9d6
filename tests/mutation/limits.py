"""Time limit of the tests of a mutant, in processor time, which a busy machine does not raise.

Endless waiting takes no processor time, so elapsed time is limited, too.
"""

from __future__ import annotations

import signal

# Signals that end a process at the limit of processor time.
STOPPED = (signal.SIGXCPU, signal.SIGKILL)
WAIT = 30  # seconds that a process may wait for one of processor time


def limit_for(seconds: float) -> int:
    """Return the limit for tests that take ``seconds`` of processor time without a mutant."""
    return int(20 + 4 * seconds)
