"""Broadcast of parameters, so that all ranks start with the same values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base import ValueError_
from ..comm.basics import size
from ..comm.groups import group_of
from ..gluon.parameter import DeferredInitializationError, Parameter, ParameterDict
from ..ndarray import NDArray
from ..parallel.replicas import Replicas
from .mpi_ops import broadcast_


def _broadcast_when_initialized(param: Parameter, broadcast: Callable[[], None]) -> None:
    """Make the parameter broadcast its value right after it is initialized."""
    initialize = param._init_impl

    def initialize_and_broadcast(*args: Any, **kwargs: Any) -> None:
        initialize(*args, **kwargs)
        broadcast()
        vars(param).pop("_init_impl", None)  # broadcast only once

    vars(param)["_init_impl"] = initialize_and_broadcast


def broadcast_parameters(
    params: Mapping[str, Any] | ParameterDict, root_rank: int = 0, prefix: str | None = None
) -> None:
    """Overwrite parameters with those of one rank; runs in the background.

    Parameters
    ----------
    params : dict or ParameterDict
        Values are Parameter (``Block.collect_params()``) or NDArray (``Module.get_params()``).
        A parameter of unknown shape is broadcast when its first forward pass initializes it. A
        shard is sent to the ranks that hold the same shard, from the process set of
        ``root_rank``.
    root_rank : int
    prefix : str, optional
        Prefix of the tensors' names; two networks with the same names need different ones.

    Raises
    ------
    ValueError
        For params of another type.
    """
    if not isinstance(params, (Mapping, ParameterDict)):
        raise ValueError_(
            f"broadcast_parameters: params must be a dict, got {type(params).__name__}"
        )
    if size() == 1:
        return
    prefix = prefix or ""
    given = [value for _, value in sorted(params.items()) if isinstance(value, Parameter)]
    replicas = Replicas("broadcast_parameters", group_of("broadcast_parameters", None), given)
    for name, value in sorted(params.items()):
        if isinstance(value, NDArray):
            broadcast_(value, root_rank, name=prefix + str(name))
            continue
        if not isinstance(value, Parameter):
            raise ValueError_(
                f"broadcast_parameters: {name!r} must be a Parameter or an NDArray, got "
                f"{type(value).__name__}"
            )
        broadcast = _broadcast_function(value, root_rank, prefix + str(name), replicas)
        try:
            value.list_data()
        except DeferredInitializationError:
            _broadcast_when_initialized(value, broadcast)
            continue
        broadcast()


def _broadcast_function(
    param: Parameter, root_rank: int, name: str, replicas: Replicas
) -> Callable[[], None]:
    def broadcast() -> None:
        if replicas.is_sharded(param):
            replicas.send_first(param, root_rank)
            return
        for array in param.list_data():
            broadcast_(array, root_rank, name=name)

    return broadcast
