"""Sorting, searching and sets of mx.np, against NumPy."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import Call, assert_same, check, numbers, of, parts

np = mx.np

A = numbers(3, 4, 5)
M = numbers(3, 4)
V = numbers(6)
I = numbers(4, 5, dtype="int64")  # noqa: E741
NANS = onp.array([3.0, onp.nan, -1.0, onp.inf, -onp.inf, onp.nan])

# Name, arrays, keywords; all of these have gradients and run inside hybridized forwards.
DIFFERENTIABLE = [
    ("sort", [A], {}),
    ("sort", [A], {"axis": 0}),
    ("sort", [A], {"axis": None}),
    ("take", [A], {"indices": [2, 0, -1]}),
    ("take", [A], {"indices": [[2, 0], [0, 0]], "axis": 1}),
    ("take", [A], {"indices": 1, "axis": -1}),
    ("take", [A], {"indices": [-7, 1, 9], "axis": 2, "mode": "wrap"}),
    ("take", [A], {"indices": [-7, 1, 9], "axis": 2, "mode": "clip"}),
    ("compress", [M], {"condition": [True, False, True], "axis": 0}),
    ("extract", [M], {"condition": M > 0}),
]


@pytest.mark.parametrize(("name", "arrays", "keywords"), DIFFERENTIABLE, ids=str)
def test_differentiable(name, arrays, keywords):
    def call(library):
        function = getattr(library, name)
        if name == "compress":
            return lambda a: function(keywords["condition"], a, keywords["axis"])
        if name == "extract":
            return lambda a: function(keywords["condition"], a)
        return lambda a: function(a, **keywords)

    check(call(np), call(onp), arrays)


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (2, 4, 5)), (1, (3, 7, 5)), (-1, (3, 4, 2)), (1, (1, 3, 5))]
)
def test_take_along_axis(axis, shape):
    length = A.shape[axis]
    index = onp.random.default_rng(3).integers(-length, length, shape)
    check(
        lambda a: np.take_along_axis(a, of(index), axis),
        lambda a: onp.take_along_axis(a, index, axis),
        [A],
    )
    net = Call(lambda a, i: np.take_along_axis(a, i, axis))
    net.hybridize()
    assert_same(parts(net(of(A), of(index))), [onp.take_along_axis(A, index, axis)])


def test_where():
    condition = M > 0
    check(
        lambda x, y: np.where(of(condition), x, y),
        lambda x, y: onp.where(condition, x, y),
        [M, numbers(4)],
    )
    check(lambda x: np.where(of(condition), x, 2.0), lambda x: onp.where(condition, x, 2.0), [M])
    check(
        lambda x: np.where(of(condition[:, :1]), 1, x),
        lambda x: onp.where(condition[:, :1], 1, x),
        [numbers(2, 1, 4)],
    )
    check(lambda x: np.where(x, x, 5.0), lambda x: onp.where(x, x, 5.0), [numbers()])
    assert_same(parts(np.where(of(I))), list(onp.where(I)))
    one, other = of([I, numbers(5, dtype="float32")])
    assert np.where(one, one, other).dtype == onp.float32
    assert np.where(one, one, 2).dtype == onp.int64
    assert np.where(one, 1.5, one).dtype == onp.float32


def test_where_of_bools_in_a_graph():
    condition, x, y = of([onp.array(True), M > 0, M[:1] > 0])
    x.attach_grad()
    net = Call(np.where)
    net.hybridize()
    with mx.autograd.record():
        result = net(condition, x, y)
    result.backward()
    assert_same([result], [M > 0])


def test_select_and_choose():
    conditions = [M > 0.5, M > 0]
    check(
        lambda a, b: np.select(of(conditions), [a, b], -1.0),
        lambda a, b: onp.select(conditions, [a, b], -1.0),
        [M, numbers(4)],
    )
    check(
        lambda a, b, c: np.select(of(conditions), [a, b], c),
        lambda a, b, c: onp.select(conditions, [a, b], c),
        [M, numbers(4), numbers()],
    )
    numbers_of_choice = onp.array([0, 2, 1, 1])
    check(
        lambda a, b, c: np.choose(of(numbers_of_choice), [a, b, c]),
        lambda a, b, c: onp.choose(numbers_of_choice, [a, b, c]),
        [M, numbers(4), numbers(1)],
    )


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_modes_of_choose(mode):
    choice = onp.array([-1, 1, 0, 7])
    check(
        lambda a, b: np.choose(of(choice), [a, b], mode=mode),
        lambda a, b: onp.choose(choice, [a, b], mode=mode),
        [M, numbers(4)],
    )


# Results of these are indices, counts or bools.
INDICES = [
    ("argsort", [A], {}),
    ("argsort", [I], {"axis": 0}),
    ("argsort", [I], {"axis": None}),
    ("lexsort", [I], {}),
    ("lexsort", [I], {"axis": 0}),
    ("nonzero", [I], {}),
    ("argwhere", [I], {}),
    ("flatnonzero", [I], {}),
    ("count_nonzero", [I], {}),
    ("count_nonzero", [I], {"axis": 0}),
    ("count_nonzero", [I], {"axis": (0, 1), "keepdims": True}),
    ("searchsorted", [onp.sort(V), numbers(2, 3)], {}),
    ("searchsorted", [onp.array([1.0, 2, 2, 3]), onp.array([2.0, 0, 9])], {"side": "right"}),
    ("isin", [I, onp.array([1, 3])], {}),
    ("isin", [I, onp.array([1, 3])], {"invert": True}),
    ("in1d", [I, onp.array([1, 3])], {}),
    ("diag_indices_from", [numbers(3, 3)], {}),
    ("tril_indices_from", [M], {}),
    ("triu_indices_from", [M], {"k": 1}),
    ("unravel_index", [onp.array([[5, 0], [11, 3]])], {"shape": (3, 4)}),
    ("ix_", [onp.array([0, 2]), onp.array([True, False, True])], {}),
]


@pytest.mark.parametrize(("name", "arrays", "keywords"), INDICES, ids=str)
def test_indices(name, arrays, keywords):
    def call(library):
        function = getattr(library, name, None) or onp.isin
        if name == "argsort":
            return lambda a: function(a, **keywords, **({"kind": "stable"}))
        if name == "in1d" and library is onp:
            return lambda a, b: onp.isin(a.ravel(), b)
        return lambda *a: function(*a, **keywords)

    check(call(np), call(onp), arrays, gradient=False)


SETS = [
    ("unique", [I], {}),
    ("unique", [I], {"return_index": True, "return_inverse": True, "return_counts": True}),
    ("unique", [I % 2], {"axis": 0}),
    ("union1d", [I, numbers(3, seed=4, dtype="int64")], {}),
    ("intersect1d", [I, onp.array([3, 1, 9])], {}),
    ("intersect1d", [I, onp.array([3, 1, 9])], {"return_indices": True}),
    ("setdiff1d", [I, onp.array([3, 1, 9])], {}),
    ("setxor1d", [I, onp.array([3, 1, 9])], {}),
]


@pytest.mark.parametrize(("name", "arrays", "keywords"), SETS, ids=str)
def test_sets(name, arrays, keywords):
    def call(library):
        function = getattr(library, name)

        def flat(*a):
            results = parts(function(*a, **keywords))
            if len(results) == 4:  # NumPy 2 gives the inverse the array's shape
                results[2] = results[2].reshape(-1)
            return results

        return flat

    check(call(np), call(onp), arrays, gradient=False)


def test_sets_have_gradients():
    a = onp.array([2.0, 1.0, 2.0, 3.0])
    b = onp.array([3.0, 5.0])
    check(np.unique, onp.unique, [a[[0, 1, 3]]], hybrid=False)
    for name in ("union1d", "setdiff1d", "setxor1d"):
        x = of(a)
        x.attach_grad()
        with mx.autograd.record():
            y = getattr(np, name)(x, of(b)).sum()
        y.backward()
        assert x.grad.asnumpy()[:2].tolist() == [1, 1]


def test_array_api_sets():
    x = of(I)
    values, index, inverse, counts = onp.unique(
        I, return_index=True, return_inverse=True, return_counts=True
    )
    result = np.unique_all(x)
    assert_same(list(result), [values, index, inverse.reshape(I.shape), counts])
    assert_same(list(np.unique_counts(x)), [values, counts])
    assert_same(list(np.unique_inverse(x)), [values, inverse.reshape(I.shape)])
    assert_same([np.unique_values(x)], [values])


def test_partition():
    for kth in (2, (1, 3)):
        expected = onp.sort(A, axis=-1)
        assert_same([np.partition(of(A), kth)], [expected])
        assert_same([np.argpartition(of(A), kth)], [onp.argsort(A, axis=-1)])
    with pytest.raises(ValueError, match="kth must be in"):
        np.partition(of(A), 9)
    for function in ("partition", "argpartition"):  # any place will do in an empty axis
        empty = onp.zeros((2, 0))
        assert_same([getattr(np, function)(of(empty), 3)], [getattr(onp, function)(empty, 3)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32"])
def test_dtypes(dtype):
    a = numbers(4, 5, dtype=dtype)
    check(np.sort, onp.sort, [a], gradient=False)
    check(np.argsort, lambda x: onp.argsort(x, kind="stable"), [a], gradient=False)
    check(np.unique, onp.unique, [a], gradient=False)
    check(
        lambda x: np.take_along_axis(x, of(onp.array([[1]])), 0),
        lambda x: onp.take_along_axis(x, onp.array([[1]]), 0),
        [a],
        gradient=False,
    )


def test_nan_is_last():
    check(np.sort, onp.sort, [NANS], gradient=False)
    check(np.argsort, lambda a: onp.argsort(a, kind="stable"), [NANS], gradient=False)


def test_empty():
    empty = numbers(0, 3)
    for name in ("sort", "argsort", "nonzero", "argwhere", "unique", "count_nonzero"):
        check(getattr(np, name), getattr(onp, name), [empty], gradient=False)
    assert np.take(of(A), of(onp.zeros((0, 2), "int64")), axis=1).shape == (3, 0, 2, 5)


def test_triangles_and_positions():
    assert_same(list(np.tril_indices(3, 1, 4)), onp.tril_indices(3, 1, 4))
    assert_same(list(np.triu_indices(3)), onp.triu_indices(3))
    rows = onp.array([1, 2]), onp.array([3, 0])
    assert_same([np.ravel_multi_index(of(rows), (3, 4))], [onp.ravel_multi_index(rows, (3, 4))])


def test_methods():
    check(lambda a: a.take([1, 0], 1), lambda a: a.take([1, 0], 1), [M])
    check(lambda a: a.argsort(0), lambda a: a.argsort(0), [M], gradient=False)
    check(lambda a: a.nonzero(), lambda a: a.nonzero(), [I], gradient=False)
    assert np.nonzero(np.array(3))[0].tolist() == np.where(np.array(3))[0].tolist() == [0]
    assert mx.npx.nonzero(np.array(3)).tolist() == [[0]]


def test_take_in_a_graph_checks_indices():
    net = Call(lambda a, i: np.take(a, i, axis=1))
    net.hybridize()
    index = onp.array([[1, -1], [0, 3]])
    assert_same([net(of(A), of(index))], [A.take(index, 1)])
    with pytest.raises(IndexError):
        net(of(A), of(index + 9)).asnumpy()


def test_searchsorted_in_a_graph():
    net = Call(np.searchsorted)
    net.hybridize()
    ordered, values = onp.sort(V), numbers(2, 3)
    assert_same([net(of(ordered), of(values))], [onp.searchsorted(ordered, values)])


def test_memory():
    a = of(M)
    assert np.may_share_memory(a, a[1:])
    assert np.shares_memory(a[1], a)
    assert not np.may_share_memory(a[0], a[1])
    assert not np.may_share_memory(a, a.copy())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda a: np.take(a, [12]),
            IndexError,
            "index 12 is out of bounds for axis 0",
        ),
        (lambda a: np.take(a, [0], mode="x"), ValueError, "mode"),
        (lambda a: np.sort(a, 2), ValueError, "out of bounds"),
        (lambda a: np.where(a, a), ValueError, "both or neither"),
        (lambda a: np.take_along_axis(a, a[0], 0), ValueError, "same number of dimensions"),
        (lambda a: np.searchsorted(a, 1), ValueError, "1 dimension"),
        (lambda a: np.searchsorted(a[0], 1, "up"), ValueError, "side"),
        (lambda a: np.unravel_index(a, (2, 2)), ValueError, "out of bounds"),
        (lambda a: np.diag_indices_from(a), ValueError, "equal length"),
        (lambda a: np.tril_indices_from(a[0]), ValueError, "2-d"),
        (lambda a: np.ix_(a), ValueError, "1 dimensional"),
        (lambda a: np.compress([True] * 13, a), IndexError, "out of bounds"),
        (lambda a: np.select([a], [a]), TypeError, "bool"),
        (lambda a: np.choose(a.astype("int64"), [a]), ValueError, "from 0 to 0"),
        (lambda a: np.unique(mx.nd.ones(2)), TypeError, "as_np_ndarray"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(of(10 * M))


@pytest.mark.parametrize("name", ["unique", "nonzero", "argwhere", "flatnonzero"])
def test_dynamic_sizes_in_a_graph(name):
    net = Call(getattr(np, name))
    net.hybridize()  # the block runs operator by operator
    assert_same(parts(net(of(M))), parts(getattr(onp, name)(M)))


@pytest.mark.parametrize(
    "count", [1, 15, 16, 17, 64, 65, 128, 129, 256, 257, 1000, 70_000, 300_001]
)
@pytest.mark.parametrize("kinds", [2, 50, None])
def test_long_sorts(count, kinds):
    rng = onp.random.default_rng(count)
    values = rng.normal(size=count) if kinds is None else rng.integers(0, kinds, count)
    for given in (values, -onp.sort(-values), onp.where(values > 1, onp.nan, values)):
        a = given.astype("float32")
        onp.testing.assert_array_equal(np.sort(of(a), axis=None).asnumpy(), onp.sort(a))
        onp.testing.assert_array_equal(np.unique(of(a)).asnumpy(), onp.unique(a))
    whole = (values * 1e7).astype("int32")
    onp.testing.assert_array_equal(np.sort(of(whole)).asnumpy(), onp.sort(whole))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32"])
def test_long_searches(dtype):
    rng = onp.random.default_rng(5)
    values = rng.integers(0, 2 if dtype == "bool" else 100, (701, 37, 5)).astype(dtype)
    values[3:200] = 0
    a = of(values)
    assert_same(parts(np.nonzero(a)), values.nonzero())
    assert_same([np.flatnonzero(a)], [onp.flatnonzero(values)])
    ascending = onp.sort(values[:, 0, 0])
    for side in ("left", "right"):
        found = np.searchsorted(of(ascending), a, side)
        assert_same([found], [onp.searchsorted(ascending, values, side)])
    flat = values.reshape(-1)
    if onp.dtype(dtype).kind != "f":
        assert_same([np.bincount(of(flat))], [onp.bincount(flat)])
        assert_same(
            [np.bincount(of(flat[:50]), minlength=300)], [onp.bincount(flat[:50], minlength=300)]
        )
    places = rng.integers(-37, 37, (701, 11, 5)).astype("int32")
    taken = onp.take_along_axis(values, places, 1)
    assert_same([np.take_along_axis(a, of(places), 1)], [taken])
    assert_same([a[of(places[:, 0, 0])]], [values[places[:, 0, 0]]])
    assert_same([a[of(values != 0)]], [values[values != 0]])


def test_searches_of_nan():
    values = onp.sort(onp.array([2.0, onp.nan, 1, onp.nan, -onp.inf, -0.0, 0.0], "float32"))
    for side in ("left", "right"):
        found = np.searchsorted(of(values), of(values), side)
        assert_same([found], [onp.searchsorted(values, values, side)])
    assert_same(parts(np.nonzero(of(values))), values.nonzero())
