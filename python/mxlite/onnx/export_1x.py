"""``mx.onnx.export_model`` with the arguments of MXNet 1.9.1."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import ValueError_
from ..module.checkpoint_files import load_checkpoint
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from ..symbol import Symbol
from .export import write
from .exporting.model import build, converter_names
from .package import EXPORT_OPSETS, onnx

__all__ = ["export_model", "get_operator_support"]


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Return the sorted names of the operators that can be exported.

    Parameters
    ----------
    opset_version : int, optional
        From 13 to 21; all have the same operators.
    """
    if opset_version is not None and opset_version not in EXPORT_OPSETS:
        raise ValueError_(
            f"get_operator_support: opset_version must be from {EXPORT_OPSETS[0]} to "
            f"{EXPORT_OPSETS[-1]}, got {opset_version}"
        )
    return converter_names()


def _from_files(sym: str, params: str) -> tuple[Symbol, dict[str, NDArray]]:
    """Return what a checkpoint's two files hold."""
    for path in (sym, params):
        if not os.path.isfile(path):
            raise ValueError_(f"export_model: sym and params must be existing files, got {path!r}")
    prefix = re.sub(r"-symbol\.json$", "", sym)
    number = re.search(r"-(\d+)\.params$", params)
    symbol, args, states = load_checkpoint(prefix, int(number.group(1)) if number else 0)
    return symbol, {**args, **states}


def _values(params: Any) -> dict[str, NDArray]:
    """Return parameters by name, from a dict or a list of dicts, without ``arg:`` and ``aux:``."""
    parts = params if isinstance(params, (list, tuple)) else [params]
    return {re.sub("^(arg|aux):", "", key): array for part in parts for key, array in part.items()}


def export_model(
    sym: Any,
    params: Any,
    in_shapes: Any = None,
    in_types: Any = np.float32,
    onnx_file_path: str = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Any = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Any = None,
) -> str:
    """Write a 1.x model as an ONNX file.

    Parameters
    ----------
    sym : str or Symbol
        ``prefix-symbol.json``, or a symbol.
    params : str, dict, or list of dict
        ``prefix-0000.params``, or arrays by name, also as ``[arg_params, aux_params]``.
    in_shapes : list of tuple of int
        One shape for each input that is not a parameter.
    in_types : dtype or list of dtype
    onnx_file_path : str
    verbose : bool
        Whether each node is logged.
    dynamic : bool
        Whether dimensions of inputs are free.
    dynamic_input_shapes : list of tuple, optional
        None or a name for each free dimension; by default all dimensions are free.
    run_shape_inference : bool
        Whether onnx adds the shapes of all values.
    input_type, input_shape
        Older names of ``in_types`` and ``in_shapes``.

    Returns
    -------
    str
        ``onnx_file_path``.

    Raises
    ------
    ValueError
        If an argument or an operator cannot be exported.
    """
    package = onnx()
    shapes = in_shapes if input_shape is None else input_shape
    types = in_types if input_type is None else input_type
    if isinstance(sym, str) and isinstance(params, str):
        symbol, values = _from_files(sym, params)
    elif isinstance(sym, Symbol) and isinstance(params, (Mapping, list, tuple)):
        symbol, values = sym, _values(params)
    else:
        raise ValueError_("Input sym and params should either be files or objects")
    label = f"{symbol._outputs[-1][0].name}_label"
    names = [n for n in symbol.list_inputs() if n not in values and n != label]
    shapes = list(shapes or ())
    types = list(types) if isinstance(types, (list, tuple)) else [types] * len(shapes)
    if not len(names) == len(shapes) == len(types):
        raise ValueError_(
            f"export_model: in_shapes and in_types must be one for each input "
            f"({', '.join(names)}), got {len(shapes)} and {len(types)}"
        )
    specs = {n: (tuple(s), dtype_name(t)) for n, s, t in zip(names, shapes, types)}
    free = _free_dimensions(specs, dynamic, dynamic_input_shapes)
    model = build(symbol, values, specs, 17, free, "mxnet_converted_model", verbose)
    if run_shape_inference:
        model = package.shape_inference.infer_shapes(model)
    write(model, onnx_file_path)
    return onnx_file_path


def _free_dimensions(
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    dynamic: bool,
    shapes: Sequence[Sequence[Any]] | None,
) -> dict[str, dict[int, str]]:
    if not dynamic:
        if shapes is not None:
            raise AssertionError("dynamic_input_shapes is specified, but dynamic is False")
        return {}
    if shapes is None:
        shapes = [(None,) * len(shape) for shape, _ in specs.values()]
    if [len(s) for s in shapes] != [len(shape) for shape, _ in specs.values()]:
        raise ValueError_(
            "export_model: dynamic_input_shapes must have the ranks of in_shapes, got "
            f"{list(shapes)}"
        )
    return {
        name: {
            axis: f"{name}_{axis}" if extent is None else str(extent)
            for axis, extent in enumerate(given)
            if not isinstance(extent, int)
        }
        for name, given in zip(specs, shapes)
    }
