"""Batch normalization with statistics over several devices of one or more processes."""

from __future__ import annotations

import math
from typing import Any

from .. import autograd
from .. import ndarray as nd
from .._core import is_half
from ..base import DTypeError, DynamicShapeError, NotSupportedError, ShapeError, ValueError_
from ..ndarray import NDArray, contrib_functions
from ..ndarray.serialization import dtype_name
from .device_exchange import DeviceExchange
from .groups import Group, group_of
from .process_sets import ProcessSet

_NAMES = ("gamma", "beta", "moving_mean", "moving_var")
_exchanges: dict[tuple[str, int, Group], DeviceExchange] = {}


def _exchange_of_key(
    key: str, num_devices: int, process_set: ProcessSet | int | None
) -> DeviceExchange | None:
    """Return the exchange between this process's devices for a layer; None for one device."""
    group = group_of("SyncBatchNorm", process_set)
    if num_devices in (1, group.size):
        return None
    devices, rest = divmod(num_devices, group.size)
    if rest or devices < 1:
        raise NotSupportedError(
            f"SyncBatchNorm: ndev must be a multiple of {group.size}, the number of ranks of "
            f"process set {group.number}, in training; got {num_devices}"
        )
    if not key:
        raise ValueError_(
            f"SyncBatchNorm: key must be given with ndev {num_devices}, and be equal in the calls "
            f"of the {devices} devices of this process, which it matches, got none"
        )
    known = _exchanges.get((key, devices, group))
    if known is None:
        known = DeviceExchange(f"SyncBatchNorm {key!r}", devices, group)
        _exchanges[key, devices, group] = known
    return known


@contrib_functions.sync_batch_norm.provide
def _sync_batch_norm_of_key(key: str, *arguments: Any) -> tuple[NDArray, NDArray, NDArray]:
    """Run `sync_batch_norm` for a call of ``mx.nd.contrib.SyncBatchNorm``."""
    process_set, num_devices = arguments[5:7]
    exchange = _exchange_of_key(key, num_devices, process_set)
    return sync_batch_norm(*(*arguments, exchange))


def sync_batch_norm(
    data: NDArray,
    gamma: NDArray,
    beta: NDArray,
    moving_mean: NDArray,
    moving_var: NDArray,
    process_set: ProcessSet | int | None,
    num_ranks: int,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    exchange: DeviceExchange | None = None,
) -> tuple[NDArray, NDArray, NDArray]:
    """Normalize training data by the mean and variance over all devices; has a gradient.

    Each device sends its count, mean and sum of squared deviations in one all-gather, and backward
    runs one reduce-scatter. Batches may differ in size.
    """
    group = exchange.group if exchange else group_of("SyncBatchNorm", process_set)
    if exchange is None and num_ranks not in (1, group.size):
        raise NotSupportedError(
            f"SyncBatchNorm: ndev must be {group.size}, the number of ranks of process set "
            f"{group.number}, in training; got {num_ranks}"
        )
    shape = tuple(data.shape)
    if len(shape) < 2 or 0 in shape:
        raise ShapeError(
            "SyncBatchNorm: data must have 2 or more dimensions and at least one element on "
            f"every rank, got shape {shape}"
        )
    if not all(extent > 0 for array in (gamma, beta) for extent in array.shape or (0,)):
        # Determines the shapes of gamma and beta, which are unknown while shapes are inferred.
        few = nd.zeros((1, shape[1]), dtype=moving_mean.dtype)
        nd.BatchNorm(few, gamma, beta, moving_mean, moving_var, use_global_stats=True)
    if exchange is not None and data._traced:
        raise DynamicShapeError(
            "SyncBatchNorm: a graph of one device cannot exchange statistics with other devices of "
            "the process"
        )
    channels = (1, shape[1], *(1,) * (len(shape) - 2))
    others = (0, *range(2, len(shape)))
    half = is_half(dtype_name(data.dtype))
    for name, array in zip(_NAMES, (gamma, beta, moving_mean, moving_var)):
        expected = "float32" if half else dtype_name(data.dtype)
        if dtype_name(array.dtype) != expected:
            raise DTypeError(
                f"SyncBatchNorm: dtype of {name} must be {expected} for data of "
                f"{dtype_name(data.dtype)}, got {dtype_name(array.dtype)}"
            )
        if tuple(array.shape) != (shape[1],):
            raise ShapeError(
                f"SyncBatchNorm: {name} must have shape ({shape[1]},) for data of shape {shape}, "
                f"got {tuple(array.shape)}"
            )
    x = data.astype("float32") if half else data
    count = math.prod(shape) // shape[1]
    own_mean = nd.sum(x, axis=others) / count
    own_squares = nd.sum(nd.square(nd.broadcast_sub(x, own_mean.reshape(channels))), axis=others)
    own = nd.stack(nd.ones_like(own_mean) * count, own_mean, own_squares, axis=0)
    # Shape (1, 3, C) before and (devices, 3, C) after the exchange, for any batch size.
    own = own.expand_dims(0)
    if exchange is None:
        parts = nd.contrib.all_gather(own, axis=0, process_set=group.number)
    else:
        parts = exchange.gather(own)
    devices = exchange.size if exchange else group.size
    counts, means, squares = (
        nd.slice_axis(parts, axis=1, begin=i, end=i + 1).reshape((devices, shape[1]))
        for i in range(3)
    )
    counts = nd.BlockGrad(counts)
    total = nd.sum(counts, axis=0)
    mean = nd.sum(counts * means, axis=0) / total
    apart = nd.square(nd.broadcast_sub(means, mean.reshape((1, -1))))
    var = (nd.sum(squares, axis=0) + nd.sum(counts * apart, axis=0)) / total
    _move(moving_mean, mean, momentum)
    _move(moving_var, var, momentum)
    scale = nd.rsqrt(var + eps)
    y = nd.broadcast_mul(nd.broadcast_sub(x, mean.reshape(channels)), scale.reshape(channels))
    factor = gamma * 0 + 1 if fix_gamma else gamma
    y = nd.broadcast_add(nd.broadcast_mul(y, factor.reshape(channels)), beta.reshape(channels))
    return (y.astype(data.dtype) if half else y), mean, var


def _move(moving: NDArray, batch: NDArray, momentum: float) -> None:
    """Update a running statistic, also within a trace."""
    # This operator changes its third argument: momentum * moving - lr * batch.
    with autograd.pause(train_mode=True):
        batch = nd.BlockGrad(batch)
        nd.sgd_mom_update(
            nd.zeros_like(batch), batch, moving, lr=momentum - 1, momentum=momentum, wd=0
        )
