"""Recording and differentiating: modes, requests, heads, higher order, functions, mistakes."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from recording import differentiated


def variable(values, req="write", dtype="float32"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def test_modes_are_set_in_scopes_and_restored():
    def modes():
        return autograd.is_recording(), autograd.is_training()

    assert modes() == (False, False)
    with autograd.record():
        assert modes() == (True, True)
        with autograd.pause():
            assert modes() == (False, False)
            with autograd.train_mode():
                assert modes() == (False, True)
        with autograd.predict_mode():
            assert modes() == (True, False)
        with autograd.pause(train_mode=True):
            assert modes() == (False, True)
        assert modes() == (True, True)
    with autograd.record(train_mode=False):
        assert modes() == (True, False)
    with pytest.raises(KeyError), autograd.record():
        raise KeyError
    assert modes() == (False, False)


def test_scopes_decorate_functions():
    @autograd.record()
    def inside():
        return autograd.is_recording()

    assert inside()
    assert not autograd.is_recording()


def test_a_gradient_is_zero_before_backward_and_has_shape_and_dtype():
    x = variable([[1, 2, 3]], dtype="float64")
    assert (x.grad.shape, x.grad.dtype) == ((1, 3), np.float64)
    np.testing.assert_array_equal(x.grad.asnumpy(), [[0, 0, 0]])
    assert nd.ones((2,)).grad is None


@pytest.mark.parametrize(("req", "expected"), [("write", [3, 3]), ("add", [9, 9])])
def test_write_replaces_and_add_accumulates(req, expected):
    x = variable([1, 2], req)
    for _ in range(3):
        differentiated(lambda: 3 * x)
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_write_keeps_the_memory_of_the_gradient():
    x = variable([1, 2])
    gradient = x.grad
    differentiated(lambda: 5 * x)
    np.testing.assert_array_equal(gradient.asnumpy(), [5, 5])


def test_null_gets_no_gradient():
    x, w = variable([1, 2], "null"), variable([3, 4])
    differentiated(lambda: x * w)
    np.testing.assert_array_equal(w.grad.asnumpy(), [1, 2])
    assert x.grad is None or not x.grad.asnumpy().any()


def test_a_variable_used_several_times_sums_its_gradients():
    x = variable([2])
    differentiated(lambda: x * x + 3 * x + x.exp() * 0 + nd.concat(x, x, dim=0).sum())
    assert x.grad.asscalar() == 2 * 2 + 3 + 2


def test_head_gradients_weight_the_heads():
    x = variable([1, 2, 3])
    with autograd.record():
        y = x * 2
        z = x * x
    autograd.backward([y, z], [nd.array([1, 10, 100]), None])
    np.testing.assert_array_equal(x.grad.asnumpy(), [2 + 2, 20 + 4, 200 + 6])


def test_what_is_paused_or_detached_counts_as_constant():
    x = variable([3])
    with autograd.record():
        with autograd.pause():
            a = x * 2
        y = x * a + x.detach() * 100 + nd.BlockGrad(x) * 100
    y.backward()
    assert x.grad.asscalar() == 6


def test_a_retained_graph_can_be_used_again_until_a_backward_frees_it():
    x = variable([3], "add")
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asscalar() == 12
    with pytest.raises(mx.MXNetError, match="retain_graph"):
        y.backward()


def test_backward_of_what_was_not_recorded_is_an_error():
    x = variable([1])
    y = x * 2
    with pytest.raises(mx.MXNetError, match=r"(?i)record"):
        y.backward()


WRITES = [
    lambda x: x.__iadd__(1),
    lambda x: x.__setitem__(slice(None), 1),
    lambda x: x.__setitem__(0, 1),
    lambda x: x.__setitem__([0], 1),
    lambda x: x.__setitem__(slice(0, 1), np.ones(1)),
    lambda x: nd.ones((2,)).copyto(x),
    lambda x: nd.add(nd.ones((2,)), 1).copyto(x),
    lambda x: nd.broadcast_add(nd.ones((2,)), nd.ones((2,)), out=x),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("of", ["variable", "result"])
def test_writing_into_a_recorded_array_is_an_error_while_recording(write, of):
    x = variable([1, 2])
    with autograd.record():
        y = x * x
        target = x if of == "variable" else y
        with pytest.raises(mx.MXNetError, match="recorded"):
            write(target)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4])


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("make", [lambda: variable([1, 2]), lambda: variable(nd.ones((2,)) + 1)])
def test_a_value_overwritten_before_backward_is_an_anomaly(make, write):
    x = make()
    with autograd.record():
        y = x * x
    write(x)
    with (
        autograd.detect_anomaly(),
        pytest.raises(mx.MXNetError, match="changed in place after it was recorded"),
    ):
        y.backward()


@pytest.mark.parametrize("module", [nd, mx.np], ids=["nd", "np"])
@pytest.mark.parametrize("name", ["__imul__", "__itruediv__", "__iadd__", "__isub__"])
def test_a_constant_that_the_recorded_call_overwrites_keeps_its_value_for_backward(module, name):
    x = module.array([2.0, 4.0])
    x.attach_grad()
    y = module.array([3.0, 5.0])
    with autograd.record():
        z = getattr(y, name)(x)
    assert z is y
    z.backward()
    expected = {"__iadd__": [1, 1], "__isub__": [-1, -1], "__itruediv__": [-0.75, -0.3125]}
    np.testing.assert_allclose(x.grad.asnumpy(), expected.get(name, [3, 5]))


def test_a_constant_operand_that_is_out_keeps_its_value_for_backward():
    x, y = variable([2, 4]), nd.array([3, 5])
    with autograd.record():
        assert nd.broadcast_mul(x, y[:], out=y) is y
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 5])


def test_a_value_that_backward_does_not_need_may_be_overwritten():
    x = variable([1, 2])
    with autograd.record():
        y = x + 1
    x += 1
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [1, 1])


# -- views, shapes, indexing -------------------------------------------------------------------

PATHS = [
    lambda x: x.reshape((4, 3)),
    lambda x: x.reshape((-1,)),
    lambda x: x.T,
    lambda x: x.transpose((1, 0)),
    lambda x: x[1],
    lambda x: x[1:],
    lambda x: x[:, 2],
    lambda x: x[::-1, ::2],
    lambda x: x[None, 1:3, None],
    lambda x: x[[2, 0, 2]],
    lambda x: x[:, nd.array([3, 3, 0])],
    lambda x: x[[0, 1], [2, 3]],
    lambda x: x.expand_dims(0),
    lambda x: x.flatten(inplace=True),
    lambda x: x.slice_axis(axis=1, begin=1, end=3),
    lambda x: x.take(nd.array([0, 0])),
    lambda x: nd.concat(x, x[:1], dim=0),
    lambda x: nd.stack(x, x, axis=1),
    lambda x: x.split(num_outputs=2, axis=1)[1],
    lambda x: x.astype("float64"),
    lambda x: x.copy(),
    lambda x: nd.array(x, dtype="float64"),
    lambda x: x.as_in_context(mx.cpu(0)),
    lambda x: x.broadcast_to((2, 3, 4)),
    lambda x: next(iter(x)),
]


@pytest.mark.parametrize("number", range(len(PATHS)))
def test_the_gradient_goes_through_shapes_and_indices(number):
    path = PATHS[number]
    values = np.random.rand(3, 4).astype(np.float32)
    # The path is linear, each of its outputs an element of x: applied to the elements' numbers it
    # says which.
    origin = path(nd.array(np.arange(12).reshape(3, 4))).asnumpy().astype(int)
    weights = np.random.rand(*origin.shape)
    expected = np.zeros(12)
    np.add.at(expected, origin.ravel(), weights.ravel())
    x = variable(values)
    with autograd.record():
        y = path(x)
        total = (y * nd.array(weights, dtype=y.dtype)).sum()
    total.backward()
    np.testing.assert_allclose(x.grad.asnumpy().ravel(), expected, rtol=1e-5)


# -- grad and higher order ---------------------------------------------------------------------


def test_grad_returns_new_arrays_and_leaves_the_attached_ones():
    x, w = variable([2]), variable([5])
    with autograd.record():
        y = x * x * w
    gx, gw = autograd.grad(y, [x, w], retain_graph=True)
    (single,) = autograd.grad(y, x)  # a list for one variable too
    assert (gx.asscalar(), gw.asscalar(), single.asscalar()) == (20, 4, 20)
    assert x.grad.asscalar() == 0


@pytest.mark.parametrize(
    ("f", "derivatives"),
    [
        (lambda x: x**3, [lambda v: 3 * v**2, lambda v: 6 * v, lambda v: 6 + 0 * v]),
        (lambda x: x.sin(), [np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]),
        (lambda x: x.cos(), [lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]),
        (lambda x: x.exp(), [np.exp, np.exp, np.exp]),
        (lambda x: x.log(), [lambda v: 1 / v, lambda v: -1 / v**2, lambda v: 2 / v**3]),
        (lambda x: x.sqrt(), [lambda v: 0.5 * v**-0.5, lambda v: -0.25 * v**-1.5]),
        (lambda x: x.square(), [lambda v: 2 * v, lambda v: 2 + 0 * v]),
        (lambda x: x.reciprocal(), [lambda v: -(v**-2), lambda v: 2 * v**-3]),
        (lambda x: x.relu(), [lambda v: 1 + 0 * v, lambda v: 0 * v]),
        (lambda x: 2 * x * x, [lambda v: 4 * v, lambda v: 4 + 0 * v]),
        (lambda x: 1 / x, [lambda v: -(v**-2), lambda v: 2 * v**-3]),
        (
            lambda x: x.sigmoid(),
            [
                lambda v: np.exp(-v) / (1 + np.exp(-v)) ** 2,
                lambda v: np.exp(-v) * (np.exp(-v) - 1) / (1 + np.exp(-v)) ** 3,
            ],
        ),
        (
            lambda x: x.tanh(),
            [
                lambda v: 1 - np.tanh(v) ** 2,
                lambda v: -2 * np.tanh(v) * (1 - np.tanh(v) ** 2),
                lambda v: (1 - np.tanh(v) ** 2) * (6 * np.tanh(v) ** 2 - 2),
            ],
        ),
    ],
)
def test_derivatives_of_higher_order(f, derivatives):
    values = np.array([0.5, 1.25, 2.0])
    x = variable(values, dtype="float64")
    with autograd.record():
        y = f(x)
        for expected in derivatives[:-1]:
            y = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
            np.testing.assert_allclose(y.asnumpy(), expected(values), rtol=1e-9, atol=1e-12)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), derivatives[-1](values), rtol=1e-9, atol=1e-12)


def test_the_gradient_of_a_gradient_s_norm():
    x = variable(np.random.rand(3, 2), dtype="float64")
    w = variable(np.random.rand(4, 2), dtype="float64")
    with autograd.record():
        y = nd.FullyConnected(x, w, no_bias=True, num_hidden=4).square().sum()
        g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
        penalty = g.square().sum()
    penalty.backward()
    m = w.asnumpy().T @ w.asnumpy()  # y = tr(x m x'), g = 2 x m, penalty = 4 tr(x m m x')
    np.testing.assert_allclose(x.grad.asnumpy(), 8 * x.asnumpy() @ m @ m, rtol=1e-9)


@pytest.mark.parametrize("backward", [True, False])
def test_a_chain_of_20000_operations_overflows_no_stack(backward):
    x = variable([1.0])
    with autograd.record():
        y = x
        for _ in range(20_000):
            y = y + 1
    if backward:
        y.backward()
    del y
    assert x.grad.asscalar() == backward


# -- functions ---------------------------------------------------------------------------------


class Scale(autograd.Function):
    """Multiplies; its gradient is deliberately another one."""

    def forward(self, x, factor):
        self.save_for_backward(x, factor)
        return x * factor

    def backward(self, dy):
        x, factor = self.saved_tensors
        return dy * factor * 10, dy * x


def test_a_function_defines_its_own_gradient():
    x, factor = variable([1, 2]), variable([3, 4])
    y = differentiated(lambda: Scale()(x, factor) * 2)
    np.testing.assert_array_equal(y.asnumpy(), [6, 16])
    np.testing.assert_array_equal(x.grad.asnumpy(), [60, 80])
    np.testing.assert_array_equal(factor.grad.asnumpy(), [2, 4])


def test_a_function_of_several_outputs_gets_zeros_for_those_unused():
    class Two(autograd.Function):
        def forward(self, x):
            return x + 1, x * 2

        def backward(self, da, db):
            self.seen = (da.asnumpy().tolist(), db.asnumpy().tolist())
            return da + 2 * db

    x, function = variable([1, 2]), Two()
    with autograd.record():
        _, b = function(x)
    b.backward()
    assert function.seen == ([0, 0], [1, 1])
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 2])


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ("lost", KeyError, "lost"),
        (
            "known",
            ValueError,
            "Bad.backward must return a gradient for each of the 2 inputs of forward, got 1",
        ),
    ],
)
def test_an_error_in_a_function_s_backward_reaches_the_caller(key, error, words):
    class Bad(autograd.Function):
        def forward(self, a, b):
            return a + b

        def backward(self, dy):
            return {"known": dy}[key]

    with autograd.record():
        y = Bad()(variable([1]), variable([2]))
    with pytest.raises(error, match=words):
        y.backward()


@pytest.mark.parametrize(
    ("act", "error", "match"),
    [
        (
            lambda: nd.ones((1,)).attach_grad("always"),
            ValueError,
            "grad_req must be .*got 'always'",
        ),
        (
            lambda: autograd.grad(nd.ones((1,)), []),
            ValueError,
            "variables must have at least 1 array, got none",
        ),
        (
            lambda: autograd.mark_variables([nd.ones(1)], []),
            ValueError,
            "equal counts, got 1, 0 and",
        ),
        (
            lambda: autograd.mark_variables(nd.ones((2,)), nd.ones((3,))),
            ValueError,
            r"\(2,?\).*\(3,?\)|\(3,?\).*\(2,?\)",
        ),
        (lambda: autograd.get_symbol(nd.ones((1,))), mx.MXNetError, "get_symbol"),
    ],
)
def test_bad_arguments_are_named(act, error, match):
    with pytest.raises(error, match=match):
        act()


def test_head_gradients_must_fit():
    x = variable([1, 2])
    with autograd.record():
        y = x * x
    with pytest.raises(ValueError, match="head gradients must equal the number of heads, 1, got 2"):
        autograd.backward([y], [None, None])
    with pytest.raises(ValueError, match=r"3.*2|2.*3"):
        y.backward(nd.ones((3,)))


def test_mark_variables_uses_given_gradient_arrays():
    x, g = nd.array([1, 2]), nd.zeros((2,))
    autograd.mark_variables(x, g)
    differentiated(lambda: x * x)
    np.testing.assert_array_equal(g.asnumpy(), [2, 4])


def test_gradients_pass_casts_to_and_from_integers():
    for dtype in ("float32", "int32"):
        x = nd.array([1, -2, 3], dtype=dtype)
        differentiated(lambda x: x.astype("int32").astype("float32") * nd.array([2.75, 0.5, -3]), x)
        assert x.grad.dtype == np.dtype(dtype)
        assert x.grad.asnumpy().tolist() == [2, 0, -3]


def test_in_place_power_makes_a_new_array_as_in_1x():
    """The other signs write in place."""
    x = nd.array([1, 2, 3])
    same = x
    x **= 2
    np.testing.assert_array_equal(x.asnumpy(), [1, 4, 9])
    np.testing.assert_array_equal(same.asnumpy(), [1, 2, 3])
    x.attach_grad()
    with autograd.record():
        y = x * 1
        kept = y
        y **= 2
        (y + kept).sum().backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 9, 19])
