"""Fused attention where the op table does not look: many blocks, masks, dropout, memory."""

from __future__ import annotations

import itertools
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from op_cases.attention import attention
from op_table import STEP
from pairing import assert_all_close, assert_all_equal
from processes import run_program
from recording import differentiated, variable

fused = nd.contrib.dot_product_attention

# (batch, heads, key heads, q_length, k_length, head_size, value_size): several blocks of queries
# and keys, sizes that fill no vector, and groups of heads.
SHAPES = [
    (1, 2, 2, 130, 300, 64, 64),
    (2, 4, 2, 97, 70, 80, 33),
    (1, 1, 1, 200, 513, 16, 100),
    (3, 2, 1, 128, 128, 64, 64),
    (1, 3, 1, 5, 1000, 8, 130),
]


def _arrays(shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[mx.nd.NDArray]:
    """Return query, key, value and the output's gradient."""
    batch, heads, key_heads, q_length, k_length, d, dv = shape
    rng = np.random.RandomState(seed)
    shapes = [(heads, q_length, d), (key_heads, k_length, d), (key_heads, k_length, dv)]
    shapes.append((heads, q_length, dv))
    # Large queries: weights that differ, as gradients vanish where they are alike.
    return [
        nd.array(rng.uniform(-size, size, (batch, *s)), dtype=dtype)
        for s, size in zip(shapes, (4, 1, 1, 1))
    ]


def _host(array: mx.nd.NDArray) -> np.ndarray:
    return array.astype("float64").asnumpy()


def _run(arrays: list[Any], extra: list[Any], **params: Any) -> list[np.ndarray]:
    """Return the output and the gradients of query, key and value."""
    inputs = arrays[:3]
    for a in inputs:
        a.attach_grad()
    with autograd.record(train_mode=params.get("dropout", 0) > 0):
        y = fused(*inputs, *extra, **params)
    y.backward(arrays[3])
    return [_host(a) for a in (y, *(a.grad for a in inputs))]


def _reference(arrays: list[Any], mask: Any, length: Any, causal: bool) -> list[np.ndarray]:
    q, k, v, dy = (_host(a) for a in arrays)
    y, p = attention(q, k, v, mask, length, causal)
    group = q.shape[1] // k.shape[1]
    dp = dy @ np.repeat(v, group, 1).transpose(0, 1, 3, 2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])

    def of_group(x: np.ndarray) -> np.ndarray:
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    turned = (0, 1, 3, 2)
    return [
        y,
        ds @ np.repeat(k, group, 1),
        of_group(ds.transpose(turned) @ q),
        of_group(p.transpose(turned) @ dy),
    ]


