"""Checks that different contexts, dtypes, graphs or optimizers agree; timing of a symbol."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from .. import autograd
from .. import ndarray as nd
from .compare import assert_almost_equal, compare_ndarray_tuple
from .data import rand_ndarray
from .process import default_context
from .tolerance import Tolerance

__all__ = [
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_speed",
    "compare_optimizer",
    "same_symbol_structure",
]

Values = np.ndarray[Any, Any]

# Tolerances are larger than for single arrays, because rounding errors accumulate in a network.
_TOLERANCES = {"float16": 1e-1, "float32": 1e-3, "float64": 1e-5}


def _consistency_tolerances(given: Tolerance) -> dict[np.dtype[Any], float]:
    names = ("float16", "float32", "float64", "uint8", "int8", "int32", "int64")
    if isinstance(given, Mapping):
        return {np.dtype(key): value for key, value in given.items()}
    return {np.dtype(name): _TOLERANCES.get(name, 0) if given is None else given for name in names}


def _filled(
    executor: Any, arg_params: Mapping[str, Any] | None, draw: Callable[[Any], Values]
) -> dict[str, Values]:
    """Return values for all arguments of an executor, random where none are given."""
    given = dict(arg_params or {})
    return {
        name: np.asarray(given[name] if name in given else draw(array.shape))
        for name, array in executor.arg_dict.items()
    }


def check_consistency(
    sym: Any,
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: Mapping[str, Any] | None = None,
    aux_params: Mapping[str, Any] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Raise an error if a symbol's results differ between contexts or dtypes.

    Parameters
    ----------
    sym : Symbol or list of Symbol
        One for all entries of ``ctx_list``, or one for each.
    ctx_list : list of dict
        "ctx": the context; "type_dict": dtypes of arguments by name; the shape of each input.
    scale : float
        Standard deviation of the random arguments.
    grad_req : str, list or dict
        "null" compares outputs only.
    arg_params, aux_params : dict, optional
        Values of arguments and states by name.
    rtol, atol : float or dict of dtype to float, optional
    raise_on_err : bool
        False prints the error instead.
    ground_truth : dict, optional
        Expected values, by names of outputs and arguments; else the most precise entry's values.
    equal_nan, use_uniform : bool
    rand_type : dtype
        Random arguments are rounded to it.

    Returns
    -------
    dict of str to NDArray
        The ground truth.

    Raises
    ------
    AssertionError
    """
    if len(ctx_list) < 2:
        raise ValueError(
            f"check_consistency: number of contexts must be 2 or more, got {len(ctx_list)}"
        )
    symbols = list(sym) if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    executors = [s.simple_bind(grad_req=grad_req, **c) for s, c in zip(symbols, ctx_list)]

    def draw(shape: Any) -> Values:
        if use_uniform:
            values = np.random.uniform(-0.92 * scale, 0.92 * scale, shape)
        else:
            values = np.random.normal(0.0, scale, shape)
        return np.asarray(values, dtype=rand_type)

    arguments = _filled(executors[0], arg_params, draw)
    states = dict(aux_params or {})
    training = grad_req != "null"
    for executor in executors:
        for name, array in executor.arg_dict.items():
            array[:] = arguments[name].astype(array.dtype)
        for name, array in executor.aux_dict.items():
            array[:] = states.get(name, 0)
        executor.forward(is_train=training)
        if training:
            executor.backward([output.copy() for output in executor.outputs])
    precision = [
        min(np.dtype(o.dtype).itemsize for o in executor.outputs) for executor in executors
    ]
    best = int(np.argmax(precision))
    results = [_results(s, e, training) for s, e in zip(symbols, executors)]
    truth = dict(ground_truth) if ground_truth is not None else results[best]
    rtols, atols = _consistency_tolerances(rtol), _consistency_tolerances(atol)
    for i, result in enumerate(results):
        if i == best and ground_truth is None:
            continue
        for name, array in result.items():
            if name not in truth:
                continue
            dtype = min(
                (np.dtype(a.dtype) for a in result.values()), key=lambda d: (d.kind != "f", d)
            )
            try:
                assert_almost_equal(
                    array,
                    truth[name],
                    rtols.get(dtype, 0),
                    atols.get(dtype, 0),
                    (f"{name} of {ctx_list[i]['ctx']} ({dtype})", "ground truth"),
                    equal_nan=equal_nan,
                )
            except AssertionError as error:
                if raise_on_err:
                    raise
                print(f"check_consistency: entry {i}, {name}: {error}")
    return truth


def _results(symbol: Any, executor: Any, with_gradients: bool) -> dict[str, Any]:
    found = dict(zip(symbol.list_outputs(), executor.outputs))
    if with_gradients:
        found.update((k, v) for k, v in executor.grad_dict.items() if v is not None)
    return found


