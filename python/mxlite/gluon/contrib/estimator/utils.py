"""Checks of metrics that estimators and handlers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....base import ValueError_
from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

__all__: list[str] = []


def checked_metrics(metrics: Any) -> list[EvalMetric]:
    """Return metrics as a list; composites are replaced by their members."""
    if isinstance(metrics, CompositeEvalMetric):
        return [part for metric in metrics.metrics for part in checked_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    found = metrics or []
    if not isinstance(found, (list, tuple)) or not all(isinstance(m, EvalMetric) for m in found):
        raise ValueError_(
            "metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: "
            f"{metrics}"
        )
    return found if isinstance(found, list) else list(found)


def check_known_metrics(handler: Any, known: Iterable[EvalMetric]) -> None:
    """Raise if a metric of a handler does not belong to the estimator."""
    ids = {id(metric) for metric in known}
    for attribute, value in vars(handler).items():
        if "metric" not in attribute or not value:
            continue
        for metric in value if isinstance(value, list) else [value]:
            if isinstance(metric, EvalMetric) and id(metric) not in ids:
                raise ValueError_(
                    f"Event handler {type(handler).__name__} refers to a metric instance {metric} "
                    "outside of the known training and validation metrics. Please use the metrics "
                    "from estimator.train_metrics and estimator.val_metrics instead."
                )


def suggested_metric(loss: Loss) -> EvalMetric | None:
    """Return the default metric for a loss, or None."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