def _bound(want: np.ndarray, dtype: str, terms: int) -> float:
    """Return the largest error of sums in float32 (or float64) whose results are rounded once.

    Halves are read exactly and a result is off by half a step. Backward also reads the output: its
    roundings average out in the product with the output's gradient, so one step covers both.
    """
    accumulator = STEP["float64" if dtype == "float64" else "float32"]
    rounded = STEP[dtype] if dtype in ("bfloat16", "float16") else 0.0
    return np.abs(want).max() * (rounded + (32 + terms**0.5) * accumulator)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_many_blocks_equal_numpy(shape: tuple[int, ...], dtype: str) -> None:
    batch, _, _, q_length, k_length, _, _ = shape
    arrays = _arrays(shape, dtype)
    rng = np.random.RandomState(1)
    holes = np.where(rng.rand(batch, 1, q_length, k_length) < 0.2, -np.inf, 0)
    added = nd.array(holes + rng.randn(*holes.shape), dtype=dtype)
    length = np.array([k_length // 3, 0, k_length][:batch])
    for with_mask, with_length, causal in itertools.product((False, True), repeat=3):
        extra = [added] * with_mask + [nd.array(length, dtype="int32")] * with_length
        flags = {"use_mask": with_mask, "use_length": with_length, "causal": causal}
        got = _run(arrays, extra, **flags)
        mask = _host(added) if with_mask else None
        want = _reference(arrays, mask, length if with_length else None, causal)
        for g, w in zip(got, want):
            assert g.shape == w.shape
            error = np.abs(g - w).max()
            assert error <= _bound(w, dtype, max(q_length, k_length)), (flags, error)


@pytest.mark.parametrize("lowest", [-np.inf, -1e30, -3e38])
def test_masked_rows_are_zero_with_zero_gradients(lowest: float) -> None:
    arrays = _arrays((2, 2, 2, 5, 7, 4, 4), "float32")
    mask = np.zeros((2, 1, 5, 7), "float32")
    mask[1, :, 2] = lowest
    got = _run(arrays, [nd.array(mask)], use_mask=True)
    assert all(np.isfinite(g).all() for g in got)
    assert not got[0][1, :, 2].any() and not got[1][1, :, 2].any()
    assert got[0][1, :, 1].any() and got[0][0].all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_lies_behind_a_length_is_not_read(dtype: str) -> None:
    arrays = _arrays((2, 1, 1, 4, 6, 3, 3), dtype)
    length = nd.array([4, 2], dtype="int32")
    want = _run(arrays, [length], use_length=True)
    for a in arrays[1:3]:
        a[0, :, 4:] = np.nan
        a[1, :, 2:] = np.nan
    got = _run(arrays, [length], use_length=True)
    assert_all_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_and_infinity_are_not_lost(dtype: str) -> None:
    arrays = _arrays((1, 1, 1, 3, 40, 4, 4), dtype)
    arrays[0][0, 0, 1, 2] = np.nan
    y = _host(fused(*arrays[:3]))
    assert np.isnan(y[0, 0, 1]).all() and np.isfinite(y[0, 0, [0, 2]]).all()


@pytest.mark.parametrize(
    "shape", [(1, 2, 2, 0, 5, 4, 4), (1, 2, 2, 5, 0, 4, 3), (0, 2, 1, 3, 3, 4, 4)]
)
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    arrays = _arrays(shape, "float32")
    got = _run(arrays, [])
    for g, like in zip(got, [arrays[3], *arrays[:3]]):
        assert g.shape == like.shape and not g.any()


def test_mask_has_a_gradient() -> None:
    """A learned bias of positions is a mask with fewer axes than scores."""
    arrays = _arrays((2, 4, 2, 3, 5, 4, 4), "float64")
    mask = variable(nd.array(np.random.RandomState(2).randn(4, 1, 5), dtype="float64"))
    got = _run(arrays, [mask], use_mask=True, causal=True)
    want = _reference(arrays, _host(mask), None, causal=True)
    assert_all_close(got, want, atol=1e-12)
    q, k, v, dy = (_host(a) for a in arrays)
    step = 1e-6
    for at in [(0, 0, 0), (3, 0, 4), (1, 0, 2)]:
        sides = []
        for sign in (1, -1):
            moved = _host(mask)
            moved[at] += sign * step
            sides.append((attention(q, k, v, moved, None, True)[0] * dy).sum())
        numeric = (sides[0] - sides[1]) / (2 * step)
        assert mask.grad.asnumpy()[at] == pytest.approx(numeric, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_bfloat16_without_its_instructions_is_computed_in_float32(instructions: str) -> None:
    """Then the output is that of float32, rounded once."""
    program = """
        import mxlite as mx
        import numpy as np
        from mxlite import nd

        rng = np.random.RandomState(0)
        half = [nd.array(rng.randn(2, 3, n, 40), dtype="bfloat16") for n in (70, 300, 300)]
        y = nd.contrib.dot_product_attention(*half)
        want = nd.contrib.dot_product_attention(*[a.astype("float32") for a in half])
        print(int((y != want.astype("bfloat16")).astype("float32").sum().asscalar()))
    """
    assert int(run_program(program, ONEDNN_MAX_CPU_ISA=instructions).stdout) == 0


def test_bfloat16_products_leave_those_of_onednn_alone() -> None:
    """Both configure the tile registers of the threads that they share."""
    rng = np.random.RandomState(0)
    a = nd.array(rng.randn(4, 128, 64), dtype="bfloat16")
    want = nd.batch_dot(a, a, transpose_b=True)
    heads = a.reshape((1, 4, 128, 64))
    attended = fused(heads, heads, heads)
    for _ in range(5):
        again = nd.batch_dot(a, a, transpose_b=True)
        np.testing.assert_array_equal(_host(fused(heads, heads, heads)), _host(attended))
        np.testing.assert_array_equal(_host(again), _host(want))


# ---- dropout -----------------------------------------------------------------------------------


def _weights(
    p: float, seed: int, shape: tuple[int, ...] = (2, 3, 3, 70, 150, 4, 150)
) -> np.ndarray:
    """Return k_length times the weights that dropout leaves where all were alike."""
    batch, heads, key_heads, q_length, k_length, d, dv = shape
    mx.random.seed(seed)
    value = nd.array(np.broadcast_to(np.eye(k_length), (batch, key_heads, k_length, dv)))
    query = nd.zeros((batch, heads, q_length, d))
    with autograd.train_mode():
        y = fused(query, nd.zeros((batch, key_heads, k_length, d)), value, dropout=p)
    return y.asnumpy() * k_length


def test_dropout_keeps_the_right_share() -> None:
    p = 0.3
    weights = _weights(p, seed=1)
    kept = weights > 0
    np.testing.assert_allclose(weights[kept], 1 / (1 - p), rtol=1e-5)
    deviation = (p * (1 - p) / kept.size) ** 0.5
    assert abs(kept.mean() - (1 - p)) < 5 * deviation
    for axis in range(4):  # no row, column, head or sample repeats another
        along = np.moveaxis(kept, axis, 0)
        share = (along[0] == along[1]).mean()
        expected = p * p + (1 - p) * (1 - p)
        assert abs(share - expected) < 6 * (expected * (1 - expected) / along[0].size) ** 0.5


def test_dropout_follows_the_seed() -> None:
    first, again, other = _weights(0.5, 3), _weights(0.5, 3), _weights(0.5, 4)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_dropout_outside_of_training_and_its_ends() -> None:
    arrays = _arrays((1, 2, 2, 3, 5, 4, 4), "float32")
    plain = fused(*arrays[:3]).asnumpy()
    np.testing.assert_array_equal(fused(*arrays[:3], dropout=0.9).asnumpy(), plain)
    with autograd.record(train_mode=False):
        kept = fused(*arrays[:3], dropout=0.9)
    np.testing.assert_array_equal(kept.asnumpy(), plain)
    got = _run(arrays, [], dropout=1.0)
    assert not any(g.any() for g in got)
    with pytest.raises(ValueError, match="dropout must .*, got 1.5"):
        fused(*arrays[:3], dropout=1.5)


def test_backward_drops_what_forward_dropped() -> None:
    """Finite differences of calls that draw the same numbers."""
    arrays = _arrays((2, 4, 2, 5, 130, 6, 6), "float64")
    params = {"dropout": 0.4, "causal": True}
    mx.random.seed(5)
    got = _run(arrays, [], **params)

    def loss(inputs: list[Any]) -> float:
        mx.random.seed(5)
        with autograd.train_mode():
            y = fused(*inputs, **params)
        return float((y * arrays[3]).sum().asscalar())

    rng = np.random.RandomState(7)
    for i in range(3):
        direction = nd.array(rng.uniform(-1, 1, arrays[i].shape), dtype="float64")
        sides = []
        for sign in (1, -1):
            moved = list(arrays[:3])
            moved[i] = arrays[i] + sign * 1e-6 * direction
            sides.append(loss(moved))
        numeric = (sides[0] - sides[1]) / 2e-6
        assert (got[i + 1] * direction.asnumpy()).sum() == pytest.approx(numeric, rel=1e-5)


def test_composite_gradient_with_dropout_equals_the_fused_one() -> None:
    arrays = _arrays((2, 4, 2, 5, 70, 6, 6), "float64")
    length = nd.array([50, 70], dtype="int64")
    params = {"dropout": 0.4, "causal": True, "use_length": True}
    mx.random.seed(5)
    want = _run(arrays, [length], **params)
    mx.random.seed(5)
    with autograd.record():
        y = fused(*arrays[:3], length, **params)
        grads = autograd.grad([y], arrays[:3], head_grads=[arrays[3]], create_graph=True)
    assert_all_close(grads, want[1:], rtol=1e-10, atol=1e-12)


# ---- graphs and symbols ------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_hybrid_training_equals_eager(dropout: float) -> None:
    params = {"use_length": True, "causal": True, "dropout": dropout}
    arrays = _arrays((2, 4, 2, 9, 70, 8, 8), "float32")
    length = nd.array([50, 70], dtype="int32")
    results = []
    for hybrid in (False, True):
        net = mx.gluon.nn.HybridLambda(
            lambda F, *inputs: F.contrib.dot_product_attention(*inputs, **params)
        )
        net.hybridize(hybrid)
        for a in arrays[:3]:
            a.attach_grad()
        mx.random.seed(9)
        for _ in range(3):
            y = differentiated(lambda net=net: net(*arrays[:3], length), head=arrays[3])
        results.append([y.asnumpy(), *(a.grad.asnumpy() for a in arrays[:3])])
    assert_all_equal(*results)


def test_symbol_with_length_alone() -> None:
    names = ["query", "key", "value", "length"]
    variables = [mx.sym.var(n) for n in names]
    net = mx.sym.contrib.dot_product_attention(
        *variables[:3], length=variables[3], use_length=True, name="att"
    )
    assert net.list_arguments() == names
    arrays = _arrays((2, 2, 2, 3, 5, 4, 4), "float32")
    inputs = [*arrays[:3], nd.array([2, 5], dtype="int32")]
    executor = net.bind(mx.cpu(), dict(zip(names, inputs)))
    got = executor.forward()[0].asnumpy()
    want = fused(*inputs, use_length=True).asnumpy()
    np.testing.assert_array_equal(got, want)
    again = mx.sym.load_json(net.tojson()).bind(mx.cpu(), dict(zip(names, inputs)))
    np.testing.assert_array_equal(again.forward()[0].asnumpy(), want)


# ---- memory ------------------------------------------------------------------------------------


def test_memory_is_linear_in_the_length() -> None:
    """Scores of 12 heads and 4096 positions would take 805 MB, twice in backward."""
    program = """
        from mxlite import nd
        from processes import peak_mib
        from recording import differentiated, variable

        def step(length):
            *inputs, head = [nd.ones((1, 12, length, 64)) for _ in range(4)]
            attention = nd.contrib.dot_product_attention
            differentiated(lambda *arrays: attention(*arrays, causal=True), *inputs, head=head)
            inputs[0].grad.wait_to_read()

        step(256)
        before = peak_mib()
        step(4096)
        print(peak_mib() - before)
    """
    grown = int(run_program(program).stdout)
    # Eight arrays of 12.6 MB, and at most three packed ones, sums and blocks for each thread.
    assert 50 < grown < 200, f"{grown} MB"
