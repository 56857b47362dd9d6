"""Trainers whose batch size is an array, as gluon-nlp's FP16Trainer with its BERTAdam passes it."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd


@mx.optimizer.register
class ListAdam(mx.optimizer.Optimizer):
    """Updates several weights in a call; `rescale_grad` stays an array on the device."""

    def __init__(self, learning_rate: float = 0.01, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.aggregate_num = 4

    def create_state(self, index: int, weight: Any) -> Any:
        return tuple(nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if not isinstance(index, (tuple, list)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        self._update_count(index)
        if not isinstance(self.rescale_grad, nd.NDArray):
            self.rescale_grad = nd.full((1,), self.rescale_grad)
        mean, var = zip(*state)
        nd.contrib.multi_adamw_update(
            weight,
            grad,
            mean,
            var,
            rescale_grad=self.rescale_grad,
            lrs=[1.0] * len(index),
            wds=self._get_wds(index),
            etas=self._get_lrs(index),
            out=weight,
            size=len(index),
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-6,
        )


def _step(params: list[gluon.Parameter], trainer: gluon.Trainer, batch_size: Any) -> None:
    with autograd.record():
        loss = sum((p.data() * (i + 1)).sum() for i, p in enumerate(params))
    loss.backward()
    trainer.allreduce_grads()
    trainer.update(batch_size)


def _params(count: int = 5) -> list[gluon.Parameter]:
    params = [gluon.Parameter(f"p{i}", shape=(3,)) for i in range(count)]
    for p in params:
        p.initialize(init=mx.init.Constant(1.0))
    return params


def test_gradients_are_divided_by_the_array() -> None:
    params = _params()
    trainer = gluon.Trainer(params, "listadam", {"wd": 0.1}, update_on_kvstore=False)
    _step(params, trainer, nd.array([4.0]))
    for i, p in enumerate(params):
        grad = (i + 1) / 4
        mean, var = 0.1 * grad, 0.001 * grad**2
        want = 1 - 0.01 * (mean / (var**0.5 + 1e-6) + 0.1)
        np.testing.assert_allclose(p.data().asnumpy(), want, rtol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_overflow_leaves_a_step_out(bad: float) -> None:
    params = _params()
    trainer = gluon.Trainer(params, "listadam", update_on_kvstore=False)
    size = nd.array([1.0]) / nd.array([0.0]) * (0 if bad != bad else 1)
    assert np.isnan(size.asscalar()) == np.isnan(bad)
    _step(params, trainer, size)
    for p in params:
        np.testing.assert_array_equal(p.data().asnumpy(), np.ones(3, "float32"))
    _step(params, trainer, nd.array([1.0]))
    assert all((p.data().asnumpy() < 1).all() for p in params)


def test_numbers_are_still_checked() -> None:
    params = _params(1)
    trainer = gluon.Trainer(params, "listadam", update_on_kvstore=False)
    with pytest.raises(ValueError, match="batch_size is nan, expected a number above 0"):
        _step(params, trainer, float("nan"))
