"""Metrics of agreement between classes: F1 and correlations of confusion matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ShapeError, ValueError_
from .base import EvalMetric, check_label_shapes, has_nan, register, to_numpy

__all__ = [
    "F1",
    "MCC",
    "PCC",
]


class _BinaryCounts:
    """True and false positives and negatives of binary classification."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.true_positives = self.false_positives = 0
        self.true_negatives = self.false_negatives = 0
        self.diverged = False  # whether predictions had NaN

    def update(self, label: Any, pred: Any) -> None:
        scores, truth = to_numpy(pred), to_numpy(label).astype("int32").ravel()
        if scores.ndim != 2 or scores.shape[1] > 2:
            raise ShapeError(
                f"binary classification: predictions must have shape (batch, 2), got {scores.shape}"
            )
        found = scores.argmax(axis=1)
        check_label_shapes(truth, found)
        if len(np.unique(truth)) > 2:
            raise ValueError_(
                f"binary classification: labels must be 0 and 1, got {np.unique(truth).tolist()}"
            )
        self.true_positives += int(((found == 1) & (truth == 1)).sum())
        self.false_positives += int(((found == 1) & (truth == 0)).sum())
        self.true_negatives += int(((found == 0) & (truth == 0)).sum())
        self.false_negatives += int(((found == 0) & (truth == 1)).sum())

    @property
    def total(self) -> int:
        return (
            self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
        )

    @property
    def f1(self) -> float:
        if self.diverged:
            return math.nan
        doubled = 2 * self.true_positives
        below = doubled + self.false_positives + self.false_negatives
        return doubled / below if doubled else 0.0

    @property
    def matthews(self) -> float:
        if self.diverged or not self.total:
            return math.nan if self.diverged else 0.0
        tp, fp = float(self.true_positives), float(self.false_positives)
        tn, fn = float(self.true_negatives), float(self.false_negatives)
        below = 1.0
        for term in (tp + fp, tp + fn, tn + fp, tn + fn):
            below *= term or 1.0
        return (tp * tn - fp * fn) / math.sqrt(below)


class _BinaryMetric(EvalMetric):
    """Base of F1 and MCC: the mean over batches (macro) or one value of all counts (micro)."""

    def __init__(
        self,
        name: str = "",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        if average not in ("macro", "micro"):
            raise ValueError_(
                f"{type(self).__name__}: average must be 'macro' or 'micro', got {average!r}"
            )
        self.average = average
        self._counts = _BinaryCounts()
        self._global_counts = _BinaryCounts()
        super().__init__(name, output_names, label_names, has_global_stats=True, average=average)

    def _score(self, counts: _BinaryCounts) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of binary labels and scores of shape ``(batch, 2)``."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._counts.update(label, pred)
            self._global_counts.update(label, pred)
            if has_nan(type(self).__name__, to_numpy(pred)):
                self._counts.diverged = self._global_counts.diverged = True
        if self.average == "macro":
            self._add(self._score(self._counts), 1)
            self._counts.reset()
            self._global_counts.reset()
        else:
            self.num_inst = self._counts.total
            self.sum_metric = self._score(self._counts) * self.num_inst
            self.global_num_inst = self._global_counts.total
            self.global_sum_metric = self._score(self._global_counts) * self.global_num_inst

    def reset(self) -> None:
        """Reset the local and global values."""
        super().reset()
        self._counts.reset()
        self._global_counts.reset()

    def reset_local(self) -> None:
        """Reset the local values; see `EvalMetric.reset_local`."""
        super().reset_local()
        self._counts.reset()


@register
class F1(_BinaryMetric, default_name="f1"):
    """Harmonic mean of precision and recall of binary classification.

    Parameters
    ----------
    name : str
    average : {'macro', 'micro'}
        Mean over updates, or one value of all samples.
    """

    def _score(self, counts: _BinaryCounts) -> float:
        return counts.f1


@register
class MCC(_BinaryMetric, default_name="mcc"):
    """Matthews correlation coefficient of binary classification.

    Parameters
    ----------
    name : str
    average : {'macro', 'micro'}
        Mean over updates, or one value of all samples.
    """

    def _score(self, counts: _BinaryCounts) -> float:
        return counts.matthews


@register
class PCC(EvalMetric):
    """Pearson correlation of a multi-class confusion matrix; for two classes equal to `MCC`.

    Parameters
    ----------
    name : str
    has_global_stats : bool
        Whether `get_global` has values of its own, which `reset_local` keeps.
    """

    def __init__(
        self,
        name: str = "pcc",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        has_global_stats: bool = True,
    ) -> None:
        self.k = 2
        self.lcm: np.ndarray[Any, Any] = np.zeros((2, 2))
        self.gcm: np.ndarray[Any, Any] = np.zeros((2, 2))
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and class scores or class numbers."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth = to_numpy(label).astype("int32", copy=False).ravel()
            found = to_numpy(pred)
            if has_nan("PCC", found):
                self.lcm, self.gcm = self.lcm + math.nan, self.gcm + math.nan
                continue
            if found.shape != to_numpy(label).shape:
                found = found.argmax(axis=1)
            found = found.astype("int32", copy=False).ravel()
            check_label_shapes(truth, found)
            count = int(max(found.max(), truth.max())) + 1
            if count > self.k:
                self._grow(count - self.k)
            batch = np.zeros((self.k, self.k))
            np.add.at(batch, (found, truth), 1)
            self.lcm += batch
            self.gcm += batch
        self.num_inst += 1
        self.global_num_inst += 1

    def _grow(self, more: int) -> None:
        self.lcm = np.pad(self.lcm, ((0, more), (0, more)))
        self.gcm = np.pad(self.gcm, ((0, more), (0, more)))
        self.k += more

    @staticmethod
    def _correlation(matrix: np.ndarray[Any, Any]) -> float:
        total = matrix.sum()
        found, truth = matrix.sum(axis=1), matrix.sum(axis=0)
        covariance = (matrix.diagonal() * total - found * truth).sum()
        spread_found = (found * (total - found)).sum()
        spread_truth = (truth * (total - truth)).sum()
        if not spread_found or not spread_truth:
            return math.nan
        return float(covariance / math.sqrt(spread_found * spread_truth))

    def reset(self) -> None:
        """Reset the local and global values."""
        self.global_num_inst = 0
        self.gcm = np.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        """Reset the local values; see `EvalMetric.reset_local`."""
        self.num_inst = 0
        self.lcm = np.zeros((self.k, self.k))

    def get(self) -> tuple[str, float]:
        """Return name and value; nan before the first update."""
        return self.name, self._correlation(self.lcm) if self.num_inst else math.nan

    def get_global(self) -> tuple[str, float]:
        """Return name and value over all updates since `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self._correlation(self.gcm) if self.global_num_inst else math.nan
