"""The Python array API standard over np arrays: ``mx.np.array_api``.

``array.__array_namespace__()`` returns this module, so that libraries which accept any array of
the standard (SciPy, scikit-learn) run on np arrays. It differs from ``mx.np`` only where the
standard requires it: Python integers and lists of integers become int64. Floats are float32 by
default. Complex dtypes and the fft extension are missing.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..base import TypeError_, ValueError_
from ..context import Context, cpu, current_context, gpu, num_gpus
from . import (
    creation,
    dtypes,
    elementwise,
    grids,
    joining,
    manipulation,
    products,
    reductions,
    sets,
    sorting,
    statistics,
)
from . import (
    linalg as _linalg,
)
from .arguments import default_dtype, set_name
from .ndarray import ndarray

__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

# Functions of mx.np that conform to the standard unchanged.
_SAME = {
    elementwise: """
        abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert
        bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos
        cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite
        isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
        logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow
        real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc
    """,
    creation: "empty_like ones_like zeros_like full_like",
    grids: "meshgrid tril triu",
    joining: "stack unstack",
    manipulation: """
        broadcast_arrays broadcast_to expand_dims flip moveaxis permute_dims
        repeat roll tile matrix_transpose
    """,
    products: "matmul tensordot vecdot",
    dtypes: "astype can_cast isdtype result_type",
    reductions: "all any max mean min std var argmax argmin",
    sets: "unique_all unique_counts unique_inverse unique_values",
    sorting: "count_nonzero nonzero searchsorted take take_along_axis where",
    statistics: "diff",
}
_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
_CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}

__all__ = [  # noqa: PLE0604 - partly from the tables above
    "__array_api_version__",
    "__array_namespace_info__",
    "arange",
    "argsort",
    "asarray",
    "clip",
    "concat",
    "cumulative_prod",
    "cumulative_sum",
    "empty",
    "eye",
    "finfo",
    "from_dlpack",
    "full",
    "iinfo",
    "linalg",
    "linspace",
    "ones",
    "prod",
    "reshape",
    "sort",
    "squeeze",
    "sum",
    "zeros",
    *_CONSTANTS,
    *_DTYPES,
    *(name for names in _SAME.values() for name in names.split()),
]

for _module, _names in _SAME.items():
    for _name in _names.split():
        globals()[_name] = getattr(_module, _name)
globals().update(_CONSTANTS)
globals().update({name: np.dtype(name) for name in _DTYPES})


def finfo(type: Any, /) -> Any:  # noqa: A002 - the standard's name
    """Return the limits of a floating dtype as Python floats; an array stands for its dtype."""
    limits = np.finfo(type.dtype if isinstance(type, ndarray) else type)
    numbers = {key: float(getattr(limits, key)) for key in ("eps", "max", "min", "smallest_normal")}
    return SimpleNamespace(bits=int(limits.bits), dtype=limits.dtype, **numbers)


def iinfo(type: Any, /) -> Any:  # noqa: A002 - the standard's name
    """Return the limits of an integer dtype; an array stands for its dtype."""
    return np.iinfo(type.dtype if isinstance(type, ndarray) else type)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> ndarray:
    """Return an array on the memory of an object with ``__dlpack__``, or a copy."""
    result = creation.from_dlpack(x)
    if device is not None and result.ctx != device:
        if copy is False:
            raise ValueError_(
                f"from_dlpack: copy must be None or True for a copy to {device}, got False"
            )
        return result.to_device(device)
    return creation.copy(result) if copy else result


def check_version(version: str | None) -> None:
    """Raise if the namespace does not implement a version of the standard."""
    if version is not None and version not in _VERSIONS:
        raise ValueError_(
            f"__array_namespace__: api_version must be one of {', '.join(_VERSIONS)}, got "
            f"{version!r}"
        )


def _default_dtype(values: Any, who: str) -> Any:
    kind = np.asarray(values).dtype.kind
    found = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": default_dtype()}.get(kind)
    if found is None:
        raise TypeError_(f"{who}: values must be bools, integers or floats, got {values!r}")
    return found


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None
) -> ndarray:
    """Return the object as array; lists of integers become int64, of floats float32."""
    if isinstance(obj, ndarray):
        return creation.asarray(obj, dtype, copy=copy, device=device)
    if copy is False:
        raise ValueError_(
            "asarray: copy must be None or True because this object has to be copied, got False"
        )
    if not isinstance(obj, np.ndarray):
        obj = creation.with_host_arrays(obj)
        if dtype is None:
            dtype = _default_dtype(obj, "asarray")
        obj = np.asarray(obj, np.dtype(dtype))
    return creation.array(obj, dtype, device=device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> ndarray:
    """Return start, start + step, ... below stop; int64 if all are integers."""
    if dtype is None:
        given = [v for v in (start, stop, step) if v is not None]
        dtype = np.int64 if builtins.all(isinstance(v, int) for v in given) else default_dtype()
    first, end = (0, start) if stop is None else (start, stop)
    if (end - first) * step <= 0:
        return empty((0,), dtype=dtype, device=device)
    return creation.arange(first, end, step, dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> ndarray:
    """Return an array of one value; int64 if it is an integer."""
    if dtype is None:
        dtype = _default_dtype(fill_value, "full")
    return creation.full(shape, fill_value, dtype, device=device)


def _maker(name: str) -> Callable[..., ndarray]:
    own = getattr(creation, name)

    def function(shape: Any, *, dtype: Any = None, device: Any = None) -> ndarray:
        return own(shape, dtype, device=device)

    return set_name(function, name, own.__doc__)


empty, ones, zeros = map(_maker, ("empty", "ones", "zeros"))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> ndarray:
    """Return a matrix with ones on the k-th diagonal, else zeros."""
    values = np.eye(n_rows, n_cols, k, dtype=default_dtype(dtype))
    return creation.array(values, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: builtins.bool = True,
) -> ndarray:  # fmt: skip
    """Return evenly spaced numbers from start to stop."""
    values = np.linspace(start, stop, num, endpoint, dtype=default_dtype(dtype))
    return creation.array(values, device=device)


def clip(x: ndarray, /, min: Any = None, max: Any = None) -> ndarray:  # noqa: A002
    """Return x limited to [min, max], which are numbers, arrays, or None for no limit."""
    if min is None and max is None:
        return creation.copy(x)
    return elementwise.clip(x, min, max)


def concat(arrays: Any, /, *, axis: int | None = 0) -> ndarray:
    """Return arrays joined along an axis; with None, the arrays are flattened first."""
    return joining.concatenate(arrays, axis=axis)


def reshape(x: ndarray, /, shape: Any, *, copy: builtins.bool | None = None) -> ndarray:
    """Return the array with another shape; a dimension may be -1."""
    result = manipulation.reshape(x, shape)
    return creation.copy(result) if copy else result


def squeeze(x: ndarray, /, axis: Any) -> ndarray:
    """Return the array without axes of size 1."""
    return manipulation.squeeze(x, axis)


def _wide(x: ndarray, dtype: Any) -> ndarray:
    """Return the array in a dtype; by default, integers become 64 bits wide."""
    kind = np.dtype(x.dtype).kind
    if dtype is None and kind in "iu":
        dtype = np.int64 if kind == "i" else np.uint64
    return x if dtype is None else x.astype(dtype, copy=False)  # type: ignore[return-value]


def _total(name: str) -> Callable[..., ndarray]:
    own = getattr(reductions, name)

    def function(
        x: ndarray, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False
    ) -> ndarray:
        wide = _wide(x, dtype)
        return own(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype)

    return set_name(function, name, own.__doc__)


sum, prod = map(_total, ("sum", "prod"))  # noqa: A001 - the standard's name


def _running(name: str) -> Callable[..., ndarray]:
    own = getattr(reductions, name)

    def function(
        x: ndarray, /, *, axis: int | None = None, dtype: Any = None,
        include_initial: builtins.bool = False,
    ) -> ndarray:  # fmt: skip
        return own(_wide(x, dtype), axis=axis, include_initial=include_initial)

    return set_name(function, name, own.__doc__)


cumulative_sum, cumulative_prod = map(_running, ("cumulative_sum", "cumulative_prod"))


def sort(
    x: ndarray, /, *, axis: int = -1, descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> ndarray:  # fmt: skip
    """Return the array sorted along an axis."""
    result = sorting.sort(x, axis)
    return manipulation.flip(result, axis) if descending else result


def argsort(
    x: ndarray, /, *, axis: int = -1, descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> ndarray:  # fmt: skip
    """Return the indices (int64) that sort the array along an axis; equal elements keep order."""
    if not descending:
        return sorting.argsort(x, axis, "stable")
    # Sorting the flipped array and flipping the result keeps the order of equal elements.
    order = manipulation.flip(sorting.argsort(manipulation.flip(x, axis), axis, "stable"), axis)
    return x.shape[axis] - 1 - order  # type: ignore[return-value]


class Info:
    """Description of the namespace: devices, dtypes and capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> Context:
        """Return the device on which arrays are made by default."""
        return current_context()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Return the default dtypes by kind; there is none for complex numbers."""
        names = {"real floating": default_dtype(), "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Return the dtypes of a kind by name."""
        found = {name: np.dtype(name) for name in _DTYPES}
        if kind is None:
            return found
        return {n: d for n, d in found.items() if dtypes.isdtype(d, kind)}

    def devices(self) -> list[Context]:
        """Return all devices."""
        return [cpu(), *(gpu(i) for i in range(num_gpus()))]


