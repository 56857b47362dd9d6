"""Programs that tests run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxlite as mx


def run_python(
    *arguments: object, ok: bool = True, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run Python with the arguments; options in capital letters are environment variables.

    One of None removes the variable. With ok the program must succeed.
    """
    names = [name for name in options if name.isupper()]
    chosen = {name: options.pop(name) for name in names}
    environment = {**os.environ, "PYTHONPATH": str(Path(mx.__file__).parents[1]), **chosen}
    environment = {name: str(value) for name, value in environment.items() if value is not None}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        **{"timeout": 120, **options},
    )
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done
