"""Recording computations and differentiating them (MXNet 1.x: ``mxnet.autograd``)."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar, Union, cast

from . import _core
from ._core import NDArray, is_recording, is_training
from ._names_1x import attributes as _attributes
from .base import (
    DynamicShapeError,
    MXNetError,
    NeedsInit,
    Provided,
    ShapeError,
    TypeError_,
    ValueError_,
)
from .ndarray.ndarray import attach
from .ndarray.structure import in_class_of

__all__ = [
    "Function",
    "NDArray",  # names for scripts that use import * as in 1.x
    "backward",
    "detect_anomaly",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]

F = TypeVar("F", bound=Callable[..., Any])
Arrays = Union[NDArray, Sequence[NDArray]]

GRAD_REQ = {"null": 0, "write": 1, "add": 2}

_PASSES = threading.local()
_pass_numbers = itertools.count(1)

recorded_symbol = Provided()  # provided by symbol/recorded.py
graphs_out_of_date = Provided()  # provided by gluon/parameter/bindings.py


def set_recording(is_recording: bool) -> bool:
    """Switch recording of this thread on or off; return the previous state."""
    return _core.set_recording(bool(is_recording))


def set_training(train_mode: bool) -> bool:
    """Switch training mode of this thread (Dropout, BatchNorm); return the previous state."""
    return _core.set_training(bool(train_mode))


class _Scope:
    """Sets recording and training mode (None: no change); usable as a with block or decorator."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._recording = recording
        self._training = training
        self._old: list[tuple[bool | None, bool | None]] = []

    def __enter__(self) -> None:
        recording = None if self._recording is None else _core.set_recording(self._recording)
        training = None if self._training is None else _core.set_training(self._training)
        if recording is False and self._recording:
            _PASSES.number = next(_pass_numbers)
        self._old.append((recording, training))

    def __exit__(self, *exc: object) -> None:
        recording, training = self._old.pop()
        if recording is not None:
            _core.set_recording(recording)
        if training is not None:
            _core.set_training(training)

    def __call__(self, function: F) -> F:
        import functools

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with _Scope(self._recording, self._training):
                return function(*args, **kwargs)

        return cast(F, wrapper)


def record(train_mode: bool = True) -> _Scope:
    """Return a scope in which operators are recorded for :func:`backward`.

    Parameters
    ----------
    train_mode : bool
        Whether Dropout, BatchNorm and the like behave as in training.
    """
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Return a scope in which nothing is recorded.

    Parameters
    ----------
    train_mode : bool
        Whether Dropout, BatchNorm and the like behave as in training.
    """
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Return a scope with training behavior; recording does not change."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Return a scope with prediction behavior; recording does not change."""
    return _Scope(None, False)


def _pass_number() -> int:
    """Return the number of this thread's last outermost `record` scope, or 0 before the first."""
    return int(getattr(_PASSES, "number", 0))


