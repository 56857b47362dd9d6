"""nd.contrib: what the op table cannot say (gradients of estimators, functions made in Python)."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from pairing import assert_all_close
from recording import differentiated, variable


@pytest.mark.parametrize(
    "name, params, factor",
    [("round_ste", {}, 1.0), ("sign_ste", {}, 1.0), ("gradientmultiplier", {"scalar": -2.5}, -2.5)],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_estimators_pass_the_gradient_on(name, params, factor, hybrid):
    net = mx.gluon.nn.HybridLambda(lambda F, x: getattr(F.contrib, name)(x, **params))
    net.hybridize(hybrid)
    x = variable(nd.array([-1.6, 0.0, 0.4, 2.5]))
    with mx.autograd.record():
        y = net(x)
    head = nd.array([1.0, 2.0, 3.0, 4.0])
    y.backward(head)
    np.testing.assert_allclose(x.grad.asnumpy(), factor * head.asnumpy())


def _mask(dtype="float32"):
    return nd.array([1, 0, -2], dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool", "float16"])
def test_boolean_mask_keeps_the_slices_that_are_not_zero(dtype):
    x = nd.array(np.arange(12).reshape(3, 4))
    index = nd.array(np.array([1, 0, 2]), dtype=dtype)
    np.testing.assert_array_equal(nd.contrib.boolean_mask(x, index).asnumpy(), x.asnumpy()[[0, 2]])
    np.testing.assert_array_equal(
        nd.contrib.boolean_mask(x.T, index, axis=1).asnumpy(), x.asnumpy().T[:, [0, 2]]
    )


def test_boolean_mask_gradient_reaches_the_kept_slices():
    x, index = nd.array(np.arange(12).reshape(3, 4)), nd.array([float("nan"), 0, 1])
    differentiated(lambda x, index: nd.contrib.boolean_mask(x, index) * 2, x, index)
    np.testing.assert_array_equal(x.grad.asnumpy()[:, 0], [2, 0, 2])
    np.testing.assert_array_equal(index.grad.asnumpy(), np.zeros(3))
    y = differentiated(lambda x: nd.contrib.boolean_mask(x, nd.zeros((3,))), x)
    assert y.shape == (0, 4)
    np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros((3, 4)))


class _Filtered(mx.gluon.HybridBlock):
    """A layer, a selection of rows, a layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = mx.gluon.nn.Dense(5, activation="tanh")
            self.last = mx.gluon.nn.Dense(2)

    def hybrid_forward(self, F, x, index):
        return self.last(F.contrib.boolean_mask(self.first(x), index))


def test_a_hybridized_block_with_boolean_mask_runs_operator_by_operator():
    net = _Filtered()
    net.initialize()
    net.hybridize()  # before the parameters' shapes are known
    x = variable(nd.random.normal(shape=(3, 4)))
    results = []
    for _ in range(2):
        y = differentiated(lambda: net(x, _mask()), head=nd.ones((2, 2)))
        results.append((y.asnumpy(), x.grad.asnumpy(), net.first.weight.grad().asnumpy()))
        net.hybridize(False)
    assert_all_close(*results, rtol=1e-5, atol=1e-6)
    assert results[0][0].shape == (2, 2)
    assert not results[0][1][1].any()
    assert results[0][1][0].any()


def test_children_of_a_block_with_boolean_mask_keep_their_graphs():
    net = _Filtered()
    net.initialize()
    net.hybridize()
    calls = []
    forward = net.first.forward
    net.first.forward = lambda *args: calls.append(1) or forward(*args)
    shapes = [net(nd.ones((3, 4)), index).shape for index in (_mask(), nd.ones(3), nd.zeros(3))]
    assert shapes == [(2, 2), (3, 2), (0, 2)]
    traced = len(calls)
    net(nd.ones((3, 4)), _mask())
    assert len(calls) == traced


def test_a_block_with_boolean_mask_cannot_be_exported(tmp_path):
    net = _Filtered()
    net.initialize()
    net.hybridize()
    net(nd.ones((3, 4)), _mask())
    with pytest.raises(mx.MXNetError):
        net.export(str(tmp_path / "net"))


def test_the_error_for_symbols_says_where_boolean_mask_works():
    with pytest.raises(AttributeError, match="its shape depends on values; call it in a block"):
        mx.sym.contrib.boolean_mask  # noqa: B018


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (
            (nd.ones((3, 4)), nd.ones((2,))),
            ValueError,
            r"boolean_mask: index must have shape .*got \(2,\)",
        ),
        (
            (nd.ones((3, 4)), nd.ones((3, 1))),
            ValueError,
            r"boolean_mask: index must have shape .*got \(3, 1\)",
        ),
        ((nd.ones((3, 4)), nd.ones((3,)), 2), IndexError, "boolean_mask: axis 2"),
        ((nd.ones((3, 4)), [1, 0, 1]), TypeError, "index must be an NDArray, got a list"),
    ],
)
def test_boolean_mask_names_what_is_wrong(arguments, error, match):
    with pytest.raises(error, match=match):
        nd.contrib.boolean_mask(*arguments)


