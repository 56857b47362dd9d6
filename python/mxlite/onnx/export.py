"""``mxlite.onnx.export``: a block or a symbol as an ONNX file that was compared with it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from .. import _core, autograd
from .._files.saving import replacing_file
from ..base import TypeError_, ValueError_
from ..gluon.block.exporting import exported_symbol
from ..gluon.block.hybrid_block import HybridBlock
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from ..ndarray.structure import flatten
from ..symbol import Symbol
from .exporting.model import Free, build
from .package import OnnxError, onnx, onnxruntime

__all__ = ["export"]

DynamicAxes = Mapping[str, Union[Mapping[int, str], Sequence[int]]]
_MOST_IN_ONE_FILE = 1_500_000_000  # bytes; protobuf stops at 2 GiB
_TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2}


def export(
    block_or_symbol: HybridBlock | Symbol,
    *inputs: Any,
    path: str | os.PathLike[str],
    opset: int = 17,
    dynamic_axes: DynamicAxes | None = None,
    external_data: bool | None = None,
    check: bool = True,
    params: Mapping[str, NDArray] | None = None,
) -> str:
    """Write a network as an ONNX file.

    Parameters
    ----------
    block_or_symbol : HybridBlock or Symbol
        A block is called once with the inputs; it need not be hybridized.
    *inputs : NDArray or nested list of NDArray
        Example inputs; their shapes and dtypes are those of the model. A symbol takes them in the
        order of its variables that have no value in ``params``.
    path : str or path
    opset : int
        Version of the operators, from 13 to 21.
    dynamic_axes : dict of str to (list of int, or dict of int to str), optional
        Axes of inputs that may have other sizes, with their names: ``{"data": {0: "batch"}}``.
        Inputs of a block are called ``data``, or ``data0``, ``data1``, ...
    external_data : bool, optional
        Whether parameters are written to ``<path>.data``; by default above 1.5 GB.
    check : bool
        Check the file with onnx's checker, run it in ONNX Runtime and compare the outputs with
        those of the network.
    params : dict of str to NDArray, optional
        Values of a symbol's variables.

    Returns
    -------
    str
        The path.

    Raises
    ------
    OnnxError
        A ValueError. If an operator or a parameter has no equivalent, which is said for all
        operators at once, or if the outputs in ONNX Runtime differ.
    MissingOnnxError
        An ImportError. If the package onnx is not installed.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.resnet18_v1()
    >>> net.initialize()
    >>> mxlite.onnx.export(net, mx.nd.zeros((1, 3, 224, 224)), path="resnet18.onnx",
    ...                    dynamic_axes={"data": {0: "batch"}})
    """
    onnx()  # raises before the network runs
    arrays = flatten(inputs, "mxlite.onnx.export: inputs")[0]
    if isinstance(block_or_symbol, HybridBlock):
        symbol, values, expected = _of_block(block_or_symbol, inputs, params)
        names = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
    elif isinstance(block_or_symbol, Symbol):
        symbol, values, expected = block_or_symbol, dict(params or {}), None
        names = [name for name in symbol.list_inputs() if name not in values]
        if len(names) != len(arrays):
            raise ValueError_(
                f"mxlite.onnx.export: inputs must be one for each variable without a value in "
                f"params ({', '.join(names)}), got {len(arrays)}"
            )
    else:
        raise TypeError_(
            "mxlite.onnx.export: block_or_symbol must be a HybridBlock or a Symbol, got a "
            f"{type(block_or_symbol).__name__}"
        )
    fed = dict(zip(names, arrays))
    specs = {name: (tuple(a.shape), dtype_name(a.dtype)) for name, a in fed.items()}
    free = _free(dynamic_axes or {}, {name: spec[0] for name, spec in specs.items()})
    model = build(symbol, values, specs, opset, free)
    target = os.fspath(path)
    write(model, target, external_data)
    if check:
        if expected is None:
            expected = _core.evaluate(symbol._outputs, {**values, **fed})
        verify(target, fed, expected)
    return target


def _of_block(
    block: HybridBlock, inputs: tuple[Any, ...], params: Any
) -> tuple[Symbol, dict[str, NDArray], list[NDArray]]:
    """Return a block's symbol, its parameters, and its outputs for the inputs."""
    if params is not None:
        raise ValueError_("mxlite.onnx.export: params must be None for a block, got values")
    with autograd.pause():
        outputs = flatten(block(*inputs), "mxlite.onnx.export: outputs")[0]
    symbol, captured = exported_symbol(block, inputs)
    used = set(symbol.list_inputs())
    values = {p.name: p._reduce() for p in block.collect_params().values() if p.name in used}
    return symbol, {**captured, **values}, outputs


def _free(dynamic_axes: DynamicAxes, shapes: Mapping[str, tuple[int, ...]]) -> Free:
    found: dict[str, dict[int, str]] = {}
    for name, axes in dynamic_axes.items():
        if name not in shapes:
            raise ValueError_(
                f"mxlite.onnx.export: dynamic_axes must name inputs ({', '.join(shapes)}), "
                f"got {name!r}"
            )
        named = axes if isinstance(axes, Mapping) else {a: f"{name}_{a}" for a in axes}
        for axis in named:
            if not -len(shapes[name]) <= axis < len(shapes[name]):
                raise ValueError_(
                    f"mxlite.onnx.export: dynamic_axes of {name!r} must be below "
                    f"{len(shapes[name])}, got {axis}"
                )
        found[name] = {axis % len(shapes[name]): str(given) for axis, given in named.items()}
    return found


def write(model: Any, path: str, external_data: bool | None = None) -> None:
    """Write a model; parameters that do not fit into one file go into a second one."""
    if external_data is None:
        size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
        external_data = size > _MOST_IN_ONE_FILE
    if external_data:
        data = os.path.basename(path) + ".data"
        beside = os.path.join(os.path.dirname(path), data)
        if os.path.exists(beside):  # onnx appends to the file
            os.remove(beside)
        onnx().save_model(
            model, path, save_as_external_data=True, location=data, size_threshold=1024
        )
        return
    with replacing_file(path) as file:
        file.write(model.SerializeToString())


def verify(path: str, inputs: Mapping[str, NDArray], expected: Sequence[NDArray]) -> None:
    """Check a file, and compare what ONNX Runtime computes with the expected outputs."""
    onnx().checker.check_model(path, full_check=True)
    runtime = onnxruntime()
    if runtime is None:
        warnings.warn(
            "mxlite.onnx.export: the outputs were not compared, because the package onnxruntime "
            "is not installed",
            stacklevel=3,
        )
        return
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    known = {entry.name for entry in session.get_inputs()}
    fed = {name: array.asnumpy() for name, array in inputs.items() if name in known}
    for index, (found, array) in enumerate(zip(session.run(None, fed), expected)):
        wanted = array.asnumpy()
        limit = _TOLERANCE.get(dtype_name(array.dtype), 1e-4)
        if found.shape != wanted.shape:
            raise OnnxError(
                f"mxlite.onnx.export: output {index} must have shape {wanted.shape}, ONNX Runtime "
                f"gave {found.shape}"
            )
        if not np.allclose(
            np.asarray(found, np.float64),
            np.asarray(wanted, np.float64),
            limit,
            limit * max(1e-3, float(np.abs(wanted).max(initial=0))),
            equal_nan=True,
        ):
            difference = np.abs(np.asarray(found, np.float64) - wanted).max()
            raise OnnxError(
                f"mxlite.onnx.export: output {index} differs by up to {difference:.3g} in ONNX "
                "Runtime; set check=False to keep the file"
            )
