"""The functions of ``mx.sym.np`` and ``mx.sym.npx``, which compose symbols of numpy mode.

Each has the signature of its namesake in ``mx.np`` or ``mx.npx``. Those that are no single operator
of the engine become the operators of 1.9.1's files, which `file_operators` runs.
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
import types
from typing import Any, Callable

from .. import _core, symbol
from .. import numpy as np
from .._core import compose
from ..base import NotSupportedError, TypeError_
from ..numpy import elementwise
from ..numpy.arguments import default_dtype
from ..numpy.sorting import refuse_order
from ..symbol import Symbol
from ..symbol.numpy_symbol import NumpySymbol
from . import control_flow, functions, image, operators
from .file_operators import OPERATORS
from .function_calls import (
    bind_arguments,
    compose_call,
    convert_symbols,
    document,
    make_function,
    make_functions,
)
from .submodule_symbols import np_linalg, np_random, npx_random

__all__: list[str] = []

# Functions of one operator, by name: the operator, the arguments that are symbols, and those other
# arguments that the operator calls by another name.
_FUNCTIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "amax": ("_np_max", "a", {}),
    "amin": ("_np_min", "a", {}),
    "argmax": ("_npi_argmax", "a", {}),
    "argmin": ("_npi_argmin", "a", {}),
    "broadcast_to": ("broadcast_to", "array", {}),
    "copy": ("_copy", "a", {}),
    "cumsum": ("cumsum", "a", {}),
    "diag": ("diag", "array", {}),
    "dot": ("_np_dot", "a b", {}),
    "expand_dims": ("expand_dims", "a", {}),
    "matmul": ("_matmul", "a b", {}),
    "max": ("_np_max", "a", {}),
    "mean": ("_npi_mean", "a", {}),
    "min": ("_np_min", "a", {}),
    "ones_like": ("ones_like", "a", {}),
    "prod": ("_np_prod", "a", {}),
    "repeat": ("repeat", "a", {}),
    "sort": ("sort", "a", {}),
    "squeeze": ("squeeze", "a", {}),
    "sum": ("_np_sum", "a", {}),
    "swapaxes": ("SwapAxis", "a", {"axis1": "dim1", "axis2": "dim2"}),
    "tile": ("tile", "A", {}),
    "transpose": ("transpose", "a", {}),
    "zeros_like": ("zeros_like", "a", {}),
}
_CREATION = {
    "arange": "_arange",
    "eye": "_eye",
    "full": "_full",
    "identity": "_eye",
    "linspace": "_linspace",
    "ones": "_ones",
    "zeros": "_zeros",
}
_CREATION_NAMES = {"fill_value": "value", "n": "N"}


def _arguments(name: str, like: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return those arguments of a call, by name, that differ from their defaults."""
    signature = inspect.signature(like)
    given = bind_arguments(name, signature, args, kwargs).arguments
    options = given.pop("kwargs", {})
    defaults = {key: parameter.default for key, parameter in signature.parameters.items()}
    return {
        key: value
        for key, value in {**given, **options}.items()
        if isinstance(value, Symbol) or value is not defaults.get(key)
    }