def __array_namespace_info__() -> Info:
    """Return the object that describes devices, dtypes and capabilities."""
    return Info()


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: ndarray
    logabsdet: ndarray


def _slogdet(x: ndarray, /) -> SlogdetResult:
    """Return signs and logarithms of the absolute values of determinants."""
    return SlogdetResult(*_linalg.slogdet(x))


def _solve(x1: ndarray, x2: ndarray, /) -> ndarray:
    """Return the solution of ``x1 @ x = x2``; x2 is a vector only if it has 1 dimension."""
    missing = x1.ndim - x2.ndim if x2.ndim > 1 else 0
    return _linalg.solve(x1, manipulation.reshape(x2, (1,) * builtins.max(missing, 0) + x2.shape))


def _svd(x: ndarray, /, *, full_matrices: builtins.bool = True) -> Any:
    """Return the singular value decomposition; see `numpy.linalg.svd`."""
    return _linalg.svd(x, full_matrices)


def _trace(x: ndarray, /, *, offset: int = 0, dtype: Any = None) -> ndarray:
    """Return sums of the diagonals of matrices; by default, integer sums are 64 bits wide."""
    return _linalg.trace(_wide(x, dtype), offset=offset)


#: The linalg extension of the standard.
linalg = SimpleNamespace(
    **{
        name: getattr(_linalg, name)
        for name in """
        cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr svdvals tensordot vecdot vector_norm
        """.split()
    },
    slogdet=_slogdet,
    solve=_solve,
    svd=_svd,
    trace=_trace,
)
