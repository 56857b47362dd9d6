"""mx.test_utils on symbols: right results pass, wrong ones are named."""

import mxlite as mx
import numpy as np
import pytest
from mxlite import test_utils as tu

X = np.random.RandomState(0).uniform(0.5, 1.5, (2, 3)).astype(np.float32)
Y = np.random.RandomState(1).uniform(0.5, 1.5, (2, 3)).astype(np.float32)
ONES = np.ones_like(X)


def product():
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    return x * y + x


def test_simple_forward_gives_numpy_arrays():
    tu.assert_almost_equal(tu.simple_forward(product(), x=X, y=Y), X * Y + X)
    group = mx.sym.Group([product(), mx.sym.Variable("x") * 2])
    outputs = tu.simple_forward(group, x=X, y=Y)
    assert isinstance(outputs[1], np.ndarray) and tu.same(outputs[1], X * 2)


def test_forward_as_expected():
    (output,) = tu.check_symbolic_forward(product(), [X, Y], [X * Y + X])
    assert isinstance(output, mx.nd.NDArray)
    sym = product()
    tu.check_symbolic_forward(sym, {"x": X, "y": Y}, {sym.list_outputs()[0]: X * Y + X})


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (AssertionError, "EXPECTED_.*FORWARD_", [[X, Y], [X * Y]]),
        (ValueError, "do not match.*'x', 'y'.*'x', 'z'", [{"x": X, "z": Y}, [X]]),
        (ValueError, "must have one array .* got 1", [[X], [X]]),
    ],
)
def test_wrong_values_and_arguments_are_named(error, words, arguments):
    with pytest.raises(error, match=words):
        tu.check_symbolic_forward(product(), *arguments)


@pytest.mark.parametrize(
    ("error", "words", "heads", "expected", "options"),
    [
        (AssertionError, "EXPECTED_y=.*BACKWARD_y=", [ONES], {"y": X + 1}, {}),
        (AssertionError, "BACKWARD_x", mx.nd.array(ONES), [Y, X], {"grad_req": "add"}),
        (ValueError, "each of .*'x', 'y'.*, got 1; give .*dictionary", [ONES], [Y + 1], {}),
        (ValueError, r"gradients of \['x', 'y'\], got \['z'\]", [ONES], {"z": X}, {}),
        (ValueError, "out_grads must have one array .* got 2", [ONES, ONES], {"y": X}, {}),
        (
            ValueError,
            "grad_req must have one entry .* got 1",
            [ONES],
            {"y": X},
            {"grad_req": ["write"]},
        ),
    ],
)
def test_wrong_gradients_are_named(error, words, heads, expected, options):
    with pytest.raises(error, match=words):
        tu.check_symbolic_backward(product(), [X, Y], heads, expected, **options)


@pytest.mark.parametrize("grad_req", ["write", "add", {"x": "null", "y": "write"}, ["add", "null"]])
def test_backward_as_expected(grad_req):
    out = np.full_like(X, 2)
    expected = [2 * (Y + 1), 2 * X]
    found = tu.check_symbolic_backward(product(), [X, Y], [out], expected, grad_req=grad_req)
    assert set(found) == {"x", "y"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numeric_gradients(dtype):
    data = mx.sym.Variable("data")
    net = mx.sym.FullyConnected(mx.sym.tanh(data), num_hidden=4, name="fc")
    rng = np.random.RandomState(2)
    location = {"data": rng.randn(2, 3), "fc_weight": rng.randn(4, 3), "fc_bias": rng.randn(4)}
    for nodes in (None, ["fc_weight"], {"data": "add"}):
        options = {"grad_nodes": nodes, "dtype": dtype, "rtol": 1e-2, "atol": 1e-2}
        tu.check_numeric_gradient(net, location, **options)


def test_a_wrong_gradient_does_not_pass_the_numeric_check():
    x = mx.sym.Variable("x")
    wrong = mx.sym.BlockGrad(x) * x  # gradient x, not 2 x
    with pytest.raises(AssertionError, match="NUMERICAL_x=.*BACKWARD_x="):
        tu.check_numeric_gradient(wrong, [X])


def test_numeric_gradients_with_states_and_several_outputs():
    data = mx.sym.Variable("data")
    norm = mx.sym.BatchNorm(data, fix_gamma=False, name="bn")
    location = {"data": np.random.randn(6, 3), "bn_gamma": np.ones(3), "bn_beta": np.zeros(3)}
    states = {"bn_moving_mean": np.zeros(3), "bn_moving_var": np.ones(3)}
    tu.check_numeric_gradient(norm, location, states, dtype=np.float64, rtol=1e-2, atol=1e-3)
    parts = mx.sym.SliceChannel(data, num_outputs=3, squeeze_axis=True)
    tu.check_numeric_gradient(parts, [np.random.randn(2, 3)])
    with pytest.raises(ValueError, match="bn_moving_mean"):
        tu.check_numeric_gradient(norm, location)


def test_finite_differences_of_an_executor():
    x = mx.sym.Variable("x")
    executor = mx.sym.sum(x * x).bind(mx.cpu(), args={"x": mx.nd.array(X)})
    gradient = tu.numeric_grad(executor, {"x": X}, eps=1e-2)["x"]
    np.testing.assert_allclose(gradient, 2 * X, rtol=1e-2)
    assert tu.same(executor.arg_dict["x"], X)


def contexts(shape=(2, 3)):
    return [
        {"ctx": mx.cpu(0), "x": shape, "y": shape, "type_dict": {"x": d, "y": d}}
        for d in (np.float32, np.float64)
    ]


def test_dtypes_are_consistent():
    truth = tu.check_consistency(product(), contexts())
    assert truth["x"].dtype == np.float64 and truth["x"].shape == (2, 3)
    tu.check_consistency(product(), contexts(), grad_req="null", use_uniform=True, scale=0.5)
    tu.check_consistency(product(), contexts(), arg_params={"x": X, "y": Y})


def test_inconsistent_symbols_do_not_pass(capsys):
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    same_outputs = [mx.sym.identity(s, name="out") for s in (x * y + x, x * y - x)]
    with pytest.raises(AssertionError, match="ground truth"):
        tu.check_consistency(same_outputs, contexts())
    tu.check_consistency(same_outputs, contexts(), raise_on_err=False)
    assert "check_consistency: entry 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="contexts must be 2 or more, got 1"):
        tu.check_consistency(product(), contexts()[:1])


def test_speed_is_a_positive_number():
    assert tu.check_speed(product(), N=2, x=(2, 3), y=(2, 3)) > 0
    assert tu.check_speed(product(), {"x": X, "y": Y}, N=2, typ="forward", grad_req="null") > 0
    with pytest.raises(ValueError, match="backward"):
        tu.check_speed(product(), typ="backward", x=(2, 3), y=(2, 3))


def test_structure_of_symbols():
    assert tu.same_symbol_structure(product(), product())
    assert not tu.same_symbol_structure(product(), mx.sym.Variable("x") * mx.sym.Variable("y"))
