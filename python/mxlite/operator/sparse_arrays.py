"""Custom operators on sparse arrays, which run immediately in the calling thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import NDArray
from ..base import MXNetError
from ..ndarray.sparse import zeros
from ..ndarray.sparse.storage import unrecorded
from .classes import CustomOpProp

if TYPE_CHECKING:
    from .definition import Definition


def takes_sparse(definition: Definition) -> bool:
    """Return whether an operator overrides ``infer_storage_type``."""
    dense = CustomOpProp.infer_storage_type
    # The adapter of PythonOp does not have this method.
    return getattr(type(definition.prop), "infer_storage_type", dense) is not dense


def call(definition: Definition, inputs: list[NDArray]) -> list[NDArray]:
    """Call an operator; it gets dense copies if it does not support sparse inputs."""
    inputs = _cast(definition, inputs)
    if all(_core.array_kind(array) == "dense" for array in inputs):
        return list(_core.call_custom(definition, inputs))
    if not takes_sparse(definition):
        return list(_core.call_custom(definition, [array.tostype("default") for array in inputs]))
    return _call(definition, inputs)


def _cast(definition: Definition, inputs: list[NDArray]) -> list[NDArray]:
    """Return the inputs in the types required by mixed precision; states keep their types."""
    result = list(inputs)
    dtypes = [array.dtype for array in inputs[: definition.num_inputs]]
    for i, dtype in _core.custom_casts(definition.attrs, dtypes):
        if _core.array_kind(inputs[i]) == "dense":
            result[i] = _core.op("amp_cast")(inputs[i], dtype=dtype)
        else:  # the operator amp_cast returns dense arrays
            result[i] = inputs[i].astype(dtype)
    return result


def _call(definition: Definition, inputs: list[NDArray]) -> list[NDArray]:
    count = definition.num_inputs
    dtypes = [array.dtype for array in inputs[:count]]
    in_specs, out_specs = definition.infer([list(a.shape) for a in inputs[:count]], dtypes)
    for array, (shape, _) in zip(inputs, in_specs):
        if array.shape != shape:
            raise MXNetError(
                "Custom: the array must have the shape from infer_shape of "
                f"{definition.op_type!r}, {shape}, got {array.shape}"
            )
    in_stypes, out_stypes, aux_stypes = definition.storage_types([a.stype for a in inputs[:count]])
    ctx, training = inputs[0].context, _core.is_training()
    made = definition.create(ctx, [list(shape) for shape, _ in in_specs[:count]], dtypes)
    with unrecorded():
        given = [
            _as_stored(array.detach(), stype)
            for array, stype in zip(inputs, [*in_stypes, *aux_stypes])
        ]
        data, states = given[:count], given[count:]
        outputs = [_zeros(t, s, ctx, d) for t, (s, d) in zip(out_stypes, out_specs)]
        definition.forward(made, training, data, outputs, states)
    needed = [_core.is_recorded(array) for array in inputs[:count]]

    def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
        heads = [
            _zeros("default", out.shape, ctx, out.dtype) if grad is None else grad
            for grad, out in zip(grads, outputs)
        ]
        groups = definition.backward_storage_types(
            *([array.stype for array in group] for group in (heads, data, outputs, data, states))
        )
        heads = [_as_stored(grad, stype) for grad, stype in zip(heads, groups[0])]
        found = [_zeros(stype, a.shape, ctx, a.dtype) for stype, a in zip(groups[3], data)]
        req = ["write" if wanted else "null" for wanted in needed]
        definition.backward(made, training, req, heads, data, outputs, found, states)
        wanted = [grad if write else None for grad, write in zip(found, needed)]
        return [*wanted, *([None] * len(states))]

    _core.record_function(backward, f"Custom({definition.op_type})", inputs, outputs, True)
    return outputs


def _as_stored(array: NDArray, stype: str) -> NDArray:
    return array if array.stype == stype else array.tostype(stype)


def _zeros(stype: str, shape: Any, ctx: Any, dtype: Any) -> NDArray:
    return zeros(stype, tuple(shape), ctx=ctx, dtype=dtype)
