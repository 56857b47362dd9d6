"""The op table on a GPU: values and gradients of all dtypes against the rows' references."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mxlite as mx
import numpy as np
import pytest
import test_ops
from op_table import (
    Case,
    assert_all_close,
    assert_close,
    call,
    call_hybrid,
    gradient_tolerance,
    gradients,
    host,
    to_device,
    tolerance,
)

# Operators without a CUDA kernel, as docs/cuda.md lists them. All others must run.
WITHOUT_KERNEL = {"_contrib_calibrate_entropy", "_contrib_fft", "_contrib_ifft"}


@contextmanager
def on_gpu(case: Case) -> Iterator[None]:
    """Run on the GPU; skip the operators and modes that docs/cuda.md excepts."""
    try:
        with mx.gpu(0):
            yield
    except mx.base.NotSupportedError as error:
        without = case.name in WITHOUT_KERNEL and "no CUDA kernel" in str(error)
        mode = case.name in ("take", "pick") and case.params.get("mode") == "raise"
        if not without and not (mode and "not supported on CUDA" in str(error)):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("case", test_ops.VALUES, ids=str)
def test_values_equal_the_reference(case: Case) -> None:
    with on_gpu(case):
        test_ops.test_value_shape_and_dtype_equal_the_reference(case)


@pytest.mark.parametrize("case", [c for c in test_ops.VALUES if c.inputs], ids=str)
def test_strided_inputs_give_the_same(case: Case) -> None:
    with on_gpu(case):
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
            with on_gpu(case):
                there = [a.as_in_context(mx.gpu(0)).detach() for a in arrays]
                got = gradients(case, there, runner)
            bounds = [gradient_tolerance(case, dtype, w) for w in want]
            assert_all_close(got, want, bounds, f"{dtype} gradient")


@pytest.mark.parametrize("case", test_ops.RANDOM, ids=str)
def test_samples_equal_those_of_the_cpu(case: Case) -> None:
    results = []
    for ctx in (mx.cpu(0), mx.gpu(0)):
        mx.random.seed(11)
        with on_gpu(case), ctx:
            arrays = [to_device(a, "float32", strided=False) for a in case.inputs]
            results.append(call(case, arrays))
    assert len(results[0]) == len(results[1])
    for on_cpu, there in zip(*results):
        # Samples are functions of equal random bits; CUDA's log and sincos round differently.
        relative, absolute = tolerance(case, np.dtype(there.dtype).name)
        assert_close(host(there), host(on_cpu), (8 * relative, 8 * absolute), "sample")