def _as_list(arrays: Arrays) -> list[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _grad_req(req: str) -> int:
    if req not in GRAD_REQ:
        raise ValueError_(f"grad_req must be 'write', 'add' or 'null', got {req!r}")
    return GRAD_REQ[req]


def mark_variables(
    variables: Arrays, gradients: Arrays, grad_reqs: str | Sequence[str] = "write"
) -> None:
    """Make arrays variables whose gradients go into given arrays.

    Parameters
    ----------
    variables : NDArray or list of NDArray
    gradients : NDArray or list of NDArray
        One per variable, same shape and dtype.
    grad_reqs : str or list of str
        'write', 'add' or 'null'.

    Raises
    ------
    ValueError
        If the counts differ or a request is none of the three.
    """
    variables, gradients = _as_list(variables), _as_list(gradients)
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(variables) == len(gradients) == len(reqs):
        raise ValueError_(
            "mark_variables: variables, gradients and grad_reqs must have equal counts, got "
            f"{len(variables)}, {len(gradients)} and {len(reqs)}"
        )
    for variable, gradient, req in zip(variables, gradients, reqs):
        _core.mark_variable(variable, gradient, _grad_req(req))


def _head_grads(heads: list[NDArray], head_grads: Any) -> list[NDArray | None] | None:
    if head_grads is None:
        return None
    if isinstance(head_grads, NDArray):
        head_grads = [head_grads]
    head_grads = list(head_grads)
    if len(head_grads) != len(heads):
        raise ValueError_(
            f"backward: the number of head gradients must equal the number of heads, {len(heads)}, "
            f"got {len(head_grads)}"
        )
    return list(head_grads)


def backward(
    heads: Arrays,
    head_grads: Any = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute gradients of heads with respect to all variables, into their ``grad``.

    Parameters
    ----------
    heads : NDArray or list of NDArray
    head_grads : NDArray or list of (NDArray or None), optional
        Gradients of the heads; ones by default.
    retain_graph : bool
        Keep what a second backward would need.
    train_mode : bool
        Mode in which gradients are computed.

    Raises
    ------
    MXNetError
        If a head was not recorded, the graph was freed, or (inside :func:`detect_anomaly`) a value
        that is needed has been overwritten.

    Warns
    -----
    UserWarning
        If a value that is needed has been overwritten since it was recorded: once for each line
        of the program that wrote. The new value is used, as in 1.x.
    """
    heads = _as_list(heads)
    _core.backward(heads, _head_grads(heads, head_grads), retain_graph, train_mode)


def grad(
    heads: Arrays,
    variables: Arrays,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """Return gradients of heads with respect to variables as new arrays.

    Parameters
    ----------
    heads, variables : NDArray or list of NDArray
    head_grads : NDArray or list of (NDArray or None), optional
    retain_graph : bool, optional
        Default: the value of create_graph.
    create_graph : bool
        Record the gradient's own computation, for higher order.
    train_mode : bool

    Returns
    -------
    list of NDArray
        Also for a single variable, as in 1.x; zeros for one that heads do not depend on.
    """
    heads_list, variable_list = _as_list(heads), _as_list(variables)
    if not variable_list:
        raise ValueError_("grad: variables must have at least 1 array, got none")
    found = _core.gradients(
        heads_list,
        _head_grads(heads_list, head_grads),
        variable_list,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        train_mode,
    )
    if create_graph and is_recording():
        for gradient in found:
            # A constant can be differentiated, too: as in 1.x, its gradients are zeros.
            if isinstance(gradient, NDArray) and not _core.is_recorded(gradient):
                _core.record_function(
                    lambda grads: [None] * len(variable_list), "constant", variable_list, [gradient]
                )
    return found


def get_symbol(x: NDArray) -> Any:
    """Return the recorded computation of an array as a symbol.

    Parameters
    ----------
    x : NDArray
        Computed inside `record`, from arrays with a gradient.

    Returns
    -------
    Symbol
        Its variables are ``var0``, ``var1``, ...; calls of hybridized blocks become
        their operators.

    Raises
    ------
    MXNetError
        If x was not recorded, or backward has freed the recording.
    """
    return recorded_symbol(x)


@contextlib.contextmanager
def detect_anomaly(enabled: bool = True) -> Iterator[None]:
    """Raise at the first NaN or clipped index; the error names the operator, its line and operands.

    Backward also raises if a value that it needs has been overwritten since it was recorded;
    outside of this scope it warns.

    The results of every operator are checked before the next one runs, in forward and backward.
    Hybridized blocks and executors also run operator by operator. This is slow, so use it only to
    find an error. ``MXLITE_ANOMALY=1`` checks a whole program. If an index is outside of its axis,
    such as label 3 of 3 classes, `pick` (and so losses of classes), `take` and `Embedding` raise an
    IndexError; outside of this scope, they use the nearest valid index, as in MXNet 1.x.

    Examples
    --------
    >>> with autograd.detect_anomaly():
    ...     with autograd.record():
    ...         loss = loss_fn(net(data), label)
    ...     loss.backward()
    """
    before = _core.set_anomaly_checks(bool(enabled))
    graphs_out_of_date()  # expires compiled graphs, because they do not check for NaN
    try:
        yield
    finally:
        _core.set_anomaly_checks(before)


if os.environ.get("MXLITE_ANOMALY", "0") not in ("", "0"):
    _core.set_anomaly_checks(True)


class Function(NeedsInit):
    """A differentiable function with its own backward, written in Python.

    Subclasses define ``forward(self, *inputs)`` and ``backward(self, *output_grads)``, which
    returns one gradient per input. Arrays kept by ``save_for_backward`` are in ``saved_tensors``.
    """

    _set_by_init = "_used"

    def __init__(self) -> None:
        self.saved_tensors: Any = ()  # backward may assign None to free memory
        self._used = False

    def save_for_backward(self, *args: NDArray) -> None:
        """Keep arrays for backward."""
        self.saved_tensors = args

    def __call__(self, *inputs: NDArray) -> Any:
        """Run forward and, when recording, put backward on the tape."""
        if self._used:
            raise ValueError_(
                f"{type(self).__name__}: a Function can be called once; make a new instance"
            )
        recording = is_recording()
        if recording and _core.is_tracing():
            raise DynamicShapeError(
                f"{type(self).__name__}: a graph cannot call the backward of an autograd.Function; "
                "the block that calls it runs operator by operator"
            )
        self._used = True
        with pause():
            outputs = self.forward(*inputs)
        if not recording:  # recording is also on in traces and for symbols
            return outputs
        single = isinstance(outputs, NDArray)
        output_list = self._arrays(outputs, "forward")
        # Gives outputs separate handles, so that an input that forward returns unchanged does not
        # get this history.
        output_list = [array.detach() for array in output_list]

        # Outputs that are not used have zero gradients.
        def run_backward(grads: list[NDArray | None]) -> list[NDArray | None]:
            filled = [
                _core.op("zeros_like")(o) if g is None else in_class_of(g, o)
                for g, o in zip(grads, shapes)
            ]
            result = self.backward(*filled)
            found = [None] if result is None else self._arrays(result, "backward")
            if len(found) != len(given):
                raise ValueError_(
                    f"{type(self).__name__}.backward must return a gradient for each of the "
                    f"{len(given)} inputs of forward, got {len(found)}"
                )
            return [self._fitted(i, g, *x) for i, (g, x) in enumerate(zip(found, given))]

        shapes = [array.detach() for array in output_list]
        _core.record_function(run_backward, type(self).__name__, list(inputs), output_list)
        given = [(x.shape, x.dtype) for x in inputs]
        return output_list[0] if single else output_list

    def _arrays(self, result: Any, method: str) -> list[Any]:
        """Return the result of the user's method as a list."""
        found = [result] if isinstance(result, NDArray) else result
        wanted = (NDArray,) if method == "forward" else (NDArray, type(None))
        if isinstance(found, (list, tuple)) and all(isinstance(part, wanted) for part in found):
            return list(found)
        raise TypeError_(f"{type(self).__name__}.{method} must return NDArrays, got {result!r}")

    def _fitted(
        self, index: int, grad: NDArray | None, shape: tuple[int, ...], dtype: Any
    ) -> NDArray | None:
        """Return a gradient in its input's shape and type, as 1.x does."""
        if grad is None or grad.stype != "default":
            return grad
        if grad.shape != shape:
            try:
                grad = grad.broadcast_to(shape)
            except MXNetError:
                raise ShapeError(
                    f"{type(self).__name__}.backward: gradient {index} must have the input's "
                    f"shape {shape}, got {grad.shape}"
                ) from None
        return grad if grad.dtype == dtype else grad.astype(dtype)

    def forward(self, *inputs: NDArray) -> Any:
        """Compute the outputs; not recorded."""
        raise NotImplementedError(f"{type(self).__name__}.forward is not defined")

    def backward(self, *output_grads: NDArray) -> Any:
        """Return the gradients of the inputs, given the gradients of the outputs."""
        raise NotImplementedError(f"{type(self).__name__}.backward is not defined")


def _attach_grad(self: NDArray, grad_req: str = "write", stype: str | None = None) -> None:
    """Make the array a variable with a zero gradient and drop its history.

    The gradient takes memory only once it is read or computed.
    """
    stypes = {"default": 0, "row_sparse": 1, "csr": 2}
    if stype is None:
        stype = self.stype
    if stype not in stypes:
        raise ValueError_(
            f"attach_grad: stype must be 'default', 'row_sparse' or 'csr', got {stype!r}"
        )
    _core.mark_variable(self, None, _grad_req(grad_req), stypes[stype])


def _array_backward(
    self: NDArray,
    out_grad: NDArray | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute gradients of this array; see :func:`mxlite.autograd.backward`."""
    head_grads = None if out_grad is None else [out_grad]
    _core.backward([self], head_grads, retain_graph, train_mode)


attach({"attach_grad": _attach_grad, "backward": _array_backward})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
