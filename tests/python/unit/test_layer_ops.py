"""Layer operators beyond the op table: state, modes, mixed dtypes, loss gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxlite import autograd, nd, random
from mxlite.gluon import nn
from op_cases.nn import np_softmax


def _array(values: Any, dtype: str = "float32") -> Any:
    return nd.array(np.asarray(values), dtype=dtype)


def _rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def _gradient(f: Any, *arrays: Any, train: bool = True) -> list[np.ndarray]:
    for a in arrays:
        a.attach_grad()
    with autograd.record(train_mode=train):
        y = f(*arrays)
    y.backward()
    return [a.grad.asnumpy() for a in arrays]


# ---- BatchNorm's running statistics ------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "params"),
    [(True, {}), (False, {}), (True, {"use_global_stats": True})],
    ids=["train", "infer", "global"],
)
def test_running_statistics_move_by_momentum_with_the_biased_variance(
    training: bool, params: Any
) -> None:
    x = _rand(4, 3, 5)
    mean, var = _array([1.0, 2.0, 3.0]), _array([4.0, 5.0, 6.0])
    with autograd.train_mode() if training else autograd.predict_mode():
        nd.BatchNorm(_array(x), nd.ones(3), nd.zeros(3), mean, var, momentum=0.75, **params)
    kept = 0.75 if training and not params else 1
    for found, old, new in ((mean, [1, 2, 3], x.mean((0, 2))), (var, [4, 5, 6], x.var((0, 2)))):
        np.testing.assert_allclose(found.asnumpy(), kept * np.array(old) + (1 - kept) * new, 1e-5)


def test_variance_survives_a_large_mean() -> None:
    x = _rand(8, 2, 400) + 3000
    mean, var = nd.zeros(2), nd.ones(2)
    with autograd.train_mode():
        y = nd.BatchNorm(_array(x), nd.ones(2), nd.zeros(2), mean, var, momentum=0.0)
    np.testing.assert_allclose(var.asnumpy(), x.astype("float64").var((0, 2)), rtol=1e-4)
    np.testing.assert_allclose(y.asnumpy().std((0, 2)), 1, rtol=5e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_data_with_float32_statistics(dtype: str) -> None:
    x, gamma, beta = _rand(6, 3, 4), _array([1.0, 2.0, 0.5]), nd.zeros(3)
    mean, var = nd.zeros(3), nd.ones(3)
    data = _array(x, dtype)
    grads = _gradient(
        lambda d, g: nd.BatchNorm(d, g, beta, mean, var, fix_gamma=False), data, gamma
    )
    assert str(np.dtype(mean.dtype)) == "float32"
    rounded = data.astype("float32").asnumpy()
    np.testing.assert_allclose(mean.asnumpy(), 0.1 * rounded.mean((0, 2)), rtol=1e-4, atol=1e-6)
    assert grads[1].dtype == np.float32
    assert str(data.grad.dtype) == str(data.dtype)


def test_fixed_gamma_counts_as_one_and_has_no_gradient() -> None:
    x, gamma = _array(_rand(4, 3, 5)), _array([5.0, 6.0, 7.0])
    state = [nd.zeros(3), nd.zeros(3), nd.ones(3)]
    grads = _gradient(lambda d, g: nd.BatchNorm(d, g, *state), x, gamma)
    np.testing.assert_array_equal(grads[1], [0, 0, 0])
    with autograd.train_mode():
        y = nd.BatchNorm(x, gamma, *state)
    np.testing.assert_allclose(y.asnumpy().std((0, 2)), 1, rtol=5e-3)


# ---- Dropout and rrelu -------------------------------------------------------------------------


def test_dropout_gradient_has_the_mask_of_the_output() -> None:
    x = nd.ones((30, 40))
    x.attach_grad()
    with autograd.record():
        y = nd.Dropout(x, p=0.25)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), x.grad.asnumpy())
    assert 0.15 < (y.asnumpy() == 0).mean() < 0.35


@pytest.mark.parametrize("axes", [(1, 3), (0, 2), (2, 3), (0,), (1,)])
def test_dropout_along_axes_uses_each_value_of_the_mask_for_its_slice(
    axes: tuple[int, ...],
) -> None:
    shape = (3, 4, 5, 2)
    x = nd.array(np.arange(1, 121, dtype=np.float32).reshape(shape))
    x.attach_grad()
    small = nd.ones([1 if axis in axes else size for axis, size in enumerate(shape)])
    random.seed(7)
    with autograd.record():
        mask = nd.Dropout(small, p=0.5).asnumpy()
    random.seed(7)
    with autograd.record():
        y = nd.Dropout(x, p=0.5, axes=axes)
    y.backward()
    assert 0 < np.count_nonzero(mask) < mask.size
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy() * mask)
    np.testing.assert_array_equal(x.grad.asnumpy(), np.broadcast_to(mask, shape))


def test_random_slopes_lie_between_the_bounds() -> None:
    x = nd.ones((200,)) * -1
    x.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.1, upper_bound=0.3)
    y.backward()
    slopes = -y.asnumpy()
    assert slopes.min() >= 0.1 and slopes.max() < 0.3 and slopes.std() > 0.03
    np.testing.assert_array_equal(x.grad.asnumpy(), slopes)


# ---- Gradients of outputs that carry a loss ----------------------------------------------------


def _without(want: np.ndarray, onehot: np.ndarray) -> np.ndarray:
    return np.where(onehot[:, 2:] > 0, 0, want / 2)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"grad_scale": 0.5}, lambda want, onehot: 0.5 * want),
        ({"out_grad": True}, lambda want, onehot: 7 * want),
        ({"normalization": "batch"}, lambda want, onehot: want / 4),
        ({"normalization": "valid", "use_ignore": True, "ignore_label": 2}, _without),
        ({"smooth_alpha": 0.2}, lambda want, onehot: want + 0.2 * onehot - 0.1 * (1 - onehot)),
    ],
)
def test_gradient_of_softmax_output(params: Any, expected: Any) -> None:
    """The gradient from above, 7, counts only if out_grad is set."""
    x, label = _rand(4, 3), np.array([0, 2, 1, 2], "float32")
    grad = _gradient(lambda d: nd.SoftmaxOutput(d, _array(label), **params) * 7, _array(x))[0]
    onehot = np.eye(3)[label.astype(int)]
    np.testing.assert_allclose(grad, expected(np_softmax(x) - onehot, onehot), atol=1e-5)
    shares = np_softmax(_rand(4, 3, seed=1))  # labels may be probabilities
    grad = _gradient(lambda d: nd.SoftmaxOutput(d, _array(shares)), _array(x))[0]
    np.testing.assert_allclose(grad, np_softmax(x) - shares, atol=1e-6)


def test_softmax_output_per_position_is_divided_by_positions() -> None:
    x, label = _rand(2, 3, 4), np.array([[0, 1, 2, 0], [2, 2, 1, -1]], "float32")
    grad = _gradient(
        lambda d: nd.SoftmaxOutput(d, _array(label), multi_output=True, use_ignore=True), _array(x)
    )[0]
    onehot = np.eye(3)[label.astype(int).clip(0)].transpose(0, 2, 1)
    want = (np_softmax(x, 1) - onehot) * (label != -1)[:, None] / 4
    np.testing.assert_allclose(grad, want, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("LinearRegressionOutput", lambda x, y: x - y),
        ("LogisticRegressionOutput", lambda x, y: 1 / (1 + np.exp(-x)) - y),
        ("MAERegressionOutput", lambda x, y: np.sign(x - y)),
    ],
)
def test_regression_gradient_is_divided_by_outputs_per_sample(name: str, want: Any) -> None:
    x, label = _rand(4, 3), _rand(4, 3, seed=1)
    grad = _gradient(lambda d: getattr(nd, name)(d, _array(label), grad_scale=2), _array(x))[0]
    np.testing.assert_allclose(grad, 2 * want(x, label) / 3, atol=1e-6)


@pytest.mark.parametrize("use_linear", [True, False])
def test_svm_gradient_is_that_of_the_hinge_loss(use_linear: bool) -> None:
    x, label = _rand(4, 3) * 3, np.array([0, 2, 1, 2], "float32")
    grad = _gradient(
        lambda d: nd.SVMOutput(
            d, _array(label), margin=0.5, regularization_coefficient=2.0, use_linear=use_linear
        ),
        _array(x),
    )[0]
    sign = np.where(np.eye(3)[label.astype(int)] > 0, -1, 1)
    miss = np.maximum(0.5 + sign * x, 0)
    want = 2 * sign * ((miss > 0) if use_linear else 2 * miss)
    np.testing.assert_allclose(grad, want, atol=1e-5)


@pytest.mark.parametrize(("normalization", "divisor"), [("null", 1), ("batch", 4), ("valid", 2)])
def test_make_loss_gradient(normalization: str, divisor: int) -> None:
    x = _array([0.1, 0.9, 0.6, 0.2])
    grad = _gradient(
        lambda d: nd.MakeLoss(d, grad_scale=3, valid_thresh=0.5, normalization=normalization), x
    )[0]
    np.testing.assert_allclose(grad, np.full(4, 3 / divisor), rtol=1e-6)


def test_ctc_label_that_does_not_fit_costs_infinity_and_has_no_gradient() -> None:
    x = _array(_rand(2, 1, 3))
    loss = nd.CTCLoss(x, _array([[1.0, 1.0]]))  # two equal labels need three frames
    assert np.isinf(loss.asnumpy()).all()
    grad = _gradient(lambda d: nd.CTCLoss(d, _array([[1.0, 1.0]])), x)[0]
    np.testing.assert_array_equal(grad, np.zeros((2, 1, 3)))


def test_ctc_takes_label_lengths_alone() -> None:
    x, label = _array(_rand(5, 2, 4)), _array([[1.0, 2.0], [3.0, 1.0]])
    lengths = _array([1.0, 2.0])
    got = nd.CTCLoss(x, label, label_lengths=lengths, use_label_lengths=True).asnumpy()
    want = nd.CTCLoss(x, _array([[1.0, 0.0], [3.0, 1.0]])).asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-6)


# ---- Other ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sigmoid", "tanh", "softrelu", "softsign"])
def test_second_derivative_of_activation(kind: str) -> None:
    x = _array(_rand(5) * 2, "float64")
    x.attach_grad()
    with autograd.record():
        y = nd.Activation(x, act_type=kind)
        first = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
        first = first[0] if isinstance(first, list) else first
    first.backward()

    def slope(at: np.ndarray) -> np.ndarray:
        return _gradient(lambda d: nd.Activation(d, act_type=kind), _array(at, "float64"))[0]

    values = x.asnumpy()
    want = (slope(values + 1e-5) - slope(values - 1e-5)) / 2e-5
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-5, atol=1e-8)


def test_second_derivative_of_a_dense_layer() -> None:
    x, w = _array(_rand(3, 4), "float64"), _array(_rand(2, 4, seed=1), "float64")
    w.attach_grad()
    x.attach_grad()
    with autograd.record():
        y = nd.FullyConnected(x, w, num_hidden=2, no_bias=True)
        dx = autograd.grad((y * y).sum(), x, create_graph=True, retain_graph=True)[0]
        dx = dx[0] if isinstance(dx, list) else dx
        (dx * dx).sum().backward()
    xs, ws = x.asnumpy(), w.asnumpy()
    inner = 2 * xs @ ws.T  # dx = inner @ ws
    dx = inner @ ws
    want = inner.T @ (2 * dx) + 2 * (2 * dx @ ws.T).T @ xs
    np.testing.assert_allclose(w.grad.asnumpy(), want, rtol=1e-9)


def test_embedding_gradient_adds_repeated_rows() -> None:
    w = _array(_rand(4, 300))
    index = _array([[1, 1, 3], [1, 0, 9]])
    grad = _gradient(lambda t: nd.Embedding(index, t, input_dim=4, output_dim=300), w)[0]
    np.testing.assert_array_equal(grad[:, 0], [1, 3, 0, 2])
    np.testing.assert_array_equal(grad[:, 299], [1, 3, 0, 2])


def test_embedding_takes_small_integer_indices_of_a_large_table() -> None:
    w = _array(np.arange(1000).reshape(1000, 1))
    index = nd.array(np.array([127, -5, 3], "int8"), dtype="int8")
    y = nd.Embedding(index, w, input_dim=1000, output_dim=1)
    np.testing.assert_array_equal(y.asnumpy()[:, 0], [127, 0, 3])


def test_empty_batch_gives_zero_weight_gradients() -> None:
    x = nd.array(np.zeros((0, 3, 5, 5), "float32"))
    w, b = nd.ones((4, 3, 3, 3)), nd.ones(4)
    grads = _gradient(lambda d, u, v: nd.Convolution(d, u, v, kernel=(3, 3), num_filter=4), x, w, b)
    assert grads[0].shape == (0, 3, 5, 5)
    assert not grads[1].any() and not grads[2].any()


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2D(4, 3, activation="relu", in_channels=3),
        nn.Conv2DTranspose(4, 3, activation="relu", in_channels=3),
        nn.Dense(4, activation="relu", in_units=75),
    ],
    ids=["convolution", "deconvolution", "dense"],
)
def test_an_empty_batch_runs_a_graph_with_activations(layer: nn.HybridBlock) -> None:
    net = nn.HybridSequential()
    net.add(layer, nn.BatchNorm(in_channels=4), nn.Activation("relu"))
    net.initialize()
    net.hybridize()
    assert net(nd.zeros((0, 3, 5, 5))).shape[:2] == (0, 4)
    with autograd.record():
        y = net(nd.zeros((0, 3, 5, 5)))
    y.backward()
    assert not layer.weight.grad().asnumpy().any()
    assert net(nd.ones((2, 3, 5, 5))).shape[:2] == (2, 4)


def test_only_wanted_gradients_are_computed() -> None:
    x, w = _array(_rand(2, 3, 6, 6)), _array(_rand(4, 3, 3, 3, seed=1))
    w.attach_grad()  # not x: the data gradient is not asked for
    with autograd.record():
        y = nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True)
    y.backward()
    assert w.grad.asnumpy().any() and x.grad is None


def test_softmax_resolves_axes_before_trailing_ones() -> None:
    """Both calls have one input shape but rows of other lengths."""
    x = np.random.RandomState(0).randn(64, 512, 1).astype("float32")
    for axis in (1, 2, -1, -2, 1):
        e = np.exp(x - x.max(axis, keepdims=True))
        np.testing.assert_allclose(
            nd.softmax(nd.array(x), axis=axis).asnumpy(), e / e.sum(axis, keepdims=True), rtol=1e-5
        )
