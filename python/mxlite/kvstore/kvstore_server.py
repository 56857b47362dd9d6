"""Servers and the scheduler of a job: ``import mxlite`` in their processes serves and ends."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import _core
from ..base import MXNetError
from ..profiler.serving import obey

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """A server's or the scheduler's part of a job, as ``DMLC_ROLE`` says.

    Parameters
    ----------
    kvstore : object, optional
        Accepted, as in 1.x: a server's values are in the core.

    Notes
    -----
    Matches ``mxnet.kvstore.KVStoreServer``. Optimizers arrive as names and numbers; nothing that
    arrives is run.
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
            If the others cannot be reached, or one of them is lost.
        """
        _core.run_server_role(os.environ.get("DMLC_ROLE", "server"), profile=obey)


def _init_kvstore_server_module() -> None:
    """Serve and end the process, if it is a server's or the scheduler's."""
    role = os.environ.get("DMLC_ROLE")
    if role in ("server", "scheduler"):
        try:
            KVStoreServer().run()
        except MXNetError as error:
            print(f"mxlite {role}: {error}", file=sys.stderr, flush=True)
            sys.exit(1)
        sys.exit()
