"""``mx.contrib.onnx``: reading ONNX files with the functions of MXNet 1.9.1."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from ..context import cpu
from ..gluon.block.symbol_block import SymbolBlock
from ..ndarray import NDArray
from ..symbol import Symbol, var
from .importing.model import import_graph, import_stages, input_infos
from .importing.reader import read_model
from .importing.staged import StagedBlock
from .package import ComputedError

__all__ = ["get_model_metadata", "import_model", "import_to_gluon"]

Shapes = Mapping[str, Sequence[int]]


def import_model(
    model_file: str | os.PathLike[str], input_shapes: Shapes | None = None
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return the symbol and the parameters in an ONNX file.

    Parameters
    ----------
    model_file : str or path
        Its opset is from 7 to 28, and external data are below its folder.
    input_shapes : dict of str to tuple of int, optional
        Shapes of inputs with free dimensions, if the network needs their sizes.

    Returns
    -------
    sym : Symbol
    arg_params, aux_params : dict of str to NDArray

    Raises
    ------
    OnnxError
        A ValueError. If the file is damaged, or an operator or an attribute has no equivalent.
    FileNotFoundError
        If there is no file.
    """
    found = import_graph(read_model(model_file), input_shapes)
    arrays = {name: nd.array(a, dtype=a.dtype.name) for name, a in found.params.items()}
    return (
        found.symbol,
        {name: array for name, array in arrays.items() if name not in found.states},
        {name: array for name, array in arrays.items() if name in found.states},
    )


def import_to_gluon(
    model_file: str | os.PathLike[str], ctx: Any = None, input_shapes: Shapes | None = None
) -> SymbolBlock | StagedBlock:
    """Return a block that computes an ONNX file, and that can be trained.

    Parameters
    ----------
    model_file : str or path
    ctx : Context or list of Context, optional
        Where the parameters are.
    input_shapes : dict of str to tuple of int, optional
        See `import_model`.

    Returns
    -------
    SymbolBlock or Block
        Its parameters are those of the file. Constants of the graph are not trained. If sizes
        depend on values, such as the number of boxes of a detector, only the operators before the
        first such size are compiled; the others run one by one.
    """
    return block_of(read_model(model_file), ctx, input_shapes)


def block_of(model: Any, ctx: Any, input_shapes: Shapes | None) -> SymbolBlock | StagedBlock:
    """Return a block that computes a checked model."""
    block: SymbolBlock | StagedBlock
    try:
        found = import_graph(model, input_shapes)
    except ComputedError:
        found = None
    if found is not None:
        block = SymbolBlock(found.symbol, [var(name) for name in found.inputs])
        params, fixed = found.params, found.fixed
    else:
        stages = import_stages(model, input_shapes)
        block = StagedBlock(stages)
        params, fixed = stages.scope.params, stages.scope.fixed
    for name, param in block.collect_params().items():
        array = nd.array(params[name], dtype=params[name].dtype.name)
        if name in fixed:
            param.grad_req = "null"
        param.shape, param.dtype = array.shape, array.dtype
        param._load_init(array, cpu() if ctx is None else ctx)
    return block


def get_model_metadata(model_file: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """Return names, shapes and types of the inputs and outputs in an ONNX file.

    Returns
    -------
    dict
        ``{"input_tensor_data": [(name, shape, type)], "output_tensor_data": [(name, shape)]}``;
        free dimensions are 0, and the type is ONNX's number of it.
    """
    graph = read_model(model_file).graph

    def shape(info: Any) -> tuple[int, ...]:
        return tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)

    return {
        "input_tensor_data": [
            (info.name, shape(info), info.type.tensor_type.elem_type) for info in input_infos(graph)
        ],
        "output_tensor_data": [(info.name, shape(info)) for info in graph.output],
    }
