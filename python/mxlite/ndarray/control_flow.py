"""Loops and branches over arrays: ``foreach``, ``while_loop`` and ``cond`` of ``mx.nd.contrib``.

On arrays with values, they run as Python loops and branches, and autograd records all operators in
them. Inside the forward of a hybridized block, ``foreach`` is unrolled into the graph; the
functions of ``while_loop`` and ``cond``, which depend on values, become subgraphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from .. import _core
from .._core import NDArray
from ..base import ShapeError, TypeError_, ValueError_
from .structure import Layout, flatten, unflatten

__all__ = ["cond", "foreach", "while_loop"]

_split = _core.op("SliceChannel")
_stack = _core.op("stack")
_concat = _core.op("Concat")
_zeros = _core.op("_zeros")
_ones = _core.op("_ones")


def foreach(
    body: Callable[..., Any], data: Any, init_states: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Call ``body`` on each slice of ``data`` along axis 0, with the states of the previous call.

    Parameters
    ----------
    body : callable
        ``output, states = body(slice, states)``; called with ``data[i]``, or a list of slices if
        data is a list. Outputs may be nested lists.
    data : NDArray or list of NDArray
        Axis 0 has the same size, at least 1, in all of them.
    init_states : NDArray or nested lists of NDArray
    name : str, optional
        Name of the nodes, as in ``mx.sym.contrib``; not used.

    Returns
    -------
    outputs : NDArray or nested lists of NDArray
        Results of the calls, stacked along a new axis 0.
    states : NDArray or nested lists of NDArray
        States after the last call.

    Raises
    ------
    ShapeError
        If there is no slice, or the arrays have different numbers of slices.
    """
    arrays, data_layout = flatten(data, "foreach: data")
    flatten(init_states, "foreach: init_states")
    lengths = {array.shape[0] if array.ndim else 0 for array in arrays}
    if len(lengths) != 1 or 0 in lengths:
        shapes = ", ".join(str(tuple(array.shape)) for array in arrays) or "none"
        raise ShapeError(
            f"foreach: data must have one size of axis 0, 1 or more, got shapes {shapes}"
        )
    states = init_states
    steps: list[list[NDArray]] = []
    layout: Layout = ()
    columns = [_slices(array) for array in arrays]
    for index, pieces in enumerate(zip(*columns)):
        returned = body(unflatten(pieces, data_layout), states)
        if not isinstance(returned, (list, tuple)) or len(returned) != 2:
            raise TypeError_(
                f"foreach: body must return a tuple (output, states), got {type(returned).__name__}"
            )
        outputs, states = returned
        flat, layout = flatten(outputs, "foreach: the output of body")
        if steps and len(flat) != len(steps[0]):
            raise ValueError_(
                f"foreach: body returned {len(flat)} outputs at step {index}, {len(steps[0])} "
                "before"
            )
        steps.append(flat)
    stacked = [_stack(*column, axis=0) for column in zip(*steps)]
    return unflatten(stacked, layout), states


def _slices(array: NDArray) -> list[NDArray]:
    if not (_core.is_tracing() or _core.is_recording()):
        return [array[index] for index in range(array.shape[0])]  # the results are views
    # Splits once, because the gradient of each slice operator would be as large as the array.
    slices = _split(array, num_outputs=array.shape[0], axis=0, squeeze_axis=array.ndim > 1)
    return [slices] if isinstance(slices, NDArray) else slices


def _as_list(values: Any) -> list[Any]:
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _truth(value: Any, label: str) -> bool:
    if isinstance(value, NDArray):
        value = _core.with_numpy(value, False).asscalar()
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise ValueError_(f"Cannot convert {label} to python bool: {value!r} given") from None


