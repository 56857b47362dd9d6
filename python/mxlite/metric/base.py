"""Code shared by all metrics: base class, registry, composites and functions as metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from .. import registry as _registry
from .._typed_init import TypedInit, with_defaults
from ..base import IndexError_, NeedsInit, ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..ndarray.array_like import host_array

__all__ = [
    "CompositeEvalMetric",
    "CustomMetric",
    "EvalMetric",
    "alias",
    "check_classes",
    "check_label_shapes",
    "create",
    "from_function",
    "has_nan",
    "register",
    "to_numpy",
]


Array = Any


def check_label_shapes(
    labels: Any, preds: Any, wrap: bool = False, shape: bool = False
) -> tuple[Any, Any]:
    """Raise if labels and predictions have different lengths or shapes.

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
        labels = [labels] if isinstance(labels, (NDArray, np.ndarray)) else labels
        preds = [preds] if isinstance(preds, (NDArray, np.ndarray)) else preds
    return labels, preds


def check_classes(who: str, labels: np.ndarray[Any, Any], count: int) -> None:
    """Raise if labels are not class numbers below ``count``."""
    outside = labels[~((labels >= 0) & (labels < count))]
    if outside.size:
        raise IndexError_(
            f"{who}: labels must be classes from 0 to {count - 1}, got {outside.flat[0]:g}"
        )


def has_nan(who: str, scores: np.ndarray[Any, Any]) -> bool:
    """Return whether predictions have NaN; warn, because argmax would choose class 0."""
    if scores.dtype.kind != "f" or not scores.size or not np.isnan(scores.min()):
        return False
    warnings.warn(
        f"{who}: predictions have NaN, so the metric is nan; autograd.detect_anomaly() finds the "
        "operator that computes NaN first",
        stacklevel=3,
    )
    return True


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """Return the values of an array; bfloat16 as float32."""
    values = host_array(array, "metric")
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


class EvalMetric(NeedsInit, TypedInit):
    """Base of all metrics: sum and number of instances, local (since reset_local) and global.

    Parameters
    ----------
    name : str
    output_names, label_names : list of str, optional
        Names of outputs and labels that `update_dict` uses.
    **kwargs
        Kept for `get_config`.
    """

    _set_by_init = "_kwargs"

    def __init_subclass__(cls, default_name: str = "", **options: Any) -> None:
        """Give the class a copy of its base's constructor with ``name=default_name``."""
        if default_name:
            init: Any = with_defaults(cls.__init__, cls.__qualname__, name=default_name)
            setattr(cls, "__init__", init)  # noqa: B010 - mypy refuses the assignment
        super().__init_subclass__(**options)

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments with which `create` makes the same metric."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: Mapping[str, Array], pred: Mapping[str, Array]) -> None:
        """Update from dictionaries, with the names that were given to the constructor.

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
        """Add a batch; every metric must define this.

        Parameters
        ----------
        labels, preds : list of NDArray
        """
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def reset(self) -> None:
        """Reset the local and global values."""
        self.num_inst = self.global_num_inst = 0
        # Uses a NumPy number, because NumPy 2 adds a float32 value to a Python float in float32.
        self.sum_metric: float = np.float64(0)
        self.global_sum_metric: float = np.float64(0)

    def reset_local(self) -> None:
        """Reset the local values, which cover the updates since this call; keep the global ones."""
        self.num_inst = 0
        self.sum_metric = np.float64(0)

    def _add(self, total: float, count: int) -> None:
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def _value(self, total: float, count: int) -> float:
        """Return the metric for a sum and a count."""
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
        return self.name, _plain(self._value(self.sum_metric, self.num_inst))

    def get_global(self) -> tuple[Any, Any]:
        """Return name and value over all updates since `reset`.

        Returns
        -------
        name : str or list of str
        value : float or list of float
        """
        if not self._has_global_stats:
            return self.get()
        if self.global_num_inst == 0:
            return self.name, math.nan
        return self.name, _plain(self._value(self.global_sum_metric, self.global_num_inst))

    def get_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value over all updates since `reset`."""
        if not self._has_global_stats:  # user-defined metrics may override get_name_value or get
            return self.get_name_value()
        return _pairs(self.get_global())


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, np.floating) else value


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
        """Return a metric by position."""
        if not 0 <= index < len(self.metrics):
            raise ValueError_(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    # As in 1.x, the parameters have other names than in EvalMetric.
    def update_dict(self, labels: Mapping[str, Array], preds: Mapping[str, Array]) -> None:
        """Update every metric; see `EvalMetric.update_dict`."""
        if self.label_names is not None:
            labels = {name: array for name, array in labels.items() if name in self.label_names}
        if self.output_names is not None:
            preds = {name: array for name, array in preds.items() if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

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
            value = self._feval(to_numpy(label), to_numpy(pred))
            if isinstance(value, tuple):
                self._add(*value)
            else:
                self._add(value, 1)

    def get_config(self) -> dict[str, Any]:
        """Raise, because a function has no configuration."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def from_function(
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
        Ignore surplus outputs that have no label.
    """
    if not callable(numpy_feval):
        raise TypeError_(f"metric.np: numpy_feval must be a function, got {numpy_feval!r}")

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = name if name is not None else numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
