"""Sequences of steps: one array with a time axis, or a list with one array for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ... import ndarray as nd
from ... import symbol as sym
from ...base import ShapeError, TypeError_, ValueError_
from ...ndarray import NDArray
from ...numpy_mode import of_mode

__all__ = [
    "TIME_LAYOUTS",
    "batch_size",
    "begun_state",
    "is_merged",
    "mask_steps",
    "merge",
    "reverse",
    "split",
    "symbolic_zeros",
]

TIME_LAYOUTS = ("NTC", "TNC")


def time_axis(layout: str) -> int:
    """Return the axis of the steps."""
    axis = layout.find("T")
    if axis < 0 or "N" not in layout:
        raise ValueError_(f"unroll: layout must be a text such as 'NTC', got {layout!r}")
    return axis


def is_merged(inputs: Any) -> bool:
    """Return whether the steps are one array or symbol, instead of a list."""
    return not isinstance(inputs, (list, tuple))


def first_step(inputs: Any) -> Any:
    """Return an array that has the context and type of the sequence."""
    return inputs if is_merged(inputs) else inputs[0]


def batch_size(inputs: Any, layout: str) -> int:
    """Return the number of samples; 0, which means unknown, for symbols."""
    first = first_step(inputs)
    if not isinstance(first, NDArray):
        return 0
    return int(first.shape[layout.find("N") if is_merged(inputs) else 0])


def begun_state(func: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """Return the state that ``func`` makes, as ``mx.np.ndarray`` in numpy mode."""
    if not str(getattr(func, "__module__", "")).startswith("mxlite.numpy"):
        options = {"name": name, **options}  # the functions of mx.np take no name
    state = func(**options)
    return of_mode(state) if isinstance(state, NDArray) else state


def symbolic_zeros(inputs: Any, layout: str) -> Callable[..., Any]:
    """Return a function that makes zeros for the number of samples of a symbolic sequence."""
    samples = first_step(inputs)
    if is_merged(inputs) and layout.find("N") == 1:
        samples = nd.swapaxes(samples, dim1=0, dim2=1)
    flat: Any = nd.reshape(samples, shape=(0, -1))
    column: Any = nd.zeros_like(nd.slice_axis(flat, axis=1, begin=0, end=1))

    def zeros(name: str, shape: tuple[int, ...], **kwargs: Any) -> Any:
        ndim = len(shape)
        expanded = nd.reshape(column, shape=(0,) + (1,) * (ndim - 1))
        axes = tuple(range(1, ndim))
        return nd.broadcast_axis(expanded, axis=axes, size=tuple(shape[1:]), name=name)

    return zeros


def check_length(length: int | None, inputs: Any, layout: str) -> None:
    """Raise if the number of steps is not ``length``."""
    if inputs is None:
        raise TypeError_("unroll: inputs must be an NDArray or a list of NDArrays, got None")
    if is_merged(inputs):
        found = inputs.shape[time_axis(layout)] if isinstance(inputs, NDArray) else length
    else:
        found = len(inputs)
    if length is not None and found != length:
        raise ShapeError(
            f"unroll: length must be the number of steps of inputs, {found}, got {length}"
        )


def split(inputs: Any, length: int | None, layout: str) -> list[Any]:
    """Return one array for each step."""
    if not is_merged(inputs):
        return list(inputs)
    axis = time_axis(layout)
    is_array = isinstance(inputs, NDArray)
    steps = inputs.shape[axis] if is_array else length
    # Calls the function for the class of the inputs, because the two functions name nodes
    # differently.
    cut: Any = nd.split if is_array else sym.split
    result = cut(inputs, num_outputs=steps, axis=axis, squeeze_axis=True)
    return list(result) if steps != 1 or isinstance(result, list) else [result]


def merge(steps: Any, layout: str) -> Any:
    """Return one array; ``layout`` gives the position of its time axis."""
    return steps if is_merged(steps) else nd.stack(*steps, axis=time_axis(layout))


def formatted(steps: Any, length: int | None, layout: str, merged: bool | None) -> Any:
    """Return steps merged (True), split (False) or unchanged (None)."""
    if merged is None:
        return steps
    return merge(steps, layout) if merged else split(steps, length, layout)


def mask_steps(
    steps: Any, length: int | None, layout: str, valid_length: Any, merged: bool | None
) -> Any:
    """Set the steps after the end of each sequence to zero."""
    masked = nd.SequenceMask(
        merge(steps, layout), valid_length, use_sequence_length=True, axis=time_axis(layout)
    )
    return split(masked, length, layout) if merged is False else masked


def reverse(steps: Sequence[Any], valid_length: Any = None) -> list[Any]:
    """Return steps from last to first; padding keeps its position."""
    if valid_length is None:
        return list(reversed(steps))
    turned = nd.SequenceReverse(nd.stack(*steps, axis=0), valid_length, use_sequence_length=True)
    return split(turned, len(steps), "TNC")


def last_states(states: Sequence[Sequence[Any]], valid_length: Any) -> list[Any]:
    """Select each sample's states at its last step."""
    return [
        nd.SequenceLast(nd.stack(*steps, axis=0), valid_length, use_sequence_length=True)
        for steps in zip(*states)
    ]
