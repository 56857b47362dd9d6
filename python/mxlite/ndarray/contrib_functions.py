"""Functions of ``mx.nd.contrib`` made of operators (MXNet 1.x: ``mxnet.nd.contrib``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import (
    DynamicShapeError,
    IndexError_,
    Provided,
    ShapeError,
    TypeError_,
    ValueError_,
)
from . import random
from .creation import array

__all__ = [
    "SparseEmbedding",
    "SyncBatchNorm",
    "adamw_update",
    "boolean_mask",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
    "rand_zipfian",
    "uniform",
]

sync_batch_norm = Provided()  # provided by comm/batch_norm.py, which uses functions of mx.nd

uniform = random.uniform

Arrays = Sequence[NDArray]


def boolean_mask(
    data: NDArray,
    index: NDArray,
    axis: int = 0,
    out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:
    """Return the slices of data at which index is not zero.

    The output's shape depends on the values of index, so the call waits for index.

    Parameters
    ----------
    data : NDArray, shape (..., n, ...)
    index : NDArray, shape (n,)
        Array of any dtype; a NaN counts as not zero.
    axis : int
        The axis that index masks. MXNet 1.x takes 0 only.
    out : NDArray, optional
    name : str, optional
        Without effect.

    Returns
    -------
    NDArray, shape (..., count of non-zeros, ...)
        If no slice is chosen, the axis has length 0.

    Raises
    ------
    DynamicShapeError
        While a graph is traced, because its shapes must be known. A hybridized block that
        calls this runs operator by operator from then on; its children keep their graphs.
    """
    for label, value in (("data", data), ("index", index)):
        if not isinstance(value, NDArray):
            raise TypeError_(
                f"boolean_mask: {label} must be an NDArray, got a {type(value).__name__}"
            )
    if not -data.ndim <= axis < data.ndim:
        raise IndexError_(
            f"boolean_mask: axis {axis} is out of range for data with {data.ndim} dimensions"
        )
    if index.ndim != 1 or index.shape[0] != data.shape[axis]:
        raise ShapeError(
            f"boolean_mask: index must have shape ({data.shape[axis]},) for axis {axis} of data "
            f"of shape {data.shape}, got {index.shape}"
        )
    if index._traced or data._traced:
        raise DynamicShapeError(
            "boolean_mask: the output's shape depends on the values of index, which a graph does "
            "not know while it is made; use where or SequenceMask, which keep the shape"
        )
    positions = np.flatnonzero(index.asnumpy()).astype(np.int64)
    chosen = array(positions, dtype="int64", ctx=data.context)
    if chosen.shape != positions.shape:
        chosen = chosen.reshape(positions.shape)
    return _core.op("take")(data, chosen, axis=axis, out=out)


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Any = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Draw classes from an approximately Zipfian distribution.

    Class ``c`` of ``range_max`` classes, numbered by decreasing frequency, has the probability
    ``log((c + 2) / (c + 1)) / log(range_max + 1)``.

    Parameters
    ----------
    true_classes : NDArray, shape (n,)
    num_sampled : int
        Number of classes to draw, with replacement.
    range_max : int
        Number of classes.
    ctx : Context, optional
        Device of the results.

    Returns
    -------
    samples : NDArray of int64, shape (num_sampled,)
    expected_count_true : NDArray of float64, shape (n,)
        Expected count of each of true_classes among the samples.
    expected_count_sample : NDArray of float64, shape (num_sampled,)
        Expected count of each sample among the samples.
    """
    log_range = math.log(range_max + 1)
    draws = random.uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    samples = (draws.exp() - 1).astype("int64") % range_max

    def expected_count(classes: NDArray) -> NDArray:
        exact = classes.as_in_context(samples.context).astype("float64")
        return ((exact + 2) / (exact + 1)).log() * (num_sampled / log_range)

    return samples, expected_count(true_classes), expected_count(samples)


