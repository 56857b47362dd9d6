"""Every row of the op table: values, dtypes, gradients, hybrid, strided inputs, errors."""

from __future__ import annotations

from collections.abc import Sequence

import mxlite as mx
import numpy as np
import pytest
from op_cases import all_cases
from op_table import (
    LARGEST_FACTOR,
    Case,
    _generator,
    assert_all_close,
    assert_refuses_wrong_results,
    call,
    call_hybrid,
    expected,
    finite_difference,
    grad_inputs,
    gradient_tolerance,
    gradients,
    host,
    is_float,
    to_device,
    tolerance,
)

CASES = all_cases()
VALUES = [c for c in CASES if c.error is None and c.check is None]
ERRORS = [c for c in CASES if c.error is not None]
RANDOM = [c for c in CASES if c.check is not None]
DIFFERENTIABLE = [c for c in VALUES if grad_inputs(c) and "float64" in c.dtypes]


def _mode(case: Case):
    return mx.autograd.train_mode() if case.training else mx.autograd.predict_mode()


def _dtypes(case: Case) -> tuple[str, ...]:
    return case.dtypes if any(is_float(a) for a in case.inputs) else ("float32",)


def _tolerances(case: Case, arrays: Sequence[mx.nd.NDArray]) -> list[tuple[float, float]]:
    return [tolerance(case, np.dtype(a.dtype).name) for a in arrays]


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_value_shape_and_dtype_equal_the_reference(case: Case) -> None:
    for dtype in _dtypes(case):
        arrays = [to_device(a, dtype, strided=False) for a in case.inputs]
        before = [host(a) for a in arrays]
        want = expected(case, arrays)
        with _mode(case):
            got = call(case, arrays)
        if any(is_float(a) for a in case.inputs):
            name = np.dtype(got[0].dtype).name
            assert name == (case.out_dtype or dtype), f"dtype {name}"
        bounds = _tolerances(case, got)
        assert_all_close([host(g) for g in got], want, bounds, f"{dtype} output")
        assert_refuses_wrong_results(want, bounds, f"{dtype} output")
        for i, (a, b) in enumerate(zip(arrays, before)):
            if i not in case.mutates:
                np.testing.assert_array_equal(host(a), b, err_msg=f"input {i} changed")


def test_large_tolerances_have_a_reason() -> None:
    large = [str(c) for c in CASES if max(c.tol, c.grad_tol) > LARGEST_FACTOR and not c.why]
    assert not large


@pytest.mark.parametrize("case", [c for c in VALUES if c.inputs], ids=str)
def test_strided_inputs_give_the_same(case: Case) -> None:
    dtype = _dtypes(case)[0]
    plain = [to_device(a, dtype, strided=False) for a in case.inputs]
    strided = [to_device(a, dtype, i not in case.mutates) for i, a in enumerate(case.inputs)]
    with _mode(case):
        want, got = call(case, plain), call(case, strided)
    bounds = _tolerances(case, want)
    assert_all_close([host(a) for a in got], [host(a) for a in want], bounds, "strided output")


@pytest.mark.parametrize(
    "case", [c for c in VALUES if c.hybrid and c.inputs and not c.mutates], ids=str
)
def test_hybrid_equals_eager(case: Case) -> None:
    """Rows that write their inputs are left out: their state has to be a block's parameter."""
    dtype = _dtypes(case)[0]
    eager_inputs = [to_device(a, dtype, strided=False) for a in case.inputs]
    hybrid_inputs = [to_device(a, dtype, strided=False) for a in case.inputs]
    with _mode(case):
        want, got = call(case, eager_inputs), call_hybrid(case, hybrid_inputs)
    assert [a.dtype for a in got] == [a.dtype for a in want]
    bounds = _tolerances(case, want)
    assert_all_close([host(a) for a in got], [host(a) for a in want], bounds, "hybrid output")
    if grad_inputs(case):
        want = gradients(case, eager_inputs, call)
        got = gradients(case, hybrid_inputs, call_hybrid)
        bounds = [gradient_tolerance(case, dtype, w) for w in want]
        assert_all_close(got, want, bounds, "hybrid gradient")


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradient_equals_finite_differences(case: Case) -> None:
    arrays = [to_device(a, "float64", strided=False) for a in case.inputs]
    grads = gradients(case, arrays, call)
    assert len(grads) == len(grad_inputs(case))
    for position, grad in zip(grad_inputs(case), grads):
        if grad.size == 0:
            continue
        rng = _generator(case.name, position)
        for _ in range(2):
            direction = rng.uniform(-1, 1, grad.shape)
            want = finite_difference(case, position, direction, step=1e-6)
            got = float((grad * direction).sum())
            assert got == pytest.approx(want, rel=1e-5, abs=2e-6), f"input {position}"


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_of_all_dtypes_equal_those_in_float64(case: Case) -> None:
    """Those in float64 are compared with finite differences above."""
    for dtype in case.dtypes:
        arrays = [to_device(a, dtype, strided=False) for a in case.inputs]
        exact = [to_device(host(a), "float64", strided=False) for a in arrays]
        want = gradients(case, exact, call)
        bounds = [gradient_tolerance(case, dtype, w) for w in want]
        if dtype != "float64":
            got = gradients(case, arrays, call)
            assert_all_close(got, want, bounds, f"{dtype} gradient")
        assert_refuses_wrong_results(want, bounds, f"{dtype} gradient")


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_bad_input_raises_the_fitting_error(case: Case) -> None:
    arrays = [to_device(a, "float32", strided=False) for a in case.inputs]
    with pytest.raises(case.error, match=case.match) as info:
        call(case, arrays)[0].wait_to_read()
    assert isinstance(info.value, mx.MXNetError)


@pytest.mark.parametrize("case", RANDOM, ids=str)
def test_random_values_are_plausible_and_reproducible(case: Case) -> None:
    arrays = [to_device(a, "float32", strided=False) for a in case.inputs]
    mx.random.seed(11)
    first = [host(a) for a in call(case, arrays)]
    second = [host(a) for a in call(case, arrays)]
    mx.random.seed(11)
    again = [host(a) for a in call(case, arrays)]
    assert case.check(*first), f"implausible: mean {first[0].mean()}, std {first[0].std()}"
    np.testing.assert_array_equal(first[0], again[0])
    assert first[0].size < 4 or not np.array_equal(first[0], second[0])


def test_every_public_operator_has_a_row() -> None:
    covered = {mx._core.op(c.name).schema_name for c in CASES}
    public = [o["name"] for o in mx._core.list_ops() if not o["hidden"]]
    missing = sorted(set(public) - covered)
    assert not missing, f"operators without a row in tests/python/unit/op_cases: {missing}"
