"""Checks all arrays of a file, then stores them in the parameters."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ... import ndarray as nd
from ...base import MXNetError, TypeError_, ValueError_, suggestion
from ...context import Context
from ...ndarray import NDArray
from .parameter import Parameter

__all__ = [
    "MissingParameterError",
    "ParameterNameError",
    "brief",
    "check_arrays",
    "load_into",
    "load_named",
    "strip_kind",
]


class ParameterNameError(ValueError_):
    """A name in a parameter file that the network does not have."""


class MissingParameterError(ParameterNameError, AssertionError):
    """A parameter of the network is missing in a file (1.x: ``AssertionError``)."""


def strip_kind(name: str) -> str:
    """Return a name without the prefix ``arg:`` or ``aux:`` of exported files."""
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def load_named(filename: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Load a file that must hold named arrays."""
    arrays = nd.load(filename)
    if isinstance(arrays, list) and not arrays:
        return {}
    if not isinstance(arrays, dict):
        raise TypeError_(
            f"load: file {os.fspath(filename)!r} must hold a dict of parameters, got a list of "
            f"{len(arrays)} arrays without names"
        )
    return arrays


def load_into(
    params: Mapping[str, Sequence[Parameter]],
    arrays: Mapping[str, NDArray],
    source: str,
    ctx: Context | Sequence[Context] | None,
    allow_missing: bool,
    ignore_extra: bool,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    """Check all arrays, then store them in the parameters."""
    check_arrays(params, arrays, source, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)
    for name, value in arrays.items():
        for param in params.get(name, ()):
            param._load_init(value, ctx, cast_dtype, dtype_source)


def check_arrays(
    params: Mapping[str, Sequence[Parameter]],
    arrays: Mapping[str, NDArray],
    source: str,
    ctx: Context | Sequence[Context] | None = None,
    allow_missing: bool = False,
    ignore_extra: bool = False,
    cast_dtype: bool = False,
    dtype_source: str = "current",
) -> None:
    """Raise if `load_into` would reject the arrays; the arguments are the same."""
    unlike = _unlike(arrays, params, source)
    if unlike and allow_missing and ignore_extra:
        warnings.warn(f"load: {unlike}", stacklevel=5)
    given = {id(param) for name in arrays for param in params.get(name, ())}
    if not allow_missing:
        for name, (param, *_) in params.items():
            if id(param) not in given:
                raise MissingParameterError(
                    f"Parameter {name!r} is missing in {source}, which contains parameters: "
                    f"{brief(arrays)}{suggestion(name, arrays)} "
                    + (unlike or "Set allow_missing=True to ignore missing parameters.")
                )
    if not ignore_extra:
        for name in arrays:
            if name not in params:
                raise ParameterNameError(
                    f"Parameter {name!r} loaded from {source} is not present in ParameterDict, "
                    f"which contains parameters {brief(params)}{suggestion(name, params)} "
                    + (unlike or "Set ignore_extra=True to ignore.")
                )
    for name, value in arrays.items():
        for param in params.get(name, ()):
            if value is None:
                raise ValueError_(f"load: parameter {name!r} in {source} is an array without value")
            try:
                param._check_loaded(value, ctx, cast_dtype, dtype_source)
            except MXNetError as error:
                raise type(error)(f"{error} ({source})") from None


def _unlike(arrays: Mapping[str, Any], params: Mapping[str, Any], source: str) -> str:
    """Return a hint if arrays and parameters have no name in common, else an empty text."""
    if not arrays or not params or any(name in params for name in arrays):
        return ""
    text = f"none of the {len(arrays)} arrays of {source} has the name of a parameter of this block"
    for names, others, owner in (
        (arrays, params, "names in the file"),
        (params, arrays, "names of this block"),
    ):
        common = os.path.commonprefix([*names])
        common = common[: common.rfind(".") + 1]
        while common and not any(name[len(common) :] in others for name in names):
            common = common[: common.rfind(".", 0, -1) + 1]
        if common:
            text += f": all {owner} begin with {common!r}"
    return f"{text}. Load into the block that has the same names."


def brief(names: Mapping[str, Any], limit: int = 6) -> str:
    """Return the first names of a mapping as text."""
    shown = [repr(name) for name in list(names)[:limit]]
    if len(names) > limit:
        shown.append(f"... ({len(names)} in all)")
    return ", ".join(shown) or "none"
