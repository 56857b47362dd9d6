"""The names of MXNet 1.9.1, module by module, and where mxlite has a module in another place."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["MOVED", "VERSION", "imports", "is_module", "module_paths", "old_path", "surface"]

VERSION = "1.9.1"

# Modules of 1.9.1 that mxlite divides otherwise: path in 1.9.1 -> path here.
MOVED = {
    "contrib.nd": "ndarray.contrib",
    "contrib.ndarray": "ndarray.contrib",
    "contrib.sym": "symbol.contrib",
    "contrib.symbol": "symbol.contrib",
    "contrib.quant": "contrib.quantization",
    "gluon.contrib.cnn.conv_layers": "gluon.contrib.cnn",
    "gluon.contrib.nn.basic_layers": "gluon.contrib.nn",
    "image.image": "image",
    "img": "image",
    "init": "initializer",
    "io.io": "io",
    "kv": "kvstore",
    "kvstore.kvstore": "kvstore",
    "mod": "module",
    "mon": "monitor",
    "nd": "ndarray",
    "opt": "optimizer",
    "rnd": "random",
    "sym": "symbol",
    "viz": "visualization",
}


_SURFACE = Path(__file__).resolve().parent / "surface_1_9_1.json"


@functools.cache
def surface() -> dict[str, dict[str, Any]]:
    """Return the public names of 1.9.1: {module: {name: entry}}.

    Returns
    -------
    dict
        See ``mxlite/_dev/dump_surface.py`` for the fields of an entry.
    """
    found: dict[str, dict[str, Any]] = json.loads(_SURFACE.read_text())
    return found


@functools.cache
def module_paths() -> list[str]:
    """Return the paths of 1.9.1's modules after ``mxnet.``, 20 times as fast as `surface`."""
    found = re.findall(rb'\n"mxnet\.([^"]+)"', _SURFACE.read_bytes())
    return [*(path.decode() for path in found), *MOVED]


@functools.cache
def imports() -> dict[str, dict[str, str]]:
    """Return what the modules of 1.9.1 import from one another, by mxlite's modules."""
    path = Path(__file__).resolve().parent / "imports_1_9_1.json"
    found: dict[str, dict[str, str]] = json.loads(path.read_text())
    for there, here in MOVED.items():
        more = found.get(f"mxnet.{there}", {})
        found[f"mxnet.{here}"] = {**more, **found.get(f"mxnet.{here}", {})}
    return found


def old_path(module_name: str) -> str:
    """Return the path of a module of mxlite after ``mxnet.``."""
    rest = module_name[len("mxlite.") :]
    return rest[len("legacy.") :] if rest.startswith("legacy.") else rest


def is_module(rest: str) -> bool:
    """Return whether 1.9.1 has the module ``mxnet.<rest>``.

    Parameters
    ----------
    rest : str
        Dotted path after ``mxnet.``.

    Returns
    -------
    bool
    """
    parent, _, name = f"mxnet.{rest}".rpartition(".")
    return f"mxnet.{rest}" in surface() or isinstance(surface().get(parent, {}).get(name), str)
