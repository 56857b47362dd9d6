"""Start a job of several processes: ``mxlite-run -np 4 python train.py``.

Finds Open MPI's ``mpirun``, passes the options of its version, shares the cores
among the processes of a host, and passes Horovod's settings on.
"""

from __future__ import annotations

from .launch import main, mpirun_command, run

__all__ = ["main", "mpirun_command", "run"]
