"""Comparison of arrays; errors show the elements with the largest differences."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .tolerance import Tolerance, get_etol, get_tols

__all__ = [
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "checkShapes",
    "compare_ndarray_tuple",
    "locationError",
    "same",
    "same_array",
]

Values = np.ndarray[Any, Any]


def _numpy(value: Any) -> Values:
    """Return a dense NumPy array of an array of any kind or of a number."""
    return value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def same(a: Any, b: Any) -> bool:
    """Return whether two arrays, of mxlite or NumPy, have equal shape and elements."""
    return np.array_equal(_numpy(a), _numpy(b))


def same_array(array1: Any, array2: Any) -> bool:
    """Return whether two NDArrays share memory, by changing one of them.

    Both keep their values.
    """
    first, second = array1.asnumpy(), array2.asnumpy()
    array1[:] = first + 1
    changed = same(array1.asnumpy().reshape(-1), array2.asnumpy().reshape(-1))
    array1[:] = first
    return changed and first.size == second.size


def _difference(a: Values, b: Values, rtol: float, atol: float, equal_nan: bool) -> Values:
    """Return ``|a - b| / (atol + rtol * |b|)``; values above 1 differ too much, NaN differs."""
    kind = np.result_type(a, b)
    if kind.kind in "iub":
        a, b = a.astype(np.float64), b.astype(np.float64)
    elif kind.itemsize < 4:
        a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        absolute = np.where(np.equal(a, b), 0, np.abs(a - b))
        # The smallest positive number makes the quotient of two zeros 0.
        ratio = absolute / (atol + rtol * np.abs(b) + 1e-20)
        ratio = np.where(absolute == 0, 0, ratio)
    if equal_nan:
        ratio = np.where(np.isnan(a) & np.isnan(b), 0, ratio)
    return np.asarray(ratio, dtype=np.float64)


def locationError(  # noqa: N802 - the name of 1.x
    a: Any, b: Any, index: tuple[int, ...], names: tuple[str, str], maxError: bool = False
) -> str:
    """Return a text that describes one element of two arrays.

    Parameters
    ----------
    a, b : numpy.ndarray
    index : tuple of int
    names : tuple of str
        Names of the arrays.
    maxError : bool
        Say that it is the largest error.
    """
    word = "maximum " if maxError else ""
    at = tuple(int(i) for i in index)
    left, right = float(a[at]), float(b[at])
    return f"Location of {word}error: {at}, {names[0]}={left:.8f}, {names[1]}={right:.8f}"


def checkShapes(a: Any, b: Any) -> None:  # noqa: N802 - the name of 1.x
    """Raise an AssertionError if two arrays have different shapes."""
    if a.shape != b.shape:
        raise AssertionError(
            f"\nItems are not equal: a.shape = {a.shape} and b.shape = {b.shape} are not equal"
            + _both(a, b)
        )


def _both(a: Values, b: Values) -> str:
    return f"\n ACTUAL: {a!r}\n DESIRED: {b!r}"


def _place(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(index), shape))


def _report(
    a: Values,
    b: Values,
    ratio: Values,
    tolerances: tuple[float, float],
    names: tuple[str, str],
    mismatches: tuple[int, int],
) -> str:
    """Return the text about all elements that differ too much; print the worst ones."""
    rtol, atol = tolerances
    wrong = ~(ratio <= 1)
    count = int(wrong.sum())
    rank = np.where(np.isnan(ratio), np.inf, ratio).reshape(-1)
    # Elements that are not numbers come first.
    order = np.argsort(-rank, kind="stable")[: min(count, mismatches[0])]
    places = [_place(i, ratio.shape) for i in order]
    print(
        f"\n*** Maximum errors for vector of size {ratio.size}:  rtol={rtol}, atol={atol}\n",
        *(
            f"{i + 1:3d}: Error {ratio[p]:.6f}  {locationError(a, b, p, names)}"
            for i, p in enumerate(places)
        ),
        sep="\n",
    )
    worst = places[0] if places else _place(np.argmax(rank), ratio.shape)
    return (
        f"\nItems are not equal:\nError {ratio[worst]:.6f} exceeds tolerance rtol={rtol:e}, "
        f"atol={atol:e} (mismatch {100.0 * count / ratio.size:.6f}%).\n"
        f"{locationError(a, b, worst, names, maxError=True)}{_both(a, b)}"
    )


def _prepared(a: Any, b: Any, use_broadcast: bool) -> tuple[Values, Values]:
    """Return both as NumPy arrays of one shape."""
    left, right = _numpy(a), _numpy(b)
    if left.shape == right.shape:
        return left, right
    if use_broadcast:
        try:
            shape = np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            pass
        else:
            return np.broadcast_to(left, shape), np.broadcast_to(right, shape)
    checkShapes(left, right)
    raise AssertionError  # never reached, because the shapes differ


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise an error if arrays differ: ``|a - b| <= atol + rtol * |b|`` must hold everywhere.

    Parameters
    ----------
    a, b : NDArray, numpy.ndarray or number
    rtol, atol : float or dict of dtype to float, optional
        None: the default of the less precise of both dtypes.
    names : tuple of str
        Names of the arrays in the text.
    equal_nan : bool
        NaN equals NaN.
    use_broadcast : bool
        Shapes may differ if they broadcast.
    mismatches : tuple of int
        How many of the worst elements are printed.

    Raises
    ------
    AssertionError
        The message has the worst element and its place.
    """
    assert_almost_equal_with_err(
        a, b, rtol, atol, 0, names, equal_nan, mismatches, _use_broadcast=use_broadcast
    )


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
    *,
    _use_broadcast: bool = True,
) -> None:
    """Raise an error if more than a given fraction of the elements differ.

    Parameters
    ----------
    a, b, rtol, atol, names, equal_nan, mismatches
        As in :func:`assert_almost_equal`.
    etol : float, optional
        Share of the elements that may be wrong, 0 by default.

    Raises
    ------
    AssertionError
    """
    tolerances = get_tols(a, b, rtol, atol)
    left, right = _prepared(a, b, _use_broadcast)
    ratio = _difference(left, right, *tolerances, equal_nan)
    wrong = ~(ratio <= 1)
    if ratio.size and wrong.sum() > get_etol(etol) * ratio.size:
        raise AssertionError(_report(left, right, ratio, tolerances, names, mismatches))


