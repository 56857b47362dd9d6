"""Options that several benchmarks have, each declared once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import usable_cores

_ROOT = Path(__file__).resolve().parents[1]

# Keywords of add_argument for each option. Scripts give the default if there is none here.
_OPTIONS: dict[str, dict[str, Any]] = {
    "clock": {
        "default": "wall",
        "choices": ["wall", "cpu"],
        "help": "cpu: seconds of all threads together; with --threads 1 fit for a busy machine",
    },
    "json": {"type": Path, "metavar": "FILE", "help": "write all figures to this file"},
    "mxnet-python": {
        "default": str(_ROOT / ".venv-mxnet" / "bin" / "python"),
        "help": "interpreter that has MXNet 1.9.1",
    },
    "np": {"type": int, "default": 2, "help": "processes: %(default)s"},
    "peers-python": {
        "default": str(_ROOT / ".venv-peers" / "bin" / "python"),
        "help": "interpreter that has PyTorch and the other peers",
    },
    "rounds": {"type": int, "help": "turns of each system: %(default)s"},
    "threads": {"type": int, "default": usable_cores(), "help": "threads: %(default)s"},
    "turn": {"type": float, "help": "seconds of a turn: %(default)s"},
}


def add_options(parser: argparse.ArgumentParser, *names: str, **defaults: Any) -> None:
    """Add options to a command line.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to which the options are added.
    *names : str
        Options with their common default: ``"json"``, ``"mxnet-python"``, ...
    **defaults
        Options with a default of this script, such as ``rounds=3``.

    Raises
    ------
    KeyError
        If there is no such option.
    """
    for name in names:
        dashes = "-" if name == "np" else "--"
        parser.add_argument(dashes + name, **_OPTIONS[name])
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", **{**_OPTIONS[name], "default": default})
