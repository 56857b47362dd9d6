"""The functions that `numpy_calls.py` calls, and how it draws their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp
from hypothesis import strategies as st
from numpy_arguments import (
    DTYPES,
    FLOATS,
    FULL,
    INTEGERS,
    NUMBERS,
    SHAPES,
    WIDE_FLOATS,
    Call,
    Draw,
    array,
    axis_of,
    broadcast,
    written,
)


def _given(draw: Draw, **options: Any) -> dict[str, Any]:
    """Draw which of the options are given."""
    return {key: draw(value) for key, value in options.items() if draw(st.booleans())}


def _view(draw: Draw) -> bool:
    return draw(st.booleans())


def _unary(dtypes: Any = NUMBERS, kind: str = "special", gradient: bool = True, **more: Any) -> Any:
    def make(draw: Draw, name: str) -> Call:
        a = array(draw, dtypes=dtypes, kind=kind)
        options = written(draw, name, a.shape)
        return Call(name, (a,), has_gradient=gradient, is_view=_view(draw), **more, **options)

    return make


def _binary(dtypes: Any = DTYPES, kind: str = "any", gradient: bool = True, **more: Any) -> Any:
    def make(draw: Draw, name: str) -> Call:
        a = array(draw, dtypes=dtypes, kind=kind)
        other = broadcast(draw, a.shape)
        b = array(draw, other, dtypes=dtypes, kind=kind)
        pair = (a, b) if draw(st.booleans()) else (b, a)
        options = written(draw, name, a.shape)
        return Call(
            name, pair, promoted=(0, 1), has_gradient=gradient, is_view=_view(draw),
            **more, **options,
        )  # fmt: skip

    return make


def _reduction(
    dtypes: Any = NUMBERS, many: bool = True, gradient: bool = True, **options: Any
) -> Any:
    def make(draw: Draw, name: str) -> Call:
        a = array(draw, dtypes=dtypes)
        kwargs = {"axis": axis_of(draw, a.ndim, many), **_given(draw, **options)}
        return Call(
            name, (a,), kwargs, has_gradient=gradient, is_view=_view(draw), looseness=10,
            **written(draw, name, a.shape),
        )  # fmt: skip

    return make


_KEEP = {"keepdims": st.booleans()}


def _shape_call(*arguments: Callable[[Draw, Any], Any], dtypes: Any = DTYPES, **more: Any) -> Any:
    """Return a function that draws a call with an array, and arguments that fit the array."""

    def make(draw: Draw, name: str) -> Call:
        a = array(draw, dtypes=dtypes)
        args = (a, *(argument(draw, a) for argument in arguments))
        return Call(name, args, is_view=_view(draw), **{"has_gradient": True, **more})

    return make


def _one_axis(draw: Draw, a: Any) -> int:
    return draw(st.integers(-a.ndim - 1, a.ndim))


def _reshape(draw: Draw, name: str) -> Call:
    a = array(draw)
    sizes = [1, a.size] if a.size else [0, 2]
    shape = draw(st.permutations([*sizes, -1][: draw(st.integers(1, 3))]))
    shape = draw(st.sampled_from([tuple(shape), tuple(reversed(a.shape)), (a.size, 1), -1]))
    return Call(name, (a, shape), has_gradient=True)


def _joined(draw: Draw, name: str) -> Call:
    shape = draw(SHAPES.filter(len))
    count = draw(st.integers(1, 3))
    arrays = [array(draw, shape) for _ in range(count)]
    kwargs = {}
    if name in ("concatenate", "stack"):
        kwargs = {"axis": draw(st.integers(-len(shape), len(shape)))}
    return Call(name, (arrays,), kwargs, promoted=(0,), has_gradient=True)


def _splits(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL))
    parts = draw(st.one_of(st.integers(1, 4), st.lists(st.integers(-2, 5), max_size=3)))
    with_axis = name in ("split", "array_split")
    kwargs = {"axis": draw(st.integers(-a.ndim, a.ndim - 1))} if with_axis else {}
    return Call(name, (a, parts), kwargs)


def _pad(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL))
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    pairs = st.lists(pair, min_size=a.ndim, max_size=a.ndim)
    widths = draw(st.one_of(st.integers(0, 2), pair, pairs))
    modes = ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum")
    return Call(name, (a, widths), {"mode": draw(st.sampled_from(modes))}, has_gradient=True)


def _take(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL))
    axis = draw(st.one_of(st.none(), st.integers(0, max(a.ndim - 1, 0))))
    indices = array(draw, dtypes=("int32", "int64"))
    mode = draw(st.sampled_from(("raise", "clip", "wrap")))
    return Call(name, (a, indices), {"axis": axis, "mode": mode}, can_trace=mode != "raise")


def _key(draw: Draw, shape: tuple[int, ...]) -> Any:
    """Draw an index of an array."""
    slices = st.builds(
        slice, *[st.one_of(st.none(), st.integers(-5, 5))] * 2,
        st.one_of(st.none(), st.sampled_from((-2, -1, 1, 2))),
    )  # fmt: skip
    parts = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        kinds = [slices, st.none(), st.integers(-extent - 1, extent)]
        if extent:
            kinds.append(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=3))
            kinds.append(st.lists(st.booleans(), min_size=extent, max_size=extent).map(onp.array))
        parts.append(draw(st.one_of(kinds)))
    if draw(st.integers(0, 4)) == 0:
        parts.append(Ellipsis)
    return tuple(parts) if len(parts) != 1 or draw(st.booleans()) else parts[0]


def _products(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL), NUMBERS)
    if name in ("dot", "matmul"):
        inner = a.shape[-1]
        shape = draw(st.sampled_from([(inner,), (inner, 2), (2, inner, 3), (3, 1)]))
    elif name == "inner":
        shape = (*draw(FULL)[:1], a.shape[-1])
    elif name == "vdot":
        shape = draw(st.sampled_from([a.shape, a.shape[::-1]]))
    else:
        shape = draw(FULL)
    b = array(draw, shape, NUMBERS)
    return Call(name, (a, b), promoted=(0, 1), has_gradient=True, looseness=10)


def _tensordot(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL), NUMBERS)
    count = draw(st.integers(0, a.ndim))
    shape = (*a.shape[a.ndim - count :], *draw(FULL)[:1])
    b = array(draw, shape, NUMBERS)
    pairs = (list(range(a.ndim - count, a.ndim)), list(range(count)))
    axes = draw(st.sampled_from([count, pairs]))
    return Call(name, (a, b), {"axes": axes}, promoted=(0, 1), has_gradient=True, looseness=10)


def _einsum(draw: Draw, name: str) -> Call:
    n = {letter: draw(st.integers(1, 3)) for letter in "ijkl"}
    text = draw(st.sampled_from(
        ("ij,jk->ik", "ij,jk", "ii->i", "ii", "ij->ji", "i,j->ij", "ijk,jil->kl", "ij,ij->",
         "...j,j", "ij,kj,kl->il", "ik,k", "i->", "ji,jk->ki")
    ))  # fmt: skip
    inputs = text.split("->")[0].replace("...", "i").split(",")
    arrays = [array(draw, tuple(n[c] for c in part), NUMBERS) for part in inputs]
    return Call(
        name, (text, *arrays), promoted=tuple(range(1, len(arrays) + 1)), has_gradient=True,
        looseness=10,
    )  # fmt: skip


def _square(draw: Draw, name: str) -> Call:
    n = draw(st.integers(1, 4))
    batch = draw(st.sampled_from([(), (2,), (2, 1)]))
    a = array(draw, (*batch, n, n), WIDE_FLOATS, "unit")
    a = (a @ onp.swapaxes(a, -1, -2) + onp.eye(n)).astype(a.dtype)
    args: tuple[Any, ...] = (a,)
    if name.endswith("solve"):
        args = (a, array(draw, (*batch, n, 2), (a.dtype.name,)))
    if name.endswith("power"):
        args = (a, draw(st.sampled_from((-2, -1, 1, 2, 3))))
    symmetric = name.endswith(("cholesky", "eigvalsh"))
    return Call(name, args, has_gradient=not symmetric, looseness=100)


def _norm(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL), WIDE_FLOATS)
    kwargs = {"axis": axis_of(draw, a.ndim), "keepdims": draw(st.booleans())}
    kinds = (None, 1, -1, 2, -2, onp.inf, -onp.inf, "fro", "nuc", 0, 3)
    kwargs["ord"] = draw(st.sampled_from(kinds))
    return Call(name, (a,), kwargs, has_gradient=kwargs["ord"] in (None, 3), looseness=100)


def _sorting(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL))
    kwargs = {"axis": axis_of(draw, a.ndim, many=False)}
    if name == "argsort":
        kwargs["kind"] = "stable"
    return Call(name, (a,), kwargs, is_view=_view(draw))


def _search(draw: Draw, name: str) -> Call:
    a = onp.sort(array(draw, (draw(st.integers(0, 5)),), NUMBERS))
    v = array(draw, dtypes=(a.dtype.name,))
    if name == "digitize":
        return Call(name, (v, a), {"right": draw(st.booleans())})
    return Call(name, (a, v), {"side": draw(st.sampled_from(("left", "right")))})


def _sets(draw: Draw, name: str) -> Call:
    a, b = (array(draw, dtypes=NUMBERS) for _ in range(2))
    return Call(name, (a, b), promoted=(0, 1), can_trace=False)


def _quantile(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL), FLOATS)
    q = draw(st.integers(0, 4)) / 4 * (100 if "percentile" in name else 1)
    kwargs = {"axis": axis_of(draw, a.ndim), "keepdims": draw(st.booleans())}
    kwargs["method"] = draw(st.sampled_from(("linear", "lower", "higher", "midpoint", "nearest")))
    return Call(name, (a, q), kwargs, looseness=10)


def _histogram(draw: Draw, name: str) -> Call:
    a = array(draw, dtypes=NUMBERS)
    kwargs = {"bins": draw(st.integers(1, 5)), "range": (-4.0, 4.5)}
    return Call(name, (a,), kwargs, can_trace=False)


def _cumulative(draw: Draw, name: str) -> Call:
    a = array(draw)
    return Call(
        name, (a,), {"axis": axis_of(draw, a.ndim, many=False)}, has_gradient=True, looseness=10,
        **written(draw, name, a.shape),
    )  # fmt: skip


def _arange(draw: Draw, name: str) -> Call:
    start, stop = draw(st.integers(-5, 5)), draw(st.integers(-5, 9))
    start = draw(st.sampled_from((start, start + 0.5)))
    step = draw(st.sampled_from((1, 2, -1, 0.5, 1.5, -0.25)))
    return Call(
        name, (start, stop, step), {"dtype": draw(st.sampled_from(("int32", "int64", *FLOATS)))}
    )


def _spaced(draw: Draw, name: str) -> Call:
    start, stop = draw(st.integers(-2, 2)), draw(st.integers(-2, 3))
    dtypes = ("float64", "int32", "int64") if name == "linspace" else ("float64",)
    kwargs = {"num": draw(st.integers(0, 6)), "endpoint": draw(st.booleans())}
    kwargs["dtype"] = draw(st.sampled_from(dtypes))
    return Call(name, (start, stop), kwargs)


def _where(draw: Draw, name: str) -> Call:
    a = array(draw)
    others = [array(draw, broadcast(draw, a.shape)) for _ in range(2)]
    return Call(name, (a, *others), promoted=(1, 2))


def _clip(draw: Draw, name: str) -> Call:
    a = array(draw, dtypes=NUMBERS, kind="special")
    bound = st.one_of(st.none(), st.integers(0, 5))
    low, high = draw(bound), draw(bound)
    if low is None and high is None:
        low = 0
    return Call(name, (a, low, high))


def _insert(draw: Draw, name: str) -> Call:
    a = array(draw, draw(FULL))
    axis = draw(st.one_of(st.none(), st.integers(-a.ndim, a.ndim - 1)))
    size = a.size if axis is None else a.shape[axis]
    several = st.lists(st.integers(-size, size - 1), min_size=1, max_size=3)
    obj = draw(st.one_of(st.integers(-size - 1, size), several))
    args = (a, obj) if name == "delete" else (a, obj, draw(st.integers(0, 5)))
    return Call(name, args, {"axis": axis}, can_trace=False)


def _get(draw: Draw, name: str) -> Call:
    a = array(draw)
    return Call(name, (a, _key(draw, a.shape)), can_trace=False)


def _set(draw: Draw, name: str) -> Call:
    a = array(draw)
    key = _key(draw, a.shape)
    try:
        shape = a[key].shape
    except IndexError:
        shape = ()
    value = array(draw, broadcast(draw, shape), (a.dtype.name,))
    return Call(name, (a, key, value), can_trace=False)


def _permutation(draw: Draw, a: Any) -> Any:
    return draw(st.one_of(st.none(), st.permutations(range(a.ndim)).map(tuple)))


def _repeats(draw: Draw, a: Any) -> int:
    return draw(st.integers(0, 3))


def _diagonal(draw: Draw, name: str) -> Call:
    a = array(draw, (*draw(FULL), draw(st.integers(1, 4))))
    return Call(name, (a, draw(st.integers(-3, 3))), has_gradient=True)


_FLOAT_UNARY = {
    "unit": "arccos arcsin arctanh",
    "positive": "log log10 log1p log2 sqrt",
    "any": "arctan arcsinh cbrt cos degrees exp exp2 expm1 fabs radians sin sinh sinc tanh",
}
FUNCTIONS: dict[str, Callable[[Draw, str], Call]] = {
    **{n: _unary(kind=kind) for kind, names in _FLOAT_UNARY.items() for n in names.split()},
    **{
        n: _unary()
        for n in "absolute ceil conjugate fix floor negative positive square trunc".split()
    },
    "reciprocal": _unary(FLOATS),  # mx.np gives floats for integers
    "rint": _unary(FLOATS),  # mx.np keeps integers
    **{
        n: _unary(FLOATS, gradient=False)
        for n in "isfinite isinf isnan isneginf isposinf signbit sign".split()
    },
    **{n: _unary(INTEGERS, gradient=False) for n in ("invert",)},
    "logical_not": _unary(DTYPES, gradient=False),
    "nan_to_num": _unary(FLOATS, gradient=False),  # finite differences beside infinities round to 0
    **{n: _binary() for n in "add multiply maximum minimum".split()},
    **{n: _binary(NUMBERS) for n in "subtract fmax fmin".split()},
    **{n: _binary(NUMBERS, "positive") for n in "divide power floor_divide remainder fmod".split()},
    **{n: _binary(FLOATS) for n in "arctan2 hypot logaddexp logaddexp2".split()},
    **{
        n: _binary(DTYPES, gradient=False)
        for n in (
            "equal not_equal less less_equal greater greater_equal logical_and "
            "logical_or logical_xor"
        ).split()
    },
    **{
        n: _binary(INTEGERS, gradient=False)
        for n in "bitwise_and bitwise_or bitwise_xor gcd lcm".split()
    },
    "copysign": _binary(FLOATS),
    "heaviside": _binary(FLOATS, gradient=False),
    **{n: _reduction(**_KEEP) for n in "sum mean prod".split()},
    **{n: _reduction(DTYPES, **_KEEP) for n in "max min".split()},
    "std": _reduction(gradient=False, ddof=st.integers(0, 1), **_KEEP),  # no gradient at 0
    "var": _reduction(ddof=st.integers(0, 1), **_KEEP),
    **{n: _reduction(DTYPES, gradient=False, **_KEEP) for n in ("all", "any", "count_nonzero")},
    **{n: _reduction(many=False, gradient=False, **_KEEP) for n in ("argmax", "argmin")},
    **{
        n: _reduction(FLOATS, gradient=False, **_KEEP)
        for n in "nansum nanmean nanmax nanmin nanprod nanstd nanvar nanmedian".split()
    },
    "median": lambda draw, name: Call(
        name,
        (a := array(draw, draw(FULL), NUMBERS),),
        {"axis": axis_of(draw, a.ndim), "keepdims": draw(st.booleans())},
    ),
    "ptp": _reduction(**_KEEP),
    "average": lambda draw, name: Call(
        name, (a := array(draw, draw(FULL), NUMBERS),), {"axis": axis_of(draw, a.ndim)}
    ),
    **{n: _cumulative for n in ("cumsum", "cumprod")},
    **{n: _quantile for n in ("percentile", "quantile", "nanpercentile", "nanquantile")},
    "reshape": _reshape,
    "transpose": _shape_call(_permutation),
    "swapaxes": _shape_call(_one_axis, _one_axis),
    "moveaxis": _shape_call(_one_axis, _one_axis),
    "rollaxis": _shape_call(_one_axis, _one_axis),
    "expand_dims": _shape_call(_one_axis),
    "squeeze": _shape_call(),
    "ravel": _shape_call(),
    "flip": _shape_call(lambda draw, a: axis_of(draw, a.ndim)),
    "flipud": _shape_call(),
    "fliplr": _shape_call(),
    "roll": _shape_call(
        lambda draw, a: draw(st.integers(-5, 5)), lambda draw, a: axis_of(draw, a.ndim, False)
    ),
    "rot90": _shape_call(lambda draw, a: draw(st.integers(-3, 4))),
    "tile": _shape_call(
        lambda draw, a: draw(st.one_of(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=4)))
    ),
    "repeat": _shape_call(_repeats, lambda draw, a: axis_of(draw, a.ndim, False)),
    "resize": _shape_call(lambda draw, a: draw(SHAPES), has_gradient=False),
    "broadcast_to": _shape_call(
        lambda draw, a: (*draw(FULL), *(2 if n == 1 else n for n in a.shape))
    ),
    **{f"atleast_{n}d": _shape_call() for n in (1, 2, 3)},
    **{n: _joined for n in "concatenate stack vstack hstack dstack column_stack".split()},
    **{n: _splits for n in "split array_split hsplit vsplit dsplit".split()},
    "pad": _pad,
    "take": _take,
    "where": _where,
    "clip": _clip,
    "delete": _insert,
    "insert": _insert,
    "append": lambda draw, name: Call(
        name, (array(draw), array(draw)), promoted=(0, 1), has_gradient=True
    ),
    **{n: _diagonal for n in "diagonal trace tril triu diag".split()},
    "diagflat": _shape_call(lambda draw, a: draw(st.integers(-2, 2))),
    "diff": _shape_call(lambda draw, a: draw(st.integers(0, 2)), _one_axis, has_gradient=False),
    "ediff1d": _shape_call(dtypes=NUMBERS, has_gradient=False),
    **{n: _products for n in "dot matmul inner outer vdot kron".split()},
    "tensordot": _tensordot,
    "einsum": _einsum,
    **{f"linalg.{n}": _square for n in "inv det solve matrix_power cholesky eigvalsh".split()},
    "linalg.slogdet": _square,
    "linalg.norm": _norm,
    **{n: _sorting for n in ("sort", "argsort")},
    **{n: _search for n in ("searchsorted", "digitize")},
    "get": _get,
    "set": _set,
    **{n: _sets for n in "union1d intersect1d setdiff1d setxor1d isin".split()},
    **{
        n: _shape_call(has_gradient=False, can_trace=False)
        for n in "unique flatnonzero argwhere".split()
    },
    # mx.np.nonzero also accepts arrays without dimensions.
    "nonzero": lambda draw, name: Call(name, (array(draw, draw(FULL)),), can_trace=False),
    "histogram": _histogram,
    "bincount": lambda draw, name: Call(
        name,
        (abs(array(draw, draw(FULL)[:1], ("int32", "int64"))),),
        {"minlength": draw(st.integers(0, 4))},
        can_trace=False,
    ),
    "interp": lambda draw, name: Call(
        name, (array(draw, dtypes=FLOATS), onp.arange(4.0), array(draw, (4,), ("float64",)))
    ),
    "arange": _arange,
    "linspace": _spaced,
    "logspace": _spaced,
    "full_like": _shape_call(lambda draw, a: draw(st.integers(0, 1)), has_gradient=False),
    "zeros_like": _shape_call(has_gradient=False),
    "ones_like": _shape_call(has_gradient=False),
    "round": lambda draw, name: Call(name, (array(draw, dtypes=NUMBERS), draw(st.integers(-1, 2)))),
    "cov": lambda draw, name: Call(name, (array(draw, (2, 4), FLOATS),), looseness=10),
    "corrcoef": lambda draw, name: Call(name, (array(draw, (2, 4), FLOATS),), looseness=10),
    "cross": lambda draw, name: Call(
        name,
        tuple(array(draw, (2, 3), NUMBERS) for _ in range(2)),
        promoted=(0, 1),
        has_gradient=True,
    ),
    "polyval": lambda draw, name: Call(
        name,
        (array(draw, (3,), FLOATS), array(draw, dtypes=FLOATS)),
        promoted=(0, 1),
        has_gradient=True,
        looseness=10,
    ),
    "isclose": _binary(FLOATS, gradient=False),
    "allclose": _binary(FLOATS, gradient=False, can_trace=False),
    "array_equal": _binary(DTYPES, gradient=False, can_trace=False),
    "meshgrid": lambda draw, name: Call(
        name,
        tuple(array(draw, (draw(st.integers(0, 3)),)) for _ in range(2)),
        {"indexing": draw(st.sampled_from(("xy", "ij")))},
    ),
    "unravel_index": lambda draw, name: Call(
        name, (draw(st.sampled_from((onp.arange(6), onp.array(3)))), (2, 3)), can_trace=False
    ),
}
