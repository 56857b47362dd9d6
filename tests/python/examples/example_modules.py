"""Import modules of the examples, several of which have one name, as `train`; run their scripts."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from processes import run_python

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load(example: str, *names: str) -> list[ModuleType]:
    """Import modules of an example's folder; later imports of their names do not find them."""
    folder = EXAMPLES / example
    own = {path.stem for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in own & set(sys.modules)}
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(folder))
        for name in own:
            sys.modules.pop(name, None)
        sys.modules.update(others)


def run_script(example: str, ranks: int, *arguments: object, ok: bool, timeout: float) -> str:
    """Run a script in its example's folder, which fails unless ``ok``; return its output."""
    launch = [] if ranks == 1 else ["-m", "mxlite.run", "-np", ranks, sys.executable]
    done = run_python(*launch, *arguments, ok=ok, cwd=EXAMPLES / example, timeout=timeout)
    output = done.stdout + done.stderr
    assert ok or done.returncode != 0, output
    return output
