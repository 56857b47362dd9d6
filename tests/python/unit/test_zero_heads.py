"""Operators whose gradient is not zero although that of their output is: losses and penalties."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd
from mxlite.base import MXNetError
from op_cases import all_cases
from op_table import Case, call, host, is_float, to_device


def _cases() -> list[Case]:
    """Return a case of each operator that has gradients."""
    cases: dict[str, Case] = {}
    for case in all_cases():
        able = case.error is None and case.hybrid and _variables(case)
        if able and mx._core.describe_op(case.name)["differentiable"]:
            cases.setdefault(case.name, case)
    return list(cases.values())


def _variables(case: Case) -> list[int]:
    return [i for i, a in enumerate(case.inputs) if is_float(a) and i not in case.mutates]


def _gradients(case: Case, run: Any, zero_heads: bool) -> list[np.ndarray]:
    arrays = [to_device(np.array(a), "float32", strided=False) for a in case.inputs]
    for i in _variables(case):
        arrays[i].attach_grad()
    with autograd.record(train_mode=case.training):
        outputs = run(*arrays)
    heads = [mx.nd.zeros(o.shape, dtype=o.dtype) for o in outputs] if zero_heads else None
    autograd.backward(outputs, heads)
    return [host(arrays[i].grad) for i in _variables(case)]


class _Blocked(mx.gluon.HybridBlock):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def forward(self, *inputs: Any) -> Any:
        return [mx.nd.BlockGrad(output) for output in call(self._case, list(inputs))]


def _starts_gradient(case: Case) -> bool:
    try:
        found = _gradients(case, lambda *arrays: call(case, arrays), zero_heads=True)
    except MXNetError as error:  # amp_cast to integers, the largest value of all ranks
        assert "was not computed from a variable" in str(error) or "'max'" in str(error)
        return False
    return any(np.any(np.nan_to_num(gradient)) for gradient in found)


def test_gradients_that_ignore_their_heads_are_not_pruned() -> None:
    cases = list(filter(_starts_gradient, _cases()))
    assert {"SoftmaxOutput", "make_loss"} <= {case.name for case in cases}
    for case in cases:
        net = _Blocked(case)
        wanted = _gradients(case, net, zero_heads=False)
        net.hybridize()
        for found, expected in zip(_gradients(case, net, zero_heads=False), wanted):
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=case.name)