def _options(name: str, op: str, given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return an operator's parameters; raise if it has none for one of the arguments."""
    known = {param["name"] for param in _core.describe_op(op)["params"]} | {"name", "attr"}
    found = {names.get(key, key): value for key, value in given.items()}
    for key, value in found.items():
        if key not in known:
            raise NotSupportedError(
                f"{name}: {key} must have its default for a Symbol, got {value!r}"
            )
    return found


def _of_operator(name: str, op: str, inputs: str, names: dict[str, str]) -> Any:
    like = getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        given = _arguments(name, like, args, kwargs)
        symbols = tuple(convert_symbols(given.pop(key, None)) for key in inputs.split())
        return compose(op, symbols, _options(name, op, given, names))

    return document(name, function, like)


def _of_shape(name: str, op: str) -> Any:
    like = getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        given = _arguments(name, like, args, kwargs)
        options = _options(name, op, given, _CREATION_NAMES)
        return compose(op, (), {"dtype": default_dtype(), **options}).as_np_ndarray()

    return document(name, function, like)


def _beside_number(name: str, x1: Any, x2: Any) -> Any:
    """Compose the operator of 1.9.1 for a symbol and a number."""
    op = f"_npi_{name}_scalar"
    if not isinstance(x1, Symbol):
        x1, x2, op = x2, x1, f"_npi_r{name}_scalar" if f"_npi_r{name}_scalar" in OPERATORS else op
    return compose_call(op, [x1], {"scalar": float(x2), "is_int": isinstance(x2, int)})


def _of_sign(name: str, sign: str) -> Any:
    call, reflected = _core.numpy_operators(sign)
    with_number = f"_npi_{name}_scalar" in OPERATORS

    def function(x1: Any, x2: Any) -> Any:
        if not isinstance(x1, Symbol) and not isinstance(x2, Symbol):
            raise TypeError_(f"{name}: x1 or x2 must be a Symbol, got {x1!r} and {x2!r}")
        if with_number and not (isinstance(x1, Symbol) and isinstance(x2, Symbol)):
            return _beside_number(name, x1, x2)
        if isinstance(x1, Symbol):
            return call(x1.as_np_ndarray(), convert_symbols(x2))
        return reflected(x2.as_np_ndarray(), x1)

    return document(name, function, getattr(np, name))


def _of_value(name: str, op: str) -> Any:
    def function(x: Symbol, **kwargs: Any) -> Any:
        return compose(op, (convert_symbols(x),), kwargs)

    return document(name, function, getattr(np, name))


def _of_function(name: str, function: Callable[..., Any]) -> Any:
    """Return a function of npx that composes symbols if its arguments are symbols."""

    def call(*args: Any, **kwargs: Any) -> Any:
        options = {key: convert_symbols(value) for key, value in kwargs.items()}
        return function(*(convert_symbols(value) for value in args), **options)

    return document(name, call, function)


def reshape(a: Symbol, newshape: Any, order: str = "C") -> Any:
    """Return the values in another shape, which may contain -1 (inferred) but not 0."""
    shape = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    if 0 in shape or order != "C":
        raise NotSupportedError(
            f"reshape: newshape must have no 0 and order must be 'C' for a Symbol, got {newshape} "
            f"and {order!r}"
        )
    return functions.reshape(convert_symbols(a), shape)


def npx_reshape(a: Symbol, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """Return the values in another shape; see ``mx.npx.reshape`` for its codes."""
    codes = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    if -3 in codes:
        return compose_call("_npx_reshape", [a], {"newshape": codes, "reverse": reverse})
    return functions.reshape(convert_symbols(a), codes, reverse, order)


def ravel(a: Symbol) -> Any:
    """Return the values along one axis."""
    return reshape(a, (-1,))


def outer(a: Symbol, b: Symbol) -> Any:
    """Return the products of all pairs of elements."""
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


def vdot(a: Symbol, b: Symbol) -> Any:
    """Return the inner product of the flattened values."""
    return _np["sum"](ravel(a) * ravel(b))


def inner(a: Symbol, b: Symbol) -> Any:
    """Return the sums of products over the last axes."""
    return tensordot(a, b, ((-1,), (-1,)))


def tensordot(a: Symbol, b: Symbol, axes: Any = 2) -> Any:
    """Return the sums of products over axes: a number of them, or two sequences."""
    if isinstance(axes, int):
        return compose_call("_npi_tensordot_int_axes", [a, b], {"axes": axes})
    left, right = ((part,) if isinstance(part, int) else tuple(part) for part in axes)
    return compose_call("_npi_tensordot", [a, b], {"a_axes_summed": left, "b_axes_summed": right})


def append(arr: Symbol, values: Symbol, axis: int | None = None) -> Any:
    """Join two symbols along an axis; for None, flattened."""
    return concatenate([arr, values], axis)


def concatenate(seq: Any, axis: int | None = 0) -> Any:
    """Join symbols along an axis; for None, flattened."""
    parts = [convert_symbols(a) for a in seq]
    if axis is None:
        parts, axis = [ravel(a) for a in parts], 0
    return compose("Concat", tuple(parts), {"dim": axis})


def stack(arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    """Join symbols of one shape along a new axis."""
    return compose("stack", tuple(convert_symbols(list(arrays))), {"axis": axis, **kwargs})


def flip(m: Symbol, axis: Any = None) -> Any:
    """Return the elements in reverse order along axes; for None, along all axes."""
    if axis is None:
        return compose_call("_npi_flip", [m], {"axis": "None"})
    return compose("reverse", (convert_symbols(m),), {"axis": axis})


def fliplr(m: Symbol) -> Any:
    """Return the columns in reverse order."""
    return flip(m, 1)


def flipud(m: Symbol) -> Any:
    """Return the rows in reverse order."""
    return flip(m, 0)


def where(condition: Symbol, x: Any, y: Any) -> Any:
    """Return x where the condition is not 0, else y; both may be symbols or numbers."""
    symbols = [isinstance(value, Symbol) for value in (x, y)]
    inputs = [value for value in (condition, x, y) if isinstance(value, Symbol)]
    if all(symbols):
        return compose_call("_npi_where", inputs, {})
    if not any(symbols):
        return compose_call("_npi_where_scalar2", inputs, {"x": float(x), "y": float(y)})
    side, number = ("r", y) if symbols[0] else ("l", x)
    return compose_call(f"_npi_where_{side}scalar", inputs, {"scalar": float(number)})


def ldexp(x1: Any, x2: Any) -> Any:
    """Return x1 * 2**x2."""
    if isinstance(x1, Symbol) and isinstance(x2, Symbol):
        return compose_call("_npi_ldexp", [x1, x2], {})
    return _beside_number("ldexp", x1, x2)


def isneginf(x: Symbol) -> Any:
    """Return whether elements are infinite and negative."""
    return compose_call("_npi_isneginf", [x], {})


def isposinf(x: Symbol) -> Any:
    """Return whether elements are infinite and positive."""
    return compose_call("_npi_isposinf", [x], {})


def argsort(a: Symbol, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """Return the indices that sort the elements along an axis."""
    refuse_order(order, "argsort")
    return compose("argsort", (convert_symbols(a),), {"axis": axis, "dtype": "int64"})


def clip(a: Symbol, a_min: float | None, a_max: float | None) -> Any:
    """Return the elements limited to [a_min, a_max]; None is no limit."""
    low, high = (-math.inf if a_min is None else a_min), (math.inf if a_max is None else a_max)
    return compose("clip", (convert_symbols(a),), {"a_min": low, "a_max": high})


def take(a: Symbol, indices: Symbol, axis: int | None = None, mode: str = "raise") -> Any:
    """Return elements by their indices along an axis; for None, in the flattened symbol."""
    if axis is None:
        a, axis = ravel(a), 0
    return compose(
        "take", (convert_symbols(a), convert_symbols(indices)), {"axis": axis, "mode": mode}
    )


def quantile(a: Symbol, q: Any, axis: Any = None, **kwargs: Any) -> Any:
    """Return quantiles; see ``mx.np.quantile``."""
    return _np["percentile"](a, q * 100, axis, **kwargs)


def _span(obj: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the input and the attributes for an index of delete or insert."""
    if isinstance(obj, Symbol):
        return [obj], {}
    if isinstance(obj, slice):
        return [], {"start": obj.start, "stop": obj.stop, "step": obj.step or 1}
    return [], {"int_ind": operator.index(obj)}


def delete(arr: Symbol, obj: Any, axis: int | None = None) -> Any:
    """Return the elements along an axis without those at an index, a slice or indices."""
    inputs, attrs = _span(obj)
    return compose_call("_npi_delete", [arr, *inputs], {**attrs, "axis": axis})


def insert(arr: Symbol, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return the elements along an axis with values before an index, a slice or indices."""
    inputs, attrs = _span(obj)
    kind = "tensor" if inputs else "slice" if isinstance(obj, slice) else "scalar"
    if isinstance(values, Symbol):
        inputs = [values, *inputs]
    else:
        attrs["val"] = values
    return compose_call(f"_npi_insert_{kind}", [arr, *inputs], {**attrs, "axis": axis})


def split(ary: Symbol, indices_or_sections: Any, axis: int = 0) -> Any:
    """Return the parts of a symbol along an axis, as a symbol of several outputs."""
    parts: Any = symbol.split_v2(convert_symbols(ary), indices_or_sections, axis)
    return parts


def vsplit(ary: Symbol, indices_or_sections: Any) -> Any:
    """Return the parts along axis 0."""
    return split(ary, indices_or_sections, 0)


def _of_split(name: str, axis: int) -> Any:
    def function(ary: Symbol, indices_or_sections: Any) -> Any:
        attrs: dict[str, Any] = {"axis": axis, "squeeze_axis": False}
        if isinstance(indices_or_sections, int):
            attrs.update(indices=[], sections=indices_or_sections)
        else:
            attrs.update(indices=[0, *indices_or_sections], sections=0)
        return compose_call(f"_npi_{name}", [ary], attrs)

    return document(name, function, getattr(np, name))


_COMPOSED = {
    function.__name__: function
    for function in (
        append, argsort, clip, concatenate, delete, flip, fliplr, flipud, inner, insert, isneginf,
        isposinf, ldexp, outer, quantile, ravel, reshape, split, stack, take, tensordot, vdot,
        vsplit, where,
    )
}  # fmt: skip

# Functions by the operators that 1.9.1 writes for them; the operators are in `file_operators`.
_CALLS = {
    "all": "_np_all",
    "any": "_np_any",
    "empty_like": "Custom/empty_like_fallback",
    "may_share_memory": "_npi_share_memory",
    "resize": "Custom/resize_fallback",
    "row_stack": "_npi_vstack",
    "shares_memory": "_npi_share_memory",
    "sometrue": "_np_any",
    "unravel_index": "Custom/unravel_index_fallback",
    **{
        name: f"_np_{name}"
        for name in (
            "atleast_1d", "atleast_2d", "atleast_3d", "diagflat", "diagonal", "moveaxis", "roll",
            "trace",
        )
    },
    **{
        name: f"_npi_{name}"
        for name in (
            "around", "average", "bincount", "blackman", "column_stack", "diag_indices_from",
            "diff", "dstack", "ediff1d", "full_like", "hamming", "hanning", "hstack", "indices",
            "logspace", "nan_to_num", "pad", "percentile", "polyval", "rot90", "std", "tril",
            "triu", "unique", "var", "vstack",
        )
    },
}  # fmt: skip


def einsum(subscripts: str, *operands: Symbol, optimize: Any = False) -> Any:
    """Return sums of products by Einstein's convention; see ``mx.np.einsum``."""
    attrs = {"num_args": len(operands), "subscripts": subscripts, "optimize": int(bool(optimize))}
    return compose_call("_npi_einsum", operands, attrs)


def _module(path: str, doc: str, names: dict[str, Any]) -> types.ModuleType:
    """Make a submodule of mx.sym."""
    module = types.ModuleType(f"{symbol.__name__}.{path}", doc)
    vars(module).update(names, __all__=sorted(names))
    sys.modules[module.__name__] = module
    return module


def load(fname: Any) -> NumpySymbol:
    """Read a symbol of numpy mode from a file; see ``mx.sym.load``."""
    return NumpySymbol(symbol.load(fname)._outputs)


def load_json(json_str: str) -> NumpySymbol:
    """Read a symbol of numpy mode from JSON text; see ``mx.sym.load``."""
    return NumpySymbol(symbol.load_json(json_str)._outputs)


_signs = {name: row[0] for name, row in elementwise._BINARY.items()}
_np: dict[str, Any] = {
    **{name: _of_value(name, row[0]) for name, row in elementwise._UNARY.items()},
    **{name: _of_sign(name, sign) for name, sign in _signs.items()},
    **{name: _of_operator(name, *row) for name, row in _FUNCTIONS.items()},
    **{name: _of_shape(name, op) for name, op in _CREATION.items()},
    **make_functions(_CALLS, np),
    **_COMPOSED,
    "array_split": split,
    "dsplit": _of_split("dsplit", 2),
    "einsum": einsum,
    "fabs": _of_value("absolute", "abs"),
    "histogram": document("histogram", symbol.histogram, np.histogram),
    "hsplit": _of_split("hsplit", 1),
    "load": load,
    "load_json": load_json,
}
_np.update(
    (alias, _np[name]) for alias, name in elementwise._ALIASES.items() if name in _np
)  # fmt: skip
_np.update(product=_np["prod"], round=_np["around"], round_=_np["around"])
_npx = {
    name: _of_function(name, vars(module)[name])
    for module in (operators, functions, control_flow)
    for name in module.__all__
    if callable(vars(module)[name])
}
_npx["reshape"] = npx_reshape
_npx.update(
    (name, make_function(name, f"_npx_{name}", getattr(functions, name)))
    for name in ("constraint_check", "nonzero")
)
_modules = {
    "np": ("NumPy's functions on symbols.", _np, {"random": np_random, "linalg": np_linalg}),
    "npx": ("Operators for networks on symbols of numpy mode.", _npx, {
        "random": npx_random,
        "image": {n: _of_function(n, vars(image)[n]) for n in image.OPERATORS},
    }),
}  # fmt: skip
for _path, (_doc, _names, _children) in _modules.items():
    _made = _module(_path, _doc, _names)
    for _child, _content in _children.items():
        setattr(_made, _child, _module(f"{_path}.{_child}", _doc, _content))
    setattr(symbol, _path, _made)
_np_module: Any = symbol.np  # type: ignore[attr-defined]
_np_module._Symbol = NumpySymbol
for _name in ("argmax", "argmin", "clip", "cumsum", "dot", "max", "mean", "min", "prod", "repeat",
              "reshape", "split", "squeeze", "std", "sum", "swapaxes", "take", "var"):  # fmt: skip
    setattr(NumpySymbol, _name, _np[_name])
