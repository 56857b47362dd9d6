"""Every row of the op table: values, dtypes, gradients, hybrid, strided inputs, errors."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from op_cases import all_cases
from op_table import (
    Case,
    _generator,
    assert_close,
    call,
    call_hybrid,
    expected,
    finite_difference,
    grad_inputs,
    gradients,
    host,
    is_float,
    to_device,
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


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_value_shape_and_dtype_equal_the_reference(case: Case) -> None:
    for dtype in _dtypes(case):
        arrays = [to_device(a, dtype, strided=False) for a in case.inputs]
        before = [host(a) for a in arrays]
        want = expected(case, arrays)
        with _mode(case):
            got = call(case, arrays)
        for i, (g, w) in enumerate(zip(got, want)):
            name = str(np.dtype(g.dtype)) if not isinstance(g.dtype, str) else g.dtype
            if i == 0 and any(is_float(a) for a in case.inputs):
                assert name == (case.out_dtype or dtype), f"dtype {name}"
            assert_close(host(g), w, dtype if name == dtype else name, case.tol, f"output {i}")
        for i, (a, b) in enumerate(zip(arrays, before)):
            if i not in case.mutates:
                np.testing.assert_array_equal(host(a), b, err_msg=f"input {i} changed")


@pytest.mark.parametrize("case", [c for c in VALUES if c.inputs], ids=str)
def test_strided_inputs_give_the_same(case: Case) -> None:
    dtype = _dtypes(case)[0]
    plain = [to_device(a, dtype, strided=False) for a in case.inputs]
    strided = [to_device(a, dtype, i not in case.mutates) for i, a in enumerate(case.inputs)]
    with _mode(case):
        for a, b in zip(call(case, plain), call(case, strided)):
            assert_close(host(b), host(a), dtype, 1.0, "strided")


@pytest.mark.parametrize("case", [c for c in VALUES if c.hybrid], ids=str)
def test_hybrid_equals_eager(case: Case) -> None:
    if not case.inputs:
        pytest.skip("an operator without inputs has no hybrid form of its own")
    dtype = _dtypes(case)[0]
    eager_inputs = [to_device(a, dtype, strided=False) for a in case.inputs]
    hybrid_inputs = [to_device(a, dtype, strided=False) for a in case.inputs]
    if case.mutates:
        pytest.skip("state must be a parameter of the block; covered by the layers' tests")
    with _mode(case):
        for a, b in zip(call(case, eager_inputs), call_hybrid(case, hybrid_inputs)):
            assert a.dtype == b.dtype
            assert_close(host(b), host(a), dtype, case.tol, "hybrid")
    if grad_inputs(case):
        want = gradients(case, eager_inputs, call)
        got = gradients(case, hybrid_inputs, call_hybrid)
        for a, b in zip(want, got):
            assert_close(b, a, dtype, 4 * case.tol, "hybrid gradient")


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradient_equals_finite_differences(case: Case) -> None:
    arrays = [to_device(a, "float64", strided=False) for a in case.inputs]
    grads = gradients(case, arrays, call)
    for position, grad in zip(grad_inputs(case), grads):
        if grad.size == 0:
            continue
        rng = _generator(case.name, position)
        for _ in range(2):
            direction = rng.uniform(-1, 1, grad.shape)
            want = finite_difference(case, position, direction, step=1e-6)
            got = float((grad * direction).sum())
            assert got == pytest.approx(want, rel=2e-4, abs=2e-5), f"input {position}"


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
    covered = {mx._core.op(c.name).__name__ for c in CASES}
    public = [o["name"] for o in mx._core.list_ops() if not o["hidden"]]
    missing = sorted(set(public) - covered)
    assert not missing, f"operators without a row in tests/python/unit/op_cases: {missing}"
