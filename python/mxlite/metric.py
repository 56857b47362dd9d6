"""Metrics of predictions (``mx.metric``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from . import registry as _registry
from .base import ShapeError, TypeError_, ValueError_
from .ndarray import NDArray

__all__ = [
    "F1",
    "MAE",
    "MCC",
    "MSE",
    "PCC",
    "RMSE",
    "Accuracy",
    "Caffe",
    "CompositeEvalMetric",
    "CrossEntropy",
    "CustomMetric",
    "EvalMetric",
    "Loss",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Perplexity",
    "TopKAccuracy",
    "Torch",
    "check_label_shapes",
    "create",
    "np",
    "register",
]

Array = Any
_numpy = np


def check_label_shapes(
    labels: Any, preds: Any, wrap: bool = False, shape: bool = False
) -> tuple[Any, Any]:
    """Check that labels and predictions belong together.

    Parameters
    ----------
    labels, preds : list of NDArray or NDArray
    wrap : bool
        Put single arrays into lists.
    shape : bool
        Compare shapes instead of lengths.

    Returns
    -------
    labels, preds

    Raises
    ------
    ShapeError
        If they differ.
    """
    given = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if given[0] != given[1]:
        raise ShapeError(
            f"Shape of labels {given[0]} does not match shape of predictions {given[1]}"
        )
    if wrap:
        labels = [labels] if isinstance(labels, (NDArray, _numpy.ndarray)) else labels
        preds = [preds] if isinstance(preds, (NDArray, _numpy.ndarray)) else preds
    return labels, preds


def _values(array: Any) -> _numpy.ndarray[Any, Any]:
    """Return the values of an array; bfloat16 as float32."""
    if isinstance(array, NDArray):
        array = array.asnumpy()
    array = _numpy.asarray(array)
    if array.dtype.name == "bfloat16":
        return array.astype(_numpy.float32)
    return array  # type: ignore[no-any-return]


class EvalMetric:
    """Base of all metrics: a sum and a number of instances, since the last reset and in all.

    Parameters
    ----------
    name : str
    output_names, label_names : list of str, optional
        Which outputs and labels `update_dict` takes.
    **kwargs
        Kept for `get_config`.
    """

    def __init__(
        self,
        name: Any,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = bool(kwargs.pop("has_global_stats", False))
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments from which `create` makes the metric again.

        Returns
        -------
        dict
        """
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: Mapping[str, Array], pred: Mapping[str, Array]) -> None:
        """Update from dictionaries, taking the names given to the constructor.

        Parameters
        ----------
        label, pred : mapping of str to NDArray
        """
        preds = list(pred.values())
        labels = list(label.values())
        if self.output_names is not None:
            preds = [pred[name] for name in self.output_names]
        if self.label_names is not None:
            labels = [label[name] for name in self.label_names]
        self.update(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch; every metric defines it.

        Parameters
        ----------
        labels, preds : list of NDArray
        """
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst = 0
        self.sum_metric = 0.0
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Forget what came since the last `reset_local`; the global values stay."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def _add(self, total: float, count: int) -> None:
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def _value(self, total: float, count: int) -> float:
        """Return the metric of a sum and a count."""
        return total / count

    def get(self) -> tuple[Any, Any]:
        """Return name and value; nan before the first update.

        Returns
        -------
        name : str or list of str
        value : float or list of float
        """
        if self.num_inst == 0:
            return self.name, math.nan
        return self.name, self._value(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """Return name and value of everything since `reset`.

        Returns
        -------
        name : str or list of str
        value : float or list of float
        """
        if not self._has_global_stats:
            return self.get()
        if self.global_num_inst == 0:
            return self.name, math.nan
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value.

        Returns
        -------
        list of tuple
        """
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value of everything since `reset`.

        Returns
        -------
        list of tuple
        """
        return _pairs(self.get_global())


def _pairs(named: tuple[Any, Any]) -> list[tuple[str, float]]:
    names, values = named
    names = names if isinstance(names, list) else [names]
    values = values if isinstance(values, list) else [values]
    return list(zip(names, values))


register = _registry.get_register_func(EvalMetric, "metric")
alias = _registry.get_alias_func(EvalMetric, "metric")
_create = _registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Make a metric.

    Parameters
    ----------
    metric : str, callable, EvalMetric or list of them
        A list gives a `CompositeEvalMetric`, a function of label and prediction a `CustomMetric`.
    *args, **kwargs
        Arguments of the metric.

    Returns
    -------
    EvalMetric
    """
    if callable(metric) and not isinstance(metric, EvalMetric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for child in metric:
            composite.add(create(child, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@alias("composite")
@register
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together.

    Parameters
    ----------
    metrics : list of EvalMetric or str, optional
    name : str
    """

    def __init__(
        self,
        metrics: Sequence[Any] | None = None,
        name: str = "composite",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or []]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Append a metric.

        Parameters
        ----------
        metric : EvalMetric or what `create` takes
        """
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Return a metric by position.

        Parameters
        ----------
        index : int

        Returns
        -------
        EvalMetric
        """
        if not 0 <= index < len(self.metrics):
            raise ValueError_(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    def update_dict(self, label: Mapping[str, Array], pred: Mapping[str, Array]) -> None:
        """Update every metric; see `EvalMetric.update_dict`."""
        if self.label_names is not None:
            label = {name: array for name, array in label.items() if name in self.label_names}
        if self.output_names is not None:
            pred = {name: array for name, array in pred.items() if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def update(self, labels: Any, preds: Any) -> None:
        """Update every metric."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        """Reset every metric."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Reset the local values of every metric."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[float]]:
        """Return the names and values of all metrics."""
        return self._joined([metric.get() for metric in self.metrics])

    def get_global(self) -> tuple[list[str], list[float]]:
        """Return the names and global values of all metrics."""
        return self._joined([metric.get_global() for metric in self.metrics])

    @staticmethod
    def _joined(parts: list[tuple[Any, Any]]) -> tuple[list[str], list[float]]:
        pairs = [pair for part in parts for pair in _pairs(part)]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_config(self) -> dict[str, Any]:
        """Return the configuration with that of all metrics."""
        config = super().get_config()
        config["metrics"] = [metric.get_config() for metric in self.metrics]
        return config


@alias("acc")
@register
class Accuracy(EvalMetric):
    """Part of the predictions that equal the label.

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
            scores, truth = _values(pred), _values(label)
            if scores.shape != truth.shape:
                scores = scores.argmax(axis=self.axis)
            found, wanted = scores.astype("int32").ravel(), truth.astype("int32").ravel()
            check_label_shapes(wanted, found)
            self._add(float((found == wanted).sum()), len(found))


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """Part of the samples whose label is among the ``top_k`` highest scores.

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
            scores, truth = _values(pred).astype("float32"), _values(label).astype("int32")
            if scores.ndim > 2:
                raise ShapeError("Predictions should be no more than 2 dims")
            check_label_shapes(truth, scores)
            if scores.ndim == 1:
                self._add(float((scores.astype("int32") == truth.ravel()).sum()), len(truth))
                continue
            best = min(scores.shape[1], self.top_k)
            order = _numpy.argpartition(scores, -best, axis=1)[:, -best:]
            hits = (order == truth.reshape(-1, 1)).any(axis=1)
            self._add(float(hits.sum()), len(truth))


class _BinaryCounts:
    """True and false positives and negatives of binary classification."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.true_positives = self.false_positives = 0
        self.true_negatives = self.false_negatives = 0

    def update(self, label: Any, pred: Any) -> None:
        scores, truth = _values(pred), _values(label).astype("int32").ravel()
        if scores.ndim != 2 or scores.shape[1] > 2:
            raise ShapeError(
                f"binary classification: predictions of shape {scores.shape} were given, expected "
                "(batch, 2)"
            )
        found = scores.argmax(axis=1)
        check_label_shapes(truth, found)
        if len(_numpy.unique(truth)) > 2:
            raise ValueError_(
                f"binary classification: labels {_numpy.unique(truth).tolist()} were given, "
                "expected 0 and 1"
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
        doubled = 2 * self.true_positives
        below = doubled + self.false_positives + self.false_negatives
        return doubled / below if doubled else 0.0

    @property
    def matthews(self) -> float:
        if not self.total:
            return 0.0
        tp, fp = float(self.true_positives), float(self.false_positives)
        tn, fn = float(self.true_negatives), float(self.false_negatives)
        below = 1.0
        for term in (tp + fp, tp + fn, tn + fp, tn + fn):
            below *= term or 1.0
        return (tp * tn - fp * fn) / math.sqrt(below)


class _BinaryMetric(EvalMetric):
    """F1 and MCC: averaged over batches (macro) or of all counts (micro)."""

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None,
        label_names: Sequence[str] | None,
        average: str,
    ) -> None:
        if average not in ("macro", "micro"):
            raise ValueError_(
                f"{type(self).__name__}: average is {average!r}, expected 'macro' or 'micro'"
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
        """Forget everything."""
        super().reset()
        self._counts.reset()
        self._global_counts.reset()

    def reset_local(self) -> None:
        """Forget what came since the last `reset_local`."""
        super().reset_local()
        self._counts.reset()


@register
class F1(_BinaryMetric):
    """Harmonic mean of precision and recall of binary classification.

    Parameters
    ----------
    name : str
    average : {'macro', 'micro'}
        Mean over updates, or one value of all samples.
    """

    def __init__(
        self,
        name: str = "f1",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _BinaryCounts) -> float:
        return counts.f1


@register
class MCC(_BinaryMetric):
    """Matthews correlation coefficient of binary classification.

    Parameters
    ----------
    name : str
    average : {'macro', 'micro'}
        Mean over updates, or one value of all samples.
    """

    def __init__(
        self,
        name: str = "mcc",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _BinaryCounts) -> float:
        return counts.matthews


@register
class PCC(EvalMetric):
    """Pearson correlation of a multi-class confusion matrix; for two classes equal to `MCC`.

    Parameters
    ----------
    name : str
    """

    def __init__(
        self,
        name: str = "pcc",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.k = 2
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and class scores or class numbers."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth = _values(label).astype("int32", copy=False).ravel()
            found = _values(pred)
            if found.shape != _values(label).shape:
                found = found.argmax(axis=1)
            found = found.astype("int32", copy=False).ravel()
            check_label_shapes(truth, found)
            count = int(max(found.max(), truth.max())) + 1
            if count > self.k:
                self._grow(count - self.k)
            batch = _numpy.zeros((self.k, self.k))
            _numpy.add.at(batch, (found, truth), 1)
            self.lcm += batch
            self.gcm += batch
        self.num_inst += 1
        self.global_num_inst += 1

    def _grow(self, more: int) -> None:
        self.lcm = _numpy.pad(self.lcm, ((0, more), (0, more)))
        self.gcm = _numpy.pad(self.gcm, ((0, more), (0, more)))
        self.k += more

    @staticmethod
    def _correlation(matrix: _numpy.ndarray[Any, Any]) -> float:
        total = matrix.sum()
        found, truth = matrix.sum(axis=1), matrix.sum(axis=0)
        covariance = (matrix.diagonal() * total - found * truth).sum()
        spread_found = (found * (total - found)).sum()
        spread_truth = (truth * (total - truth)).sum()
        if not spread_found or not spread_truth:
            return math.nan
        return float(covariance / math.sqrt(spread_found * spread_truth))

    def reset(self) -> None:
        """Forget everything."""
        self.global_num_inst = 0
        self.gcm = _numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        """Forget what came since the last `reset_local`."""
        self.num_inst = 0
        self.lcm = _numpy.zeros((self.k, self.k))

    def get(self) -> tuple[str, float]:
        """Return name and value; nan before the first update."""
        return self.name, self._correlation(self.lcm) if self.num_inst else math.nan

    def get_global(self) -> tuple[str, float]:
        """Return name and value of everything since `reset`."""
        return self.name, self._correlation(self.gcm) if self.global_num_inst else math.nan


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
            scores, truth = _values(pred), _values(label)
            if truth.size != scores.size // scores.shape[-1]:
                raise ShapeError(f"Perplexity: shape mismatch: {truth.shape} vs. {scores.shape}")
            wanted = truth.reshape(-1).astype("int64")
            rows = _numpy.moveaxis(scores, self.axis, -1).reshape(-1, scores.shape[self.axis])
            inside = _numpy.clip(wanted, 0, rows.shape[1] - 1)
            chosen = rows[_numpy.arange(len(wanted)), inside].astype("float64")
            if self.ignore_label is not None:
                ignored = wanted == self.ignore_label
                count -= int(ignored.sum())
                chosen = _numpy.where(ignored, 1.0, chosen)
            total -= float(_numpy.log(_numpy.maximum(1e-10, chosen)).sum())
            count += len(wanted)
        self._add(total, count)

    def _value(self, total: float, count: int) -> float:
        return math.exp(total / count)


class _MeanOfBatches(EvalMetric):
    """Metrics that average one value per batch, whatever its size (as in MXNet 1.x)."""

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _score(self, difference: _numpy.ndarray[Any, Any]) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth, found = _values(label), _values(pred)
            truth = truth.reshape(-1, 1) if truth.ndim == 1 else truth
            found = found.reshape(-1, 1) if found.ndim == 1 else found
            self._add(self._score(truth - found), 1)


@register
class MAE(_MeanOfBatches):
    """Mean absolute error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def __init__(
        self,
        name: str = "mae",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)

    def _score(self, difference: _numpy.ndarray[Any, Any]) -> float:
        return float(_numpy.abs(difference).mean())


@register
class MSE(_MeanOfBatches):
    """Mean squared error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def __init__(
        self,
        name: str = "mse",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)

    def _score(self, difference: _numpy.ndarray[Any, Any]) -> float:
        return float((difference**2.0).mean())


@register
class RMSE(_MeanOfBatches):
    """Root mean squared error, averaged over batches.

    Parameters
    ----------
    name : str
    """

    def __init__(
        self,
        name: str = "rmse",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)

    def _score(self, difference: _numpy.ndarray[Any, Any]) -> float:
        return float(_numpy.sqrt((difference**2.0).mean()))


@alias("ce")
@register
class CrossEntropy(EvalMetric):
    """Mean of ``-log(p + eps)``, with p the probability of the label.

    Parameters
    ----------
    eps : float
    name : str
    """

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
            truth, scores = _values(label).ravel(), _values(pred)
            check_label_shapes(truth, scores)
            chosen = scores[_numpy.arange(len(truth)), truth.astype("int64")]
            self._add(float((-_numpy.log(chosen + self.eps)).sum()), len(truth))


@alias("nll_loss")
@register
class NegativeLogLikelihood(CrossEntropy):
    """Mean of ``-log(p + eps)``; `CrossEntropy` under another name.

    Parameters
    ----------
    eps : float
    name : str
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


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
                f"PearsonCorrelation: average is {average!r}, expected 'macro' or 'micro'"
            )
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True, average=average)

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._moments = _numpy.zeros(6)

    def reset_local(self) -> None:
        """Forget what came since the last `reset_local`."""
        super().reset_local()
        self._moments = _numpy.zeros(6)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and predictions of equal shape."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth = _values(label).ravel().astype("float64")
            found = _values(pred).ravel().astype("float64")
            check_label_shapes(truth, found, False, True)
            if self.average == "macro":
                self._add(float(_numpy.corrcoef(found, truth)[0, 1]), 1)
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
        """Return name and value of everything since `reset`."""
        if self.average == "micro":
            return self.get()
        name, value = super().get_global()
        return str(name), float(value)


@register
class Loss(EvalMetric):
    """Mean of the outputs, for networks whose output is the loss.

    Parameters
    ----------
    name : str
    """

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
            values = _values(pred)
            self._add(float(values.sum(dtype="float64")), int(values.size))


@register
class Torch(Loss):
    """`Loss` under the name ``torch``."""

    def __init__(
        self,
        name: str = "torch",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """`Loss` under the name ``caffe``."""

    def __init__(
        self,
        name: str = "caffe",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """The mean of a function of label and prediction.

    Parameters
    ----------
    feval : callable
        ``feval(label, pred)`` of NumPy arrays gives a number, or a sum and a count.
    name : str, optional
        Default is ``custom(<name of the function>)``.
    allow_extra_outputs : bool
        Ignore outputs without label.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], float | tuple[float, int]],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        if name is None:
            function = getattr(feval, "__name__", repr(feval))
            name = f"custom({function})" if "<" in function else function
        super().__init__(
            name, output_names, label_names, has_global_stats=True, feval=feval,
            allow_extra_outputs=allow_extra_outputs,
        )  # fmt: skip
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch of labels and predictions."""
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            value = self._feval(_values(label), _values(pred))
            if isinstance(value, tuple):
                self._add(*value)
            else:
                self._add(value, 1)

    def get_config(self) -> dict[str, Any]:
        """Refuse: a function has no configuration."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(
    numpy_feval: Callable[[Any, Any], Any],
    name: str | None = None,
    allow_extra_outputs: bool = False,
) -> CustomMetric:
    """Make a metric from a function of NumPy arrays.

    Parameters
    ----------
    numpy_feval : callable
        ``f(label, pred)``.
    name : str, optional
        Default is the function's name.
    allow_extra_outputs : bool
        Ignore outputs without label.

    Returns
    -------
    CustomMetric
    """
    if not callable(numpy_feval):
        raise TypeError_(f"metric.np: {numpy_feval!r} is no function")

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = name if name is not None else numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
