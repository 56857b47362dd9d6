"""Shared behavior of all metrics: names, options, local and global values, bad input."""

from __future__ import annotations

import math
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import metric, nd

SCORES = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.9, 0.1]]
WIDE = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]
ALONG_1 = {"ignore_label": None, "axis": 1}
# Class, options, labels, predictions, name and value.
METRICS: list[tuple[Any, dict[str, Any], Any, Any, str, float]] = [
    (metric.Accuracy, {}, [0, 1, 0, 0], SCORES, "accuracy", 3 / 4),
    (metric.Accuracy, {"axis": 0}, [1, 2], np.eye(3)[:, 1:], "accuracy", 1.0),
    (metric.TopKAccuracy, {"top_k": 2}, [3, 2], WIDE, "top_k_accuracy_2", 1 / 2),
    (metric.TopKAccuracy, {"top_k": 9}, [0, 3], WIDE, "top_k_accuracy_9", 1.0),
    (metric.TopKAccuracy, {"top_k": 2}, [1, 2, 0], [1, 2, 2], "top_k_accuracy_2", 2 / 3),
    (metric.CrossEntropy, {}, [0, 1], SCORES[:2], "cross-entropy", -math.log(0.42) / 2),
    (metric.CrossEntropy, {"eps": 0.5}, [0], [[0.5, 0.5]], "cross-entropy", 0.0),
    (metric.CrossEntropy, {}, [1], [[1.0, 0.0]], "cross-entropy", -math.log(1e-12)),
    (metric.NegativeLogLikelihood, {}, [0], [[0.25, 0.75]], "nll-loss", math.log(4)),
    (metric.NegativeLogLikelihood, {}, [1], [[1.0, 0.0]], "nll-loss", -math.log(1e-12)),
    (metric.Perplexity, {"ignore_label": None}, [0, 1], [[0.5, 0.5]] * 2, "perplexity", 2.0),
    (metric.Perplexity, {"ignore_label": 0}, [0, 1], [[0.5, 0.5], [0.75, 0.25]], "perplexity", 4.0),
    (metric.Perplexity, {"ignore_label": -1}, [-1, 1], [[0.5, 0.5], [0.5, 0.5]], "perplexity", 2.0),
    (metric.Perplexity, {"ignore_label": None}, [1], [[1.0, 0.0]], "perplexity", 1e10),
    (metric.Perplexity, ALONG_1, [[0, 1]], [[[0.5, 0.0], [0.0, 0.5]]], "perplexity", 2.0),
    (metric.Perplexity, ALONG_1, [[0, 1, 0]], [[[0.5, 0, 0.5], [0, 0.5, 0]]], "perplexity", 2.0),
    (metric.MAE, {}, [1, 2], [2, 5], "mae", 2.0),
    (metric.MSE, {}, [1, 2], [2, 5], "mse", 5.0),
    (metric.RMSE, {}, [1, 2], [2, 5], "rmse", math.sqrt(5)),
    (metric.PearsonCorrelation, {}, [1, 2, 4], [2, 4, 8], "pearsonr", 1.0),
    (metric.PearsonCorrelation, {"average": "micro"}, [1, 2, 4], [8, 6, 2], "pearsonr", -1.0),
    (metric.F1, {}, [0, 1, 0, 0], SCORES, "f1", 2 / 3),
    (metric.F1, {"average": "micro"}, [0, 1, 0, 0], SCORES, "f1", 2 / 3),
    (metric.F1, {}, [1, 1], [[1, 0], [1, 0]], "f1", 0.0),
    (metric.MCC, {}, [0, 1, 0, 0], SCORES, "mcc", 2 / math.sqrt(2 * 1 * 3 * 2)),
    (metric.MCC, {"average": "micro"}, [0, 0], [[1, 0], [0, 1]], "mcc", 0.0),
    (metric.PCC, {}, [0, 1, 0, 0], SCORES, "pcc", 2 / math.sqrt(2 * 1 * 3 * 2)),
    (metric.PCC, {}, [0, 1, 2], [0, 1, 2], "pcc", 1.0),
    (metric.Loss, {}, [0], [[1.0, 2.0], [3.0, 6.0]], "loss", 3.0),
    (metric.Torch, {}, [0], [1.0, 2.0], "torch", 1.5),
    (metric.Caffe, {}, [0], [1.0, 2.0], "caffe", 1.5),
]
IDS = [f"{row[0].__name__}-{row[1]}-{i}" for i, row in enumerate(METRICS)]


def arrays(row: tuple[Any, ...]) -> tuple[nd.NDArray, nd.NDArray]:
    return nd.array(row[2]), nd.array(row[3])


@pytest.mark.parametrize("row", METRICS, ids=IDS)
def test_values_follow_the_definition(row: tuple[Any, ...]) -> None:
    label, pred = arrays(row)
    measure = row[0](**row[1])
    assert math.isnan(measure.get()[1])
    assert math.isnan(measure.get_global()[1])
    measure.update([label], [pred])
    assert measure.get() == (row[4], pytest.approx(row[5], rel=1e-5, abs=1e-6))
    assert measure.get_name_value() == [measure.get()]