def assert_allclose(
    a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True
) -> None:
    """Raise an error if arrays differ; arguments as in :func:`assert_almost_equal`.

    The defaults are those of ``numpy.testing.assert_allclose``.
    """
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Return whether arrays are almost equal; arguments as in :func:`assert_almost_equal`."""
    tolerances = get_tols(a, b, rtol, atol)
    try:
        left, right = _prepared(a, b, use_broadcast)
    except AssertionError:
        return False
    return bool((_difference(left, right, *tolerances, equal_nan) <= 1).all())


def assert_almost_equal_ignore_nan(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """Call `assert_almost_equal`, but ignore positions at which either array has a NaN."""
    left, right = np.array(_numpy(a)), np.array(_numpy(b))
    ignored = np.isnan(left) | np.isnan(right)
    left[ignored] = 0
    right[ignored] = 0
    assert_almost_equal(left, right, rtol, atol, names)


def assert_exception(
    f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any
) -> None:
    """Raise an AssertionError unless ``f(*args, **kwargs)`` raises an exception of a type.

    Other exceptions pass.
    """
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    name = getattr(f, "__name__", repr(f))
    raise AssertionError(f"{name} did not raise {exception_type.__name__}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Raise an error if two optimizer states differ: arrays, None, or tuples of arrays.

    Parameters
    ----------
    t1, t2 : NDArray, None or nested tuple
    rtol, atol : float or dict of dtype to float, optional
    """
    if t1 is None or t2 is None:
        assert t1 is t2, f"one state is None, the other {type(t2 if t1 is None else t1).__name__}"
        return
    if isinstance(t1, (tuple, list)):
        assert len(t1) == len(t2), f"states have {len(t1)} and {len(t2)} parts"
        for first, second in zip(t1, t2):
            compare_ndarray_tuple(first, second, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol, atol)
