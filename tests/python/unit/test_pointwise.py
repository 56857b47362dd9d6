"""Pointwise operators beyond the op table: second derivatives, shared memory, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd

# Function, first and second derivative where the second one is easy to write.
SECOND: dict[str, tuple[float, float, Callable[[np.ndarray], np.ndarray]]] = {
    "sin": (-2, 2, lambda x: -np.sin(x)),
    "cos": (-2, 2, lambda x: -np.cos(x)),
    "tan": (-1, 1, lambda x: 2 * np.tan(x) / np.cos(x) ** 2),
    "sinh": (-2, 2, np.sinh),
    "cosh": (-2, 2, np.cosh),
    "tanh": (-2, 2, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "arcsin": (-0.8, 0.8, lambda x: x / (1 - x * x) ** 1.5),
    "arccos": (-0.8, 0.8, lambda x: -x / (1 - x * x) ** 1.5),
    "arctan": (-2, 2, lambda x: -2 * x / (1 + x * x) ** 2),
    "arcsinh": (-2, 2, lambda x: -x / (1 + x * x) ** 1.5),
    "arccosh": (1.3, 3, lambda x: -x / (x * x - 1) ** 1.5),
    "arctanh": (-0.8, 0.8, lambda x: 2 * x / (1 - x * x) ** 2),
    "exp": (-1, 1, np.exp),
    "log": (0.3, 3, lambda x: -1 / x**2),
    "log2": (0.3, 3, lambda x: -1 / x**2 / np.log(2)),
    "log10": (0.3, 3, lambda x: -1 / x**2 / np.log(10)),
    "log1p": (0.3, 3, lambda x: -1 / (1 + x) ** 2),
    "expm1": (-1, 1, np.exp),
    "reciprocal": (0.3, 3, lambda x: 2 / x**3),
    "sqrt": (0.3, 3, lambda x: -0.25 * x**-1.5),
    "rsqrt": (0.3, 3, lambda x: 0.75 * x**-2.5),
    "cbrt": (0.3, 3, lambda x: -2 / 9 * x ** (-5 / 3)),
    "rcbrt": (0.3, 3, lambda x: 4 / 9 * x ** (-7 / 3)),
    "square": (-2, 2, lambda x: np.full_like(x, 2.0)),
    "erf": (-1, 1, lambda x: -4 * x / np.sqrt(np.pi) * np.exp(-x * x)),
    "sigmoid": (-2, 2, lambda x: -np.tanh(x / 2) / np.cosh(x / 2) ** 2 / 4),
}


@pytest.mark.parametrize("name", list(SECOND))
def test_the_gradient_of_a_gradient_is_the_second_derivative(name: str) -> None:
    low, high, second = SECOND[name]
    values = np.linspace(low, high, 12)
    x = nd.array(values, dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = getattr(nd, name)(x)
        slope = autograd.grad(y, [x], create_graph=True, retain_graph=True)[0]
    slope.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), second(values), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", [40_000, 100_003])
@pytest.mark.parametrize(
    ("shape_b", "name"), [("same", "broadcast_add"), ("row", "broadcast_mul"), ("one", "_mul")]
)
def test_arrays_that_are_shared_between_threads_come_out_whole(
    size: int, shape_b: str, name: str
) -> None:
    rng = np.random.RandomState(size)
    a = rng.uniform(-1, 1, (size // 7, 7)).astype("float32")
    b = {"same": a[::-1], "row": a[:1], "one": a}[shape_b]
    got = nd.array(a) + nd.array(b) if name == "broadcast_add" else nd.array(a) * nd.array(b)
    want = a + b if name == "broadcast_add" else a * b
    np.testing.assert_array_equal(got.asnumpy(), want)


def test_output_may_be_an_operand() -> None:
    a, b = nd.arange(10), nd.ones(10)
    mx._core.op("broadcast_add")(a, b, out=a)
    mx._core.op("exp")(b, out=b)
    np.testing.assert_array_equal(a.asnumpy(), np.arange(10) + 1)
    np.testing.assert_allclose(b.asnumpy(), np.exp(np.ones(10)), rtol=1e-6)
    base = nd.array(np.arange(300).reshape(3, 100))
    want = base.asnumpy() + np.arange(100)
    mx._core.op("broadcast_add")(base[0:1], base, out=base)  # an operand that is broadcast
    np.testing.assert_array_equal(base.asnumpy(), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "float64", "uint8"])
def test_transposed_and_stepped_views_are_read_in_place(dtype: str) -> None:
    values = np.random.RandomState(3).randint(0, 9, (6, 8)).astype("float32")
    x = nd.array(values, dtype=dtype)
    view = x._strided_view((4, 3), (2, 16), 1)
    got = (view + view.astype(dtype)).astype("float32").asnumpy()
    np.testing.assert_array_equal(got, 2 * values[::2, 1::2].T)


@pytest.fixture
def threads() -> Iterator[None]:
    before = mx._core.cpu_threads()
    yield
    mx._core.set_cpu_threads(before)


@pytest.mark.parametrize("name", ["normal", "uniform", "gamma", "poisson"])
def test_random_numbers_do_not_depend_on_the_number_of_threads(name: str, threads: None) -> None:
    def draw(count: int, dtype: str) -> Any:
        mx._core.set_cpu_threads(count)
        mx.random.seed(5)
        return mx._core.op("random_" + name)(shape=(70_001,), dtype=dtype).asnumpy()

    for dtype in ("float32", "float64"):
        np.testing.assert_array_equal(draw(1, dtype), draw(3, dtype))


def test_sums_do_not_depend_on_the_number_of_threads(threads: None) -> None:
    x = nd.array(np.random.RandomState(1).uniform(-1, 1, (501, 777)))
    results = []
    for count in (1, 2, 5):
        mx._core.set_cpu_threads(count)
        results.append([nd.sum(x, axis=a).asnumpy().tolist() for a in (None, 0, 1)])
    assert results[0] == results[1] == results[2]


def test_the_drawn_log_probability_has_a_gradient() -> None:
    p = nd.array([[0.2, 0.8], [0.5, 0.5]])
    p.attach_grad()
    with autograd.record():
        draws, log_p = nd.random.multinomial(p, shape=50, get_prob=True)
        loss = log_p.sum()
    loss.backward()
    counts = np.stack([np.bincount(row, minlength=2) for row in draws.asnumpy()])
    np.testing.assert_allclose(p.grad.asnumpy(), counts / p.asnumpy(), rtol=1e-5)


def test_float32_sums_of_many_numbers_keep_their_digits() -> None:
    values = np.random.RandomState(2).uniform(0, 1, 3_000_000).astype("float32")
    for shape, axis in [((3_000_000,), 0), ((1_000_000, 3), 0), ((3, 1_000_000), 1)]:
        data = values.reshape(shape)
        got = nd.sum(nd.array(data), axis=axis).asnumpy()
        np.testing.assert_allclose(got, data.astype("float64").sum(axis).reshape(got.shape), 2e-7)


NUMBERS_ONLY = "negative exp sqrt log sin arccosh reciprocal sigmoid gammaln erf smooth_l1"
NUMBERS_ONLY += " hard_sigmoid degrees"


@pytest.mark.parametrize("name", NUMBERS_ONLY.split())
def test_functions_of_numbers_refuse_booleans(name: str) -> None:
    mask = nd.array([0, 1, 1]).astype("bool")
    params = {"scalar": 1.0} if name == "smooth_l1" else {}
    with pytest.raises(TypeError, match=f"{name}: data must have a numeric dtype, got bool"):
        getattr(nd, name)(mask, **params)


@pytest.mark.parametrize("name", ["logical_not", "abs", "sign", "relu", "floor", "identity"])
def test_functions_that_keep_booleans_give_booleans(name: str) -> None:
    out = getattr(nd, name)(nd.array([0, 1, 1]).astype("bool"))
    assert out.dtype == np.bool_
    expected = [True, False, False] if name == "logical_not" else [False, True, True]
    assert out.asnumpy().tolist() == expected


class RandomGraph(mx.gluon.HybridBlock):
    """Pointwise steps on values chosen at random; several of them live at a time."""

    def __init__(self, seed: int, steps: int, outputs: int) -> None:
        super().__init__()
        self.seed, self.steps, self.outputs = seed, steps, outputs

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> list[Any]:
        chooser = np.random.RandomState(self.seed)
        functions = [F.tanh, F.sigmoid, F.sin, F.square, F.abs]
        values = [x, y]
        for _ in range(self.steps):
            recent = range(max(0, len(values) - 5), len(values))
            a, b = (values[i] for i in chooser.choice(recent, 2, replace=False))
            kind = chooser.randint(8)
            if kind < 5:
                values.append(functions[kind](a))
            else:
                values.append([a + b, a - 2 * b, F.tanh(a * b)][kind - 5])
        return values[-self.outputs :]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(8))
def test_fused_steps_keep_their_values_apart(seed: int, dtype: str) -> None:
    random = np.random.RandomState(seed)
    # More than one block of elements, and a last one that is not full.
    x, y = (nd.array(random.uniform(-1, 1, (37, 113)), dtype=dtype) for _ in "xy")
    block = RandomGraph(seed, steps=14, outputs=1 + seed % 4)
    want = [v.asnumpy() for v in block(x, y)]
    assert all(np.ptp(v) > 0.01 for v in want)
    block.hybridize()
    for _ in range(2):
        got = block(x, y)
        assert len(got) == len(want) == 1 + seed % 4
        for a, b in zip(got, want):  # at the end of a block a step may round otherwise
            error = 2 * block.steps * np.finfo(dtype).eps * np.abs(b).max()
            np.testing.assert_allclose(a.asnumpy(), b, rtol=0, atol=error)


def test_fused_steps_read_both_large_and_single_values() -> None:
    class Scaled(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> list[Any]:
            a, b, c = F.tanh(x), F.sin(y), F.square(x)
            return [a * 2 + b, b - c * 0.5, a * b + c, F.relu(a - c)]

    random = np.random.RandomState(0)
    x, y = (random.uniform(-1, 1, (41, 127)).astype("float32") for _ in "xy")
    block = Scaled()
    block.hybridize()
    a, b, c = np.tanh(x), np.sin(y), x * x
    want = [a * 2 + b, b - c * 0.5, a * b + c, np.maximum(a - c, 0)]
    for _ in range(2):
        got = block(nd.array(x), nd.array(y))
        assert len(got) == len(want)
        for g, w in zip(got, want):
            np.testing.assert_allclose(g.asnumpy(), w, rtol=1e-5, atol=1e-6)
