"""Makes executors: `Symbol.bind` on given arrays, `Symbol.simple_bind` on new arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from .. import _core
from .. import ndarray as nd
from ..base import MXNetError, ShapeError, TypeError_, ValueError_
from ..context import Context, current_context
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from ..symbol import symbol as _symbol
from ..symbol.inference import infer, parse_shape
from ..symbol.placement import checked_groups, place
from ..symbol.storage import gradient_storage_types, storage_types
from .executor import Executor
from .shapes import resized

_REQUESTS = ("write", "add", "null", "inplace")
Arrays = Union[Sequence[Optional[NDArray]], Mapping[str, NDArray], None]


def _requests(grad_req: Any, names: list[str]) -> list[str]:
    if isinstance(grad_req, str):
        result = [grad_req] * len(names)
    elif isinstance(grad_req, (list, tuple)):
        if len(grad_req) != len(names):
            raise ValueError_(
                f"bind: grad_req must have {len(names)} entries, one for each argument, got "
                f"{len(grad_req)}"
            )
        result = list(grad_req)
    elif isinstance(grad_req, Mapping):
        result = [grad_req.get(name, "null") for name in names]
    else:
        raise TypeError_(f"bind: grad_req must be a str, list or dict of str, got {grad_req!r}")
    for request in result:
        if request not in _REQUESTS:
            raise ValueError_(
                f"grad_req must be in {{'write', 'add', 'null', 'inplace'}}, got {request!r}"
            )
    return ["write" if request == "inplace" else request for request in result]


def _arrays(given: Arrays, names: list[str], what: str, allow_missing: bool) -> list[Any]:
    """Return the user's arrays in the order of names."""
    if given is None:
        return [None] * len(names)
    if isinstance(given, Mapping):
        result = [given.get(name) for name in names]
    elif isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError_(
                f"Length of {what} do not match number of arguments: {len(given)} given, "
                f"{len(names)} expected ({', '.join(names)})"
            )
        result = list(given)
    else:
        raise TypeError_(f"Only accept list of NDArrays or dict of str to NDArray for {what}")
    for name, array in zip(names, result):
        if array is None and not allow_missing:
            raise ValueError_(f"key `{name}` is missing in `{what}`")
        if array is not None and not isinstance(array, NDArray):
            raise TypeError_(f"{what}: {name} must be an NDArray, got {type(array).__name__}")
    return result


def _announced(make: Callable[..., Executor]) -> Callable[..., Executor]:
    """Wrap a function so that other ranks of a job are notified if binding the symbol fails."""

    @functools.wraps(make)
    def announcing(symbol: Any, *args: Any, **options: Any) -> Executor:
        try:
            return make(symbol, *args, **options)
        except Exception as error:
            _core.refuse_calls_of_symbol(symbol._outputs, str(error))
            raise

    return announcing


@_symbol.bind.provide
@_announced
def bind(
    symbol: Any,
    ctx: Context | None,
    args: Arrays,
    args_grad: Arrays = None,
    grad_req: Any = "write",
    aux_states: Arrays = None,
    group2ctx: Any = None,
    shared_exec: Any = None,
) -> Executor:
    """Return an executor on given arrays."""
    context = current_context() if ctx is None else Context(ctx)
    names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    arrays = _arrays(args, names, "args", allow_missing=False)
    grads = _arrays(args_grad, names, "args_grad", allow_missing=True)
    aux = _arrays(aux_states, aux_names, "aux_states", allow_missing=False)
    if any(array is None for array in (*arrays, *aux)):
        missing = [n for n, a in zip([*names, *aux_names], [*arrays, *aux]) if a is None]
        raise ValueError_(f"bind: arrays must be given for {', '.join(missing)}, got none")
    for name, array, grad in zip(names, arrays, grads):
        if grad is not None and tuple(grad.shape) != tuple(array.shape):
            raise ShapeError(
                f"bind: the gradient of {name} must have its shape, {tuple(array.shape)}, got "
                f"{tuple(grad.shape)}"
            )
    requests = _requests(grad_req, names)
    return Executor(symbol, context, arrays, grads, requests, aux, group2ctx)


