"""Arrays as iterators for `mx.model.FeedForward`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import io
from ..base import InputError, ShapeError, TypeError_
from ..ndarray import NDArray

__all__ = ["data_iter", "eval_iter"]


def data_iter(data: Any, label: Any, batch_size: int, is_train: bool) -> Any:
    """Return an iterator over arrays; a given iterator is returned unchanged."""
    if not isinstance(data, (np.ndarray, NDArray)):
        if not isinstance(data, io.DataIter):
            raise TypeError_(
                f"X must be DataIter, NDArray or numpy.ndarray, got {type(data).__name__}"
            )
        return data
    if label is None:
        if is_train:
            raise InputError("y must be specified when X is numpy.ndarray")
        label = np.zeros(data.shape[0])
    if not isinstance(label, (np.ndarray, NDArray)):
        raise TypeError_(f"y must be ndarray when X is numpy.ndarray, got {type(label).__name__}")
    if data.shape[0] != label.shape[0]:
        raise ShapeError(
            f"The numbers of data points and labels not equal: {data.shape[0]} and {label.shape[0]}"
        )
    if label.ndim == 2 and label.shape[1] == 1:
        label = label.reshape((-1,))
    if label.ndim != 1:
        raise ShapeError(
            f"Label must be 1D or 2D (with 2nd dimension being 1), got shape {label.shape}"
        )
    size = min(data.shape[0], batch_size)
    last = "roll_over" if is_train else "pad"
    return io.NDArrayIter(data, label, size, shuffle=is_train, last_batch_handle=last)


def eval_iter(eval_data: Any, batch_size: int) -> Any:
    """Return an iterator for evaluation."""
    if isinstance(eval_data, (tuple, list)) and len(eval_data) == 2:
        data, label = (np.array(v) if isinstance(v, list) else v for v in eval_data)
        if data is None:
            raise InputError("Eval data is NONE")
        if label is None and isinstance(data, io.DataIter):
            return data
        return data_iter(data, label, batch_size, is_train=True)
    if eval_data is not None and not isinstance(eval_data, io.DataIter):
        raise TypeError_(
            "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list of "
            "length 2)"
        )
    return eval_data
