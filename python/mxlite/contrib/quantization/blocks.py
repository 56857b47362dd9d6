"""Quantization of Gluon blocks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ... import ndarray as nd
from ...base import TypeError_, ValueError_
from ...context import Context, cpu
from ...gluon.block import HybridBlock, SymbolBlock
from ...gluon.block.exporting import exported_symbol
from ...io import DataDesc
from ...symbol import var as make_var
from .batches import as_data_iter
from .graphs import check_choice, check_context, check_names
from .symbols import CALIBRATIONS, calib_graph, collect, is_calibrated, quantize_graph, split


def _run_once(network: HybridBlock, data_shapes: Sequence[Any]) -> int:
    """Run the network on zeros of these shapes and return its number of inputs."""
    arrays = []
    for given in data_shapes:
        shape = given.shape if isinstance(given, DataDesc) else given
        is_named = isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], str)
        dtype = getattr(given, "dtype", "float32")
        arrays.append(nd.zeros(shape[1] if is_named else shape, dtype=dtype))
    while True:
        try:
            network(*arrays)
            return len(arrays)
        except TypeError:  # the last array is a label
            if len(arrays) < 2:
                raise
            arrays.pop()


def quantize_net_v2(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    LayerOutputCollector: Any = None,
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained network.

    Parameters
    ----------
    network : HybridBlock
    exclude_layers : list of str, optional
        Names of nodes that stay in float32.
    exclude_layers_match : list of str, optional
        Parts of names; nodes whose names contain one of them also stay in float32.
    exclude_operators : list of str, optional
        Operators that stay in float32.
    calib_data : DataIter or iterable, optional
        Batches that determine the ranges: arrays, or lists of arrays and a label.
    data_shapes : list of DataDesc, optional
        Shapes of the inputs; required if calib_data is None.
    calib_mode : {'none', 'naive', 'entropy', 'customize'}
    num_calib_examples : int, optional
        Number of examples after which calibration stops; default: all.
    quantized_dtype, quantize_mode, quantize_granularity, ctx
        As in `quantize_graph`.
    LayerOutputCollector, logger
        As in `quantize_graph`. A custom collector gets the outputs whose ranges are needed.

    Returns
    -------
    SymbolBlock

    Raises
    ------
    TypeError
        If network is not a HybridBlock, or calib_data cannot be iterated.
    ValueError
        As `quantize_graph`; also if required data is missing or has no batch, or if values are not
        finite.

    Examples
    --------
    >>> qnet = mx.contrib.quantization.quantize_net(
    ...     net, calib_data=loader, calib_mode="entropy", num_calib_examples=500)
    >>> scores = qnet(images)
    >>> qnet.export("net-int8")
    """
    if not isinstance(network, HybridBlock):
        raise TypeError_(
            f"quantize_net: network must be a HybridBlock, got {type(network).__name__}"
        )
    ctx = check_context(cpu() if ctx is None else ctx)
    check_choice("calib_mode", calib_mode or "none", (*CALIBRATIONS, "customize"))
    if is_calibrated(calib_mode) and calib_data is None:
        raise ValueError_(
            f"quantize_net: calib_data must be given for calib_mode={calib_mode!r}, got None"
        )
    data = None if calib_data is None else as_data_iter(calib_data)
    shapes = list(data_shapes or (data.provide_data if data else ()))
    if not shapes:
        raise ValueError_("quantize_net: data_shapes required if calib_data is None, got neither")
    if logger:
        logger.info("Export HybridBlock")
    network.hybridize()
    num_inputs = _run_once(network, shapes)
    symbol, params = exported_symbol(network)
    known = set(symbol.list_inputs())
    params.update((n, p._reduce()) for n, p in network.collect_params().items() if n in known)
    names = [name for name in symbol.list_inputs() if name not in params]
    by_position = ["data"] if num_inputs == 1 else [f"data{i}" for i in range(num_inputs)]
    if set(by_position) == set(names):
        names = by_position

    excluded = check_names("exclude_layers", exclude_layers)
    for part in check_names("exclude_layers_match", exclude_layers_match):
        excluded += [node.name for node in symbol._nodes() if part in node.name]
    if logger:
        logger.info(f"These layers have been excluded {excluded}")
    _, args, aux = split(symbol, params)
    qsym, qargs, qaux, collector = quantize_graph(
        symbol, args, aux, ctx, excluded, exclude_operators, calib_mode, quantized_dtype,
        quantize_mode, quantize_granularity, LayerOutputCollector, logger,
    )  # fmt: skip
    if calib_mode is not None and data is not None and collector is not None:
        collect(symbol, params, data, names, collector, qsym, ctx, num_calib_examples, logger)
        qsym, qargs, qaux = calib_graph(
            qsym, args, aux, collector, calib_mode, quantized_dtype, logger
        )
    block = SymbolBlock(qsym, [make_var(name) for name in names])
    block.collect_params().load_dict(
        {**qargs, **qaux}, ctx=ctx, cast_dtype=True, dtype_source="saved"
    )
    return block


def quantize_net(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained network; the arguments are those of `quantize_net_v2`.

    Each linear layer has one scale. As in 1.x, a warning recommends `quantize_net_v2`.
    """
    warnings.warn(
        "WARNING: This will be deprecated after MXNet 2.0, please use quantize_net_v2.",
        stacklevel=2,
    )
    return quantize_net_v2(
        network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers,
        exclude_layers_match, exclude_operators, calib_data, data_shapes, calib_mode,
        num_calib_examples, ctx, None, logger,
    )  # fmt: skip
