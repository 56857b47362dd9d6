"""Runs one random call of an operator in one of several modes, and judges the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mxlite as mx
import numpy as np
from mxlite.base import MXNetError
from op_table import assert_close, host, tolerance
from operator_calls import Call, Input
from operator_references import expected

# A bad call may raise the package's own errors, which derive from Python's.
_EXPECTED = (MXNetError, MemoryError, OverflowError)
_NO_MEMORY = ("out of memory", "allocation of")
_IN_SYMBOLS = {"_reshape_to": "Reshape"}  # symbols use these names


class _NoArray(Exception):
    """An input cannot be made, for example an empty array of 2**62 rows of 4 columns."""


def _array(given: Input, strided: bool = False, stype: str = "default") -> Any:
    try:
        array = _made(given, strided)
        return array if stype == "default" else array.tostype(stype)
    except MXNetError as error:
        raise _NoArray(str(error)) from error


def _made(given: Input, strided: bool) -> Any:
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


def _stype(call: Call, index: int) -> str:
    """Return the storage type of an input."""
    rank = len(call.arrays[index].shape)
    if call.mode != "sparse" or rank == 0:
        return "default"
    kinds = ("row_sparse", "csr", "default")
    return kinds[(index + len(call.op)) % 3 if rank == 2 else 0]


def _backward(call: Call, run: Any, arrays: Sequence[Any]) -> list[Any]:
    for array, given in zip(arrays, call.arrays):
        if given.dtype.endswith(("16", "32", "64")) and "int" not in given.dtype:
            array.attach_grad()
    with mx.autograd.record(train_mode=call.training):
        outputs = _listed(run(*arrays))
    if not outputs:
        return outputs
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
    if not symbol.list_outputs():  # reset_arrays has no output to save or bind
        return []
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
    arrays = [
        _array(given, call.mode == "strided", _stype(call, i))
        for i, given in enumerate(call.arrays)
    ]

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
    if call.mode == "out":
        with mx.autograd.train_mode() if call.training else mx.autograd.predict_mode():
            shapes = [out.shape for out in _listed(plain(*arrays))]
            out = [mx.nd.empty(shape) for shape in shapes]
            return _listed(op(*arrays, **call.params, out=out))
    with mx.autograd.train_mode() if call.training else mx.autograd.predict_mode():
        return _listed(plain(*arrays))


def _check_values(call: Call, outputs: Sequence[Any]) -> bool:
    """Compare with the row of the op table, if nothing was changed in it; else with NumPy."""
    case = call.reference
    if case is None or case.ref is None:
        return _check_numpy(call, outputs)
    arrays = [host(_array(given)) for given in call.arrays]
    want = _listed(case.ref(*arrays) if callable(case.ref) else case.ref)
    for i, (got, wanted) in enumerate(zip(outputs, want)):
        name = str(np.dtype(got.dtype)) if not isinstance(got.dtype, str) else got.dtype
        if call.mode == "out":
            name = next((a.dtype for a in call.arrays if a.dtype in ("float16", "bfloat16")), name)
        assert_close(host(got), np.asarray(wanted), tolerance(case, name), f"output {i}")
    return True


def _check_numpy(call: Call, outputs: Sequence[Any]) -> bool:
    """Compare with NumPy where it has an obvious counterpart."""
    dtypes = {given.dtype for given in call.arrays}
    if len(dtypes) != 1 or len(outputs) != 1 or (call.mode == "out" and dtypes != {"float32"}):
        return False
    op = mx._core.op(call.op)
    arrays = tuple(_array(given) for given in call.arrays)
    try:
        given, params, *_ = mx._core.bind_arguments(op, arrays, call.params)
    except MXNetError:  # a symbol takes the count of a variadic call from its inputs
        return False
    found = expected(op.__name__, [host(array) for array in given], dtypes.pop(), params)
    if found is None:
        return False
    values, tolerance, compared = found
    got = host(outputs[0]).astype(np.float64)
    assert got.shape == values.shape, f"shape {got.shape}, expected {values.shape}"
    with np.errstate(all="ignore"):
        equal = (got == values) | (np.isnan(got) & np.isnan(values))
        wrong = compared & ~equal & ~(np.abs(got - values) <= tolerance)
    for at in np.argwhere(wrong)[:3]:
        place = tuple(at)
        inputs = [float(host(a)[place]) for a in given if a.shape == values.shape]
        raise AssertionError(f"{got[place]} at {place}, {values[place]} expected, of {inputs}")
    return True


def run_call(call: Call) -> tuple[str, str]:
    """Run a call; return the kind of its result and the message of its error.

    The kind is "values" (equal to the reference), "ran", the name of the error class, or, for
    faults, "wrong value", "wrong error" or "unnamed error" (that does not name the operator).
    """
    try:
        outputs = _run(call)
        for output in outputs:
            if math.prod(output.shape) <= 1 << 20:
                output.asnumpy()
        mx.nd.waitall()
    except _NoArray as error:
        return "no array", str(error)
    except _EXPECTED as error:
        _drain()
        text = str(error)
        if "nternal error" in text:
            return "wrong error", text
        return (type(error).__name__ if _is_named(call, text) else "unnamed error"), text
    except Exception as error:
        return "wrong error", f"{type(error).__name__}: {error}"
    try:
        return ("values" if _check_values(call, outputs) else "ran"), ""
    except AssertionError as error:
        return "wrong value", str(error)
    except MemoryError:  # the reference needs more than the call
        return "ran", ""


def _drain() -> None:
    """Wait for other outputs of a call that failed, because their errors belong to this call."""
    while True:
        try:
            return mx.nd.waitall()
        except _EXPECTED:
            pass


def _is_named(call: Call, text: str) -> bool:
    """Say whether a message names the operator, or a node of it."""
    if call.mode.startswith(("hybrid", "symbol")) and text.startswith(_NO_MEMORY):
        return True  # a graph has one plan of its memory
    if call.mode == "symbol" and ("missing in `args`" in text or "missing in `aux_states`" in text):
        return True  # bind names the input
    described = mx._core.describe_op(call.op)
    names = [described["name"], *described["aliases"], call.op.removeprefix("_contrib_")]
    if call.mode == "symbol" and call.op in _IN_SYMBOLS:
        names.append(_IN_SYMBOLS[call.op])
    return any(name.lower().strip("_") in text.lower() for name in names)
