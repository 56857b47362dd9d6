"""Metrics of class labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import AxisError, ShapeError, ValueError_
from .base import (
    EvalMetric,
    alias,
    check_classes,
    check_label_shapes,
    has_nan,
    register,
    to_numpy,
)

__all__ = [
    "Accuracy",
    "CrossEntropy",
    "NegativeLogLikelihood",
    "Perplexity",
    "TopKAccuracy",
]


@alias("acc")
@register
class Accuracy(EvalMetric):
    """Fraction of the predictions that equal the label.

    Parameters
    ----------
    axis : int
        Class axis of predictions that have one dimension more than the labels.
    name : str
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and class scores or class numbers."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            scores, truth = to_numpy(pred), to_numpy(label)
            diverged = has_nan("Accuracy", scores)
            if scores.shape != truth.shape:
                if not -scores.ndim <= self.axis < scores.ndim:
                    raise AxisError(
                        f"Accuracy: predictions must have classes along axis {self.axis}, got "
                        f"labels of shape {truth.shape} and predictions of shape {scores.shape}; "
                        "update takes labels first"
                    )
                scores = scores.argmax(axis=self.axis)
            wanted = truth.astype("int32").ravel()
            check_label_shapes(wanted, scores.ravel())
            if diverged:
                self._add(math.nan, len(wanted))
                continue
            self._add(float((scores.astype("int32").ravel() == wanted).sum()), len(wanted))


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """Fraction of the samples whose label is among the ``top_k`` highest scores.

    Parameters
    ----------
    top_k : int
        More than 1.
    name : str
        ``_<top_k>`` is appended.
    """

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        self.top_k = top_k
        if top_k <= 1:
            raise ValueError_("Please use Accuracy if top_k is no more than 1")
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and class scores of two dimensions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            scores, truth = to_numpy(pred).astype("float32"), to_numpy(label).astype("int32")
            if scores.ndim > 2:
                raise ShapeError("Predictions should be no more than 2 dims")
            check_label_shapes(truth, scores)
            if has_nan("TopKAccuracy", scores):
                self._add(math.nan, len(truth))
                continue
            if scores.ndim == 1:
                self._add(float((scores.astype("int32") == truth.ravel()).sum()), len(truth))
                continue
            best = min(scores.shape[1], self.top_k)
            order = np.argpartition(scores, -best, axis=1)[:, -best:]
            hits = (order == truth.reshape(-1, 1)).any(axis=1)
            self._add(float(hits.sum()), len(truth))


@register
class Perplexity(EvalMetric):
    """``exp`` of the mean of ``-log(p)``, with p the probability of the label.

    Parameters
    ----------
    ignore_label : int or None
        Samples with this label are left out.
    axis : int
        The class axis.
    name : str
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            name, output_names, label_names, has_global_stats=True, ignore_label=ignore_label,
            axis=axis,
        )  # fmt: skip
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and probabilities."""
        labels, preds = check_label_shapes(labels, preds, True)
        total, count = 0.0, 0
        for label, pred in zip(labels, preds):
            scores, truth = to_numpy(pred), to_numpy(label)
            if not -scores.ndim <= self.axis < scores.ndim:
                raise AxisError(
                    f"Perplexity: predictions must have classes along axis {self.axis}, got shape "
                    f"{scores.shape}"
                )
            if truth.size * scores.shape[self.axis] != scores.size:
                raise ShapeError(f"Perplexity: shape mismatch: {truth.shape} vs. {scores.shape}")
            wanted = truth.reshape(-1).astype("int64")
            rows = np.moveaxis(scores, self.axis, -1).reshape(-1, scores.shape[self.axis])
            kept = wanted if self.ignore_label is None else wanted[wanted != self.ignore_label]
            check_classes("Perplexity", kept, rows.shape[1])
            inside = np.clip(wanted, 0, rows.shape[1] - 1)
            chosen = rows[np.arange(len(wanted)), inside].astype("float64")
            if self.ignore_label is not None:
                ignored = wanted == self.ignore_label
                count -= int(ignored.sum())
                chosen = np.where(ignored, 1.0, chosen)
            total -= float(np.log(np.maximum(1e-10, chosen)).sum())
            count += len(wanted)
        self._add(total, count)

    def _value(self, total: float, count: int) -> float:
        return math.exp(total / count)


@alias("ce")
@register
class CrossEntropy(EvalMetric):
    """Mean of ``-log(p + eps)``, with p the probability of the label."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, eps=eps)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and probabilities of two dimensions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth, scores = to_numpy(label).ravel(), to_numpy(pred)
            check_label_shapes(truth, scores)
            check_classes(type(self).__name__, truth, scores.shape[1])
            chosen = scores[np.arange(len(truth)), truth.astype("int64")]
            self._add(float((-np.log(chosen + self.eps)).sum()), len(truth))


@alias("nll_loss")
@register
class NegativeLogLikelihood(CrossEntropy, default_name="nll-loss"):
    """Mean of ``-log(p + eps)``; `CrossEntropy` under another name.

    Parameters
    ----------
    eps : float
    name : str
    """