def SyncBatchNorm(  # noqa: N802 - the operator's name
    data: NDArray,
    gamma: NDArray,
    beta: NDArray,
    moving_mean: NDArray,
    moving_var: NDArray,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    ndev: int = 1,
    key: str = "",
    out: Any = None,
    name: str | None = None,
    process_set: Any = None,
) -> NDArray | list[NDArray]:
    """Normalize every channel over the batches of all devices and ranks of a process set.

    Parameters
    ----------
    data : NDArray, shape (N, C, ...)
        Batches of the devices may differ in size.
    gamma, beta : NDArray, shape (C,)
    moving_mean, moving_var : NDArray, shape (C,)
        Changed in place in training: ``moving * momentum + batch * (1 - momentum)``.
    eps : float
        Added to the variance so that the divisor is not 0.
    momentum : float
    fix_gamma : bool
        Whether gamma is taken as 1 and gets gradient 0.
    use_global_stats : bool
        Whether training also normalizes by moving_mean and moving_var and does not update them.
    output_mean_var : bool
        Whether to also return the mean and the variance of each channel.
    ndev : int
        Number of devices of all ranks together; with a process set, 1 means one per rank.
    key : str
        Name of the layer, by which calls for several devices of this process are matched. Calls of
        different ranks are matched by their order.
    out : NDArray or list of NDArray, optional
    name : str, optional
        Without effect.
    process_set : ProcessSet or int, optional
        Ranks that normalize together in training; all of them make this call. None: all ranks of
        the job, or with ndev 1 this device alone.

    Returns
    -------
    NDArray, shape of data
        Or a list of it, mean and variance.

    Raises
    ------
    NotSupportedError
        In training, if ndev is above 1 and not a multiple of the number of ranks, or for several
        devices of a process if operators run in the calling thread (``MXLITE_ENGINE=naive``).
    ValueError
        If this process does not belong to the process set, or if there is no key for several
        devices of a process.

    Notes
    -----
    Gradients are those of the sum of all devices' losses. A call for a device returns at
    once; its results get their values when all devices have called this. If a device does not call
    within ``MXLITE_COMM_TIMEOUT`` seconds, waiting for a result raises a CommunicatorError. Symbols
    have no process set.
    """
    local = use_global_stats or not _core.is_training() or (process_set is None and ndev == 1)
    if local:
        return _core.op("_contrib_SyncBatchNorm")(
            data, gamma, beta, moving_mean, moving_var, eps=eps, momentum=momentum,
            fix_gamma=fix_gamma, use_global_stats=use_global_stats,
            output_mean_var=output_mean_var, ndev=ndev, key=key, out=out,
        )  # fmt: skip
    arrays = data, gamma, beta, moving_mean, moving_var
    found = sync_batch_norm(key, *arrays, process_set, ndev, eps, momentum, fix_gamma)
    if out is not None:
        for target, result in zip(out if isinstance(out, (list, tuple)) else [out], found):
            target[:] = result
        return out
    return list(found) if output_mean_var else found[0]


def SparseEmbedding(  # noqa: N802 - the operator's name
    data: NDArray,
    weight: NDArray,
    input_dim: int,
    output_dim: int,
    dtype: Any = "float32",
    sparse_grad: bool = True,
    out: NDArray | None = None,
    name: str | None = None,
    deterministic: bool = False,
) -> NDArray:
    """Return the rows of a table at given indices; the table's gradient is row-sparse.

    Parameters
    ----------
    data : NDArray of any shape
        Numbers of rows.
    weight : NDArray, shape (input_dim, output_dim)
    input_dim, output_dim : int
    dtype : dtype
        Options of a weight that is made for this layer.
    sparse_grad, deterministic : bool
        Ignored: the gradient is always row-sparse, and sums always have the same order.
    out : NDArray, optional
    name : str, optional
        Without effect.

    Returns
    -------
    NDArray, shape (*data.shape, output_dim)
    """
    result: NDArray = _core.op("Embedding")(
        data, weight, input_dim=input_dim, output_dim=output_dim, dtype=dtype, sparse_grad=True,
        out=out,
    )  # fmt: skip
    return result


def sample_unique_zipfian(
    range_max: int, shape: tuple[int, int], out: Any = None, name: str | None = None
) -> tuple[NDArray, NDArray]:
    """Draw different classes from an approximately Zipfian distribution.

    Parameters
    ----------
    range_max : int
        Number of classes, numbered by decreasing frequency as in :func:`rand_zipfian`.
    shape : tuple of int
        Number of rows and number of different classes per row.
    out : pair of NDArray, optional
    name : str, optional
        Without effect.

    Returns
    -------
    classes : NDArray of int64, shape ``shape``
        In the order in which they were drawn.
    num_trials : NDArray of int64, shape (rows,)
        Number of draws for each row, including repeated classes.

    Raises
    ------
    ValueError
        If shape is not two numbers or num_sampled exceeds the number of classes.
    """
    if len(shape) != 2:
        raise ValueError_(f"_sample_unique_zipfian: shape must have 2 numbers, got {tuple(shape)}")
    rows, count = shape
    if count > range_max:
        raise ValueError_(
            f"_sample_unique_zipfian: shape must have at most range_max = {range_max} columns, "
            f"got {count}"
        )
    found = [_unique_classes(range_max, count) for _ in range(rows)]
    classes = np.array([row for row, _ in found], np.int64).reshape(rows, count)
    trials = np.array([trials for _, trials in found], np.int64)
    if out is not None:
        out[0][:], out[1][:] = classes, trials
        return out[0], out[1]
    return array(classes, dtype="int64"), array(trials, dtype="int64")


