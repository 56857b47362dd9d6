"""The op table: rows that say what an operator computes, and how they are checked.

    CASES = [
        op("softmax", (4, 7), ref=lambda x: np_softmax(x, -1)),
        op("take", (5, 3), ints([4, 0]), ref=lambda a, i: a[i], grad=[0]),
        fails("softmax", (2, 3), axis=2, error=IndexError, match="axis 2 .* 2 dimensions"),
        draws("_random_uniform", check=lambda x: abs(x.mean() - 0.5) < 0.02, shape=(2000,)),
    ]

Inputs are NumPy arrays, or shapes of random values. Floating ones are cast to every dtype of the
row, others stay unchanged.
``ref`` gets float64 (or the integer) inputs and returns one array or a list; an array in its
place is the expected value. Every row runs eagerly and hybridized, with contiguous and with strided
inputs; gradients are compared with finite differences in float64.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

import mxlite as mx
import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
# Distance from 1 to the next larger value.
STEP = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# Roundings that a result may collect: polynomials of exp, tanh and erf and a few operations.
ROUNDINGS = 16
LARGEST_FACTOR = 8.0  # a row with a larger ``tol`` needs ``why``

Reference = Any  # a callable on arrays, an array, a list of arrays


@dataclass
class Case:
    """One row: an operator, its inputs and what is expected."""

    name: str
    inputs: tuple[np.ndarray, ...]
    params: dict[str, Any]
    ref: Reference = None
    dtypes: tuple[str, ...] = FLOATS
    grad: bool | list[int] = True  # inputs to differentiate by; True: all floating ones
    training: bool = False
    terms: int = 1  # length of the longest sum behind one output element
    magnitude: float = 1.0  # size of the values that are added up or cancel
    rounded: float = 0.0  # size of an intermediate result that is rounded to the row's dtype
    tol: float = 1.0  # factor on the tolerance
    grad_tol: float = 1.0  # further factor for gradients
    why: str = ""  # why tol or grad_tol is above LARGEST_FACTOR
    out_dtype: str | None = None  # dtype of the first output; default: the row's
    mutates: tuple[int, ...] = ()  # inputs that the operator writes
    hybrid: bool = True
    error: type[Exception] | None = None
    match: str = ""
    check: Callable[..., Any] | None = None
    id: str = field(default="")

    def __str__(self) -> str:
        shapes = "x".join("".join(f"{d}," for d in a.shape) for a in self.inputs[:3])
        params = ",".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self.name}({shapes}{params})".replace(" ", "")[:90]


_OPTIONS = {"ref", "dtypes", "grad", "training", "out_dtype", "mutates", "hybrid", "terms"}
_OPTIONS |= {"magnitude", "rounded", "tol", "grad_tol", "why"}


def _arrays(inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return inputs of a row; a tuple is the shape of random values."""
    return tuple(rand(*a) if isinstance(a, tuple) else np.asarray(a) for a in inputs)


def op(name: str, *inputs: Any, **options: Any) -> Case:
    """Return a row; keywords that are not options of Case are parameters of the operator."""
    chosen = {k: options.pop(k) for k in list(options) if k in _OPTIONS}
    return Case(name, _arrays(inputs), options, **chosen)


def no_grad(name: str, *inputs: Any, **options: Any) -> Case:
    """Return a row whose gradients are not compared."""
    return op(name, *inputs, grad=False, **options)


def fails(
    name: str, *inputs: Any, match: str, error: type[Exception] = ValueError, **params: Any
) -> Case:
    """Return a row that must raise; match is a regular expression for the message."""
    return Case(name, _arrays(inputs), params, error=error, match=match)


def draws(name: str, *inputs: Any, check: Callable[..., Any], **params: Any) -> Case:
    """Return a row of a random operator; check(values) says whether its sample is plausible."""
    return Case(name, _arrays(inputs), params, check=check, grad=False)


def _generator(*key: Any) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(repr(key).encode()))


_counters: Counter[str] = Counter()


def _next_generator(kind: str, shape: tuple[int, ...]) -> np.random.RandomState:
    """Return a generator by the module of the row: a new row changes no values elsewhere."""
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__ and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals["__name__"]
    _counters[module] += 1
    return _generator(kind, shape, module, _counters[module])


