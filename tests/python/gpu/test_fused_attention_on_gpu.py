"""Attention on the GPU against the CPU, by cuDNN's kernels and by the others."""

from __future__ import annotations

import itertools
import os
import textwrap
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from processes import run_python

CPU_KERNELS = "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", "")
# Both sides round the output; cuDNN rounds weights and their gradients, too.
BOUNDS = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
fused = nd.contrib.dot_product_attention

# (batch, heads, key heads, q_length, k_length, head_size, value_size)
SQUARE = (3, 4, 2, 40, 40, 16, 8)
SHORT = (2, 2, 2, 8, 72, 64, 64)


def _values(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return query, key, value and the output's gradient."""
    batch, heads, key_heads, q_length, k_length, d, dv = shape
    rng = np.random.RandomState(0)
    sizes = [(heads, q_length, d), (key_heads, k_length, d), (key_heads, k_length, dv)]
    sizes.append((heads, q_length, dv))
    return [rng.uniform(-1, 1, (batch, *s)) for s in sizes]


def _run(values: list[np.ndarray], extra: list[Any], dtype: str, device: Any, **params: Any) -> Any:
    """Return the output and the gradients of query, key and value."""
    arrays = [nd.array(a, dtype=dtype).as_in_context(device) for a in values]
    for a in arrays[:3]:
        a.attach_grad()
    with autograd.record():
        y = fused(*arrays[:3], *[a.as_in_context(device) for a in extra], **params)
    y.backward(arrays[3])
    found = [y, *(a.grad for a in arrays[:3])]
    return [a.as_in_context(mx.cpu()).astype("float64").asnumpy() for a in found]


def _compare(values: list[np.ndarray], extra: list[Any], dtype: str, **params: Any) -> None:
    want = _run(values, extra, dtype, mx.cpu(), **params)
    got = _run(values, extra, dtype, mx.gpu(0), **params)
    for w, g in zip(want, got):
        bound = BOUNDS[dtype] * max(np.abs(w).max(), 0.5)
        np.testing.assert_allclose(g, w, rtol=0, atol=bound)
    assert np.abs(want[0]).max() > 4 * BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [SQUARE, SHORT], ids=str)
def test_plain_and_causal(shape: tuple[int, ...], causal: bool, dtype: str) -> None:
    _compare(_values(shape), [], dtype, causal=causal)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(causal: bool, dtype: str) -> None:
    length = nd.array([17, 0, 99], dtype=dtype)  # an empty sample, and one longer than the array
    _compare(_values(SQUARE), [length], "bfloat16", causal=causal, use_length=True)


