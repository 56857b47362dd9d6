"""Metrics against the values of MXNet 1.9.1 (tests/data/make_gluon.py)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mxlite as mx
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


@pytest.mark.parametrize("name", ["acc", "f1", "mcc", "pcc", "mae", "ce", "loss", "pearsonr"])
def test_a_metric_without_update_is_nan(name: str) -> None:
    assert math.isnan(metric.create(name).get()[1])


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


def test_a_composite_gives_all_names_and_values() -> None:
    both = metric.create(["acc", metric.CrossEntropy()])
    both.update([nd.array([0])], [nd.array([[0.5, 0.5]])])
    assert both.get_name_value() == [("accuracy", 1.0), ("cross-entropy", pytest.approx(0.693147))]
    assert isinstance(both.get_metric(1), metric.CrossEntropy)
    with pytest.raises(ValueError, match="index 2 is out of range 0 and 2"):
        both.get_metric(2)


def test_a_function_becomes_a_metric() -> None:
    def worst(label: Any, pred: Any) -> float:
        return float(np.abs(label - pred).max())

    measure = metric.create(worst)
    measure.update([nd.array([1, 2])], [nd.array([1, 5])])
    assert measure.get() == ("worst", 3.0)
    assert metric.np(worst, name="w").get()[0] == "w"


def test_update_dict_chooses_by_name() -> None:
    measure = metric.Accuracy(output_names=["out"], label_names=["label"])
    measure.update_dict(
        {"label": nd.array([1]), "other": nd.array([5])},
        {"aux": nd.array([[1, 0]]), "out": nd.array([[0, 1]])},
    )
    assert measure.get()[1] == 1.0


def test_a_metric_is_made_again_from_its_configuration() -> None:
    config = metric.TopKAccuracy(top_k=3).get_config()
    assert config["metric"] == "TopKAccuracy"
    assert config["top_k"] == 3


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
        (lambda: metric.TopKAccuracy(1), "Please use Accuracy if top_k is no more than 1"),
        (lambda: metric.F1(average="mean"), "'mean', expected 'macro' or 'micro'"),
        (
            lambda: metric.Accuracy().update([nd.ones((2,))], [nd.ones((3, 2))]),
            r"Shape of labels 2 does not match shape of predictions 3",
        ),
        (
            lambda: metric.Accuracy().update([nd.ones((2,))], []),
            r"Shape of labels 1 does not match shape of predictions 0",
        ),
        (
            lambda: metric.F1().update([nd.array([0, 1, 2])], [nd.ones((3, 2))]),
            r"labels \[0, 1, 2\] were given, expected 0 and 1",
        ),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))


def test_the_package_has_the_names_of_mxnet() -> None:
    assert mx.metric.Torch().get()[0] == "torch"
    assert mx.metric.Caffe().get()[0] == "caffe"
