"""Products of mx.np, against NumPy."""

import json

import mxlite as mx
import numpy as onp
import pytest
from comparing import Call, assert_same, check, numbers, of
from mxlite import autograd

np = mx.np

DOT = [
    ((3,), (3,)),
    ((2, 3), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (5, 4, 6)),
    ((), (2, 3)),
    ((2,), ()),
    ((), ()),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
]


@pytest.mark.parametrize(("one", "other"), DOT, ids=str)
def test_dot(one, other):
    check(np.dot, onp.dot, [numbers(*one), numbers(*other, seed=1)])
    check(lambda a, b: a.dot(b), onp.dot, [numbers(*one), numbers(*other)])


MATMUL = [
    ((3,), (3,)),
    ((2, 3), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 5, 2, 3), (6, 1, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 0), (5, 0, 4)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize(("one", "other"), MATMUL, ids=str)
def test_matmul(one, other):
    arrays = [numbers(*one), numbers(*other, seed=1)]
    check(np.matmul, onp.matmul, arrays)
    check(lambda a, b: a @ b, lambda a, b: a @ b, arrays)


@pytest.mark.parametrize(
    ("one", "other", "axes"),
    [
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3), (4,), 0),
        ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])),
        ((2, 3, 4), (5, 3), (1, 1)),
        ((2, 3, 4), (5, 2), ((0,), (-1,))),
        ((3, 2), (3, 2), 2),
        ((2, 0), (0, 3), 1),
    ],
    ids=str,
)
def test_tensordot(one, other, axes):
    check(
        lambda a, b: np.tensordot(a, b, axes),
        lambda a, b: onp.tensordot(a, b, axes),
        [numbers(*one), numbers(*other, seed=1)],
    )