@pytest.mark.parametrize("shape", [(3, 1, 1, 40), (4, 40, 40), (40, 40)], ids=str)
@pytest.mark.parametrize("use_length", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_masks_with_rows_that_attend_to_nothing(
    shape: tuple[int, ...], use_length: bool, dtype: str
) -> None:
    rng = np.random.RandomState(1)
    mask = np.where(rng.rand(*shape) < 0.3, -np.inf, rng.randn(*shape))
    mask[-1] = -np.inf
    extra = [nd.array(mask, dtype=dtype)]
    extra += [nd.array([40, 3, 40], dtype="int32")] * use_length
    _compare(_values(SQUARE), extra, dtype, use_mask=True, use_length=use_length)


def test_rows_whose_permitted_keys_are_beyond_the_length_or_in_the_future_are_zero() -> None:
    mask = np.zeros((3, 1, 1, 40))
    mask[:, :, :, :5] = -np.inf
    extra = [nd.array(mask, dtype="float16"), nd.array([40, 5, 6], dtype="int32")]
    _compare(_values(SQUARE), extra, "float16", causal=True, use_mask=True, use_length=True)


def test_layouts_that_are_read_in_place_or_copied() -> None:
    """Transposed heads are read in place, reversed rows and sizes are copied."""
    values = [np.ascontiguousarray(a) for a in _values((2, 3, 3, 24, 32, 16, 16))]
    want = _run(values, [], "bfloat16", mx.cpu())
    moved = [nd.array(a.transpose(0, 2, 1, 3), dtype="bfloat16", ctx=mx.gpu(0)) for a in values]
    arrays = [a.transpose((0, 2, 1, 3)) for a in moved]
    key = nd.array(values[1].transpose(0, 1, 3, 2), dtype="bfloat16", ctx=mx.gpu(0))
    for a in (moved[0], key, moved[2]):
        a.attach_grad()
    with autograd.record():
        query, value = moved[0].transpose((0, 2, 1, 3)), moved[2].transpose((0, 2, 1, 3))
        y = fused(query, key.transpose((0, 1, 3, 2)), value)
    y.backward(arrays[3])
    orders = [(0, 2, 1, 3), (0, 1, 3, 2), (0, 2, 1, 3)]
    got = [y, *(a.grad.transpose(o) for a, o in zip((moved[0], key, moved[2]), orders))]
    for w, g in zip(want, got):
        found = g.as_in_context(mx.cpu()).astype("float64").asnumpy()
        np.testing.assert_allclose(found, w, rtol=0, atol=2.0**-6 * max(np.abs(w).max(), 0.5))


def test_dropout_is_drawn_again_in_backward() -> None:
    """The output is linear in the values, so its product with a gradient is that of the values."""
    p, values = 0.4, _values(SHORT)
    values[2] = np.abs(values[2])
    outputs = []
    for seed in (3, 3, 4):
        mx.random.seed(seed, ctx=mx.gpu(0))
        y, _, _, value_grad = _run(values, [], "float16", mx.gpu(0), dropout=p)
        total = (y * values[3]).sum()
        scale = np.abs(y * values[3]).sum()
        assert (value_grad * values[2]).sum() == pytest.approx(total, abs=2e-3 * scale)
        outputs.append(y)
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def test_dropout_keeps_the_right_share_and_calls_differ() -> None:
    p, length = 0.3, 64
    ones = nd.zeros((2, 4, length, 64), dtype="float16", ctx=mx.gpu(0))
    value = nd.array(np.broadcast_to(np.eye(length), (2, 4, length, 64)), dtype="float16")
    value = value.as_in_context(mx.gpu(0))
    kept = []
    for _ in range(2):
        with autograd.train_mode():
            y = fused(ones, ones, value, dropout=p).astype("float32").asnumpy() * length
        np.testing.assert_allclose(y[y > 0], 1 / (1 - p), rtol=1e-2)
        kept.append(y > 0)
        assert abs(kept[-1].mean() - (1 - p)) < 5 * (p * (1 - p) / y.size) ** 0.5
    share, expected = (kept[0] == kept[1]).mean(), p * p + (1 - p) * (1 - p)
    assert abs(share - expected) < 6 * (expected * (1 - expected) / y.size) ** 0.5


@pytest.mark.parametrize("dtype", BOUNDS)
def test_dropout_with_a_padding_mask_keeps_the_right_share(dtype: str) -> None:
    p, length, permitted = 0.3, 64, 40
    zeros = nd.zeros((2, 4, length, 64), dtype=dtype, ctx=mx.gpu(0))
    value = nd.array(np.broadcast_to(np.eye(length), (2, 4, length, 64)), dtype=dtype)
    mask = np.where(np.arange(length) < permitted, 0, -np.inf).reshape(1, 1, 1, length)
    arrays = [zeros, zeros, value.as_in_context(mx.gpu(0)), nd.array(mask, dtype=dtype)]
    arrays[3] = arrays[3].as_in_context(mx.gpu(0))
    with autograd.train_mode():
        y = fused(*arrays, dropout=p, use_mask=True).astype("float32").asnumpy() * permitted
    assert not y[..., permitted:].any()
    kept = y[..., :permitted]
    np.testing.assert_allclose(kept[kept > 0], 1 / (1 - p), rtol=2 * BOUNDS[dtype])
    assert abs((kept > 0).mean() - (1 - p)) < 5 * (p * (1 - p) / kept.size) ** 0.5


@pytest.mark.skipif(CPU_KERNELS, reason="the simulated GPU draws as the CPU does")
def test_gradients_of_gradients_with_dropout_are_refused() -> None:
    arrays = [nd.array(a, dtype="bfloat16", ctx=mx.gpu(0)) for a in _values(SHORT)]
    for a in arrays[:3]:
        a.attach_grad()
    with autograd.record():
        y = fused(*arrays[:3], dropout=0.5)
        with pytest.raises(mx.base.MXNetError, match="MXLITE_CUDNN_ATTENTION=0"):
            options = {"create_graph": True, "retain_graph": True}
            grads = autograd.grad([y], arrays[:3], head_grads=[arrays[3]], **options)
            grads[0].wait_to_read()


@pytest.mark.skipif(CPU_KERNELS, reason="the simulated GPU draws as the CPU does")
def test_the_gradient_of_a_padding_mask_with_dropout_is_refused() -> None:
    arrays = [nd.array(a, dtype="bfloat16", ctx=mx.gpu(0)) for a in _values(SHORT)]
    mask = nd.zeros((2, 1, 1, 72), dtype="bfloat16", ctx=mx.gpu(0))
    mask.attach_grad()
    with autograd.record():
        y = fused(*arrays[:3], mask, dropout=0.5, use_mask=True)
    with pytest.raises(mx.base.MXNetError, match="attention_mask need"):
        y.backward()
        mask.grad.wait_to_read()


@pytest.mark.skipif(CPU_KERNELS, reason="the simulated GPU has the CPU's kernels")
def test_the_reason_for_the_choice_is_printed() -> None:
    program = """
        import mxlite as mx
        from mxlite import nd
        for dtype in ("bfloat16", "float32"):
            a = nd.ones((1, 2, 16, 8), dtype=dtype, ctx=mx.gpu(0))
            nd.contrib.dot_product_attention(a, a, a).wait_to_read()
    """
    lines = {}
    for value in ("1", "0"):
        environment = {"MXLITE_VERBOSE": "dispatch", "MXLITE_CUDNN_ATTENTION": value}
        error = run_python("-c", textwrap.dedent(program), environment=environment).stderr
        lines[value] = [line for line in error.splitlines() if "-> cudnn: " in line]
    reasons = [line.split("-> cudnn: ")[1] for line in lines["1"]]
    assert reasons == ["chosen", "dtype must be float16 or bfloat16"]
    assert all(line.endswith("MXLITE_CUDNN_ATTENTION=0") for line in lines["0"])


# (batch, heads, key heads, q_length, k_length, head_size, value_size)
SHAPES = [(2, 4, 2, 7, 50, 6, 4), (1, 2, 1, 5, 3, 4, 2), (2, 2, 2, 3, 300, 4, 4)]
# Both sides round halves once; backward also reads the output, which was rounded.
WIDE_BOUNDS = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2.0**-7, "float16": 2.0**-10}


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("dtype", WIDE_BOUNDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_equals_the_cpu(shape: tuple[int, ...], dtype: str, dropout: float) -> None:
    batch, heads, key_heads, q_length, k_length, d, dv = shape
    rng = np.random.RandomState(0)
    sizes = [(heads, q_length, d), (key_heads, k_length, d), (key_heads, k_length, dv)]
    sizes.append((heads, q_length, dv))
    values = [rng.uniform(-1, 1, (batch, *s)) for s in sizes]
    holes = np.where(rng.rand(1, heads, 1, k_length) < 0.2, -np.inf, 0)
    mask = holes + rng.randn(1, heads, 1, k_length)
    length = np.array([k_length // 2 + 1, 0][:batch])
    for causal, use_mask, use_length in itertools.product((False, True), repeat=3):
        results = []
        for device in (mx.cpu(), mx.gpu(0)):
            arrays = [nd.array(a, dtype=dtype).as_in_context(device) for a in values]
            extra = [nd.array(mask, dtype=dtype)] * use_mask
            extra += [nd.array(length, dtype="int32")] * use_length
            for a in arrays[:3]:
                a.attach_grad()
            mx.random.seed(7, ctx=device)
            with autograd.record():
                y = nd.contrib.dot_product_attention(
                    *[*arrays[:3], *(a.as_in_context(device) for a in extra)],
                    **{"causal": causal, "dropout": dropout},
                    **{"use_mask": use_mask, "use_length": use_length},
                )
            y.backward(arrays[3])
            found = [y, *(a.grad for a in arrays[:3])]
            results.append([a.as_in_context(mx.cpu()).astype("float64").asnumpy() for a in found])
        for want, got in zip(*results):
            bound = WIDE_BOUNDS[dtype] * max(
                np.abs(want).max(), 0.5
            )  # terms that cancel are larger
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        assert np.abs(results[0][0]).max() > WIDE_BOUNDS[dtype]
