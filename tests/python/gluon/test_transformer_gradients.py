"""Gradients of cells large enough for every kernel of training, against float64, and their bits."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from mxlite.gluon.contrib.nn import transformer

# Rows and features for which bfloat16 products pack their operands; they fill no vectors.
BATCH, LENGTH, UNITS, HIDDEN, HEADS = 4, 70, 72, 264, 4
# Largest distance, as a share of an array's norm: one rounding of the sums, or many of the values.
DISTANCE = {"float32": 1e-5, "bfloat16": 4e-2}


def values(*shape: int, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).normal(size=shape)


def fill(block: Any, dtype: str) -> Any:
    block.initialize(mx.init.Zero())
    block.cast(dtype)
    for i, (name, parameter) in enumerate(sorted(block.collect_params().items())):
        drawn = 0.15 * values(*parameter.shape, seed=i)
        parameter.set_data(nd.array(drawn + name.endswith("gamma"), dtype=dtype))
    return block


def gradients(block: Any, inputs: list[Any], hybrid: bool) -> dict[str, np.ndarray]:
    """Return the outputs, and the gradients of their weighted sum by parameter."""
    block.hybridize(hybrid)
    for _ in range(2):  # the second call runs what the first one compiled
        with autograd.record():
            outputs = block(*inputs)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            weighted = [y * nd.array(values(*y.shape, seed=99) / 8, dtype=y.dtype) for y in outputs]
        autograd.backward(weighted)
    found = {f"output {i}": y.astype("float64").asnumpy() for i, y in enumerate(outputs)}
    for name, parameter in block.collect_params().items():
        found[name] = parameter.grad().astype("float64").asnumpy()
    return found


def check_near(found: dict[str, np.ndarray], exact: dict[str, np.ndarray], most: float) -> None:
    assert found.keys() == exact.keys()
    for name, want in exact.items():
        error = np.linalg.norm(found[name] - want) / np.linalg.norm(want)
        assert error <= most, f"{name}: distance {error:.2e} of its norm, at most {most} expected"


def cell(activation: str, pre_norm: bool, dtype: str) -> Any:
    sizes = (UNITS, HIDDEN, HEADS, 0.0, 0.0)
    made = transformer.TransformerEncoderCell(*sizes, activation, pre_norm, prefix="cell_")
    return fill(made, dtype)


@pytest.mark.parametrize("dtype", list(DISTANCE))
@pytest.mark.parametrize(("activation", "pre_norm"), [("gelu", False), ("gelu_tanh", True)])
def test_gradients_of_a_cell(activation: str, pre_norm: bool, dtype: str) -> None:
    x = values(BATCH, LENGTH, UNITS, seed=1)
    lengths = nd.array([LENGTH, 41, LENGTH, 69], dtype="int32")

    def of(dtype: str, hybrid: bool) -> dict[str, np.ndarray]:
        made = cell(activation, pre_norm, dtype)
        return gradients(made, [nd.array(x, dtype=dtype), lengths], hybrid)

    exact = of("float64", False)
    for hybrid in (False, True):
        check_near(of(dtype, hybrid), exact, DISTANCE[dtype])


@pytest.mark.parametrize("dtype", list(DISTANCE))
def test_gradients_of_a_tied_table(dtype: str) -> None:
    vocabulary, masks = 700, 66
    random = np.random.RandomState(4)
    tokens = random.zipf(1.3, (BATCH, LENGTH)) % vocabulary
    places = random.randint(0, LENGTH, (BATCH, masks))

    def of(dtype: str, hybrid: bool) -> dict[str, np.ndarray]:
        sizes = (vocabulary, UNITS, HIDDEN, 1, HEADS, LENGTH)
        backbone = transformer.BERTModel(*sizes, dropout=0.0, prefix="backbone_")
        net = fill(transformer.BERTForPretraining(backbone, prefix="bert_"), dtype)
        inputs = [tokens, tokens % 2, np.full(BATCH, LENGTH), places]
        return gradients(net, [nd.array(a, dtype="int32") for a in inputs], hybrid)

    exact = of("float64", False)
    for hybrid in (False, True):
        check_near(of(dtype, hybrid), exact, DISTANCE[dtype])


@pytest.mark.parametrize("dtype", list(DISTANCE))
def test_gradients_do_not_depend_on_the_number_of_threads(dtype: str) -> None:
    rows = 300
    x, gamma, beta, table = (
        nd.array(values(*shape, seed=i), dtype=dtype)
        for i, shape in enumerate([(rows, 77), (77,), (77,), (40, 77)])
    )
    index = nd.array(np.random.RandomState(1).zipf(1.3, rows) % 40, dtype="int32")

    def run(threads: int) -> list[np.ndarray]:
        before = mx._core.cpu_threads()
        mx._core.set_cpu_threads(threads)
        try:
            for a in (x, gamma, beta, table):
                a.attach_grad()
            with autograd.record():
                y = nd.LayerNorm(x, gamma, beta)
                y = y * nd.Embedding(index, table, input_dim=40, output_dim=77)
            y.backward()
            return [a.grad.asnumpy() for a in (x, gamma, beta, table)]
        finally:
            mx._core.set_cpu_threads(before)

    one = run(1)
    for threads in (2, 3):
        for found, want in zip(run(threads), one):
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dropout_keeps_the_same_elements_in_every_dtype(dtype: str) -> None:
    count = 70001  # more than one thread's, and no multiple of a counter's four numbers

    def mask(dtype: str) -> np.ndarray:
        mx.random.seed(7)
        x = nd.ones((count,), dtype=dtype)
        x.attach_grad()
        with autograd.record():
            y = nd.Dropout(x, p=0.3)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
        kept = y.astype("float32").asnumpy()
        np.testing.assert_allclose(kept[kept != 0], 1 / 0.7, rtol=4e-3)
        return kept != 0

    kept = mask(dtype)
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_array_equal(kept, mask("float64"))


def test_lamb_is_that_of_its_two_phases() -> None:
    # More than a block, less than one, and more than a thread takes.
    shapes = [(513,), (3, 5), (40, 1000)]
    weights, grads, means, variances = (
        [nd.array(values(*s, seed=4 * i + k)) for i, s in enumerate(shapes)] for k in range(4)
    )
    variances[:] = [nd.abs(v) for v in variances]
    expected = []
    for w, g, m, v in zip(weights, grads, means, variances):
        step = nd.lamb_update_phase1(w, g, m.copy(), v.copy(), t=3, wd=0.1)
        expected.append(nd.lamb_update_phase2(w, step, w.norm(), step.norm(), lr=0.2))
    count = len(shapes)
    flat = [a for group in zip(weights, grads, means, variances) for a in group]
    found = nd._internal._multi_lamb_update(
        *flat, learning_rates=[0.2] * count, wds=[0.1] * count, step_count=[3] * count,
        num_tensors=count,
    )  # fmt: skip
    for got, want in zip(found, expected):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6)
