"""Code that the shim packages ``mxnet`` and ``horovod`` run when they are imported."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path

from . import install
from .finder import SHIM_FILES


def _refuse_if_mixed(name: str, folder: Path) -> None:
    """Raise ImportError if the shim's folder has files of the real package."""
    if name != "mxnet" or not (folder / "libmxnet.so").exists():
        return
    installed = {d.metadata["Name"] or "" for d in distributions()}
    real = sorted(n for n in installed if n.lower().replace("_", "-").startswith("mxnet-"))
    names = " ".join(["mxnet", *real])
    raise ImportError(
        f"mxnet: {folder} holds files of Apache MXNet ({', '.join(real) or 'libmxnet.so'}) and of "
        f"mxlite's shim; run 'pip uninstall {names}', then install the one that you want"
    )


def take_over(name: str, file: str) -> None:
    """Replace the shim's module by the import alias of :func:`mxlite.compat.install`."""
    _refuse_if_mixed(name, Path(file).parent)
    SHIM_FILES.add(file)
    install(subprocesses=False)
    del sys.modules[name]
    # install() has added the finder of the import alias, so this import puts another module in the
    # place of the one that is being imported.
    import_module(name)
