"""Checkpoints of symbols and their parameters, and the argument of batch callbacks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import ndarray as nd
from .. import symbol as sym
from ..base import FileFormatError
from ..ndarray import NDArray
from ..symbol import Symbol

Params = dict[str, NDArray]


class BatchEndParam(NamedTuple):
    """Argument of a callback at the end of a batch."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Save ``<prefix>-symbol.json`` and ``<prefix>-<epoch>.params``.

    Parameters
    ----------
    prefix : str
    epoch : int
        Number in the file name, written with four digits.
    symbol : Symbol, optional
    arg_params, aux_params : dict of str to NDArray
    remove_amp_cast : bool
        Leave out casts that mixed precision added to the symbol.

    Notes
    -----
    Matches ``mxnet.model.save_checkpoint``; 1.9.1 reads the files.
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    arrays = {f"arg:{name}": value for name, value in arg_params.items()}
    arrays.update({f"aux:{name}": value for name, value in aux_params.items()})
    path = f"{prefix}-{epoch:04d}.params"
    nd.save(path, arrays)
    logging.info('Saved checkpoint to "%s"', path)


def load_params(prefix: str, epoch: int) -> tuple[Params, Params]:
    """Load the parameters of a checkpoint.

    Returns
    -------
    arg_params, aux_params : dict of str to NDArray

    Raises
    ------
    FileFormatError
        For names that begin with neither ``arg:`` nor ``aux:``.
    """
    path = f"{prefix}-{epoch:04d}.params"
    loaded = nd.load(path)
    found: dict[str, Params] = {"arg": {}, "aux": {}}
    for full, value in dict(loaded if isinstance(loaded, dict) else {}).items():
        kind, _, name = full.partition(":")
        if kind not in found or not name:
            raise FileFormatError(
                f"load_params: {path}: name {full!r} found, names such as 'arg:fc_weight' expected"
            )
        found[kind][name] = value
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """Load what `save_checkpoint` (of mxlite or MXNet 1.x) wrote.

    Returns
    -------
    symbol : Symbol
    arg_params, aux_params : dict of str to NDArray
    """
    return sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)
