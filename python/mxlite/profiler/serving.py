"""The profiler of a server's process, which workers control through their store."""

from __future__ import annotations

import json
import os
from typing import Any

from ..base import ValueError_
from . import control

_named = False  # whether this server's file name was set


def _own_name(rank: int, filename: str) -> str:
    """Return the path of the server's file; raise if it is outside the permitted folder."""
    folder, name = os.path.split(filename)
    home = os.path.realpath(os.environ.get("MXLITE_PS_PROFILE_DIR") or os.getcwd())
    target = os.path.realpath(os.path.join(home, folder))
    if target != home and not target.startswith(home.rstrip(os.sep) + os.sep):
        raise ValueError_(
            f"profiler: filename of the trace of server {rank} must be a path below {home!r} (the "
            f"server's working directory, or its MXLITE_PS_PROFILE_DIR), got {filename!r}"
        )
    return os.path.join(target, f"rank{rank}_{name}")


def obey(rank: int, name: str, text: str) -> None:
    """Run a profiler command from a worker."""
    global _named
    if name == "config":
        options: dict[str, Any] = json.loads(text)
    else:
        options = {**control.settings(), "filename": "profile.json"}
    if name == "config" or not _named:
        options["filename"] = _own_name(rank, options.get("filename", "profile.json"))
        control.set_config(**options)
        _named = True
    if name == "state":
        change = {"pause": control.pause, "resume": control.resume}.get(text)
        if change is None:
            control.set_state(text)
        else:
            change()
    elif name == "dump":
        # Every worker may send dump, but only the first command finds events to write.
        if not control.is_finished():
            control.dump(finished=text == "1")
    elif name != "config":
        raise ValueError_(f"profiler: command must be config, state or dump, got {name!r}")