@_symbol.simple_bind.provide
@_announced
def simple_bind(
    symbol: Any,
    ctx: Context | None,
    grad_req: Any,
    type_dict: Mapping[str, Any] | None,
    stype_dict: Mapping[str, str] | None,
    group2ctx: Any,
    shared_arg_names: Sequence[str] | None,
    shared_exec: Executor | None,
    shared_buffer: dict[str, NDArray] | None,
    shapes: Mapping[str, Any],
) -> Executor:
    """Return an executor on new arrays of zeros with inferred shapes and types."""
    context = current_context() if ctx is None else Context(ctx)
    names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    known = {*names, *aux_names}
    if len(known) < len(names) + len(aux_names):
        twice = next(name for name in known if (*names, *aux_names).count(name) > 1)
        raise ValueError_(
            f"simple_bind: names of variables must be distinct, got {twice!r} for several; use "
            "one variable in all places"
        )
    # As in 1.x, ignore unknown names unless they have shapes: scripts also pass other options.
    shapes = {k: v for k, v in shapes.items() if k in known or isinstance(v, (tuple, list))}
    known_shapes = {name: parse_shape(shape, name) for name, shape in shapes.items()}
    types = {name: dtype_name(dtype) for name, dtype in (type_dict or {}).items()}
    try:
        inference = infer(symbol._outputs, known_shapes, types)
    except MXNetError as error:
        given = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        raise type(error)(f"simple_bind error. Arguments:\n{given}\n{error}") from None
    specs: dict[str, tuple[Any, Any]] = {}
    for node in inference.nodes:
        if node.op is None:
            specs[node.name] = inference.shape(node, 0), inference.type(node, 0)
    unknown = [n for n, (shape, _) in specs.items() if shape is None or -1 in shape]
    if unknown:
        raise ValueError_(
            f"simple_bind: the shapes of {', '.join(unknown)} cannot be inferred from those given "
            f"({', '.join(shapes) or 'none'})"
        )
    stypes = storage_types(inference.nodes, stype_dict or {})
    grad_stypes = gradient_storage_types(symbol._outputs, stypes)
    groups = checked_groups(group2ctx)
    contexts = place(inference.nodes, groups, context)
    where = {node.name: contexts[node] for node in inference.nodes if node.op is None}
    requests = _requests(grad_req, names)
    own = set(shared_arg_names or ())  # these arrays do not use the memory of shared_buffer
    shared = own if shared_exec is not None else set()
    old_args = shared_exec.arg_dict if shared_exec is not None else {}
    old_grads = shared_exec.grad_dict if shared_exec is not None else {}
    old_aux = shared_exec.aux_dict if shared_exec is not None else {}

    def new(name: str) -> NDArray:
        shape, dtype = specs[name]
        if stypes.get(name, "default") != "default":
            return nd.sparse.zeros(stypes[name], shape, ctx=where[name], dtype=dtype)
        if shared_buffer is None or name in own or where[name] != context:
            return nd.zeros(shape, ctx=where[name], dtype=dtype)
        array = shared_buffer.get(name)
        if (
            array is None
            or array.size < int(np.prod(shape, dtype=np.int64))
            or (dtype_name(array.dtype) != dtype)
        ):
            array = shared_buffer[name] = nd.zeros(shape, ctx=context, dtype=dtype)
        return resized(name, array, shape, allow_up_sizing=False)

    def usable(old: Any, name: str) -> bool:
        if old is None:
            return False
        if tuple(old.shape) != specs[name][0]:
            raise ShapeError(
                f"simple_bind: {name} has shape {tuple(old.shape)} in shared_exec, these inputs "
                f"need {specs[name][0]}; a parameter that is shared keeps its shape"
            )
        return True

    args: list[NDArray] = []
    grads: list[NDArray | None] = []
    for name, request in zip(names, requests):
        keep = name in shared and usable(old_args.get(name), name)
        args.append(old_args[name] if keep else new(name))
        if request == "null":
            grads.append(None)
        elif keep and usable(old_grads.get(name), name):
            grads.append(old_grads[name])
        else:
            shape, dtype = specs[name]
            make = nd.zeros
            if name in grad_stypes:
                make = functools.partial(nd.sparse.zeros, grad_stypes[name])
            grads.append(make(shape, ctx=where[name], dtype=dtype))
    aux = [
        old_aux[name]
        if usable(old_aux.get(name), name)
        else nd.zeros(specs[name][0], ctx=where[name], dtype=specs[name][1])
        for name in aux_names
    ]
    # With shared_exec, arrays may have types that differ from those inferred here.
    inferred = inference if shared_exec is None else None
    return Executor(symbol, context, args, grads, requests, aux, group2ctx, inferred)
