"""Paths of the parts of the package (MXNet 1.x: ``mxnet.libinfo``)."""

from __future__ import annotations

from pathlib import Path

from .._names_1x import VERSION
from ..base import NotSupportedError
from ..config import include_dir

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]

__version__ = VERSION  # version of the interface, equal to mxnet.__version__


def find_lib_path(prefix: str = "libmxlite") -> list[str]:
    """Return the path of the native library.

    Parameters
    ----------
    prefix : str
        ``"libmxnet"`` is accepted for ``"libmxlite"``.

    Returns
    -------
    list of str
        One path.

    Raises
    ------
    NotSupportedError
        For another library.
    """
    if prefix not in ("libmxlite", "libmxnet"):
        raise NotSupportedError(f"find_lib_path: {prefix!r} is not part of mxlite")
    return [str(Path(__file__).resolve().parents[1] / "libmxlite.so")]


def find_include_path() -> str:
    """Return the folder of the C headers, which has ``mxnet/c_predict_api.h``."""
    return include_dir()


def find_conf_path(prefix: str = "tvmop") -> str:
    """Raise, because there are no operators made with TVM.

    Raises
    ------
    NotSupportedError
        Always.
    """
    raise NotSupportedError(f"find_conf_path: {prefix}: mxlite has no operators made by TVM")
