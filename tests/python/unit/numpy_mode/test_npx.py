"""``mx.npx``: operators by their names, functions, files, random numbers, control flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd, gluon, np, npx
from mxlite.numpy_extension.operators import OPERATORS

_NAMES_1_9_1 = """
Context activation arange_like batch_dot batch_flatten batch_norm cast constraint_check convolution
cpu cpu_pinned current_context deconvolution dropout embedding erf erfinv fully_connected gamma
gammaln gather_nd get_cuda_compute_capability gpu gpu_memory_info image is_np_array is_np_shape
layer_norm leaky_relu load log_softmax multibox_detection multibox_prior multibox_target nonzero
num_gpus one_hot pick pooling random relu reset_np reshape reshape_like rnn roi_pooling save
sequence_mask set_np shape_array sigmoid slice smooth_l1 softmax topk waitall
""".split()


def array(values: Any, dtype: str = "float32") -> Any:
    return np.array(onp.asarray(values, dtype), dtype=dtype)


X = array([[1, -2, 3], [4, 5, -6]])


def test_the_names_of_1x_are_there():
    assert [name for name in _NAMES_1_9_1 if not hasattr(npx, name)] == []
    assert mx.nd.npx is npx and mx.nd.np is np
    operators = "crop flip_left_right normalize random_brightness resize to_tensor imread ImageIter"
    assert all(hasattr(npx.image, name) for name in operators.split())


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("activation", (X,), {"act_type": "tanh"}),
        ("batch_dot", (array(onp.ones((2, 3, 4))), array(onp.ones((2, 4, 2)))), {}),
        ("erf", (X,), {}),
        ("fully_connected", (X, array(onp.ones((4, 3)))), {"num_hidden": 4, "no_bias": True}),
        ("layer_norm", (X, array([1, 1, 1]), array([0, 0, 0])), {}),
        ("leaky_relu", (X,), {"act_type": "gelu"}),
        ("log_softmax", (X,), {"axis": 0}),
        ("one_hot", (array([0, 2]), 3), {}),
        ("pick", (X, array([0, 2])), {}),
        ("relu", (X,), {}),
        ("sigmoid", (X,), {}),
        ("smooth_l1", (X,), {"scalar": 2}),
        ("softmax", (X, array([2, 3], "int32")), {"use_length": True}),
        ("topk", (X,), {"k": 2}),
    ],
)
def test_operators_give_what_they_give_on_ndarrays(name: str, args: Any, options: Any):
    found = getattr(npx, name)(*args, **options)
    plain = [a.as_nd_ndarray() if isinstance(a, np.ndarray) else a for a in args]
    expected = getattr(mx.nd, OPERATORS[name])(*plain, **options)
    assert type(found) is np.ndarray and type(expected) is mx.nd.NDArray
    assert (found.asnumpy() == expected.asnumpy()).all() and found.dtype == expected.dtype
    with pytest.raises(TypeError, match=rf"{name}: arrays must be mx.np.ndarray.*as_np_ndarray"):
        getattr(npx, name)(*plain, **options)


@pytest.mark.parametrize(
    ("shape", "codes", "reverse", "expected"),
    [
        ((2, 3, 8), (-2, -2, 2, -1), False, (2, 3, 2, 4)),
        ((2, 3, 8), (-4,), False, (2, 3, 8)),
        ((2, 3, 8), (-5, -2), False, (6, 8)),
        ((2, 3, 8), (-2, -2, -6, 2, -1), False, (2, 3, 2, 4)),
        ((1, 3, 1), (-3, -2, -3), False, (3,)),
        ((1, 3, 4), (-3, -4), False, (3, 4)),
        ((2, 1, 4), (-2, -3, -4), False, (2, 4)),
        ((2, 3, 1), (-5, -3), True, (6,)),
        ((1,), (-3,), False, ()),
        ((8, 3, 2), (-1, 2, -2, -2), True, (4, 2, 3, 2)),
        ((0, 3), (0, -2), False, (0, 3)),
        ((6,), 4, False, ValueError),
    ],
)
def test_reshape_codes(shape: Any, codes: Any, reverse: Any, expected: Any):
    if isinstance(expected, type):
        with pytest.raises(expected):
            npx.reshape(np.zeros(shape), codes)
        return
    assert npx.reshape(np.zeros(shape), codes, reverse=reverse).shape == expected


def test_reshape_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="axis of size 1"):
        npx.reshape(np.zeros((2, 3)), (-3, -2))
    with pytest.raises(ValueError, match="codes from -6 to -1, got -7"):
        npx.reshape(np.zeros((2, 3)), (-7,))
    with pytest.raises(ValueError, match="order must be 'C'"):
        npx.reshape(np.zeros((2, 3)), (6,), order="F")


@pytest.mark.parametrize("hybridize", [False, True])
def test_masked_softmax(hybridize: bool):
    class Masked(gluon.HybridBlock):
        def forward(self, x: Any, mask: Any) -> Any:
            return npx.masked_softmax(x, mask, temperature=2.0), npx.masked_log_softmax(x, mask)

    net, x = Masked(), X.copy()
    net.hybridize(hybridize)
    x.attach_grad()
    mask = array([[1, 0, 1], [0, 0, 0]], "bool")
    with autograd.record():
        soft, logarithm = net(x, mask)
        head = soft[0, 0]
    head.backward()
    parts = onp.exp(onp.array([1, 3]) / 2)
    p = parts / parts.sum()
    onp.testing.assert_allclose(soft.asnumpy(), [[p[0], 0, p[1]], [0, 0, 0]], rtol=1e-6)
    parts = onp.exp(onp.array([1.0, 3.0]))
    q = onp.log(parts / parts.sum())
    onp.testing.assert_allclose(logarithm.asnumpy()[0], [q[0], -onp.inf, q[1]], rtol=1e-6)
    assert onp.isneginf(logarithm.asnumpy()[1]).all()
    slope = p[0] * p[1] / 2
    onp.testing.assert_allclose(x.grad.asnumpy(), [[slope, 0, -slope], [0, 0, 0]], rtol=1e-5)


def test_index_add_and_update():
    a = np.zeros((2, 3))
    a.attach_grad()
    places, values = array([[0, 0, 1], [1, 1, 2]], "int64"), array([1, 2, 4])
    values.attach_grad()
    with autograd.record():
        added = npx.index_add(a, places, values)
        loss = (added * array([[1, 2, 3], [4, 5, 6]])).sum()
    loss.backward()
    assert added.tolist() == [[0, 3, 0], [0, 0, 4]]
    assert values.grad.tolist() == [2, 2, 6] and a.grad.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert npx.index_update(X, places[:, 1:], values[1:]).tolist() == [[1, 2, 3], [4, 5, 4]]
    rows = npx.index_add(a, array([[1, 1]], "int64"), array([1, 1, 1]))
    assert rows.tolist() == [[0, 0, 0], [2, 2, 2]]


def test_values_decide_these():
    found = npx.nonzero(array([[0, 1], [2, 0]]))
    assert found.tolist() == [[0, 1], [1, 0]] and found.dtype == onp.int64
    assert bool(npx.constraint_check(array([1, 1], "bool"), "must hold"))
    with pytest.raises(ValueError, match="must hold"):
        npx.constraint_check(array([1, 0], "bool"), "must hold")


def test_files(tmp_path: Path):
    file = str(tmp_path / "arrays.npz")
    npx.save(file, {"a": np.ones(()), "b": np.ones((0, 3))})
    found = npx.load(file)
    assert {k: (type(v), v.shape) for k, v in found.items()} == {
        "a": (np.ndarray, ()), "b": (np.ndarray, (0, 3)),
    }  # fmt: skip
    npx.save(file, X)
    assert npx.load(file)[0].tolist() == X.tolist() and type(mx.nd.load(file)[0]) is mx.nd.NDArray
    onp.savez(file, a=onp.ones(3, "float32"))
    assert type(npx.load(file)["a"]) is np.ndarray
    with pytest.raises(TypeError, match=r"npx.save: .*as_np_ndarray"):
        npx.save(file, [mx.nd.ones((1,))])


def test_random_numbers():
    npx.random.seed(3)
    first = npx.random.uniform_n(array([0, 10]), array([1, 11]), batch_shape=(500,))
    assert first.shape == (500, 2) and type(first) is np.ndarray
    onp.testing.assert_allclose(first.asnumpy().mean(0), [0.5, 10.5], atol=0.05)
    assert npx.random.normal_n(0.0, array([1, 2, 3]), batch_shape=4).shape == (4, 3)
    drawn = npx.random.bernoulli(prob=0.25, size=(2000,))
    assert set(drawn.tolist()) == {0.0, 1.0} and abs(float(drawn.mean()) - 0.25) < 0.04
    assert npx.random.bernoulli(logit=array([40, -40])).tolist() == [1, 0]
    npx.seed(3)
    again = npx.random.uniform_n(array([0, 10]), array([1, 11]), batch_shape=(500,))
    assert (again.asnumpy() == first.asnumpy()).all()
    with pytest.raises(ValueError, match="exactly one of prob and logit"):
        npx.random.bernoulli()


class _Loops(gluon.HybridBlock):
    def forward(self, x: Any) -> Any:
        outputs, state = npx.foreach(lambda row, s: (row + s, s + 1), x, x[0] * 0)
        steps, _ = npx.while_loop(
            lambda i, total: i < 3, lambda i, total: (total, (i + 1, total + i)),
            (x[0, :1] * 0, x[0, :1]), 4,
        )  # fmt: skip
        chosen = npx.cond(x[0, :1] > 5, lambda a: a, lambda a: a * 2, [x])
        return outputs, state, steps[0] if isinstance(steps, list) else steps, chosen


def test_control_flow_runs_eager_and_hybridized():
    net = _Loops()
    expected = net(X)
    net.hybridize()
    for found, want in zip(net(X), expected):
        assert type(found) is type(want) is np.ndarray
        assert found.tolist() == want.tolist()
    assert expected[0].tolist() == [[1, -2, 3], [5, 6, -5]]
    assert expected[2].tolist() == [[1], [1], [2], [0]] and expected[3].tolist()[0] == [2, -4, 6]


def test_arrays_of_numpy_mode_are_saved_as_1x_saves_them(tmp_path: Path):
    for array, version in ((X, b"\xca\xfa\x93\xf9"), (X.as_nd_ndarray(), b"\xc9\xfa\x93\xf9")):
        mx.nd.save(str(tmp_path / "file"), [array])
        assert version in (tmp_path / "file").read_bytes()
