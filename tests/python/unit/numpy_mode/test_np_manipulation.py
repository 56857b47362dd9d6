"""Functions of mx.np that change shapes, against NumPy."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import assert_same, check, numbers, of, parts

np = mx.np

A = numbers(2, 3, 4)
V = numbers(5)
M = numbers(3, 4)
S = numbers()
E = numbers(2, 0, 3)

# Name, arrays, further arguments.
CASES = [
    ("reshape", [A], ((4, 6),)),
    ("reshape", [A], ((4, -1),)),
    ("reshape", [A], (-1,)),
    ("reshape", [S], ((1, 1),)),
    ("reshape", [V[:1]], ((),)),
    ("reshape", [E], ((0, 7),)),
    ("reshape", [E], ((3, -1),)),
    ("reshape", [A], ((6, 4), {"order": "F"})),
    ("ravel", [A], ()),
    ("ravel", [S], ()),
    ("ravel", [E], ()),
    ("ravel", [M], ("F",)),
    ("transpose", [A], ()),
    ("transpose", [A], ((1, -1, 0),)),
    ("transpose", [S], ()),
    ("swapaxes", [A], (0, -1)),
    ("moveaxis", [A], (0, 2)),
    ("moveaxis", [A], ((0, 1), (-1, 0))),
    ("rollaxis", [A], (2,)),
    ("rollaxis", [A], (0, 2)),
    ("rollaxis", [A], (0, 3)),
    ("expand_dims", [A], (1,)),
    ("expand_dims", [A], ((0, -1),)),
    ("expand_dims", [S], (0,)),
    ("squeeze", [numbers(1, 3, 1)], ()),
    ("squeeze", [numbers(1, 3, 1)], (-1,)),
    ("squeeze", [numbers(1, 1)], ()),
    ("squeeze", [S], (-1,)),
    ("squeeze", [numbers(1, 3, 1)], ((0, 2),)),
    ("broadcast_to", [numbers(3, 1)], ((2, 3, 4),)),
    ("broadcast_to", [S], ((2,),)),
    ("broadcast_to", [numbers(1)], ((0,),)),
    ("broadcast_to", [M], ((3, 4),)),
    ("atleast_1d", [S], ()),
    ("atleast_2d", [V], ()),
    ("atleast_2d", [S], ()),
    ("atleast_3d", [V], ()),
    ("atleast_3d", [M], ()),
    ("atleast_3d", [A], ()),
    ("split", [numbers(6)], (3,)),
    ("split", [A], ([1, 3], 2)),
    ("split", [numbers(6)], ([4, 2, -1, 9],)),
    ("split", [A], ((), 1)),
    ("array_split", [numbers(7)], (3,)),
    ("array_split", [A], (2, 1)),
    ("array_split", [numbers(2)], (3,)),
    ("hsplit", [M], (2,)),
    ("hsplit", [numbers(4)], ([1],)),
    ("vsplit", [M], (3,)),
    ("dsplit", [A], ([1],)),
    ("insert", [M, S], (1,)),
    ("insert", [M, numbers(4)], (1, {"axis": 0})),
    ("insert", [M, numbers(3)], (-2, {"axis": 1})),
    ("insert", [M, numbers(2, 4)], (1, {"axis": 0})),
    ("insert", [M, numbers(2, 4)], ([0, 3], {"axis": 0})),
    ("insert", [M, S], ([2, 2, 0], {"axis": 1})),
    ("insert", [M, numbers(3, 2)], (slice(0, 4, 2), {"axis": 1})),
    ("delete", [M], (1,)),
    ("delete", [M], (-1, 1)),
    ("delete", [M], ([0, 2], 0)),
    ("delete", [M], (slice(None, None, 2), 1)),
    ("delete", [M], (onp.array([True, False, True, False]), 1)),
    ("repeat", [M], (2,)),
    ("repeat", [M], (3, 1)),
    ("repeat", [M], ([1, 0, 2], 0)),
    ("repeat", [S], (3,)),
    ("repeat", [M], (0, 0)),
    ("tile", [M], (2,)),
    ("tile", [M], ((2, 1, 3),)),
    ("tile", [S], (3,)),
    ("tile", [M], ((2, 0),)),
    ("tile", [M], ((),)),
    ("resize", [M], ((2, 3),)),
    ("resize", [M], ((5, 5),)),
    ("resize", [M], (7,)),
    ("flip", [A], ()),
    ("flip", [A], (1,)),
    ("flip", [A], ((0, -1),)),
    ("flip", [S], ()),
    ("flipud", [M], ()),
    ("fliplr", [M], ()),
    ("roll", [A], (5,)),
    ("roll", [A], (-1, 1)),
    ("roll", [A], ((1, 2), (0, 2))),
    ("roll", [A], (2, (0, 1))),
    ("roll", [M], (0,)),
    ("rot90", [M], ()),
    ("rot90", [M], (2,)),
    ("rot90", [A], (-1, (1, 2))),
    ("rot90", [M], (4,)),
    ("diagonal", [A], ()),
    ("diagonal", [A], (1, 2, 0)),
    ("diagonal", [M], (-1,)),
    ("diagonal", [M], (9,)),
    ("diag", [V], ()),
    ("diag", [V], (-2,)),
    ("diag", [M], (1,)),
    ("diagflat", [M], (1,)),
    ("trace", [M], ()),
    ("trace", [A], (1, 1, 2)),
]


def bound(name, further):
    """Return a function of arrays with the further arguments, and its official form."""
    keywords = further[-1] if further and isinstance(further[-1], dict) else {}
    rest = further[:-1] if keywords else further

    def of_library(library):
        function = getattr(library, name)
        if name == "insert":
            return lambda a, values: function(a, rest[0], values, **keywords)
        return lambda *arrays: function(*arrays, *rest, **keywords)

    return of_library(np), of_library(onp)


@pytest.mark.parametrize(("name", "arrays", "further"), CASES, ids=str)
def test_function(name, arrays, further):
    check(*bound(name, further), arrays)


SEQUENCES = [
    ("concatenate", [M, numbers(1, 4)], {}),
    ("concatenate", [M, numbers(3, 2)], {"axis": -1}),
    ("concatenate", [M, V], {"axis": None}),
    ("concatenate", [numbers(0, 4), M], {}),
    ("stack", [V, numbers(5, seed=1)], {}),
    ("stack", [M, numbers(3, 4, seed=1)], {"axis": -1}),
    ("stack", [S, numbers(seed=1)], {}),
    ("vstack", [V, numbers(5, seed=1)], {}),
    ("vstack", [M, numbers(4)], {}),
    ("hstack", [V, numbers(2)], {}),
    ("hstack", [M, numbers(3, 1)], {}),
    ("hstack", [S, numbers(seed=1)], {}),
    ("dstack", [V, numbers(5, seed=1)], {}),
    ("dstack", [M, numbers(3, 4, seed=1)], {}),
    ("column_stack", [V, numbers(5, 2)], {}),
    ("broadcast_arrays", [numbers(3, 1), numbers(4)], {}),
    ("atleast_2d", [V, S], {}),
]


@pytest.mark.parametrize(("name", "arrays", "keywords"), SEQUENCES, ids=str)
def test_of_several_arrays(name, arrays, keywords):
    several = name in ("broadcast_arrays", "atleast_2d")

    def call(library):
        function = getattr(library, name)
        return lambda *a: function(*a) if several else function(list(a), **keywords)

    check(call(np), call(onp), arrays)
    assert not several or isinstance(call(np)(*map(of, arrays)), list)


def test_array_api_names():
    check(lambda a: np.permute_dims(a, (2, 0, 1)), lambda a: a.transpose(2, 0, 1), [A])
    check(np.matrix_transpose, lambda a: a.swapaxes(1, 2), [A])
    check(lambda a: np.concat([a, a], axis=1), lambda a: onp.concatenate([a, a], 1), [A])
    check(lambda a: np.unstack(a, axis=1), lambda a: [a[:, i] for i in range(3)], [A])
    assert np.row_stack is np.vstack


@pytest.mark.parametrize(
    "method",
    [
        lambda a: a.T,
        lambda a: a.reshape(4, 6),
        lambda a: a.reshape((-1, 4)),
        lambda a: a.reshape(-1),
        lambda a: a.transpose(1, 2, 0),
        lambda a: a.transpose((1, 2, 0)),
        lambda a: a.transpose(),
        lambda a: a.flatten(),
        lambda a: a.ravel(),
        lambda a: a.swapaxes(0, 1),
        lambda a: a.repeat(2, 1),
        lambda a: a[:1].squeeze(0),
        lambda a: a.diagonal(),
        lambda a: a.trace(),
    ],
)
def test_methods(method):
    check(method, method, [A])


@pytest.mark.parametrize("dtype", ["float16", "float32", "bool", "int8", "int64", "uint8"])
def test_dtypes(dtype):
    a = numbers(3, 4, dtype=dtype)
    for name, further in (
        ("reshape", ((2, 6),)),
        ("transpose", ()),
        ("repeat", (2, 1)),
        ("tile", (2,)),
        ("flip", ()),
        ("roll", (1, 1)),
        ("diagonal", ()),
        ("delete", (1, 1)),
        ("broadcast_to", ((2, 3, 4),)),
        ("split", (2, 1)),
        ("pad", (1, "edge")),
    ):
        check(*bound(name, further), [a], gradient=False)
    check(*bound("insert", (1,)), [a, a[0, :1]], gradient=False)


def test_as_in_1x():
    """Check that -2 keeps a length, and that delete ignores some numbers of an array."""
    assert np.broadcast_to(of(V), (2, 3, -2)).shape == (2, 3, 5)
    gone = of(onp.array([-1, 9, 2]))
    onp.testing.assert_array_equal(np.delete(of(V), gone).asnumpy(), V[[0, 1, 3, 4]])


def test_promotion():
    for one, other, expected in (
        ("int8", "uint8", "int16"),
        ("int32", "int64", "int64"),
        ("bool", "int8", "int8"),
        ("int64", "float16", "float16"),
        ("int64", "float32", "float32"),
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
    ):
        arrays = of([numbers(2, dtype=one), numbers(2, dtype=other)])
        for function in (np.concatenate, np.stack, np.hstack, np.column_stack):
            assert function(arrays).dtype == onp.dtype(expected)


WIDTHS = [2, (1, 2), ((1, 0), (2, 3))]
PADS = [
    ("constant", {}),
    ("constant", {"constant_values": 3}),
    ("constant", {"constant_values": ((1, 2), (3, 4))}),
    ("edge", {}),
    ("empty", {}),
    ("linear_ramp", {}),
    ("linear_ramp", {"end_values": ((5, -4), (2, 1))}),
    ("maximum", {}),
    ("maximum", {"stat_length": 2}),
    ("mean", {}),
    ("mean", {"stat_length": ((1, 2), (3, 2))}),
    ("median", {}),
    ("median", {"stat_length": 3}),
    ("minimum", {}),
    ("reflect", {}),
    ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {}),
    ("symmetric", {"reflect_type": "odd"}),
    ("wrap", {}),
]


@pytest.mark.parametrize(("mode", "keywords"), PADS, ids=str)
def test_pad(mode, keywords):
    def pad(library, width):
        if mode == "empty" and library is onp:  # zeros stand for any values
            return lambda a: onp.pad(a, width)
        return lambda a: library.pad(a, width, mode, **keywords)

    for width in WIDTHS:
        check(pad(np, width), pad(onp, width), [M])
    check(pad(np, 2), pad(onp, 2), [numbers(3, 4, dtype="int32")], gradient=False)
    if not any(isinstance(value, tuple) for value in keywords.values()):
        check(pad(np, (7, 5)), pad(onp, (7, 5)), [V])
        check(pad(np, 0), pad(onp, 0), [V])


def test_out():
    out = np.zeros((4, 4), dtype="float64") if hasattr(np, "zeros") else of(onp.zeros((4, 4)))
    a = of(M)
    assert np.concatenate([a, a[:1]], out=out) is out
    onp.testing.assert_array_equal(out.asnumpy(), onp.concatenate([M, M[:1]]))
    with pytest.raises(ValueError, match="out must have shape"):
        np.concatenate([a, a], out=out)


def test_copies():
    a = of(M)
    for changed in (
        np.reshape(a, (4, 3)),
        a.reshape(12),
        a.T,
        np.squeeze(a),
        np.expand_dims(a, 0),
        np.split(a, 3)[0],
        np.broadcast_to(a, (3, 4)),
        a.flatten(),
        np.roll(a, 0, 0),
        np.rot90(a, 0),
        np.concatenate([a]),
        np.pad(a, 0),
        np.diagonal(a),
    ):
        changed[:] = -1
    onp.testing.assert_array_equal(a.asnumpy(), M)


def test_shape_queries():
    assert np.shape(of(A)) == (2, 3, 4)
    assert np.shape([[1, 2]]) == (1, 2)
    assert np.ndim(of(A)) == 3 == np.ndim([[[1]]])
    assert (np.size(of(A)), np.size(of(A), 1), np.size(5)) == (24, 3, 1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda a: a.reshape(5, 5),
            ValueError,
            r"of size 12 into shape \[5,5\]",
        ),
        (lambda a: a.reshape(-1, -1), ValueError, "Cannot reshape"),
        (lambda a: a.reshape(5, -1), ValueError, "Cannot reshape"),
        (lambda a: a.reshape(), TypeError, "takes exactly 1"),
        (lambda a: np.transpose(a, (0, 0)), ValueError, "different"),
        (lambda a: np.transpose(a, (0,)), ValueError, "2 numbers"),
        (lambda a: np.swapaxes(a, 0, 2), ValueError, "out of bounds"),
        (lambda a: np.expand_dims(a, 5), ValueError, "out of bounds"),
        (lambda a: np.squeeze(a, 0), ValueError, "not equal to one"),
        (lambda a: np.broadcast_to(a, (3,)), ValueError, "broadcast"),
        (lambda a: np.concatenate([]), ValueError, "at least one array"),
        (lambda a: np.concatenate([a, a[0]]), ValueError, "cannot be joined"),
        (lambda a: np.concatenate([a[0, 0]]), ValueError, "zero-dimensional"),
        (lambda a: np.concatenate([a, mx.nd.ones((1, 4))]), TypeError, "as_np_ndarray"),
        (lambda a: np.concatenate([a, onp.ones((1, 4))]), TypeError, "mx.np.array"),
        (lambda a: np.stack([a, a[0]]), ValueError, "same shape"),
        (lambda a: np.split(a, 2), ValueError, "equal division"),
        (lambda a: np.dsplit(a, 2), ValueError, "at least 3"),
        (lambda a: np.insert(a, 13, 0), IndexError, "out of bounds"),
        (lambda a: np.delete(a, 3, 0), IndexError, "out of bounds"),
        (lambda a: np.repeat(a, [1, 2], 0), ValueError, "1 or 3"),
        (lambda a: np.repeat(a, -1), ValueError, "negative"),
        (lambda a: np.diagonal(a[0]), ValueError, "2 dimensions"),
        (lambda a: np.diag(a[None]), ValueError, "1- or 2-d"),
        (lambda a: np.pad(a, 1, "mirror"), ValueError, "mode must be one of"),
        (lambda a: np.pad(a, 1, "edge", constant_values=1), ValueError, "unsupported keyword"),
        (lambda a: np.pad(a, -1), ValueError, "negative"),
        (lambda a: np.pad(a, ((1, 1),) * 3), ValueError, "pad_width"),
        (lambda a: np.rot90(a, 1, (0, 0)), ValueError, "different"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(of(M))


def test_lists_as_arrays():
    assert_same(parts(np.concatenate([[1, 2], [3]])), [onp.array([1, 2, 3], "float32")])
