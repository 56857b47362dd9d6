"""Checks of a symbol's outputs and gradients against NumPy and finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from .. import ndarray as nd
from .._core import NDArray
from .compare import assert_almost_equal
from .process import default_context
from .tolerance import Tolerance, default_numeric_eps

__all__ = [
    "check_numeric_gradient",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "numeric_grad",
    "simple_forward",
]

Values = np.ndarray[Any, Any]
Location = Any  # list of arrays in the order of the arguments, or a dictionary by name


def _by_name(
    what: str, names: Sequence[str], given: Location, ctx: Any, dtype: Any
) -> dict[str, Any]:
    """Return NDArrays by name from a list or dictionary."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise ValueError(
                f"Symbol arguments and keys of the given {what} do not match. "
                f"symbol: {sorted(names)}, {what}: {sorted(given)}"
            )
        pairs = [(name, given[name]) for name in names]
    else:
        if len(given) != len(names):
            raise ValueError(
                f"{what} must have one array for each of {list(names)}, got {len(given)}"
            )
        pairs = list(zip(names, given))
    return {name: _array(value, ctx, dtype) for name, value in pairs}


def _array(value: Any, ctx: Any, dtype: Any) -> Any:
    if hasattr(value, "asnumpy"):
        return value
    values = np.asarray(value)
    return nd.array(values, ctx=ctx, dtype=values.dtype if dtype == "asnumpy" else dtype)


def _requests(grad_req: Any, names: Sequence[str]) -> dict[str, str]:
    if isinstance(grad_req, str):
        return dict.fromkeys(names, grad_req)
    if isinstance(grad_req, Mapping):
        return {name: grad_req.get(name, "null") for name in names}
    if len(grad_req) != len(names):
        raise ValueError(
            f"grad_req must have one entry for each of {list(names)}, got {len(grad_req)}"
        )
    return dict(zip(names, grad_req))


