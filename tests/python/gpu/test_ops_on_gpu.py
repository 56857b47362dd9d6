"""The op table on a GPU: values and gradients of all dtypes against the rows' references."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mxlite as mx
import numpy as np
import pytest
import test_ops
from op_table import Case, assert_close, call, call_hybrid, gradients, host, to_device


@contextmanager
def on_gpu() -> Iterator[None]:
    """Skip what has no CUDA kernel: it raises, and says so."""
    try:
        with mx.gpu(0):
            yield
    except mx.base.NotSupportedError as error:
        if "no CUDA kernel" not in str(error) and "not supported on CUDA" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("case", test_ops.VALUES, ids=str)
def test_values_equal_the_reference(case: Case) -> None:
    with on_gpu():
        test_ops.test_value_shape_and_dtype_equal_the_reference(case)


@pytest.mark.parametrize("case", [c for c in test_ops.VALUES if c.inputs], ids=str)
def test_strided_inputs_give_the_same(case: Case) -> None:
    with on_gpu():
        test_ops.test_strided_inputs_give_the_same(case)


@pytest.mark.parametrize("case", test_ops.DIFFERENTIABLE, ids=str)
def test_gradients_equal_those_of_the_cpu(case: Case) -> None:
    runs = [call] + ([call_hybrid] if case.hybrid and not case.mutates else [])
    # Gradients of linear algebra take no halves.
    halves = () if case.name.startswith("linalg_") else ("float16",)
    for dtype in [d for d in ("float32", *halves) if d in case.dtypes]:
        for runner in runs:
            arrays = [to_device(a, dtype, strided=False) for a in case.inputs]
            want = gradients(case, arrays, runner)
            with on_gpu():
                there = [a.as_in_context(mx.gpu(0)).detach() for a in arrays]
                got = gradients(case, there, runner)
            for i, (g, w) in enumerate(zip(got, want)):
                assert_close(g, w, dtype, 4 * case.tol, f"gradient {i}, {dtype}")


@pytest.mark.parametrize("case", test_ops.RANDOM, ids=str)
def test_samples_equal_those_of_the_cpu(case: Case) -> None:
    results = []
    for ctx in (mx.cpu(0), mx.gpu(0)):
        mx.random.seed(11)
        with on_gpu(), ctx:
            arrays = [to_device(a, "float32", strided=False) for a in case.inputs]
            results.append(call(case, arrays))
    for on_cpu, there in zip(*results):
        # Halves are rounded from floats that may differ in their last bits.
        dtype = np.dtype(there.dtype).name
        half = dtype in ("float16", "bfloat16")
        assert_close(
            host(there), host(on_cpu), dtype if half else "float32", 1 if half else 20, "sample"
        )
