"""Metrics of numbers: errors, correlation, mean of losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ShapeError, ValueError_
from .base import EvalMetric, alias, check_label_shapes, register, to_numpy

__all__ = [
    "MAE",
    "MSE",
    "RMSE",
    "Caffe",
    "Loss",
    "PearsonCorrelation",
    "Torch",
]


class _MeanOfBatches(EvalMetric):
    """Metrics that average one value per batch, regardless of its size (as in MXNet 1.x)."""

    def __init__(
        self,
        name: str = "",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _score(self, difference: np.ndarray[Any, Any]) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and predictions; arrays of one dimension become columns (n, 1).

        Other shapes broadcast: labels (n,) are compared with each column of predictions (n, k).
        """
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth, found = to_numpy(label), to_numpy(pred)
            truth = truth.reshape(-1, 1) if truth.ndim == 1 else truth
            found = found.reshape(-1, 1) if found.ndim == 1 else found
            who = type(self).__name__
            try:
                difference = truth - found
            except ValueError:
                raise ShapeError(
                    f"{who}: labels and predictions must have equal shapes or shapes that "
                    f"broadcast, got {label.shape} and {pred.shape}"
                ) from None
            if difference.size > max(truth.size, found.size):
                warnings.warn(
                    f"{who}: every label is compared with every prediction, because labels have "
                    f"shape {label.shape} and predictions {pred.shape}; reshape one of them to the "
                    "shape of the other",
                    stacklevel=2,
                )
            self._add(self._score(difference), 1)


@register
class MAE(_MeanOfBatches, default_name="mae"):
    """Mean absolute error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def _score(self, difference: np.ndarray[Any, Any]) -> float:
        return float(np.abs(difference).mean())


@register
class MSE(_MeanOfBatches, default_name="mse"):
    """Mean squared error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def _score(self, difference: np.ndarray[Any, Any]) -> float:
        return float((difference**2.0).mean())


@register
class RMSE(_MeanOfBatches, default_name="rmse"):
    """Root mean squared error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def _score(self, difference: np.ndarray[Any, Any]) -> float:
        return float(np.sqrt((difference**2.0).mean()))


@alias("pearsonr")
@register
class PearsonCorrelation(EvalMetric):
    """Pearson correlation of labels and predictions.

    Parameters
    ----------
    name : str
    average : {'macro', 'micro'}
        Mean over updates, or one value of all samples.
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        if average not in ("macro", "micro"):
            raise ValueError_(
                f"PearsonCorrelation: average must be 'macro' or 'micro', got {average!r}"
            )
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True, average=average)

    def reset(self) -> None:
        """Reset the local and global values."""
        super().reset()
        self._moments = np.zeros(6)

    def reset_local(self) -> None:
        """Reset the local values; see `EvalMetric.reset_local`."""
        super().reset_local()
        self._moments = np.zeros(6)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and predictions of equal shape."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth = to_numpy(label).ravel().astype("float64")
            found = to_numpy(pred).ravel().astype("float64")
            check_label_shapes(truth, found, False, True)
            if self.average == "macro":
                self._add(float(np.corrcoef(found, truth)[0, 1]), 1)
            else:
                self._moments += (
                    len(truth), truth.sum(), found.sum(), (truth * truth).sum(),
                    (found * found).sum(), (truth * found).sum(),
                )  # fmt: skip
                self.num_inst += 1
                self.global_num_inst += 1

    def get(self) -> tuple[str, float]:
        """Return name and value; nan before the first update."""
        if self.average == "macro" or self.num_inst == 0:
            name, value = super().get()
            return str(name), float(value)
        count, x, y, xx, yy, xy = self._moments
        below = math.sqrt(max(count * xx - x * x, 0.0) * max(count * yy - y * y, 0.0))
        return self.name, float((count * xy - x * y) / below) if below else math.nan

    def get_global(self) -> tuple[str, float]:
        """Return name and value over all updates since `reset`."""
        if self.average == "micro":
            return self.get()
        name, value = super().get_global()
        return str(name), float(value)


@register
class Loss(EvalMetric):
    """Mean of the outputs, for networks whose output is the loss."""

    def __init__(
        self,
        name: str = "loss",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _: Any, preds: Any) -> None:
        """Add a batch of losses; labels are ignored."""
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
        for pred in preds:
            values = to_numpy(pred)
            self._add(float(values.sum(dtype="float64")), int(values.size))


@register
class Torch(Loss, default_name="torch"):
    """`Loss` under the name ``torch``."""


@register
class Caffe(Loss, default_name="caffe"):
    """`Loss` under the name ``caffe``."""
