"""Jobs of a benchmark's own program, whose ``--worker`` measures as one of the ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Variables of ranks that have one core each.
ONE_CORE = {"MXLITE_CPU_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run_ranks(
    program: str,
    count: int,
    output: str | Path,
    options: list[str],
    environment: dict[str, str] = ONE_CORE,
    timeout: float = 3600,
    what: str = "",
) -> None:
    """Run a program as the ranks of a job.

    Parameters
    ----------
    program : str
        Gets ``--worker --output OUTPUT`` and the options.
    count : int
        Number of ranks.
    output : path
        File that the ranks write.
    options : list of str
    environment : dict of str
        Added to that of this process.
    timeout : float
        In seconds.
    what : str
        Begins the message of the error.

    Raises
    ------
    SystemExit
        If a rank fails; the message is the last output of the job.
    """
    command = [sys.executable, "-m", "mxlite.run", "-np", str(count), sys.executable, program]
    command += ["--worker", "--output", str(output), *options]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=timeout
    )
    if done.returncode:
        raise SystemExit(f"{what}{done.stdout[-3000:]}{done.stderr[-3000:]}")


def take_core() -> int:
    """Bind this rank to one core, which it shares with no other rank if there are enough cores.

    Returns
    -------
    int
        The rank.
    """
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))  # mxlite is not imported yet
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    return rank