def _unique_classes(range_max: int, count: int) -> tuple[np.ndarray[Any, Any], int]:
    """Draw until ``count`` different classes are found; return them and the number of draws."""
    drawn = np.empty(0, np.int64)
    while True:
        block = random.uniform(0, 1, shape=(max(2 * count, 64),), dtype="float64").asnumpy()
        more = np.exp(block * math.log(range_max + 1)).astype(np.int64) - 1
        drawn = np.concatenate([drawn, np.minimum(more, range_max - 1)])
        firsts = np.sort(np.unique(drawn, return_index=True)[1])
        if len(firsts) >= count:
            trials = int(firsts[count - 1]) + 1 if count else 0
            return drawn[firsts[:count]], trials


def _scale(rescale_grad: Any, like: NDArray) -> NDArray:
    """Return rescale_grad as an array on the device of a weight."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad
    return array([rescale_grad], dtype="float32", ctx=like.context)


def _in_turn(*lists: Arrays) -> list[NDArray]:
    """Return the first entry of each list, then the second of each, and so on."""
    return [a for group in zip(*lists) for a in group]


def adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Any, lr: float,
    eta: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0.0,
    clip_gradient: float = -1.0, out: NDArray | None = None, name: str | None = None,
) -> NDArray:  # fmt: skip
    """Run a step of AdamW; skip it if rescale_grad is 0 or not finite.

    Parameters
    ----------
    rescale_grad : NDArray of one number, or float
    lr, eta : float
        Learning rate and its schedule multiplier.
    beta1, beta2, epsilon, wd : float
    clip_gradient : float
        Bound of the absolute values of the scaled gradient; negative: no clipping.
    out : NDArray, optional
    name : str, optional
        Without effect.
    """
    scale = _scale(rescale_grad, weight)
    result: NDArray = _core.op("_adamw_update")(
        weight, grad, mean, var, scale, lr=lr, eta=eta, beta1=beta1, beta2=beta2,
        epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, out=out,
    )  # fmt: skip
    return result


def mp_adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray,
    rescale_grad: Any, lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8, wd: float = 0.0, clip_gradient: float = -1.0, out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:  # fmt: skip
    """Run a step of AdamW with a float32 copy of the weight; see `adamw_update`."""
    scale = _scale(rescale_grad, weight)
    result: NDArray = _core.op("_mp_adamw_update")(
        weight, grad, mean, var, weight32, scale, lr=lr, eta=eta, beta1=beta1, beta2=beta2,
        epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, out=out,
    )  # fmt: skip
    return result


def multi_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Run a step of AdamW for many weights in one call; see `adamw_update`."""
    arrays = [*_in_turn(weights, grads, mean, var), _scale(rescale_grad, weights[0])]
    return _core.op("_multi_adamw_update")(
        *arrays, lrs=lrs, wds=wds, etas=etas, num_weights=size or len(weights), out=out, **kwargs
    )


def multi_mp_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Run a step of AdamW for many weights with float32 copies; see `adamw_update`."""
    arrays = [*_in_turn(weights, grads, mean, var, weights32), _scale(rescale_grad, weights[0])]
    return _core.op("_multi_mp_adamw_update")(
        *arrays, lrs=lrs, wds=wds, etas=etas, num_weights=size or len(weights), out=out, **kwargs
    )


def multi_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Run a step of LAMB for many weights in one call.

    Parameters
    ----------
    weights, grads, mean, var : sequences of NDArray, one for each weight
        mean and var are changed.
    step_count : sequence of int
        Number of each weight's update, from 1.
    lrs, wds : sequences of float
    out : list of NDArray
        Array for the new weights.
    **kwargs
        beta1=0.9, beta2=0.999, epsilon=1e-6, rescale_grad=1, lower_bound=-1, upper_bound=-1,
        clip_gradient=-1, bias_correction=True.
    """
    return _core.op("_multi_lamb_update")(
        *_in_turn(weights, grads, mean, var),
        learning_rates=lrs,
        wds=wds,
        step_count=step_count,
        num_tensors=num_tensors or len(weights),
        out=out,
        **kwargs,
    )


def multi_mp_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Run a step of LAMB for many weights with float32 copies; see `multi_lamb_update`."""
    return _core.op("_multi_mp_lamb_update")(
        *_in_turn(weights, grads, mean, var, weights32),
        learning_rates=lrs,
        wds=wds,
        step_count=step_count,
        num_tensors=num_tensors or len(weights),
        out=out,
        **kwargs,
    )