def test_rand_zipfian_draws_by_rank_and_counts_what_it_expects():
    mx.random.seed(3)
    samples, true, sampled = nd.contrib.rand_zipfian(nd.array([0, 3]), 4000, 5)
    assert samples.dtype == np.int64 and true.dtype == sampled.dtype == np.float64
    expected = 4000 * np.log((np.arange(5) + 2) / (np.arange(5) + 1)) / np.log(6)
    counts = np.bincount(samples.asnumpy(), minlength=5)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(4000) / 2
    np.testing.assert_allclose(true.asnumpy(), expected[[0, 3]])
    np.testing.assert_allclose(sampled.asnumpy(), expected[samples.asnumpy()])


def test_uniform_of_contrib_is_that_of_random():
    assert nd.contrib.uniform(2, 3, shape=(4,)).shape == (4,)


def test_updates_of_many_weights_equal_those_of_one():
    def make():
        rng = np.random.RandomState(5)
        shapes = [(2, 3), (4,)]
        return [[nd.array(rng.uniform(0.1, 1, s)) for s in shapes] for _ in range(4)]

    w, g, m, v = make()
    nd.contrib.multi_adamw_update(
        w, g, m, v, 0.5, lrs=[0.1, 0.2], wds=[0.1, 0.2], etas=[1, 0.5], out=w
    )
    w1, g1, m1, v1 = make()
    for i, (lr, wd, eta) in enumerate([(0.1, 0.1, 1), (0.2, 0.2, 0.5)]):
        nd.contrib.adamw_update(
            w1[i], g1[i], m1[i], v1[i], nd.array([0.5]), lr, eta, wd=wd, out=w1[i]
        )
        for many, one in ((w, w1), (m, m1), (v, v1)):
            np.testing.assert_array_equal(many[i].asnumpy(), one[i].asnumpy())

    w, g, m, v = make()
    nd.contrib.multi_lamb_update(w, g, m, v, [1, 2], lrs=[0.1, 0.2], wds=[0.1, 0.2], out=w)
    w1, g1, m1, v1 = make()
    for i, (lr, wd) in enumerate([(0.1, 0.1), (0.2, 0.2)]):
        step = nd.lamb_update_phase1(w1[i], g1[i], m1[i], v1[i], t=i + 1, wd=wd)
        nd.lamb_update_phase2(w1[i], step, w1[i].norm(), step.norm(), lr=lr, out=w1[i])
        np.testing.assert_allclose(w[i].asnumpy(), w1[i].asnumpy(), rtol=1e-6)
        np.testing.assert_array_equal(v[i].asnumpy(), v1[i].asnumpy())


def test_mixed_updates_change_the_float32_weights():
    def make():
        rng = np.random.RandomState(5)
        arrays = [[nd.array(rng.uniform(0.1, 1, (3,)))] for _ in range(5)]
        return [[a.astype("float16") for a in x] if i < 2 else x for i, x in enumerate(arrays)]

    w, g, m, v, w32 = make()
    nd.contrib.multi_mp_lamb_update(w, g, m, v, w32, [1], lrs=[0.1], wds=[0.1], out=w)
    np.testing.assert_array_equal(w[0].asnumpy(), w32[0].asnumpy().astype(np.float16))
    w, g, m, v, w32 = make()
    before = w32[0].asnumpy()
    nd.contrib.multi_mp_adamw_update(w, g, m, v, w32, 1.0, lrs=[0.1], wds=[0], etas=[1], out=w)
    assert np.abs(w32[0].asnumpy() - before).min() > 0.01
    np.testing.assert_array_equal(w[0].asnumpy(), w32[0].asnumpy().astype(np.float16))
    w, g, m, v, w32 = make()
    nd.contrib.mp_adamw_update(w[0], g[0], m[0], v[0], w32[0], 1.0, 0.1, 1.0, out=w[0])
    np.testing.assert_array_equal(w[0].asnumpy(), w32[0].asnumpy().astype(np.float16))


def test_classes_of_a_zipfian_sample_differ():
    draw = nd._internal._sample_unique_zipfian
    mx.random.seed(7)
    classes, trials = draw(5, shape=(4000, 3))
    drawn, counts = classes.asnumpy(), trials.asnumpy()
    assert classes.dtype == trials.dtype == np.int64 and drawn.shape == (4000, 3)
    assert all(len(set(row)) == 3 for row in drawn.tolist())
    assert drawn.min() == 0 and drawn.max() == 4 and counts.min() == 3
    chances = np.diff(np.log(np.arange(1, 7))) / np.log(6)
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / 4000, chances, atol=0.03)
    # Waiting for the second class: 1 / (1 - p) draws after a first one of chance p.
    pairs = draw(5, shape=(4000, 2))[1].asnumpy()
    np.testing.assert_allclose(pairs.mean(), 1 + (chances / (1 - chances)).sum(), rtol=0.03)
    mx.random.seed(7)
    again = draw(5, shape=(4000, 3))
    assert (again[0] == classes).asnumpy().all() and (again[1] == trials).asnumpy().all()
    assert sorted(draw(4, shape=(1, 4))[0][0].asnumpy().tolist()) == [0, 1, 2, 3]
    for wrong in ((3,), (1, 6)):
        with pytest.raises(ValueError, match="_sample_unique_zipfian"):
            draw(5, shape=wrong)
