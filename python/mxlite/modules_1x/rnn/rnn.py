"""Unrolling and checkpoints of symbolic cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Union

from ... import symbol
from ...module.checkpoint_files import load_checkpoint, save_checkpoint
from ...ndarray import NDArray
from ...symbol import Symbol
from .base_cell import BaseRNNCell

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]

Cells = Union[BaseRNNCell, Sequence[BaseRNNCell]]


def _as_list(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Any = None,
    begin_state: Any = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> tuple[Any, Any]:
    """Unroll a cell; the old name of ``cell.unroll``.

    Parameters
    ----------
    cell : BaseRNNCell
    length : int
    inputs : Symbol or list of Symbol, optional
        By default variables ``<input_prefix>t0_data``, ``<input_prefix>t1_data``, ...
    begin_state : list of Symbol, optional
    input_prefix : str
    layout : {'NTC', 'TNC'}

    Returns
    -------
    outputs : Symbol or list of Symbol
    states : list of Symbol
    """
    warnings.warn("rnn_unroll is deprecated, use cell.unroll", DeprecationWarning, stacklevel=2)
    if inputs is None:
        inputs = [symbol.Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state=begin_state, layout=layout)


def save_rnn_checkpoint(
    cells: Cells,
    prefix: str,
    epoch: int,
    symbol: Symbol,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
) -> None:
    """Save a checkpoint with unpacked weights, which fused and other cells can load.

    Matches ``mxnet.rnn.save_rnn_checkpoint``.

    Parameters
    ----------
    cells : BaseRNNCell or list of them
        All cells of the symbol.
    prefix : str
    epoch : int
    symbol : Symbol
    arg_params, aux_params : dict of str to NDArray
    """
    for cell in _as_list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Load a checkpoint written by `save_rnn_checkpoint` for these cells.

    Matches ``mxnet.rnn.load_rnn_checkpoint``.

    Parameters
    ----------
    cells : BaseRNNCell or list of them
        Cells whose weights are packed again; may be fused if others were saved.
    prefix : str
    epoch : int

    Returns
    -------
    symbol : Symbol
    arg_params, aux_params : dict of str to NDArray
    """
    loaded, args, auxs = load_checkpoint(prefix, epoch)
    for cell in _as_list(cells):
        args = cell.pack_weights(args)
    return loaded, args, auxs


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that saves a checkpoint at the end of every ``period`` epochs.

    Matches ``mxnet.rnn.do_rnn_checkpoint``.

    Parameters
    ----------
    cells : BaseRNNCell or list of them
    prefix : str
    period : int

    Returns
    -------
    callable
        ``callback(epoch, symbol, arg_params, aux_params)``.
    """
    period = max(1, int(period))

    def callback(
        epoch: int, symbol: Any = None, arg_params: Any = None, aux_params: Any = None
    ) -> None:
        if (epoch + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, symbol, arg_params, aux_params)

    return callback
