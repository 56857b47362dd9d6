"""The main program of the processes of `mxlite.horovod.run`; it runs the caller's function."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from multiprocessing import spawn
from multiprocessing.connection import Client

from ..base import MXNetError
from .runner import ADDRESS, KEY, packed
from .secret_channel import Channel

_FIRST_WORD_SECONDS = 60.0


def main() -> None:
    """Receive the function from the caller, run it, and send back its result or exception."""
    host, _, port = os.environ.pop(ADDRESS).rpartition(":")
    key = bytes.fromhex(os.environ.pop(KEY))
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    with Client((host, int(port))) as connection:
        channel = Channel(connection, key, "task", _FIRST_WORD_SECONDS)
        channel.send(rank.to_bytes(4, "big"))
        # Unpickling is safe, because only the caller has the key, and the call is the user's own
        # program.
        path, preparation, call = pickle.loads(channel.receive())
        try:
            sys.path[:] = path
            spawn.prepare(preparation)
            function, args, kwargs = pickle.loads(call)
            answer = (True, packed(function(*args, **kwargs))[0])
        except BaseException as error:
            if isinstance(error, SystemExit) and error.code in (None, 0):
                error = MXNetError("the function called sys.exit")
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            channel.send(pickle.dumps((False, text)))
            raise
        channel.send(pickle.dumps(answer))


if __name__ == "__main__":
    main()