def check_speed(
    sym: Any,
    location: Mapping[str, Any] | None = None,
    ctx: Any = None,
    N: int = 20,  # noqa: N803 - the name of 1.x
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Return the mean time of a call in seconds.

    Parameters
    ----------
    sym : Symbol
    location : dict of str to array, optional
        Values of arguments; else random ones of the shapes in ``kwargs``.
    ctx : Context, optional
    N : int
        Number of calls.
    grad_req : str, list or dict, optional
        "write" by default.
    typ : str
        "whole": forward and backward; "forward".
    **kwargs : tuple of int
        Shapes of inputs by name.
    """
    if typ not in ("whole", "forward"):
        raise ValueError(f"check_speed: typ must be 'whole' or 'forward', got {typ!r}")
    ctx = ctx or default_context()
    shapes = {k: v.shape for k, v in location.items()} if location is not None else kwargs
    executor = sym.simple_bind(grad_req=grad_req or "write", ctx=ctx, **shapes)
    for name, array in executor.arg_dict.items():
        if location is not None and name in location:
            array[:] = location[name]
        else:
            array[:] = np.random.normal(size=array.shape).astype(array.dtype)

    def call() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    call()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        call()
    nd.waitall()
    return (time.perf_counter() - start) / N


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: Sequence[Any],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Raise an error if a block's results differ between hybridized and eager runs.

    Parameters
    ----------
    net_builder : callable
        ``net_builder(prefix=..., params=...)`` makes the block.
    data_l : list of NDArray
        Inputs of the function.
    numpy_func : callable, optional
        The same function in NumPy.
    test_grad : bool
        Compare gradients of inputs and parameters too.
    rtol, atol : float

    Raises
    ------
    AssertionError
    """
    outputs: list[Values] = []
    gradients: list[dict[str, Values]] = []
    inputs = [data.copy() for data in data_l]
    parameters: Mapping[str, Any] | None = None
    for hybridize in (False, True):
        net = net_builder(prefix="net_")
        net.initialize()
        if hybridize:
            net.hybridize()
        if parameters is not None:
            net(*inputs)
            for name, parameter in net.collect_params().items():
                parameter.set_data(parameters[name].data())
        if test_grad:
            for data in inputs:
                data.attach_grad()
            with autograd.record():
                output = net(*inputs)
            output.backward(nd.ones_like(output))
            found = {str(i): data.grad.asnumpy() for i, data in enumerate(inputs)}
            for name, parameter in net.collect_params().items():
                if parameter.grad_req != "null":
                    found[name] = parameter.grad().asnumpy()
            gradients.append(found)
        else:
            output = net(*inputs)
        outputs.append(output.asnumpy())
        parameters = net.collect_params()
    assert_almost_equal(outputs[0], outputs[1], rtol, atol, ("eager", "hybridized"))
    for name in gradients[0] if gradients else ():
        pair = (f"eager_grad_{name}", f"hybridized_grad_{name}")
        assert_almost_equal(gradients[0][name], gradients[1][name], rtol, atol, pair)
    if numpy_func is not None:
        expected = numpy_func(*[data.asnumpy() for data in inputs])
        assert_almost_equal(outputs[1], expected, rtol, atol, ("hybridized", "numpy"))


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise an error if two optimizers change weights or states differently.

    Parameters
    ----------
    opt1, opt2 : Optimizer
    shape : tuple of int, or list of them with ``ntensors``
    dtype : dtype
    w_stype, g_stype : str
        Storage types of weights and gradients of ``opt2``; those of ``opt1`` are dense.
    rtol, atol : float
    compare_states : bool
    ntensors : int
        Number of weights that are updated in one call.

    Raises
    ------
    AssertionError
    """
    shapes = [shape] * ntensors if isinstance(shape, tuple) else list(shape)
    indices = list(range(ntensors))
    weights2 = [rand_ndarray(s, w_stype, density=1, dtype=dtype) for s in shapes]
    weights1 = [weight.copy().tostype("default") for weight in weights2]
    grads2 = [rand_ndarray(s, g_stype, dtype=dtype) for s in shapes]
    grads1 = [grad.copy().tostype("default") for grad in grads2]
    states1, states2 = (
        [opt.create_state_multi_precision(i, w) for i, w in zip(indices, weights)]
        for opt, weights in ((opt1, weights1), (opt2, weights2))
    )
    if compare_states:
        compare_ndarray_tuple(tuple(states1), tuple(states2), rtol, atol)
    for opt, weights, grads, states in (
        (opt1, weights1, grads1, states1),
        (opt2, weights2, grads2, states2),
    ):
        if ntensors == 1:
            opt.update_multi_precision(0, weights[0], grads[0], states[0])
        else:
            opt.update_multi_precision(indices, weights, grads, states)
    if compare_states:
        compare_ndarray_tuple(tuple(states1), tuple(states2), rtol, atol)
    for first, second in zip(weights1, weights2):
        assert_almost_equal(first, second, rtol, atol, ("opt1", "opt2"))


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Return whether two symbols have the same operators at the same nodes."""
    nodes = [json.loads(symbol.tojson())["nodes"] for symbol in (sym1, sym2)]
    return [node["op"] for node in nodes[0]] == [node["op"] for node in nodes[1]]
