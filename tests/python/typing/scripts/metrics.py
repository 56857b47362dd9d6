"""Metrics, also one of the user's own."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np


class Above(mx.metric.EvalMetric):
    def __init__(self, limit: float) -> None:
        super().__init__("above")
        self.limit = limit

    def update(self, labels: list[mx.nd.NDArray], preds: list[mx.nd.NDArray]) -> None:
        for pred in preds:
            self.sum_metric += float((pred > self.limit).sum().asscalar())
            self.num_inst += pred.size


def error(label: np.ndarray[Any, Any], pred: np.ndarray[Any, Any]) -> float:
    return float(np.abs(label - pred.argmax(axis=1)).mean())


def main() -> None:
    metrics = mx.metric.CompositeEvalMetric()
    metrics.add(mx.metric.Accuracy())
    metrics.add(mx.metric.TopKAccuracy(top_k=2))
    metrics.add(Above(0.5))
    metrics.add(mx.metric.np(error, name="own"))
    metrics.add(mx.metric.create("ce"))
    label = mx.nd.array([0, 2, 1])
    pred = mx.nd.softmax(mx.nd.random.uniform(shape=(3, 3)))
    metrics.update([label], [pred])
    names, values = metrics.get()
    for name, value in zip(names, values):
        print(name, value)
    print(dict(metrics.get_name_value()))


if __name__ == "__main__":
    main()
