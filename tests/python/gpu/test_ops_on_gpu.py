"""The op table on a GPU: values and gradients of all dtypes against the rows' references."""

from __future__ import annotations

import os
from pathlib import Path

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

DATA = Path(__file__).parents[2] / "data"
# Operators without a CUDA kernel, as docs/dev/cuda.md lists them. All others must run.
WITHOUT_KERNEL = (DATA / "ops_without_cuda_kernel.txt").read_text().split()

CPU_KERNELS = "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", "")


def refusal(case: Case) -> str:
    """Part of the error that docs/dev/cuda.md promises for a case; empty where it must run."""
    if case.name in WITHOUT_KERNEL:
        return "no CUDA kernel"
    refused = case.name in ("take", "pick") and case.params.get("mode") == "raise"
    return "not supported on CUDA" if refused and not CPU_KERNELS else ""


def running(cases: list[Case]) -> list[Case]:
    return [c for c in cases if not refusal(c)]


@pytest.mark.parametrize("case", [c for c in test_ops.VALUES if refusal(c)], ids=str)
def test_what_is_not_supported_says_so(case: Case) -> None:
    with mx.gpu(0), pytest.raises(mx.base.NotSupportedError, match=refusal(case)):
        test_ops.test_value_shape_and_dtype_equal_the_reference(case)


@pytest.mark.parametrize("case", running(test_ops.VALUES), ids=str)
def test_values_equal_the_reference(case: Case) -> None:
    with mx.gpu(0):
        test_ops.test_value_shape_and_dtype_equal_the_reference(case)


@pytest.mark.parametrize("case", [c for c in running(test_ops.VALUES) if c.inputs], ids=str)
def test_strided_inputs_give_the_same(case: Case) -> None:
    with mx.gpu(0):
        test_ops.test_strided_inputs_give_the_same(case)


@pytest.mark.parametrize("case", running(test_ops.DIFFERENTIABLE), ids=str)
def test_gradients_equal_those_of_the_cpu(case: Case) -> None:
    runs = [call] + ([call_hybrid] if case.hybrid and not case.mutates else [])
    # Gradients of linear algebra take no halves.
    halves = () if case.name.startswith("linalg_") else ("float16",)
    for dtype in [d for d in ("float32", *halves) if d in case.dtypes]:
        for runner in runs:
            arrays = [to_device(a, dtype, strided=False) for a in case.inputs]
            want = gradients(case, arrays, runner)
            with mx.gpu(0):
                there = [a.as_in_context(mx.gpu(0)).detach() for a in arrays]
                got = gradients(case, there, runner)
            bounds = [gradient_tolerance(case, dtype, w) for w in want]
            assert_all_close(got, want, bounds, f"{dtype} gradient")


@pytest.mark.parametrize("case", running(test_ops.RANDOM), ids=str)
def test_samples_equal_those_of_the_cpu(case: Case) -> None:
    results = []
    for ctx in (mx.cpu(0), mx.gpu(0)):
        mx.random.seed(11)
        with ctx:
            arrays = [to_device(a, "float32", strided=False) for a in case.inputs]
            results.append(call(case, arrays))
    assert len(results[0]) == len(results[1])
    for on_cpu, there in zip(*results):
        # Samples are functions of equal random bits; CUDA's log and sincos round differently.
        relative, absolute = tolerance(case, np.dtype(there.dtype).name)
        assert_close(host(there), host(on_cpu), (8 * relative, 8 * absolute), "sample")
