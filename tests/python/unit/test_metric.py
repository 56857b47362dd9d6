"""Metrics against the values of MXNet 1.9.1 (tests/data/make_gluon.py)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxlite import metric, nd
from mxlite.base import MXNetError

GOLDEN = json.loads((Path(__file__).parents[2] / "data/mxnet_1_9_1/golden.json").read_text())
ARRAYS = {name: np.float32(values) for name, values in GOLDEN["metric_data"].items()}


@pytest.mark.parametrize("case", GOLDEN["metrics"], ids=lambda c: f"{c['name']}-{c['options']}")
def test_a_metric_has_the_value_of_mxnet(case: dict[str, Any]) -> None:
    measure = metric.create(case["name"], **case["options"])
    for label, pred in case["pairs"]:
        measure.update([nd.array(ARRAYS[label])], [nd.array(ARRAYS[pred])])
    name, value = measure.get()
    assert name == case["metric_name"]
    assert value == pytest.approx(case["value"], rel=1e-5)


def test_the_global_value_survives_a_local_reset() -> None:
    measure = metric.Accuracy()
    measure.update([nd.array([0, 1])], [nd.array([[1, 0], [1, 0]])])
    measure.reset_local()
    measure.update([nd.array([0])], [nd.array([[1, 0]])])
    assert measure.get() == ("accuracy", 1.0)
    assert measure.get_global() == ("accuracy", pytest.approx(2 / 3))
    measure.reset()
    assert math.isnan(measure.get_global()[1])


def test_accuracy_takes_class_numbers_and_bfloat16_scores() -> None:
    measure = metric.Accuracy()
    measure.update(nd.array([1, 2, 0]), nd.array([1, 2, 2]))
    measure.update([nd.array([1])], [nd.array([[0.1, 0.9]]).astype("bfloat16")])
    assert measure.get()[1] == pytest.approx(3 / 4)


def test_a_registered_class_is_created_by_name() -> None:
    @metric.register
    class Answer(metric.EvalMetric):
        def update(self, labels: Any, preds: Any) -> None:
            self._add(42.0, 1)

    measure = metric.create("answer", "answer")
    measure.update([], [])
    assert measure.get() == ("answer", 42.0)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: metric.create("acuracy"), "'acuracy' is not registered; did you mean 'accuracy'"),
        (lambda: metric.create(3), "3 of type int"),
        (lambda: metric.F1(average="mean"), "must be 'macro' or 'micro', got 'mean'"),
        (
            lambda: metric.Accuracy().update([nd.ones(2)], [nd.ones((3, 2))]),
            "2 does not match .* 3",
        ),
        (lambda: metric.Accuracy().update([nd.ones(2)], []), "1 does not match .* predictions 0"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))
