"""Import the modules of an example: several examples have modules of the same name, as `train`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

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