@pytest.mark.parametrize("row", [r for r in METRICS if len(r[2]) == len(r[3])], ids=str)
def test_arrays_outside_of_lists_are_taken(row: tuple[Any, ...]) -> None:
    label, pred = arrays(row)
    measure = row[0](**row[1])
    measure.update(label, pred)
    assert measure.get()[1] == pytest.approx(row[5], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("row", METRICS, ids=IDS)
def test_dictionaries_are_read_by_the_given_names(row: tuple[Any, ...]) -> None:
    label, pred = arrays(row)
    measure = row[0](**row[1], name="mine", output_names=["out"], label_names=["truth"])
    bad = nd.zeros((7, 1, 1, 1))
    measure.update_dict({"a": bad, "truth": label}, {"out": pred, "z": bad})
    name, value = measure.get()
    assert name == ("mine_" + str(row[1]["top_k"]) if "top_k" in row[1] else "mine")
    assert value == pytest.approx(row[5], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("row", METRICS, ids=IDS)
def test_the_configuration_holds_all_options(row: tuple[Any, ...]) -> None:
    config = row[0](**row[1], output_names=["out"], label_names=["truth"]).get_config()
    assert config["metric"] == row[0].__name__
    assert config["name"] == row[4]
    assert config["output_names"] == ["out"]
    assert config["label_names"] == ["truth"]
    for key, value in row[1].items():
        assert config[key] == value


@pytest.mark.parametrize("row", METRICS, ids=IDS)
def test_a_local_reset_keeps_the_global_value(row: tuple[Any, ...]) -> None:
    label, pred = arrays(row)
    measure = row[0](**row[1])
    measure.update([label], [pred])
    before = measure.get()
    micro_pearson = row[0] is metric.PearsonCorrelation and "average" in row[1]
    measure.reset_local()
    assert math.isnan(measure.get()[1])
    if not micro_pearson:  # as in MXNet 1.9.1, its global value is the local one
        assert measure.get_global() == before
        assert measure.get_global_name_value() == [before]
    measure.update([label], [pred])
    assert measure.get() == before
    measure.reset()
    assert math.isnan(measure.get_global()[1])
    measure.update([label], [pred])
    assert measure.get() == before
    assert measure.get_global() == before


@pytest.mark.parametrize("kind", [metric.F1, metric.MCC])
def test_macro_averages_batches_and_micro_counts_samples(kind: Any) -> None:
    batches = [([1, 0], [[0, 1], [1, 0]]), ([1, 1, 0, 0], [[1, 0], [0, 1], [0, 1], [0, 1]])]
    each, macro, micro = [], kind(), kind(average="micro")
    for label, pred in batches:
        one = kind()
        for measure in (one, macro, micro):
            measure.update([nd.array(label)], [nd.array(pred)])
        each.append(one.get()[1])
    assert macro.get()[1] == pytest.approx(sum(each) / 2)
    whole = kind()
    labels = nd.array(sum((b[0] for b in batches), []))
    whole.update([labels], [nd.array(sum((b[1] for b in batches), []))])
    assert micro.get()[1] == pytest.approx(whole.get()[1])
    assert micro.get()[1] != pytest.approx(macro.get()[1])
    assert micro.get_global() == micro.get()
    micro.reset_local()
    assert micro.get_global()[1] == pytest.approx(whole.get()[1])


def test_a_composite_passes_everything_on() -> None:
    both = metric.CompositeEvalMetric(["acc", "mae"], "two", ["out"], ["truth"])
    label, pred = nd.array([1, 0]), nd.array([1, 1])
    both.update_dict({"x": nd.ones(9), "truth": label}, {"y": nd.ones(9), "out": pred})
    assert both.get() == (["accuracy", "mae"], [0.5, 0.5])
    both.reset_local()
    assert all(math.isnan(v) for v in both.get()[1])
    assert both.get_global() == (["accuracy", "mae"], [0.5, 0.5])
    assert both.get_global_name_value() == [("accuracy", 0.5), ("mae", 0.5)]
    both.reset()
    assert all(math.isnan(v) for v in both.get_global()[1])
    both.add("mse")
    assert isinstance(both.get_metric(0), metric.Accuracy)
    assert isinstance(both.get_metric(2), metric.MSE)
    for index in (-1, 3):
        with pytest.raises(ValueError, match=f"Metric index {index} is out of range 0 and 3"):
            both.get_metric(index)
    config = both.get_config()
    assert config["name"] == "two"
    assert [c["metric"] for c in config["metrics"]] == ["Accuracy", "MAE", "MSE"]
    assert (config["output_names"], config["label_names"]) == (["out"], ["truth"])
    assert metric.CompositeEvalMetric().get() == ([], [])
    assert metric.CompositeEvalMetric().name == "composite"


def test_create_passes_options_to_every_metric_of_a_list() -> None:
    both = metric.create(["acc", "mse"], output_names=["out"])
    assert [m.output_names for m in both.metrics] == [["out"], ["out"]]
    assert metric.create("top_k_acc", top_k=3).top_k == 3
    ready = metric.MAE()
    assert metric.create(ready) is ready


def test_a_custom_metric_takes_sums_with_counts() -> None:
    def errors(label: Any, pred: Any) -> tuple[float, int]:
        return float((label != pred).sum()), len(label)

    measure = metric.CustomMetric(errors, output_names=["out"], label_names=["truth"])
    measure.update_dict(
        {"truth": nd.array([1, 2, 3])}, {"extra": nd.ones(4), "out": nd.array([1, 0, 0])}
    )
    measure.update([nd.array([5])], [nd.array([5])])
    assert measure.get() == ("errors", 2 / 4)
    measure.reset_local()
    assert measure.get_global() == ("errors", 2 / 4)
    with pytest.raises(NotImplementedError, match="^CustomMetric cannot be serialized$"):
        measure.get_config()
    assert metric.CustomMetric(lambda a, b: 0.0).name == "custom(<lambda>)"
    assert metric.CustomMetric(errors, "other").name == "other"


def test_a_custom_metric_ignores_extra_outputs_only_if_asked() -> None:
    def difference(label: Any, pred: Any) -> float:
        return float(np.abs(label - pred).sum())

    labels, preds = [nd.array([1])], [nd.array([3]), nd.array([9])]
    strict = metric.CustomMetric(difference)
    with pytest.raises(mx.MXNetError, match="Shape of labels 1 does not match shape of predict"):
        strict.update(labels, preds)
    for loose in (
        metric.CustomMetric(difference, allow_extra_outputs=True),
        metric.np(difference, allow_extra_outputs=True),
    ):
        loose.update(labels, preds)
        assert loose.get()[1] == 2.0
    with pytest.raises(mx.MXNetError, match="Shape of labels 1 does not match"):
        metric.np(difference).update(labels, preds)


class _Shares(metric.EvalMetric):
    """Adds float32 values, as metrics of users do."""

    def __init__(self) -> None:
        super().__init__("shares")

    def update(self, labels: Any, preds: Any) -> None:
        self.sum_metric += np.float32(0.1)
        self.num_inst += 1


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(
    "make", [_Shares, lambda: metric.CustomMetric(lambda label, pred: np.float32(0.1))]
)
def test_sums_of_float32_values_are_exact(make: Any, local: bool) -> None:
    """A sum in float32 is 0.10000001 after 16 values and drifts on."""
    own = make()
    if local:
        own.reset_local()
    for _ in range(1000):
        own.update([nd.ones((1,))], [nd.ones((1,))])
    _, value = own.get()
    assert type(value) is float
    assert value == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_a_metric_without_update_names_its_class() -> None:
    class Unfinished(metric.EvalMetric):
        pass

    with pytest.raises(NotImplementedError, match="^Unfinished does not define update$"):
        Unfinished("name").update([], [])


def test_a_metric_of_a_user_has_no_global_value_of_its_own() -> None:
    class Count(metric.EvalMetric):
        def update(self, labels: Any, preds: Any) -> None:
            self.num_inst += len(labels)
            self.sum_metric += 3.0

    measure = Count("count", ["out"], ["truth"], extra=4)
    measure.update([1, 2], [])
    assert str(measure) == "EvalMetric: {'count': 1.5}"
    assert measure.get_global() == ("count", 1.5)
    assert measure.get_global_name_value() == [("count", 1.5)]
    config = {"extra": 4, "metric": "Count", "name": "count"}
    assert measure.get_config() == {**config, "output_names": ["out"], "label_names": ["truth"]}


MISMATCH = "Shape of labels {} does not match shape of predictions {}"


@pytest.mark.parametrize(
    ("measure", "labels", "predictions", "words"),
    [
        (metric.TopKAccuracy(2), (1,), (1, 2, 2), "^Predictions should be no more than 2 dims$"),
        (metric.TopKAccuracy(2), (3,), (2, 3), MISMATCH.format(3, 2)),
        (
            metric.Perplexity(None),
            (3,),
            (2, 2),
            r"^Perplexity: shape mismatch: \(3,\) vs. \(2, 2\)$",
        ),
        (metric.CrossEntropy(), (3,), (2, 2), MISMATCH.format(3, 2)),
        (metric.PearsonCorrelation(), (3,), (2, 1), MISMATCH.format(r"\(3,\)", r"\(2,\)")),
        (metric.PCC(), (3,), (2, 2), MISMATCH.format(3, 2)),
        (metric.F1(), (3,), (2, 2), MISMATCH.format(3, 2)),
        (metric.MAE(), (1,), None, MISMATCH.format(1, 0)),
    ],
)
def test_bad_input_is_named(measure: Any, labels: Any, predictions: Any, words: str) -> None:
    arrays = [] if predictions is None else [nd.ones(predictions)]
    with pytest.raises(mx.base.ShapeError, match=words) as caught:
        measure.update([nd.ones(labels)], arrays)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("kind", [metric.MCC, metric.PearsonCorrelation])
def test_the_kind_of_average_is_checked(kind: Any) -> None:
    words = f"^{kind.__name__}: average must be 'macro' or 'micro'.*, got 'both'"
    with pytest.raises(ValueError, match=words):
        kind(average="both")
