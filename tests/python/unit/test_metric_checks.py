"""Metrics at their limits: shapes, classes, dtypes, empty defaults, and what they refuse."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import metric, nd
from mxlite.base import AxisError


def value(measure: metric.EvalMetric, *pairs: tuple[Any, Any]) -> float:
    """Return the metric of one update with all pairs of labels and predictions."""
    measure.update([nd.array(label) for label, _ in pairs], [nd.array(pred) for _, pred in pairs])
    return measure.get()[1]


def test_check_label_shapes_compares_lengths_or_shapes() -> None:
    labels, preds = nd.ones((2, 3)), nd.ones((2, 4))
    same = metric.check_label_shapes(labels, preds)
    assert same[0] is labels and same[1] is preds
    for given in ((labels, preds), ([labels], [preds])):
        wrapped = metric.check_label_shapes(*given, wrap=True)
        assert isinstance(wrapped[0], list) and wrapped[0][0] is labels
        assert isinstance(wrapped[1], list) and wrapped[1][0] is preds
    plain = metric.check_label_shapes(np.ones(2), np.ones(2), True)
    assert [type(part) for part in plain] == [list, list]
    words = "^Shape of labels {} does not match shape of predictions {}$"
    with pytest.raises(mx.base.ShapeError, match=words.format(r"\(2, 3\)", r"\(2, 4\)")):
        metric.check_label_shapes(labels, preds, shape=True)
    with pytest.raises(mx.base.ShapeError, match=words.format(2, 3)):
        metric.check_label_shapes(labels, nd.ones((3, 4)))


@pytest.mark.parametrize("kind", [metric.CrossEntropy, metric.NegativeLogLikelihood])
@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_of_the_classes_are_named(kind: Any, label: int) -> None:
    words = f"^{kind.__name__}: labels must be classes from 0 to 1, got {label}$"
    with pytest.raises(IndexError, match=words):
        value(kind(), ([0, label], [[0.5, 0.5], [0.5, 0.5]]))


@pytest.mark.parametrize("label", [-1, 2])
def test_perplexity_names_labels_outside_of_the_classes_unless_they_are_ignored(label: int) -> None:
    pair = ([label, 1], [[0.5, 0.5], [0.75, 0.25]])
    with pytest.raises(
        IndexError, match=f"^Perplexity: labels must be classes from 0 to 1, got {label}$"
    ):
        value(metric.Perplexity(None), pair)
    assert value(metric.Perplexity(label), pair) == pytest.approx(4.0)
    assert value(metric.Perplexity(-9), ([-9, 1], pair[1])) == pytest.approx(4.0)


def test_perplexity_counts_all_pairs_of_an_update() -> None:
    first = ([0, 1, 0], [[0.5, 0.5], [0.5, 0.5], [0.125, 0.875]])
    second = ([1], [[0.875, 0.125]])
    measure = metric.Perplexity(None)
    wanted = math.exp(-(2 * math.log(0.5) + 2 * math.log(0.125)) / 4)
    assert value(measure, first, second) == pytest.approx(wanted)
    assert measure.num_inst == 4
    ignoring = metric.Perplexity(1)
    assert value(ignoring, first, second) == pytest.approx(math.exp(-math.log(0.5 * 0.125) / 2))
    assert ignoring.num_inst == 2


@pytest.mark.parametrize("axis", [-3, 2])
def test_perplexity_names_an_axis_that_predictions_lack(axis: int) -> None:
    with pytest.raises(AxisError, match=f"predictions must have classes along axis {axis}, got"):
        value(metric.Perplexity(None, axis=axis), ([0], [[0.5, 0.5]]))
    for there in (-1, 1):
        assert value(metric.Perplexity(None, axis=there), ([0], [[0.5, 0.5]])) == pytest.approx(2)
    assert value(metric.Perplexity(None, axis=-2), ([0], [[0.5], [0.25]])) == pytest.approx(2)


@pytest.mark.parametrize("axis", [-3, 2])
def test_accuracy_names_an_axis_that_predictions_lack(axis: int) -> None:
    with pytest.raises(
        AxisError,
        match=f"^Accuracy: predictions must have classes along axis {axis}, got labels "
        r"of shape \(2,\) and predictions of shape \(2, 3\); update takes labels first$",
    ):
        value(metric.Accuracy(axis=axis), ([0, 1], np.eye(3)[:2]))
    assert value(metric.Accuracy(axis=-1), ([0, 1], np.eye(3)[:2])) == 1.0
    assert value(metric.Accuracy(axis=-2), ([0, 1, 1], np.eye(3)[:2])) == 2 / 3


def test_accuracy_compares_whole_numbers() -> None:
    assert value(metric.Accuracy(), ([1.9, 2.2], [1.1, 2.9])) == 1.0
    assert value(metric.Accuracy(), ([[0, 1], [1, 0]], [[0, 1], [0, 0]]), ([1], [0])) == 3 / 5


def test_top_k_accuracy_takes_the_highest_scores_of_each_row() -> None:
    rng = np.random.default_rng(3)
    scores, truth = rng.random((40, 7), np.float32), rng.integers(0, 7, 40)
    order = np.argsort(-scores, axis=1)
    for k in (2, 3, 6, 7, 8):
        wanted = float((order[:, :k] == truth[:, None]).any(1).mean())
        assert value(metric.TopKAccuracy(k), (truth, scores)) == pytest.approx(wanted)
    both = metric.TopKAccuracy(2)
    assert value(both, ([0], [[0.9, 0.1, 0.0]]), ([2, 2], [[1, 1, 0], [0, 1, 1]])) == 2 / 3
    assert both.num_inst == 3


def test_top_k_accuracy_of_class_numbers_compares_each_of_them() -> None:
    measure = metric.TopKAccuracy(2)
    assert value(measure, ([1, 2, 0], [1, 2, 2]), ([[3], [4]], [3, 4])) == 4 / 5
    assert measure.num_inst == 5
    assert value(metric.TopKAccuracy(2), ([1.2, 2.9], [1.9, 2.1])) == 1.0
    assert value(metric.TopKAccuracy(2), ([2.9, 0.1], [[0, 1, 2], [2, 1, 0]])) == 1.0
    with pytest.raises(ValueError, match="^Please use Accuracy if top_k is no more than 1$"):
        metric.TopKAccuracy(1)


SCORES = [(metric.MAE, np.abs), (metric.MSE, np.square), (metric.RMSE, np.square)]


@pytest.mark.parametrize(("kind", "score"), SCORES)
def test_errors_of_numbers_average_the_pairs_and_not_the_samples(kind: Any, score: Any) -> None:
    root = math.sqrt if kind is metric.RMSE else float
    pairs = [([1.0, 2.0, 4.0], [2.0, 2.0, 9.0]), ([[3.0]], [7.0])]
    each = [root(score(np.subtract(np.ravel(a), np.ravel(b))).mean()) for a, b in pairs]
    measure = kind()
    assert value(measure, *pairs) == pytest.approx(sum(each) / 2)
    assert measure.num_inst == 2
    assert value(kind(), ([[1.0, 2.0]], [[1.0, 4.0]])) == pytest.approx(root(score(2) / 2))
    words = r"labels and predictions must have .* that broadcast, got \(2,\) and \(3,\)"
    with pytest.raises(mx.base.ShapeError, match=f"^{kind.__name__}: {words}$"):
        value(kind(), ([1, 2], [1, 2, 3]))


@pytest.mark.parametrize(("kind", "score"), SCORES)
def test_errors_of_numbers_broadcast_as_in_1x(kind: Any, score: Any) -> None:
    root = math.sqrt if kind is metric.RMSE else float
    labels, preds = [1.0, 2.0, 4.0], [[1.0, 5.0], [3.0, 2.5], [0.0, 7.0]]
    expected = root(score(np.reshape(labels, (3, 1)) - np.array(preds)).mean())
    for truth, found in (labels, preds), ([[one] for one in labels], preds), (preds, labels):
        assert value(kind(), (truth, found)) == pytest.approx(expected)
    every = root(score(np.reshape(labels, (3, 1)) - np.array([labels])).mean())
    words = r"every label is .* labels have shape \(3,\) and predictions \(1, 3\);"
    with pytest.warns(UserWarning, match=words):
        assert value(kind(), (labels, [labels])) == pytest.approx(every)


def test_pearson_correlation_of_pairs() -> None:
    pairs = [([1, 2, 5], [2, 1, 9]), ([3, 9, 4, 4], [[1, 2], [3, 3]])]
    each = [np.corrcoef(np.ravel(a), np.ravel(b))[0, 1] for a, b in pairs]
    macro = metric.PearsonCorrelation()
    assert value(macro, *pairs) == pytest.approx(np.mean(each))
    assert (macro.num_inst, macro.global_num_inst) == (2, 2)
    micro = metric.PearsonCorrelation(average="micro")
    labels, preds = (np.concatenate([np.ravel(p[i]) for p in pairs]) for i in (0, 1))
    assert value(micro, *pairs) == pytest.approx(np.corrcoef(labels, preds)[0, 1])
    assert (micro.num_inst, micro.global_num_inst) == (2, 2)
    assert macro.get_config()["average"] == "macro"


@pytest.mark.parametrize("pair", [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2])])
def test_pearson_correlation_without_a_spread_is_nan(pair: Any) -> None:
    with np.errstate(all="raise"):
        assert math.isnan(value(metric.PearsonCorrelation(average="micro"), pair))


def test_losses_are_summed_in_double_precision() -> None:
    whole = metric.Loss()
    whole.update(None, np.ones(70000, np.float16))
    assert whole.get()[1] == 1.0
    single = metric.Loss()
    single.update(None, np.float32(2.0))
    assert single.get()[1] == 2.0
    measure = metric.Loss()
    measure.update(None, nd.array([1.5, 2.5]).astype("bfloat16"))
    measure.update(None, (nd.array([4.0]), nd.array([[8.0]])))
    assert measure.get() == ("loss", 4.0)
    assert measure.num_inst == 4


def test_values_that_are_no_numbers_name_the_metrics() -> None:
    with pytest.raises(TypeError, match="^metric: values must be .*, got object"):
        metric.Loss().update(None, [object()])


def test_double_precision_is_kept() -> None:
    measure = metric.MAE()
    measure.update(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 2e-12]))
    assert measure.get()[1] == pytest.approx(1e-12, rel=1e-3, abs=0)


def test_bfloat16_is_computed_in_float32() -> None:
    label, pred = (nd.array([number]).astype("bfloat16") for number in (256.0, 1.0078125))
    measure = metric.MAE()
    measure.update(label, pred)
    assert measure.get()[1] == 254.9921875  # 255 in bfloat16


def test_binary_counts_tell_the_four_cases_apart() -> None:
    # 3 true positives, 2 false positives, 4 true negatives, 1 false negative.
    truth = [1] * 3 + [0] * 2 + [0] * 4 + [1]
    found = [1] * 3 + [1] * 2 + [0] * 4 + [0]
    pair = (truth, np.eye(2)[found])
    assert value(metric.F1(), pair) == pytest.approx(6 / 9)
    mcc = (3 * 4 - 2 * 1) / math.sqrt(5 * 4 * 6 * 5)
    assert value(metric.MCC(), pair) == pytest.approx(mcc)
    assert value(metric.PCC(), pair) == pytest.approx(mcc)
    micro = metric.F1(average="micro")
    assert value(micro, pair, pair) == pytest.approx(6 / 9)
    assert (micro.num_inst, micro.global_num_inst) == (20, 20)
    macro = metric.MCC()
    assert value(macro, pair, pair) == pytest.approx(mcc)
    assert (macro.num_inst, macro.global_num_inst) == (1, 1)


def test_matthews_correlation_without_a_class_keeps_the_other_factors() -> None:
    # No negative label: tn + fp is 0 and counts as 1 (as in MXNet 1.9.1).
    assert value(metric.MCC(), ([1, 1, 1], np.eye(2)[[1, 1, 0]])) == 0.0
    assert value(metric.MCC(), ([0, 0, 0], np.eye(2)[[1, 0, 0]])) == 0.0


@pytest.mark.parametrize("shape", [(2, 3), (2,), (2, 2, 1)])
def test_binary_metrics_name_the_shape_that_they_cannot_take(shape: tuple[int, ...]) -> None:
    text = re.escape(f"predictions must have shape (batch, 2), got {shape}")
    with pytest.raises(mx.base.ShapeError, match=f"^binary classification: {text}$"):
        metric.F1().update([nd.ones(2)], [nd.ones(shape)])
    assert value(metric.F1(), ([0, 0], [[0.3], [0.4]])) == 0.0  # one column: class 0


def test_binary_metrics_name_labels_of_more_classes() -> None:
    words = r"^binary classification: labels must be 0 and 1, got \[0, 1, 2\]$"
    with pytest.raises(mx.base.MXNetError, match=words):
        metric.MCC().update([nd.array([2, 0, 1])], [nd.ones((3, 2))])


def test_pcc_without_a_spread_is_nan_and_counts_updates() -> None:
    measure = metric.PCC()
    assert math.isnan(value(measure, ([0, 1], [1, 1])))
    assert math.isnan(measure.get_global()[1])
    assert value(measure, ([1, 0], [1, 0]), ([0], [0])) == pytest.approx(
        np.corrcoef([0, 1, 1, 0, 0], [1, 1, 1, 0, 0])[0, 1]
    )
    assert (measure.num_inst, measure.global_num_inst) == (2, 2)
    assert measure.lcm.tolist() == measure.gcm.tolist() == [[2, 0], [1, 2]]
    assert measure.k == 2
    measure.reset_local()
    assert (measure.num_inst, measure.global_num_inst) == (0, 2)
    assert value(measure, ([0, 1, 2], np.eye(3)[[0, 1, 2]])) == pytest.approx(1.0)
    assert measure.get_global()[1] < 1.0
    assert measure.k == 3 and measure.lcm.tolist() == np.eye(3).tolist()
    assert measure.gcm.tolist() == [[3, 0, 0], [1, 3, 0], [0, 0, 1]]
    assert value(metric.PCC(), ([1, 2, 0], np.eye(3)[[1, 2, 2]] * 0.5)) == pytest.approx(
        0.61237, 1e-4
    )


def test_defaults_of_the_base_class() -> None:
    measure = metric.EvalMetric(3)
    assert (measure.name, measure.output_names, measure.label_names) == ("3", None, None)
    assert (measure.num_inst, measure.sum_metric) == (0, 0.0)
    assert (measure.global_num_inst, measure.global_sum_metric) == (0, 0.0)
    names = {"name": "3", "output_names": None, "label_names": None}
    assert measure.get_config() == {"metric": "EvalMetric", **names}
    assert math.isnan(dict(measure.get_global_name_value())["3"])


@pytest.mark.parametrize("kind", [metric.Accuracy, metric.MAE, metric.PCC, metric.Loss])
def test_dictionaries_without_names_are_read_in_their_order(kind: Any) -> None:
    by_name, by_place = kind(), kind()
    label, pred = nd.array([1, 0]), nd.array([1, 1])
    by_name.update_dict({"any": label}, {"thing": pred})
    by_place.update([label], [pred])
    assert by_name.get() == by_place.get()
    assert (by_name.output_names, by_name.label_names) == (None, None)


def test_a_composite_filters_only_what_it_has_names_for() -> None:
    label, pred = nd.array([1, 0]), nd.array([1, 1])
    labels = metric.CompositeEvalMetric(["acc"], label_names=["truth"])
    labels.update_dict({"x": nd.ones(9), "truth": label}, {"out": pred})
    assert labels.get() == (["accuracy"], [0.5])
    outputs = metric.CompositeEvalMetric([metric.Accuracy()], output_names=["out"])
    outputs.update_dict({"truth": label}, {"y": nd.ones(9), "out": pred})
    assert outputs.get() == (["accuracy"], [0.5])
    assert outputs.get_config()["metric"] == "CompositeEvalMetric"
    assert outputs.get_config()["metrics"][0]["axis"] == 1


def test_create_passes_arguments_by_place() -> None:
    assert metric.create("top_k_acc", 3).name == "top_k_accuracy_3"
    measure = metric.create(lambda a, b: 1.0, "mine", True)
    assert measure.name == "mine"
    measure.update([nd.ones(1)], [nd.ones(1), nd.ones(1)])
    assert measure.get() == ("mine", 1.0)
    two = metric.create(["ce", "nll_loss"], 0.5)
    assert [one.eps for one in two.metrics] == [0.5, 0.5]


def test_names_of_metrics_of_functions() -> None:
    def error(label: Any, pred: Any) -> float:
        return float((label - pred).sum())

    assert metric.np(error).name == "error"
    assert metric.CustomMetric(functools.partial(error)).name.startswith("custom(functools.part")
    assert metric.np(lambda a, b: 0.0).name == "custom(<lambda>)"
    assert metric.np(error, "other").get_name_value()[0][0] == "other"
    assert metric.np(error, "a<b").name == "a<b"
    assert metric.create(error, name="mine").name == "mine"
    measure = metric.np(error)
    measure.update(np.array([3.0, 5.0]), np.array([1.0, 1.0]))  # label first, one call for all
    assert measure.get() == ("error", 6.0)
    named = metric.CustomMetric(error, output_names=["out"], label_names=["truth"])
    named.update_dict({"other": nd.ones(4), "truth": nd.array([3.0])}, {"out": nd.array([1.0])})
    assert named.get() == ("error", 2.0)
    assert isinstance(measure, metric.CustomMetric)
    with pytest.raises(TypeError, match="^metric.np: numpy_feval must be a function, got 3$"):
        metric.np(3)
