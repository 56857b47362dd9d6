"""Fused attention on the GPU against the CPU, dropout included: both draw the same numbers."""

from __future__ import annotations

import itertools

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd

# (batch, heads, key heads, q_length, k_length, head_size, value_size)
SHAPES = [(2, 4, 2, 7, 50, 6, 4), (1, 2, 1, 5, 3, 4, 2), (2, 2, 2, 3, 300, 4, 4)]
# Both sides round halves once; backward also reads the output, which was rounded.
BOUNDS = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2.0**-7, "float16": 2.0**-10}


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("dtype", BOUNDS)
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
            bound = BOUNDS[dtype] * max(np.abs(want).max(), 0.5)  # terms that cancel are larger
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        assert np.abs(results[0][0]).max() > BOUNDS[dtype]
