"""Run a script for MXNet 1.x: ``python -m mxlite.compat script.py args...``.

``-m module args...`` and ``-c code args...`` work as with ``python``.
"""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from types import ModuleType, TracebackType

from . import install

_USAGE = "usage: python -m mxlite.compat (script.py | -m module | -c code) [arguments...]"


def _fresh_main(file: str | None) -> ModuleType:
    """Create a new module __main__, like the interpreter at start-up."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if file is not None:
        main.__dict__.update(__file__=file, __cached__=None)
    sys.modules["__main__"] = main
    return main


def _set_first_path(folder: str) -> None:
    """Replace the entry of sys.path that ``-m`` has inserted first, unless Python runs with -P."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run_script(script: str) -> None:
    """Run a file as __main__."""
    if os.path.isdir(script) or script.endswith((".zip", ".pyz")):
        runpy.run_path(script, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(script)) as file:
            source = file.read()
    except OSError as error:
        print(
            f"python -m mxlite.compat: can't open file {script!r}: "
            f"[Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    _set_first_path(os.path.dirname(os.path.realpath(script)))
    main = _fresh_main(script)
    exec(compile(source, script, "exec"), main.__dict__)


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that starts in the user's code."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace


def main() -> None:
    """Install the import alias and run the script or module of the command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    first, rest = arguments[0], arguments[1:]
    if first.startswith("-") and first not in ("-m", "-c"):
        print(f"python -m mxlite.compat: unknown option {first}\n{_USAGE}", file=sys.stderr)
        raise SystemExit(2)
    if first in ("-m", "-c") and not rest:
        print(f"python -m mxlite.compat: {first} needs an argument\n{_USAGE}", file=sys.stderr)
        raise SystemExit(2)
    install()
    try:
        if first == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *rest[1:]]
            _set_first_path("")
            exec(compile(rest[0], "<string>", "exec"), _fresh_main(None).__dict__)
        else:
            sys.argv = arguments
            _run_script(first)
    except Exception as error:
        # Like the interpreter for an uncaught error, calls sys.excepthook, with only the user's
        # frames.
        trace = _without_our_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
