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
    path = f"{prefix}-{epoch:04d}.params"
    write_params(path, arg_params, aux_params)
    logging.info('Saved checkpoint to "%s"', path)


def write_params(path: str, args: Mapping[str, NDArray], aux: Mapping[str, NDArray]) -> None:
    """Write a file with arguments and auxiliary states."""
    arrays = {f"arg:{name}": value for name, value in args.items()}
    nd.save(path, {**arrays, **{f"aux:{name}": value for name, value in aux.items()}})


def load_params(prefix: str, epoch: int) -> tuple[Params, Params]:
    """Load the parameters of a checkpoint: arguments and auxiliary states by name.

    Raises FileFormatError for names that begin with neither ``arg:`` nor ``aux:``.
    """
    return read_params(f"{prefix}-{epoch:04d}.params")


def read_params(path: str) -> tuple[Params, Params]:
    """Return the arguments and the auxiliary states in a file."""
    loaded = nd.load(path)  # a list if the arrays have no names
    found: dict[str, Params] = {"arg": {}, "aux": {}}
    for full, value in loaded.items() if isinstance(loaded, dict) else [("", a) for a in loaded]:
        kind, _, name = full.partition(":")
        if kind not in found or not name:
            raise FileFormatError(
                f"load_params: {path}: names must have a kind such as 'arg:fc_weight', got {full!r}"
            )
        found[kind][name] = value
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """Load a checkpoint written by `save_checkpoint` (of mxlite or MXNet 1.x).

    Returns
    -------
    symbol : Symbol
    arg_params, aux_params : dict of str to NDArray
    """
    return sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)
