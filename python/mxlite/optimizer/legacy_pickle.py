"""A restricted reader of the pickles that MXNet 1.x writes for optimizer states.

Only arrays, optimizers and learning rate schedulers of MXNet, NumPy numbers and plain containers
are accepted; nothing of a file is ever imported or called.
"""

from __future__ import annotations

import collections
import io
import pickle
from typing import Any, Callable

import numpy as np

from ..base import FileFormatError

__all__ = ["LegacyArray", "LegacyObject", "load"]


class LegacyArray:
    """A pickled ``mxnet.ndarray.NDArray``: the raw bytes of its blob."""

    def __init__(self, handle: Any = None) -> None:
        self.blob = b""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.blob = bytes(state["handle"] or b"")


class LegacyObject:
    """A pickled optimizer or scheduler: its attributes."""

    class_name = ""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.attributes = dict(state)


def _reconstructed(klass: type, base: type, state: Any) -> Any:
    """Make an object as protocols 0 and 1 do, for our stand-ins only."""
    if not issubclass(klass, (LegacyObject, LegacyArray)):
        raise pickle.UnpicklingError(f"{klass!r} is not allowed")
    return klass()


def _latin1(text: str, encoding: str) -> bytes:
    """Return the bytes that protocol 2 writes as text."""
    return text.encode("latin1")


def _number(dtype: Any, raw: bytes) -> Any:
    """Return a NumPy number as a Python number."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise pickle.UnpicklingError("a NumPy object is not allowed")
    return np.frombuffer(raw, dtype)[0].item()


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("copyreg", "_reconstructor"): _reconstructed,
    ("copy_reg", "_reconstructor"): _reconstructed,
    ("_codecs", "encode"): _latin1,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,
}
for _module in ("builtins", "__builtin__"):
    _ALLOWED.update(
        {(_module, kind.__name__): kind for kind in (bytearray, object, set, frozenset)}
    )
_ARRAY_MODULES = ("mxnet.ndarray.ndarray", "mxnet.ndarray")
_OBJECT_MODULES = ("mxnet.optimizer", "mxnet.lr_scheduler")


class _Unpickler(pickle.Unpickler):
    """Resolves names from the table above only."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Return the stand-in of a name, or refuse it."""
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module in _ARRAY_MODULES and name == "NDArray":
            return LegacyArray
        if module.startswith(_OBJECT_MODULES) and "." not in name:
            return type(name, (LegacyObject,), {"class_name": name})
        raise pickle.UnpicklingError(f"the name {module}.{name} is not allowed")


def load(data: bytes, source: str) -> Any:
    """Read a pickle.

    Parameters
    ----------
    data : bytes
    source : str
        Named in messages.

    Returns
    -------
    Any
        Containers of `LegacyArray`, `LegacyObject`, numbers and strings.

    Raises
    ------
    FileFormatError
        If the bytes are no pickle, are damaged or contain anything else.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # damaged pickles raise errors of any kind
        raise FileFormatError(
            f"load_states: {source} ({len(data)} bytes) holds neither mxlite's states (they begin "
            f"with MXLSTATE) nor a pickle of MXNet 1.x: {error}"
        ) from error
