"""The same first values of parameters on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import ValueError_
from ..comm.basics import size
from ..gluon.parameter import DeferredInitializationError, Parameter
from ..gluon.parameter_dict import ParameterDict
from ..ndarray import NDArray
from .mpi_ops import broadcast_

__all__ = ["broadcast_parameters"]


def _broadcast_when_initialized(param: Parameter, root_rank: int, name: str) -> None:
    """Let the parameter broadcast its value right after its initializer has run."""
    initialize = param._init_impl

    def initialize_and_broadcast(*args: Any, **kwargs: Any) -> None:
        initialize(*args, **kwargs)
        for array in param.list_data():
            broadcast_(array, root_rank, name=name)
        vars(param).pop("_init_impl", None)  # once

    vars(param)["_init_impl"] = initialize_and_broadcast


def broadcast_parameters(
    params: Mapping[str, Any] | ParameterDict, root_rank: int = 0, prefix: str | None = None
) -> None:
    """Overwrite parameters by those of one rank; returns before that is done.

    Parameters
    ----------
    params : dict or ParameterDict
        Values are Parameter (``Block.collect_params()``) or NDArray (``Module.get_params()``).
        A parameter of unknown shape is broadcast when its first forward pass initializes it.
    root_rank : int
    prefix : str, optional
        Prefix of the tensors' names; two networks with the same names need different ones.

    Raises
    ------
    ValueError
        For params of another type.

    Notes
    -----
    Matches ``horovod.mxnet.broadcast_parameters``.
    """
    if not isinstance(params, (Mapping, ParameterDict)):
        raise ValueError_(f"broadcast_parameters: {type(params).__name__} given, a dict expected")
    if size() == 1:
        return
    prefix = prefix or ""
    for name, value in sorted(params.items()):
        if isinstance(value, NDArray):
            broadcast_(value, root_rank, name=prefix + str(name))
            continue
        if not isinstance(value, Parameter):
            raise ValueError_(
                f"broadcast_parameters: {name!r} is a {type(value).__name__}, a Parameter or an "
                "NDArray expected"
            )
        try:
            arrays = value.list_data()
        except DeferredInitializationError:
            _broadcast_when_initialized(value, root_rank, prefix + str(name))
            continue
        for array in arrays:
            broadcast_(array, root_rank, name=prefix + str(name))