def _step(func: Callable[..., Any], variables: list[Any]) -> tuple[Any, list[Any]]:
    """Call the body of a while loop; return its outputs and the new variables."""
    output, new = func(*variables)
    new = _as_list(new)
    if len(new) != len(variables):
        raise ValueError_(
            "The length of loop_vars should be consistent during the loop: "
            f"{len(variables)} given, func returned {len(new)}"
        )
    return [] if output is None else output, new


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Call ``func`` as long as ``cond`` is true.

    Parameters
    ----------
    cond : callable
        ``cond(*loop_vars)`` gives an array of one element or a number; 0 ends the loop.
    func : callable
        ``output, new_loop_vars = func(*loop_vars)``; the output may be nested lists, or None.
    loop_vars : NDArray or list of NDArray
    max_iterations : int
        Largest number of steps.
    name : str, optional
        Name of the nodes, as in ``mx.sym.contrib``; not used.

    Returns
    -------
    outputs : NDArray or nested lists of NDArray
        Results of the steps, stacked along a new axis 0 of size max_iterations; entries for
        steps that were not made are 0. If no step was made: an empty list, or zeros inside the
        forward of a hybridized block.
    loop_vars : NDArray or list of NDArray
        Variables after the last step.

    Raises
    ------
    ValueError
        If max_iterations is missing, loop_vars is empty, or their number changes.

    Notes
    -----
    Matches ``mxnet.nd.contrib.while_loop``, which leaves the unused part of outputs undefined.
    Inside the forward of a hybridized block, loop variables keep their shapes and dtypes.
    """
    if max_iterations is None:
        raise ValueError_("while_loop: max_iterations should be specified")
    try:
        limit = int(
            float(max_iterations) if isinstance(max_iterations, NDArray) else max_iterations
        )
    except (TypeError, ValueError):
        raise ValueError_(
            f"while_loop: Cannot convert max_iterations to python int: {max_iterations!r} given"
        ) from None
    single = isinstance(loop_vars, NDArray)
    variables = _as_list(loop_vars)
    if not variables:
        raise ValueError_("while_loop: loop_vars should contain at least one element")
    run = _traced_while if _core.is_tracing() else _eager_while
    outputs, variables = run(cond, func, variables, limit)
    return outputs, variables[0] if single else variables


def _eager_while(
    cond: Callable[..., Any], func: Callable[..., Any], variables: list[Any], limit: int
) -> tuple[Any, list[Any]]:
    steps: list[list[NDArray]] = []
    layout: Layout = ()
    while len(steps) < limit and _truth(cond(*variables), "the return value of cond"):
        output, variables = _step(func, variables)
        flat, layout = flatten(output, "while_loop: the output of func")
        if steps and len(flat) != len(steps[0]):
            raise ValueError_(
                "Number of elements in step_output should be the same in each step: "
                f"{len(flat)} at step {len(steps)}, {len(steps[0])} before"
            )
        steps.append(flat)
    stacked = [_stack_padded(index, column, limit) for index, column in enumerate(zip(*steps))]
    return (unflatten(stacked, layout) if steps else []), variables


def _stack_padded(index: int, column: Sequence[NDArray], limit: int) -> NDArray:
    first = column[0]
    if any(array.shape != first.shape for array in column):
        shapes = "\n".join(f"  Step {i}, shape is {array.shape}" for i, array in enumerate(column))
        raise ShapeError(
            f"Shapes of {index + 1}-th elements in step_outputs are inconsistent, which are:\n"
            f"{shapes}"
        )
    done = _stack(*column, axis=0)
    if len(column) == limit:
        return done
    rest = (limit - len(column), *first.shape)
    return _concat(done, _zeros(shape=rest, dtype=first.dtype, ctx=first.ctx), dim=0)


def _traced(
    name: str, function: Callable[[list[NDArray]], Any], arguments: list[NDArray]
) -> tuple[Any, Layout]:
    """Return the graph of a function of arrays and the structure of its result."""
    layouts: list[Layout] = []

    def call(arrays: list[NDArray]) -> list[NDArray]:
        flat, layout = flatten(function(arrays), f"{name}: the result")
        layouts.append(layout)
        return flat

    return _core.TracedFunction(name, call, arguments), layouts[0]


def _as_array(value: Any, label: str) -> NDArray:
    if isinstance(value, NDArray):
        return value
    return (_ones if _truth(value, label) else _zeros)(shape=(1,))


def _traced_while(
    cond: Callable[..., Any], func: Callable[..., Any], variables: list[Any], limit: int
) -> tuple[Any, list[Any]]:
    arrays, given = flatten(variables, "while_loop: loop_vars")
    output_layout: list[Layout] = []

    def condition(traced: list[NDArray]) -> NDArray:
        value = cond(*unflatten(traced, given))
        return _as_array(value, "the return value of cond")

    def body(traced: list[NDArray]) -> list[NDArray]:
        output, new = _step(func, unflatten(traced, given))
        flat, layout = flatten(output, "while_loop: the output of func")
        output_layout.append(layout)
        return flat + flatten(new, "while_loop: the new loop_vars")[0]

    condition_graph, _ = _traced("while_loop: cond", condition, arrays)
    body_graph, _ = _traced("while_loop: func", body, arrays)
    results = _core.while_loop(condition_graph, body_graph, arrays, limit)
    count = len(results) - len(arrays)
    return unflatten(results[:count], output_layout[0]), unflatten(results[count:], given)


def cond(
    pred: Any,
    then_func: Callable[[], Any],
    else_func: Callable[[], Any],
    name: str | None = None,
) -> Any:
    """Call one of two functions.

    Parameters
    ----------
    pred : NDArray of one element, or number
    then_func, else_func : callable
        Without arguments; return an array or nested lists of arrays.
    name : str, optional
        Name of the nodes, as in ``mx.sym.contrib``; not used.

    Returns
    -------
    NDArray or nested lists of NDArray
        Result of the function that was called.

    Raises
    ------
    ShapeError
        Inside the forward of a hybridized block, if the functions' results differ in number, shape
        or dtype.
    """
    if not (_core.is_tracing() and isinstance(pred, NDArray)):
        return then_func() if _truth(pred, "pred") else else_func()
    then_graph, layout = _traced("cond: then_func", lambda _: then_func(), [])
    else_graph, other = _traced("cond: else_func", lambda _: else_func(), [])
    if layout != other:
        raise ShapeError("cond: then_func and else_func return differently nested arrays")
    return unflatten(_core.branch(pred, then_graph, else_graph), layout)
