"""Losses against the values and gradients of MXNet 1.9.1 (tests/data/make_gluon.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError

GOLDEN = json.loads((Path(__file__).parents[2] / "data/mxnet_1_9_1/golden.json").read_text())
ARRAYS = {name: np.float32(values) for name, values in GOLDEN["loss_data"].items()}


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("case", GOLDEN["losses"], ids=lambda c: f"{c['name']}-{c['options']}")
def test_a_loss_and_its_gradient_are_those_of_mxnet(case: dict[str, Any], hybrid: bool) -> None:
    loss = getattr(gluon.loss, case["name"])(**case["options"])
    if hybrid:
        loss.hybridize()
    inputs = [nd.array(ARRAYS[name]) for name in case["inputs"]]
    inputs[0].attach_grad()
    with autograd.record():
        value = loss(*inputs)
    if np.isfinite(case["value"]).all():  # 1.9.1 gives nan for a Poisson target of 0
        np.testing.assert_allclose(value.asnumpy(), case["value"], rtol=2e-5, atol=2e-6)
    assert np.isfinite(value.asnumpy()).all()
    value.backward()
    if case["grad"] is not None:
        np.testing.assert_allclose(inputs[0].grad.asnumpy(), case["grad"], rtol=1e-4, atol=1e-5)
    assert np.isfinite(inputs[0].grad.asnumpy()).all()


def test_connectionist_temporal_classification_of_a_single_path() -> None:
    # Two steps, classes a, b and blank (last): "a" is written as aa, a-, -a.
    scores = np.log(np.float32([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]]))
    loss = gluon.loss.CTCLoss()
    value = loss(nd.array(scores), nd.array([[0, -1]]))
    expected = -np.log(0.6 * 0.5 + 0.6 * 0.4 + 0.1 * 0.5)
    np.testing.assert_allclose(value.asnumpy(), [expected], rtol=1e-5)


def test_connectionist_temporal_classification_takes_lengths() -> None:
    scores = np.log(np.float32([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]]))
    loss = gluon.loss.CTCLoss()
    one_step = loss(nd.array(scores), nd.array([[0, 1]]), nd.array([1]), nd.array([1]))
    np.testing.assert_allclose(one_step.asnumpy(), [-np.log(0.6)], rtol=1e-5)
    by_label = loss(nd.array(scores), nd.array([[0, 1]]), None, nd.array([1]))
    both = -np.log(0.6 * 0.5 + 0.6 * 0.4 + 0.1 * 0.5)
    np.testing.assert_allclose(by_label.asnumpy(), [both], rtol=1e-5)


def test_repr_shows_batch_axis_and_weight() -> None:
    assert repr(gluon.loss.L2Loss()) == "L2Loss(batch_axis=0, w=1.0)"
    assert gluon.loss.SoftmaxCELoss is gluon.loss.SoftmaxCrossEntropyLoss


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: gluon.loss.LogisticLoss(label_format="odd"), "label_format is 'odd'"),
        (lambda: gluon.loss.CTCLoss(layout="CTN"), "layout is 'CTN'"),
        (lambda: gluon.loss.CTCLoss(label_layout="T"), "label_layout is 'T'"),
        (lambda: gluon.loss.L1Loss(weight="2")(nd.ones((1,)), nd.ones((1,))), "weight is '2'"),
        (lambda: gluon.loss.L1Loss()(nd.ones((2, 3)), nd.ones((4,))), "reshape_like"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))
