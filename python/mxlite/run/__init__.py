"""Start a job of several processes: ``mxlite-run -np 4 python train.py``.

Finds Open MPI's ``mpirun``, passes the options for its version, divides the cores
of a host among its processes, and forwards Horovod's settings.
"""

from __future__ import annotations

from .launch import main, mpirun_command, run

__all__ = ["main", "mpirun_command", "run"]
