"""MXNet 1.9.1: its modules, the mxlite modules with their content, and names that mxlite lacks."""

from __future__ import annotations

import functools
import json
from pathlib import Path

__all__ = ["MOVED", "VERSION", "imports", "is_module", "module_paths", "names_of", "old_path"]

VERSION = "1.9.1"

# Modules of 1.9.1 whose content is in another module of mxlite: path in 1.9.1 -> path here.
MOVED = {
    "contrib.nd": "ndarray.contrib",
    "contrib.ndarray": "ndarray.contrib",
    "contrib.sym": "symbol.contrib",
    "contrib.symbol": "symbol.contrib",
    "contrib.onnx": "onnx",
    "contrib.onnx.onnx2mx": "onnx",
    "contrib.onnx.onnx2mx.import_model": "onnx",
    "contrib.onnx.onnx2mx.import_onnx": "onnx",
    "contrib.onnx.onnx2mx.import_to_gluon": "onnx",
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
    "ndarray.numpy": "numpy",
    "ndarray.numpy_extension": "numpy_extension",
    "np": "numpy",
    "npx": "numpy_extension",
    "numpy.multiarray": "numpy",
    "onnx.mx2onnx": "onnx",
    "opt": "optimizer",
    "rnd": "random",
    "sym": "symbol",
    "symbol.numpy_extension": "symbol.npx",
    "symbol.numpy": "symbol.np",
    "viz": "visualization",
}


_NAMES = Path(__file__).resolve().parent / "names_1_9_1.json"


@functools.cache
def _names() -> dict[str, dict[str, str | None]]:
    return json.loads(_NAMES.read_text())


def names_of(rest: str) -> dict[str, str | None]:
    """Return the names of 1.9.1's ``mxnet.<rest>`` that the corresponding module lacks."""
    return _names().get(f"mxnet.{rest}" if rest else "mxnet", {})


@functools.cache
def module_paths() -> list[str]:
    """Return the paths of 1.9.1's modules after ``mxnet.``."""
    return [*(path[len("mxnet.") :] for path in _names() if path != "mxnet"), *MOVED]


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
    return rest[len("modules_1x.") :] if rest.startswith("modules_1x.") else rest


def is_module(rest: str) -> bool:
    """Return whether 1.9.1 has the module ``mxnet.<rest>``."""
    parent, _, name = rest.rpartition(".")
    return f"mxnet.{rest}" in _names() or names_of(parent).get(name) is not None
