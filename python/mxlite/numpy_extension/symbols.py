"""The functions of ``mx.sym.np`` and ``mx.sym.npx``, which compose symbols of numpy mode.

Each has the signature of its namesake in ``mx.np`` or ``mx.npx``. A function is missing here if its
operators depend on the shape of an array, because the shape of a symbol is unknown.
"""

from __future__ import annotations

import inspect
import math
import sys
import types
from typing import Any, Callable

import numpy as onp

from .. import _core, symbol
from .. import numpy as np
from .._core import compose
from ..base import NotSupportedError, TypeError_
from ..numpy import elementwise
from ..numpy.arguments import default_dtype, named
from ..symbol import Symbol
from ..symbol.numpy_symbol import NumpySymbol
from . import control_flow, functions, image, operators, random

__all__: list[str] = []

# Functions of one operator, by name: the operator, the arguments that are symbols, and those other
# arguments that the operator calls by another name.
_FUNCTIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "amax": ("_np_max", "a", {}),
    "amin": ("_np_min", "a", {}),
    "argmax": ("_npi_argmax", "a", {}),
    "argmin": ("_npi_argmin", "a", {}),
    "argsort": ("argsort", "a", {}),
    "broadcast_to": ("broadcast_to", "array", {}),
    "clip": ("clip", "a", {}),
    "copy": ("_copy", "a", {}),
    "cumsum": ("cumsum", "a", {}),
    "diag": ("diag", "array", {}),
    "dot": ("_np_dot", "a b", {}),
    "expand_dims": ("expand_dims", "a", {}),
    "flip": ("reverse", "m", {}),
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
    "take": ("take", "a indices", {}),
    "tile": ("tile", "A", {}),
    "transpose": ("transpose", "a", {}),
    "where": ("where", "condition x y", {}),
    "zeros_like": ("zeros_like", "a", {}),
}
_LISTS = {
    "concatenate": ("Concat", "dim"),
    "stack": ("stack", "axis"),
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
_LINALG = {
    "cholesky": "_linalg_potrf",
    "inv": "_linalg_inverse",
    "qr": "_npi_qr",
    "svd": "_npi_svd",
}
_RANDOM = ("exponential", "gamma", "normal", "poisson", "randint", "uniform")


def _symbols(value: Any) -> Any:
    """Return a Symbol, or a list of Symbols, as symbols of numpy mode."""
    if isinstance(value, Symbol):
        return value.as_np_ndarray()
    return [_symbols(v) for v in value] if isinstance(value, (list, tuple)) else value


def _named(name: str, function: Any, like: Any) -> Any:
    return named(function, name, f"Compose a symbol of ``{name}``.\n\n{inspect.getdoc(like) or ''}")


def _arguments(name: str, like: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return those arguments of a call, by name, that differ from their defaults."""
    signature = inspect.signature(like)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError_(f"{name}: {error}") from None
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
        symbols = tuple(_symbols(given.pop(key, None)) for key in inputs.split())
        return compose(op, symbols, _options(name, op, given, names))

    return _named(name, function, like)


def _of_list(name: str, op: str, axis: str) -> Any:
    like = getattr(np, name)

    def function(arrays: Any, axis_number: int = 0, **kwargs: Any) -> Any:
        number = kwargs.pop("axis", axis_number)
        return compose(op, tuple(_symbols(list(arrays))), {axis: number, **kwargs})

    return _named(name, function, like)


def _of_shape(name: str, op: str) -> Any:
    like = getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        given = _arguments(name, like, args, kwargs)
        options = _options(name, op, given, _CREATION_NAMES)
        return compose(op, (), {"dtype": default_dtype(), **options}).as_np_ndarray()

    return _named(name, function, like)


def _of_sign(name: str, sign: str) -> Any:
    call, reflected = _core.numpy_operators(sign)

    def function(x1: Any, x2: Any) -> Any:
        if isinstance(x1, Symbol):
            return call(x1.as_np_ndarray(), _symbols(x2))
        if not isinstance(x2, Symbol):
            raise TypeError_(f"{name}: x1 or x2 must be a Symbol, got {x1!r} and {x2!r}")
        return reflected(x2.as_np_ndarray(), x1)

    return _named(name, function, getattr(np, name))


def _of_value(name: str, op: str) -> Any:
    def function(x: Symbol, **kwargs: Any) -> Any:
        return compose(op, (_symbols(x),), kwargs)

    return _named(name, function, getattr(np, name))


def _of_linalg(name: str, op: str) -> Any:
    def function(a: Symbol) -> Any:
        return compose(op, (_symbols(a),), {})

    return _named(name, function, getattr(np.linalg, name))


def _of_function(name: str, function: Callable[..., Any]) -> Any:
    """Return a function of npx that composes symbols if its arguments are symbols."""

    def call(*args: Any, **kwargs: Any) -> Any:
        options = {key: _symbols(value) for key, value in kwargs.items()}
        return function(*(_symbols(value) for value in args), **options)

    return _named(name, call, function)


def reshape(a: Symbol, newshape: Any, order: str = "C") -> Any:
    """Return the values in another shape, which may contain -1 (inferred) but not 0."""
    shape = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    if 0 in shape or order != "C":
        raise NotSupportedError(
            f"reshape: newshape must have no 0 and order must be 'C' for a Symbol, got {newshape} "
            f"and {order!r}"
        )
    return functions.reshape(_symbols(a), shape)


def split(ary: Symbol, indices_or_sections: Any, axis: int = 0) -> Any:
    """Return the parts of a symbol along an axis, as a symbol of several outputs."""
    parts: Any = symbol.split_v2(_symbols(ary), indices_or_sections, axis)
    return parts


def var(a: Symbol, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the variance over axes."""
    mean, total = _np["mean"], _np["square"]
    return mean(
        total(_symbols(a) - mean(a, axis=axis, keepdims=True)), axis=axis, keepdims=keepdims
    )


def std(a: Symbol, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the standard deviation over axes."""
    return _np["sqrt"](var(a, axis, keepdims))


def ravel(a: Symbol) -> Any:
    """Return the values along one axis."""
    return reshape(a, (-1,))


def outer(a: Symbol, b: Symbol) -> Any:
    """Return the products of all pairs of elements."""
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


def vdot(a: Symbol, b: Symbol) -> Any:
    """Return the inner product of the flattened values."""
    return _np["sum"](ravel(a) * ravel(b))


def full_like(a: Symbol, fill_value: float) -> Any:
    """Return a symbol of one value in the shape of another."""
    return _np["ones_like"](a) * fill_value


def any_(a: Symbol, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether an element is not 0."""
    return _np["max"](_symbols(a) != 0, axis=axis, keepdims=keepdims)


def all_(a: Symbol, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether no element is 0."""
    return _np["min"](_symbols(a) != 0, axis=axis, keepdims=keepdims)


def isposinf(x: Symbol) -> Any:
    """Return whether elements are infinite and positive."""
    return _symbols(x) == math.inf


def isneginf(x: Symbol) -> Any:
    """Return whether elements are infinite and negative."""
    return _symbols(x) == -math.inf


def fliplr(m: Symbol) -> Any:
    """Return the columns in reverse order."""
    return _np["flip"](m, 1)


def flipud(m: Symbol) -> Any:
    """Return the rows in reverse order."""
    return _np["flip"](m, 0)


def _with_axes(a: Symbol, count: int) -> Any:
    """Return the symbol with leading axes of length 1 if it has fewer axes than ``count``."""
    one = _np["ones_like"](_np["max"](a))
    return _symbols(a) * reshape(one, (1,) * count)


def _at_end(a: Symbol, count: int) -> Any:
    """Return the symbol with trailing axes of length 1 if it has fewer axes than ``count``."""
    return _np["transpose"](_with_axes(_np["transpose"](a), count))


def vstack(arrays: Any) -> Any:
    """Join symbols along axis 0; vectors are rows."""
    return _np["concatenate"]([_with_axes(a, 2) for a in arrays], axis=0)


def dstack(arrays: Any) -> Any:
    """Join symbols along axis 2; matrices get a last axis."""
    return _np["concatenate"]([_at_end(_with_axes(a, 2), 3) for a in arrays], axis=2)


def column_stack(tup: Any) -> Any:
    """Join symbols along axis 1; vectors are columns."""
    return _np["concatenate"]([_at_end(a, 2) for a in tup], axis=1)


def _cut(a: Symbol, axis: int, begin: int, end: int | None) -> Any:
    return compose("slice_axis", (_symbols(a),), {"axis": axis, "begin": begin, "end": end})


def roll(a: Symbol, shift: Any, axis: Any = None) -> Any:
    """Return the elements moved along axes; a shift must be at most as long as its axis."""
    if axis is None:
        return compose("reshape_like", (roll(ravel(a), shift, 0), _symbols(a)), {})
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    for by, along in onp.broadcast(shifts, axes):
        if by:
            parts = [_cut(a, along, int(-by), None), _cut(a, along, 0, int(-by))]
            a = _np["concatenate"](parts, axis=int(along))
    return _symbols(a)


def _triangle(m: Symbol, k: int, is_lower: bool) -> Any:
    m = _symbols(m)
    row, column = (compose("_contrib_arange_like", (m,), {"axis": axis}) for axis in (-2, -1))
    row = reshape(row, (-1, 1)) + k
    kept = row >= column if is_lower else row <= column
    return _np["where"](compose("broadcast_like", (kept, m), {}), m, _np["zeros_like"](m))


def tril(m: Symbol, k: int = 0) -> Any:
    """Return matrices with zeros above the k-th diagonal."""
    return _triangle(m, k, True)


def triu(m: Symbol, k: int = 0) -> Any:
    """Return matrices with zeros below the k-th diagonal."""
    return _triangle(m, k, False)


def diagonal(a: Symbol, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonals of two axes, which become the last axis."""
    swapped = _np["swapaxes"](a, axis1, axis2)  # raises for vectors, of which diag makes a matrix
    return compose("diag", (swapped,), {"k": -offset, "axis1": axis1, "axis2": axis2})


def trace(a: Symbol, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the sums along the diagonals of two axes."""
    return _np["sum"](diagonal(a, offset, axis1, axis2), axis=-1)


def pad(x: Symbol, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Any:
    """Return the symbol with a number before and after its elements.

    ``pad_width`` has a pair for every axis, of which none is empty.
    """
    if mode != "constant" or onp.shape(pad_width)[1:] != (2,) or onp.ndim(constant_values):
        raise NotSupportedError(
            "pad: a Symbol needs mode 'constant', one constant value and a pad_width of a pair "
            f"for every axis, got {mode!r}, {constant_values!r} and {pad_width!r}"
        )
    for axis, counts in enumerate(pad_width):
        edge = full_like(_cut(x, axis, 0, 1), constant_values)
        before, after = (_np["repeat"](edge, int(n), axis) if n else None for n in counts)
        x = _np["concatenate"]([p for p in (before, x, after) if p is not None], axis=axis)
    return _symbols(x)


def tensordot(a: Symbol, b: Symbol, axes: Any = 2) -> Any:
    """Return the sum of products over the last ``axes`` axes of a and the first ones of b."""
    if not isinstance(axes, int) or axes < 0:
        raise NotSupportedError(f"tensordot: axes of a Symbol must be a number, got {axes!r}")
    a, b = _np["expand_dims"](a, 0), _symbols(b)  # the product of vectors has an axis, too
    if not axes:
        a, b = _np["expand_dims"](a, -1), _np["expand_dims"](b, 0)
    for _ in range(axes - 1):
        a = compose("Reshape", (a,), {"shape": (-2, -3), "reverse": True})
        b = compose("Reshape", (b,), {"shape": (-3, -2)})
    return _np["max"](compose("dot", (a, b), {}), axis=0)


def _of_matrices(op: str, a: Symbol) -> list[Any]:
    """Return an operator's numbers of matrices; for one matrix, they have no axis."""
    found = compose(op, (_np["expand_dims"](a, 0),), {})
    return [_np["max"](part, axis=0) for part in found]


def det(a: Symbol) -> Any:
    """Return the determinants of square matrices."""
    return _of_matrices("linalg_det", a)[0]


def slogdet(a: Symbol) -> list[Any]:
    """Return [signs, logarithms of the absolute values] of the determinants."""
    return _of_matrices("linalg_slogdet", a)


def solve(a: Symbol, b: Symbol) -> Any:
    """Return x of ``a @ x = b``, where b has as many axes as a."""
    return compose("_npi_solve", (_symbols(a), _symbols(b)), {})


def eigh(a: Symbol) -> list[Any]:
    """Return [eigenvalues in ascending order, eigenvectors] of symmetric matrices."""
    rows, values = compose("linalg_syevd", (_symbols(a),), {})
    return [values, _np["swapaxes"](rows, -1, -2)]


def eigvalsh(a: Symbol) -> Any:
    """Return the eigenvalues of symmetric matrices in ascending order."""
    return eigh(a)[0]


def pinv(a: Symbol, rcond: float) -> Any:
    """Return the pseudo-inverses; see ``mx.np.linalg.pinv``."""
    limit = full_like(_np["max"](a, axis=(-2, -1)), rcond)
    return compose("_npi_pinv", (_symbols(a), limit), {})


_COMPOSED = {
    function.__name__: function
    for function in (
        column_stack, diagonal, dstack, fliplr, flipud, full_like, isneginf, isposinf, outer, pad,
        ravel, reshape, roll, split, std, tensordot, trace, tril, triu, var, vdot, vstack,
    )
}  # fmt: skip
_COMPOSED_LINALG = {f.__name__: f for f in (det, eigh, eigvalsh, pinv, slogdet, solve)}


def _drawn(name: str) -> Any:
    draw = getattr(symbol.random, name)

    def function(*args: Any, size: Any = None, ctx: Any = None, **kwargs: Any) -> Any:
        shape = (1,) if size is None else (size,) if isinstance(size, int) else tuple(size)
        drawn = draw(*args, shape=shape, **kwargs).as_np_ndarray()
        return drawn if size is not None else drawn[0]

    return _named(name, function, getattr(np.random, name))


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
    **{name: _of_list(name, *row) for name, row in _LISTS.items()},
    **{name: _of_shape(name, op) for name, op in _CREATION.items()},
    **_COMPOSED,
    "all": all_,
    "any": any_,
    "fabs": _of_value("absolute", "abs"),
    "load": load,
    "load_json": load_json,
}
_np.update(
    (alias, _np[name]) for alias, name in elementwise._ALIASES.items() if name in _np
)  # fmt: skip
_npx = {
    name: _of_function(name, vars(module)[name])
    for module in (operators, functions, control_flow)
    for name in module.__all__
    if callable(vars(module)[name]) and name not in ("nonzero", "constraint_check")
}
_modules = {
    "np": ("NumPy's functions on symbols.", _np, {
        "random": {name: _drawn(name) for name in _RANDOM},
        "linalg": {
            **{name: _of_linalg(name, op) for name, op in _LINALG.items()}, **_COMPOSED_LINALG,
        },
    }),
    "npx": ("Operators for networks on symbols of numpy mode.", _npx, {
        "random": {"seed": random.seed},
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