EINSUM = [
    ("i->", [(4,)]),
    ("ij->ji", [(3, 4)]),
    ("ij->j", [(3, 4)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->ji", [(3, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ij", [(3, 4)]),
    ("ba", [(3, 4)]),
    ("i,i", [(3,), (3,)]),
    ("i,j->ij", [(3,), (2,)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ij,kj->ik", [(2, 3), (4, 3)]),
    ("ji,jk->ik", [(3, 2), (3, 4)]),
    ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
    ("bij,jk->bik", [(5, 2, 3), (3, 4)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij,ij->", [(2, 3), (2, 3)]),
    ("ij,ij->i", [(2, 3), (2, 3)]),
    ("ijk,ikl->il", [(2, 3, 4), (2, 4, 5)]),
    ("ij,kl->il", [(2, 3), (4, 5)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,jk,ki->", [(2, 3), (3, 4), (4, 2)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("ij,j,j->i", [(2, 3), (3,), (3,)]),
    ("ii,i->i", [(3, 3), (3,)]),
    ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
    ("...ij,...jk", [(5, 1, 2, 3), (6, 3, 4)]),
    ("i...,i...->...", [(3, 2), (3, 4, 2)]),
    ("...->...", [(2, 3)]),
    ("i...j->j...", [(2, 5, 3)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ij,ij->ij", [(1, 3), (2, 3)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    (",ij->ij", [(), (2, 3)]),
]


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUM, ids=str)
def test_einsum(subscripts, shapes):
    check(
        lambda *a: np.einsum(subscripts, *a),
        lambda *a: onp.einsum(subscripts, *a),
        [numbers(*shape, seed=i) for i, shape in enumerate(shapes)],
    )


def test_einsum_forms():
    a, b = numbers(2, 3), numbers(3, 4)
    expected = a @ b
    one, other = of([a, b])
    assert_same([np.einsum(one, [0, 1], other, [1, 2], [0, 2])], [expected])
    assert_same([np.einsum(one, [0, 1], other, [1, 2])], [expected])
    assert_same([np.einsum("ij,jk", one, other, optimize=True)], [expected])
    out = of(onp.zeros((2, 4)))
    assert np.einsum("ij,jk", one, other, out=out) is out
    assert_same([out], [expected])
    copy = np.einsum("ij->ij", one)
    copy[:] = 0
    assert_same([one], [a])


@pytest.mark.parametrize(
    ("function", "shapes", "products"),
    [
        (lambda a, b, c: np.einsum("bij,jk,bkl->bil", a, b, c), ["456", "67", "475"], 2),
        (lambda a, b: np.einsum("bhid,bhjd->bhij", a, b), ["2345", "2365"], 1),
        (lambda a, b: np.tensordot(a, b, ([1, 2], [1, 0])), ["234", "435"], 1),
        (lambda a, b: np.matmul(a, b), ["5234", "47"], 1),
        (lambda a, b: np.inner(a, b), ["234", "54"], 1),
    ],
)
def test_runs_as_matrix_products(function, shapes, products, tmp_path):
    net = Call(function)
    net.hybridize()
    net(*of([numbers(*map(int, shape)) for shape in shapes]))
    net.export(str(tmp_path / "net"))
    ops = [node["op"] for node in json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]]
    assert sum(op in ("dot", "_np_dot", "batch_dot") for op in ops) == products
    assert not set(ops) - {"null", "dot", "_np_dot", "batch_dot", "Reshape", "transpose"}


@pytest.mark.parametrize(
    ("name", "shapes", "keywords"),
    [
        ("vdot", [(2, 3), (3, 2)], {}),
        ("inner", [(3,), (3,)], {}),
        ("inner", [(2, 3), (4, 3)], {}),
        ("inner", [(), (4, 3)], {}),
        ("outer", [(2, 3), (4,)], {}),
        ("kron", [(2, 3), (3, 2)], {}),
        ("kron", [(2,), (3, 2)], {}),
        ("kron", [(2, 1, 2), (3,)], {}),
        ("cross", [(3,), (3,)], {}),
        ("cross", [(4, 3), (3,)], {}),
        ("cross", [(4, 2), (4, 3)], {}),
        ("cross", [(4, 3), (4, 2)], {}),
        ("cross", [(4, 2), (4, 2)], {}),
        ("cross", [(3, 4), (3, 4)], {"axis": 0}),
        ("cross", [(3, 4), (4, 3)], {"axisa": 0, "axisc": 0}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_other_products(name, shapes, keywords):
    check(
        lambda *a: getattr(np, name)(*a, **keywords),
        lambda *a: getattr(onp, name)(*a, **keywords),
        [numbers(*shape, seed=i) for i, shape in enumerate(shapes)],
    )


def test_vecdot():
    arrays = [numbers(2, 3, 4), numbers(3, 4)]
    check(np.vecdot, lambda a, b: (a * b).sum(-1), arrays)
    check(lambda a, b: np.vecdot(a, b, axis=0), lambda a, b: (a * b).sum(0), [arrays[1], arrays[1]])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32"])
def test_dtypes(dtype):
    for one, other in (((2, 3), (3, 4)), ((3,), (3,)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4))):
        a, b = numbers(*one, dtype=dtype), numbers(*other, dtype=dtype)
        tolerance = 1e-2 if dtype == "float16" else 1e-5
        assert_same([np.matmul(of(a), of(b))], [onp.matmul(a, b)], tolerance)
        assert_same([np.dot(of(a), of(b))], [onp.dot(a, b)], tolerance)
        assert_same([np.tensordot(of(a), of(b), 0)], [onp.tensordot(a, b, 0)], tolerance)


def test_promotion():
    a, b = of([numbers(2, 3, dtype="int64"), numbers(3, 4, dtype="float32")])
    for function in (np.dot, np.matmul, lambda x, y: np.einsum("ij,jk", x, y)):
        assert function(a, b).dtype == onp.float32
    assert np.outer(a, b).dtype == onp.float32


def test_second_order():
    a, b = of([numbers(2, 3), numbers(3, 2)])
    a.attach_grad()
    with autograd.record():
        y = np.einsum("ij,ji->", a, b)
        (first,) = autograd.grad(y * y, [a], create_graph=True)
        loss = (first * first).sum()
    loss.backward()
    product = (a.asnumpy() * b.asnumpy().T).sum()
    expected = 8 * product * (b.asnumpy() ** 2).sum() * b.asnumpy().T
    onp.testing.assert_allclose(a.grad.asnumpy(), expected, rtol=1e-10)


def test_in_place():
    a, b = of([numbers(3, 3), numbers(3, 3, seed=1)])
    expected = a.asnumpy() @ b.asnumpy()
    same = a
    a @= b
    assert a is same
    onp.testing.assert_allclose(a.asnumpy(), expected)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a: np.dot(a, a), ValueError, r"not aligned: 3 \(dim 1\) != 2 \(dim 0\)"),
        (lambda a: np.matmul(a, 2), ValueError, "Scalar operands"),
        (lambda a: np.matmul(a, a), ValueError, "not aligned"),
        (lambda a: np.matmul(of(numbers(2, 3, 4)), of(numbers(3, 4, 5))), ValueError, "broadcast"),
        (lambda a: np.inner(a, a.T), ValueError, "not aligned"),
        (lambda a: np.tensordot(a, a, 2.5), TypeError, "len"),
        (lambda a: np.tensordot(a, a, 3), ValueError, "axes must be from 0 to 2"),
        (lambda a: np.tensordot(a, a, ([0, 1], [0])), ValueError, "same number"),
        (lambda a: np.tensordot(a, a, (0, 1)), ValueError, "not aligned"),
        (lambda a: np.cross(a.T, a.T[:, :1]), ValueError, "must be 2 or 3"),
        (lambda a: np.einsum("ij,jk", a), ValueError, "2 operands"),
        (lambda a: np.einsum("ijk", a), ValueError, "3 subscripts"),
        (lambda a: np.einsum("i", a), ValueError, "1 subscripts"),
        (lambda a: np.einsum("ij->k", a), ValueError, "output subscript 'k'"),
        (lambda a: np.einsum("ij->ii", a), ValueError, "output subscript 'i'"),
        (lambda a: np.einsum("ij,jk", a, a), ValueError, "lengths 3 and 2"),
        (lambda a: np.einsum("i1", a), ValueError, "invalid subscripts"),
        (lambda a: np.einsum("ii", a), ValueError, "must be equal|lengths"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(of(numbers(2, 3)))


@pytest.mark.parametrize("n", [1, 3, 16, 20, 64, 77, 130])
@pytest.mark.parametrize("m", [1, 4, 7, 300])
def test_small_right_operand(m, n):
    a, b = numbers(m, 33, dtype="float32"), numbers(33, n, dtype="float32")
    wanted = a.astype("float64") @ b
    for result in (np.dot(of(a), of(b)), np.inner(of(a), of(b.T.copy()))):
        onp.testing.assert_allclose(result.asnumpy(), wanted, rtol=1e-4, atol=1e-4)