def simple_forward(sym: Any, ctx: Any = None, is_train: bool = False, **inputs: Any) -> Any:
    """Return the outputs of a symbol for NumPy arrays.

    Parameters
    ----------
    sym : Symbol
    ctx : Context, optional
    is_train : bool
    **inputs : numpy.ndarray
        Values by name of the argument.

    Returns
    -------
    numpy.ndarray, or a list of them
    """
    ctx = ctx or default_context()
    arguments = {name: nd.array(value, ctx=ctx) for name, value in inputs.items()}
    executor = sym.bind(ctx, args=arguments)
    executor.forward(is_train=is_train)
    outputs = [output.asnumpy() for output in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(
    sym: Any,
    location: Location,
    expected: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Any = None,
    ctx: Any = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Raise an error if outputs of a symbol differ from the expected ones.

    Parameters
    ----------
    sym : Symbol
    location : list or dict of arrays
        Values of all arguments.
    expected : list or dict of arrays
        In the order of the outputs, or by their names.
    rtol, atol : float or dict of dtype to float, optional
    aux_states : list or dict of arrays, optional
    ctx : Context, optional
    equal_nan : bool
    dtype : dtype or "asnumpy"
        Type of the arguments; "asnumpy" keeps each one's own.

    Returns
    -------
    list of NDArray
        The outputs.

    Raises
    ------
    AssertionError
    """
    ctx = ctx or default_context()
    arguments = _by_name("location", sym.list_arguments(), location, ctx, dtype)
    states = _aux(sym, aux_states, ctx, dtype)
    outputs = sym.list_outputs()
    wanted = [expected[name] for name in outputs] if isinstance(expected, Mapping) else expected
    if len(wanted) != len(outputs):
        raise ValueError(f"expected must have one array for each of {outputs}, got {len(wanted)}")
    gradients = {name: nd.zeros_like(value) for name, value in arguments.items()}
    executor = sym.bind(ctx, args=arguments, args_grad=gradients, aux_states=states)
    for state in executor.aux_arrays:
        if np.isnan(state.asnumpy()).any():
            raise ValueError("aux_states: a state is NaN before the first call")
    executor.forward(is_train=False)
    for name, value, output in zip(outputs, wanted, executor.outputs):
        names = (f"EXPECTED_{name}", f"FORWARD_{name}")
        assert_almost_equal(value, output, rtol, atol, names, equal_nan=equal_nan)
    return list(executor.outputs)


def _aux(sym: Any, aux_states: Any, ctx: Any, dtype: Any) -> dict[str, Any]:
    names = sym.list_auxiliary_states()
    if aux_states is None:
        aux_states = {}
        if names:
            raise ValueError(f"aux_states must have values for {names}, got none")
    return _by_name("aux_states", names, aux_states, ctx, dtype)


def check_symbolic_backward(
    sym: Any,
    location: Location,
    out_grads: Any,
    expected: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Any = None,
    grad_req: Any = "write",
    ctx: Any = None,
    grad_stypes: Mapping[str, str] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, NDArray]:
    """Raise an error if gradients of a symbol differ from the expected ones.

    Parameters
    ----------
    sym, location, aux_states, rtol, atol, ctx, equal_nan, dtype
        As in :func:`check_symbolic_forward`.
    out_grads : None, or list or dict of arrays
        Gradients of the outputs.
    expected : list or dict of arrays
        In the order of the arguments, or by their names; those not named are not compared.
    grad_req : str, list or dict
        "write", "add" (to random numbers, which are subtracted afterwards) or "null".
    grad_stypes : dict, optional
        Storage types of gradients by argument.

    Returns
    -------
    dict of str to NDArray
        The gradients.

    Raises
    ------
    AssertionError
    """
    ctx = ctx or default_context()
    names = sym.list_arguments()
    arguments = _by_name("location", names, location, ctx, dtype)
    if isinstance(expected, Mapping):
        wanted = dict(expected)
        if unknown := sorted(set(wanted) - set(names)):
            raise ValueError(f"expected must have gradients of {names}, got {unknown}")
    elif len(expected) != len(names):
        raise ValueError(
            f"expected must have one gradient for each of {names}, got {len(expected)}; give a "
            "dictionary to check some of them"
        )
    else:
        wanted = dict(zip(names, expected))
    requests = _requests(grad_req, names)
    gradients, before = _gradient_arrays(arguments, grad_stypes or {}, ctx)
    executor = sym.bind(
        ctx,
        args=arguments,
        args_grad=gradients,
        aux_states=_aux(sym, aux_states, ctx, dtype),
        grad_req=requests,
    )
    executor.forward(is_train=True)
    executor.backward(_output_gradients(sym, executor.outputs, out_grads, ctx))
    for name, value in wanted.items():
        found = gradients[name].asnumpy()
        request = requests[name]
        if request == "add":
            found = found - before[name]
        elif request == "null":
            value = before[name]
        elif request != "write":
            raise ValueError(
                f"grad_req of {name} must be 'write', 'add' or 'null', got {request!r}"
            )
        pair = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        assert_almost_equal(value, found, rtol, atol, pair, equal_nan=equal_nan)
    return gradients


def _gradient_arrays(
    arguments: Mapping[str, Any], stypes: Mapping[str, str], ctx: Any
) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return arrays for gradients, filled with random numbers, and those numbers."""
    gradients, before = {}, {}
    for name, argument in arguments.items():
        values = np.random.normal(size=argument.shape).astype(argument.dtype)
        array = nd.array(values, ctx=ctx, dtype=argument.dtype)
        stype = stypes.get(name, "default")
        gradients[name] = array if stype == "default" else array.tostype(stype)
        before[name] = values
    return gradients, before


def _output_gradients(sym: Any, outputs: Sequence[Any], given: Any, ctx: Any) -> Any:
    if given is None:
        return None
    if isinstance(given, NDArray):
        given = [given]
    if isinstance(given, Mapping):
        given = [given[name] for name in sym.list_outputs()]
    if len(given) != len(outputs):
        raise ValueError(
            f"out_grads must have one array for each of {sym.list_outputs()}, got {len(given)}"
        )
    return [_array(g, ctx, output.dtype) for g, output in zip(given, outputs)]


def _finite_differences(
    loss: Callable[[], float], arrays: Mapping[str, Any], eps: float
) -> dict[str, Values]:
    """Return central differences of a loss for every element of some arrays."""
    gradients = {}
    for name, array in arrays.items():
        original = array.asnumpy()
        if original.dtype.kind not in "fV":
            continue
        values = original.copy()
        gradient = np.zeros(original.shape, dtype=np.float64)
        for i in np.ndindex(original.shape):
            ends = []
            for step in (eps / 2, -eps / 2):
                values[i] = original[i] + step
                array[:] = values
                ends.append((loss(), float(values[i])))
            values[i] = original[i]
            # Uses the step as rounded to the dtype.
            gradient[i] = (ends[0][0] - ends[1][0]) / (ends[0][1] - ends[1][1])
        array[:] = original
        gradients[name] = gradient
    return gradients


def numeric_grad(
    executor: Any,
    location: Mapping[str, Any],
    aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, Values]:
    """Return finite differences of the sum of an executor's first output.

    Parameters
    ----------
    executor : Executor
    location : dict of str to array
        Arguments to differentiate by.
    aux_states : dict of str to array, optional
        Set before each call.
    eps : float
        Distance of the two points.
    use_forward_train : bool
        Call with ``is_train=True``.
    dtype : dtype
        Type of the arguments.

    Returns
    -------
    dict of str to numpy.ndarray
        Without arguments of integers.
    """
    for name, value in location.items():
        executor.arg_dict[name][:] = _array(value, None, dtype)

    def loss() -> float:
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = _array(value, None, dtype)
        executor.forward(is_train=use_forward_train)
        return float(executor.outputs[0].asnumpy().astype(np.float64).sum())

    arrays = {name: executor.arg_dict[name] for name in location}
    return _finite_differences(loss, arrays, eps)


def check_numeric_gradient(
    sym: Any,
    location: Location,
    aux_states: Any = None,
    numeric_eps: float | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Any = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Raise an error if the gradients of a symbol differ from finite differences.

    The loss is the sum of all outputs times random numbers.

    Parameters
    ----------
    sym, location, aux_states, rtol, atol, ctx, dtype
        As in :func:`check_symbolic_forward`.
    numeric_eps : float, optional
        Distance of the two points; by dtype.
    grad_nodes : list of str, or dict of str to str, optional
        Arguments to be checked (with their grad_req), all by default.
    use_forward_train : bool
        Finite differences call with ``is_train=True``.
    grad_stype_dict : dict, optional
        Storage types of gradients by argument.

    Raises
    ------
    AssertionError
    """
    ctx = ctx or default_context()
    names = sym.list_arguments()
    arguments = _by_name("location", names, location, ctx, dtype)
    states = _aux(sym, aux_states, ctx, dtype)
    if grad_nodes is None:
        requests = dict.fromkeys(names, "write")
    elif isinstance(grad_nodes, Mapping):
        requests = {name: grad_nodes.get(name, "null") for name in names}
    else:
        requests = {name: "write" if name in grad_nodes else "null" for name in names}
    eps = numeric_eps or default_numeric_eps().get(np.dtype(dtype), 2.0**-6)
    gradients, before = _gradient_arrays(arguments, grad_stype_dict or {}, ctx)
    executor = sym.bind(
        ctx, args=arguments, args_grad=gradients, aux_states=states, grad_req=requests
    )
    original_states = {name: state.asnumpy() for name, state in states.items()}
    outputs = executor.forward(is_train=True)
    # Weights are not close to 0, so that every element of an output matters.
    weights = [np.random.uniform(0.1, 1.1, output.shape) for output in outputs]
    executor.backward([_array(w, ctx, o.dtype) for w, o in zip(weights, outputs)])

    def loss() -> float:
        for name, values in original_states.items():
            executor.aux_dict[name][:] = values
        executor.forward(is_train=use_forward_train)
        values = [output.asnumpy().astype(np.float64) for output in executor.outputs]
        return float(sum((v * w).sum() for v, w in zip(values, weights)))

    found = {name: gradient.asnumpy() for name, gradient in gradients.items()}
    checked = {name: arguments[name] for name in names if requests[name] != "null"}
    numeric = _finite_differences(loss, checked, eps)
    for name in names:
        pair = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        if requests[name] == "null":
            assert_almost_equal(before[name], found[name], rtol, atol, pair)
        elif name in numeric:
            expected = numeric[name].astype(found[name].dtype)
            base = before[name] if requests[name] == "add" else 0
            assert_almost_equal(expected, found[name] - base, rtol, atol, pair)
