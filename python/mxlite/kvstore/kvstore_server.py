"""Runs a server or the scheduler of a job when its process imports mxlite, then exits."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import _core
from ..base import MXNetError
from ..profiler.serving import obey

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """A server or the scheduler of a job, according to ``DMLC_ROLE``.

    Parameters
    ----------
    kvstore : object, optional
        Accepted, as in 1.x, and ignored: the values are stored in the C++ core.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStoreServer``. Optimizers are received as names and numbers; no
    received code is run.
    """

    def __init__(self, kvstore: Any = None) -> None:
        self.kvstore = kvstore

    def run(self) -> None:
        """Serve until all workers have left.

        Raises
        ------
        ValueError
            If a variable of the job is missing or wrong.
        MXNetError
            If other processes of the job cannot be reached, or one of them is lost.
        """
        _core.run_server_role(os.environ.get("DMLC_ROLE", "server"), profile=obey)


def _init_kvstore_server_module() -> None:
    """Serve and then exit, if this process is a server or the scheduler."""
    role = os.environ.get("DMLC_ROLE")
    if role in ("server", "scheduler"):
        try:
            KVStoreServer().run()
        except MXNetError as error:
            print(f"mxlite {role}: {error}", file=sys.stderr, flush=True)
            sys.exit(1)
        sys.exit()