def rand(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Return float64 values between low and high, no two equal, none near zero."""
    values = _next_generator("rand", shape).uniform(low, high, shape)
    return np.where(np.abs(values) < 0.03, values + 0.05, values)


def positive(*shape: int, low: float = 0.2, high: float = 2.0) -> np.ndarray:
    """Return float64 values above zero."""
    return rand(*shape, low=low, high=high)


def ints(values: Any, dtype: str = "int32") -> np.ndarray:
    """Return integer inputs, which keep their dtype."""
    return np.asarray(values, dtype=dtype)


def randint(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    """Return random integers in [low, high)."""
    return _next_generator("randint", shape).randint(low, high, shape).astype(dtype)


# ---- running a row -----------------------------------------------------------------------------


def find_op(name: str) -> Any:
    """Return the operator of that name or alias."""
    return mx._core.op(name)


def is_float(array: np.ndarray) -> bool:
    """Return whether the array is cast to the row's dtype."""
    return array.dtype.kind == "f"


def to_device(array: np.ndarray, dtype: str, strided: bool) -> mx.nd.NDArray:
    """Return an NDArray; strided: a view that steps over every second element."""
    target = dtype if is_float(array) else str(array.dtype)
    if not strided or array.ndim == 0:
        return mx._core.array_from_numpy(array, None, target)
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    base = mx._core.array_from_numpy(wide, None, target)
    strides = (*(s for s in base._strides[:-1]), 2)
    return base._strided_view(array.shape, strides, 0)


def call(case: Case, arrays: Sequence[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
    """Return the operator's outputs as a list."""
    result = find_op(case.name)(*arrays, **case.params)
    return result if isinstance(result, list) else [result]


def call_hybrid(case: Case, arrays: Sequence[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
    """Return the outputs of a hybridized block that calls the operator."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, *inputs: mx.nd.NDArray) -> Any:
            return find_op(case.name)(*inputs, **case.params)

    net = Net()
    net.hybridize()
    result = net(*arrays)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def host(array: mx.nd.NDArray) -> np.ndarray:
    """Return values as float64 or integers."""
    values = array.asnumpy()
    return values.astype(np.float64) if values.dtype.kind not in "iub" else values


def expected(case: Case, arrays: Sequence[mx.nd.NDArray]) -> list[np.ndarray]:
    """Return what the reference gives for the (rounded) inputs."""
    result = case.ref(*[host(a) for a in arrays]) if callable(case.ref) else case.ref
    return [np.asarray(r) for r in (result if isinstance(result, (list, tuple)) else [result])]


def tolerance(case: Case, dtype: str) -> tuple[float, float]:
    """Return the relative and the absolute tolerance of results of a dtype; (0, 0) for integers.

    Kernels compute halves in float32 and round once, so a half may be off by one of its steps. Sums
    of n values whose partial sums grow like sqrt(n) collect n roundings of the accumulator's step.
    """
    if dtype not in STEP:
        return 0.0, 0.0
    accumulator = STEP["float64" if dtype == "float64" else "float32"]
    relative = max(STEP[dtype], ROUNDINGS * accumulator)
    absolute = (ROUNDINGS + case.terms) * accumulator * case.magnitude
    return case.tol * relative, case.tol * absolute + case.rounded * STEP[dtype] / 2


def gradient_tolerance(case: Case, dtype: str, want: np.ndarray) -> tuple[float, float]:
    """Return the tolerances of a gradient that should be ``want``.

    Backward kernels of halves read outputs that were rounded (sigmoid: y (1 - y)) and add terms
    that were rounded, so a gradient may be off by four steps, or by two steps of the largest
    gradient where terms cancel.
    """
    finite = np.abs(want[np.isfinite(want)])
    relative, absolute = tolerance(case, dtype)
    rounded = 2 * STEP[dtype] * float(finite.max(initial=0.0))
    factor = case.grad_tol
    return 4 * factor * relative, factor * max(4 * absolute, case.tol * rounded)


def assert_close(
    got: np.ndarray, want: np.ndarray, tolerances: tuple[float, float], what: str
) -> None:
    """Compare shapes and values; NaN equals NaN, and infinities must be equal."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), *tolerances, equal_nan=True, err_msg=what
    )


def assert_all_close(
    got: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    tolerances: Sequence[tuple[float, float]],
    what: str,
) -> None:
    """Compare lists of arrays of equal length."""
    assert len(got) == len(want), f"{len(got)} {what}s, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        assert_close(g, w, tolerances[i], f"{what} {i}")


def wrong_results(
    want: np.ndarray, tolerances: tuple[float, float]
) -> list[tuple[str, np.ndarray]]:
    """Return arrays that a comparison with ``want`` must refuse, with their names.

    The relative error that must be refused is about two bounds, and never above a quarter.
    """
    if want.size == 0:
        return []
    finite = np.where(np.isfinite(want), want, 0).astype(np.float64)
    values = want.astype(np.float64)
    largest = np.abs(finite).max()
    apart = max(0.01, 4 * tolerances[0]) * largest
    wrong = [("another shape", values[None])]
    if largest > 0:
        drift = min(0.25, max(2.1 * (tolerances[0] + tolerances[1] / largest), 1e-3))
        wrong += [("zeros", np.zeros_like(values)), ("the other sign", -values)]
        wrong.append((f"results off by {drift:.2g} of them", values * (1 + drift)))
    if not np.all(np.isnan(want)) and want.dtype.kind == "f":
        wrong.append(("NaN", np.full_like(values, np.nan)))
    for axis in range(want.ndim):
        flipped = np.flip(values, axis)
        if np.abs(np.flip(finite, axis) - finite).max() > apart:
            wrong.append((f"axis {axis} reversed", flipped))
    if want.ndim > 1:
        swapped = np.ascontiguousarray(np.swapaxes(values, -1, -2)).reshape(want.shape)
        other = np.where(np.isfinite(swapped), swapped, 0)
        if np.abs(other - finite).max() > apart:
            wrong.append(("swapped axes", swapped))
    return wrong


def assert_refuses_wrong_results(
    want: Sequence[np.ndarray], tolerances: Sequence[tuple[float, float]], what: str
) -> None:
    """Check that the comparison with ``want`` refuses wrong results."""
    for i, w in enumerate(want):
        for name, array in wrong_results(w, tolerances[i]):
            try:
                assert_close(array, w, tolerances[i], what)
            except AssertionError:
                continue
            raise AssertionError(f"{what} {i}: the tolerance {tolerances[i]} accepts {name}")


def grad_inputs(case: Case) -> list[int]:
    """Return the positions of the inputs to differentiate by."""
    if case.grad is False:
        return []
    if isinstance(case.grad, list):
        return case.grad
    return [i for i, a in enumerate(case.inputs) if is_float(a) and i not in case.mutates]


def head_weights(case: Case, outputs: Sequence[mx.nd.NDArray]) -> list[np.ndarray]:
    """Return weights between 0.5 and 1.5 for every output, exact in every dtype."""
    rng = _generator(case.name, "weights")
    return [rng.randint(32, 97, o.shape) / 64 for o in outputs]


def weighted_sum(outputs: Sequence[mx.nd.NDArray], weights: Sequence[np.ndarray]) -> Any:
    """Return the sum of outputs times fixed weights, over the floating outputs."""
    assert len(outputs) == len(weights)
    total = None
    for out, weight in zip(outputs, weights):
        if np.dtype(out.dtype).name in STEP and out.size:
            term = (out * mx.nd.array(weight, dtype=out.dtype)).sum()
            total = term if total is None else total + term
    return total


def gradients(
    case: Case, arrays: Sequence[mx.nd.NDArray], runner: Callable[..., Any]
) -> list[np.ndarray]:
    """Return autograd's gradients of the weighted sum by the row's inputs."""
    positions = grad_inputs(case)
    for i in positions:
        arrays[i].attach_grad()
    with mx.autograd.record(train_mode=case.training):
        outputs = runner(case, arrays)
        weights = head_weights(case, outputs)
        head = weighted_sum(outputs, weights)
    head.backward()
    return [host(arrays[i].grad) for i in positions]


def finite_difference(case: Case, position: int, direction: np.ndarray, step: float) -> float:
    """Return the directional derivative of the weighted sum in float64."""
    values = []
    for sign in (1.0, -1.0):
        moved = [np.array(a) for a in case.inputs]
        moved[position] = np.asarray(moved[position] + sign * step * direction)
        arrays = [to_device(a, "float64", strided=False) for a in moved]
        scope = mx.autograd.train_mode() if case.training else mx.autograd.predict_mode()
        with scope:
            outputs = call(case, arrays)
        weights = head_weights(case, outputs)
        values.append(float(weighted_sum(outputs, weights).asscalar()))
    return (values[0] - values[1]) / (2 * step)
