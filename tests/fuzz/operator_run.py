"""Runs one random call of an operator in one of several ways, and judges what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxlite as mx
import numpy as np
from mxlite.base import MXNetError
from op_table import assert_close, host, tolerance
from operator_calls import Call, Input

__all__ = ["run_call"]

# What a bad call may raise: the package's own errors, which derive from Python's.
_EXPECTED = (MXNetError, MemoryError, OverflowError)


def _array(given: Input, strided: bool = False) -> Any:
    values, dtype, shape = given
    if values.shape != shape:
        return mx.nd.zeros(shape, dtype=dtype)
    if not strided or values.ndim == 0 or values.size == 0:
        return mx._core.array_from_numpy(values, None, dtype)
    wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
    wide[..., ::2] = values
    base = mx._core.array_from_numpy(wide, None, dtype)
    return base._strided_view(values.shape, (*base._strides[:-1], 2), 0)


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _backward(call: Call, run: Any, arrays: Sequence[Any]) -> list[Any]:
    for array, given in zip(arrays, call.arrays):
        if given.dtype.endswith(("16", "32", "64")) and "int" not in given.dtype:
            array.attach_grad()
    with mx.autograd.record(train_mode=call.training):
        outputs = _listed(run(*arrays))
    try:
        mx.autograd.backward(outputs)
    except MXNetError as error:
        if "was not computed from a variable" not in str(error):
            raise
    return outputs


def _symbol(call: Call, op: Any, arrays: Sequence[Any]) -> list[Any]:
    names = [f"x{i}" for i in range(len(arrays))]
    symbol = op(*[mx.sym.var(name) for name in names], **call.params)
    if not isinstance(symbol, mx.sym.Symbol):
        return _listed(symbol)
    symbol = mx.sym.load_json(symbol.tojson())
    given = dict(zip(names, arrays))
    wanted, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    executor = symbol.bind(
        mx.cpu(),
        {name: given[name] for name in wanted if name in given},
        aux_states={name: given[name] for name in states if name in given},
    )
    return _listed(executor.forward(is_train=call.training))


def _run(call: Call) -> list[Any]:
    op = mx._core.op(call.op)
    arrays = [_array(given, call.mode == "strided") for given in call.arrays]

    def plain(*inputs: Any) -> Any:
        return op(*inputs, **call.params)

    if call.mode == "backward":
        return _backward(call, plain, arrays)
    if call.mode.startswith("hybrid"):

        class Net(mx.gluon.HybridBlock):
            def forward(self, *inputs: Any) -> Any:
                return plain(*inputs)

        net = Net()
        net.hybridize()
        if call.mode == "hybrid backward":
            return _backward(call, net, arrays)
        with mx.autograd.train_mode() if call.training else mx.autograd.predict_mode():
            return _listed(net(*arrays))
    if call.mode == "symbol":
        return _symbol(call, op, arrays)
    if call.mode == "sparse":
        kinds = ("row_sparse", "csr", "default")
        arrays = [
            array.tostype(kinds[(i + len(call.op)) % 3 if array.ndim == 2 else 0])
            if array.ndim > 0
            else array
            for i, array in enumerate(arrays)
        ]
        return _listed(plain(*arrays))
    if call.mode == "out":
        with mx.autograd.train_mode() if call.training else mx.autograd.predict_mode():
            shapes = [out.shape for out in _listed(plain(*arrays))]
            out = [mx.nd.empty(shape) for shape in shapes]
            return _listed(op(*arrays, **call.params, out=out))
    with mx.autograd.train_mode() if call.training else mx.autograd.predict_mode():
        return _listed(plain(*arrays))


def _check_values(call: Call, outputs: Sequence[Any]) -> None:
    """Compare with the reference of the row of the op table, if nothing was changed in it."""
    case = call.reference
    if case is None or call.mode == "sparse" or case.ref is None:
        return
    arrays = [host(_array(given)) for given in call.arrays]
    want = _listed(case.ref(*arrays) if callable(case.ref) else case.ref)
    for i, (got, expected) in enumerate(zip(outputs, want)):
        name = str(np.dtype(got.dtype)) if not isinstance(got.dtype, str) else got.dtype
        if call.mode == "out":
            name = next((a.dtype for a in call.arrays if a.dtype in ("float16", "bfloat16")), name)
        assert_close(host(got), np.asarray(expected), tolerance(case, name), f"output {i}")


def run_call(call: Call) -> tuple[str, str]:
    """Run a call to its end.

    Parameters
    ----------
    call : Call

    Returns
    -------
    kind : str
        "values" (equal to the reference), "ran", the name of the error class, or, for faults,
        "wrong value" or "wrong error".
    text : str
        The error's message.
    """
    try:
        outputs = _run(call)
        for output in outputs:
            if output.size <= 1 << 20:
                output.asnumpy()
        mx.nd.waitall()
    except _EXPECTED as error:
        text = str(error)
        return ("wrong error" if "nternal error" in text else type(error).__name__), text
    except Exception as error:
        return "wrong error", f"{type(error).__name__}: {error}"
    try:
        _check_values(call, outputs)
    except AssertionError as error:
        return "wrong value", str(error)
    return ("ran" if call.reference is None else "values"), ""
