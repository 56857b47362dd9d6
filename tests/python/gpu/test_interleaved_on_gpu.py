"""GluonNLP's interleaved attention products: one strided product each, without copies."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from recording import variable

LIBRARY = os.environ.get("MXLITE_CUDA_LIBRARY", "")
pytestmark = pytest.mark.skipif(
    "emulated_gpu" not in LIBRARY, reason="only the emulator counts products and launches"
)
LENGTH, KEYS, BATCH, HEADS, SIZE = 5, 7, 2, 3, 4
WIDTH = HEADS * SIZE

# The operator and the shapes of its inputs.
PRODUCTS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "selfatt_qk": (nd.contrib.interleaved_matmul_selfatt_qk, [(LENGTH, BATCH, 3 * WIDTH)]),
    "selfatt_valatt": (
        nd.contrib.interleaved_matmul_selfatt_valatt,
        [(LENGTH, BATCH, 3 * WIDTH), (BATCH * HEADS, LENGTH, LENGTH)],
    ),
    "encdec_qk": (
        nd.contrib.interleaved_matmul_encdec_qk,
        [(LENGTH, BATCH, WIDTH), (KEYS, BATCH, 2 * WIDTH)],
    ),
    "encdec_valatt": (
        nd.contrib.interleaved_matmul_encdec_valatt,
        [(KEYS, BATCH, 2 * WIDTH), (BATCH * HEADS, LENGTH, KEYS)],
    ),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_operator_is_one_product(name: str, dtype: str) -> None:
    library = ctypes.CDLL(LIBRARY)
    function, shapes = PRODUCTS[name]
    rng = np.random.default_rng(0)
    arrays = [variable(nd.array(rng.normal(size=s), ctx=mx.gpu(0), dtype=dtype)) for s in shapes]
    nd.waitall()
    library.mxlite_emulated_products()
    library.mxlite_emulated_most_blocks()
    with autograd.record():
        y = function(*arrays, heads=HEADS)
    y.wait_to_read()
    assert library.mxlite_emulated_products() == 1
    assert library.mxlite_emulated_most_blocks() == 0  # no kernel, such as a copy
    head = nd.ones(y.shape, ctx=mx.gpu(0), dtype=dtype)
    head.wait_to_read()
    library.mxlite_emulated_most_blocks()
    y.backward(head)
    nd.waitall()
    assert library.mxlite_emulated_products() == 2
    assert library.mxlite_emulated_most_blocks() == 0
