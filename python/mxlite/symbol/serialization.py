"""Reading and writing ``-symbol.json`` files in the layout of MXNet 1.9.1."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from .._files.saving import replacing_file
from .._files.whole import read_file
from ..base import FileFormatError, MissingFileError, TypeError_
from ..numpy_mode import is_np_shape
from . import symbol as _symbol
from .symbol import Symbol

__all__ = ["fromjson", "load", "load_json", "save", "to_json"]


@_symbol.to_json.provide
def to_json(symbol: Symbol, remove_amp_cast: bool = True) -> str:
    """Return a symbol as JSON text."""
    return _core.symbol_to_json(symbol._outputs, remove_amp_cast, is_np_shape())


@_symbol.save.provide
def save(symbol: Symbol, fname: Any, remove_amp_cast: bool = True) -> None:
    """Write a symbol to a file."""
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError_(f"Symbol.save: fname must be a file name, got {fname!r}")
    with replacing_file(os.fspath(fname)) as file:
        file.write(to_json(symbol, remove_amp_cast).encode("utf-8"))


def load(fname: Any) -> Symbol:
    """Read a symbol from a file that this library or any MXNet 1.x wrote.

    Parameters
    ----------
    fname : str or path

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a symbol file.
    MXNetError
        For an unknown operator; the message names it and the file.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError_(f"mx.sym.load: fname must be a file name, got {fname!r}")
    path = os.fspath(fname)
    try:
        data = read_file(path)
    except FileNotFoundError as error:
        raise MissingFileError(f"mx.sym.load: there is no file {path!r}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"mx.sym.load: {path!r} must be valid JSON: {error}") from error
    return _parse(text, f"file {path!r}")


@_symbol.load_json.provide
def load_json(json_str: str) -> Symbol:
    """Read a symbol from JSON text; see `load`."""
    if not isinstance(json_str, str):
        raise TypeError_("fname required to be string")
    return _parse(json_str, "the JSON text")


fromjson = load_json


def _parse(text: str, source: str) -> Symbol:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:  # a lone surrogate
        raise FileFormatError(f"mx.sym.load: {source} must be valid JSON: {error}") from error
    return Symbol(_core.symbol_from_json(text, source, is_np_shape()))
