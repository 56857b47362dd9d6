"""mx.np.linalg against NumPy: values, gradients, hybridized calls, errors."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import assert_same, check, check_gradient, numbers, of, parts
from mxlite import autograd

np = mx.np
linalg, official = np.linalg, onp.linalg


def square(*shape, seed=0):
    """Return matrices that are far from singular."""
    return numbers(*shape, shape[-1], seed=seed) + 3 * onp.eye(shape[-1])


def symmetric(a):
    return a + onp.swapaxes(a, -1, -2)


def definite(a):
    return a @ onp.swapaxes(a, -1, -2)


def mirrored(a):
    """Return symmetric matrices of np arrays."""
    return a + np.swapaxes(a, -1, -2)


def squared(a):
    return np.matmul(a, np.swapaxes(a, -1, -2))


# Functions of svd, eig and eigh that do not depend on the signs of vectors.
def of_svd(xp):
    def function(a):
        u, s, v = xp.linalg.svd(a, full_matrices=False)
        return s, xp.abs(u), xp.abs(v), xp.matmul(u, v)

    return function


def of_eigh(xp, uplo="L"):
    def function(a):
        w, v = xp.linalg.eigh(a + xp.swapaxes(a, -1, -2), uplo)
        return w, xp.abs(v)

    return function


def of_eig(xp):
    def function(a):
        w, v = xp.linalg.eig(xp.matmul(a, xp.swapaxes(a, -1, -2)))
        return w, xp.square(v)

    return function


def both(name, *options, **named):
    """Return a function of mx.np.linalg and the official one with the same options."""
    mine, other = getattr(linalg, name), getattr(official, name)
    return (lambda *a: mine(*a, *options, **named)), (lambda *a: other(*a, *options, **named))


CASES = {
    "cholesky": (
        lambda a: linalg.cholesky(squared(a)),
        lambda a: official.cholesky(definite(a)),
        [square(2, 3)],
    ),
    "inv": (linalg.inv, official.inv, [square(2, 3)]),
    "det": (linalg.det, official.det, [square(3)]),
    "det batch": (linalg.det, official.det, [square(2, 3)]),
    "slogdet": (linalg.slogdet, official.slogdet, [-square(2, 3)]),
    "slogdet one": (linalg.slogdet, official.slogdet, [square(3)]),
    "solve": (linalg.solve, official.solve, [square(2, 3), numbers(2, 3, 4)]),
    "solve vector": (linalg.solve, official.solve, [square(3), numbers(3)]),
    "solve vectors": (
        linalg.solve,
        lambda a, b: official.solve(a, b[..., None])[..., 0],
        [square(3, 3), numbers(3, 3)],
    ),
    "solve broadcast": (linalg.solve, official.solve, [square(2, 1, 3), numbers(4, 3, 2)]),
    "tensorinv": (linalg.tensorinv, official.tensorinv, [square(6).reshape(2, 3, 3, 2)]),
    "tensorinv 1": (*both("tensorinv", 1), [square(6).reshape(6, 3, 2)]),
    "tensorsolve": (*both("tensorsolve"), [square(6).reshape(2, 3, 6), numbers(2, 3)]),
    "tensorsolve axes": (
        lambda a, b: linalg.tensorsolve(a, b, (1,)),
        lambda a, b: official.tensorsolve(a, b, (1,)),
        [onp.moveaxis(square(6).reshape(2, 3, 6), 2, 1), numbers(2, 3)],
    ),
    "svd tall": (of_svd(np), of_svd(onp), [numbers(2, 4, 3)]),
    "svd wide": (of_svd(np), of_svd(onp), [numbers(3, 5)]),
    "svdvals": (linalg.svdvals, lambda a: official.svd(a, compute_uv=False), [numbers(4, 3)]),
    "qr tall": (linalg.qr, official.qr, [numbers(2, 4, 3)]),
    "qr square": (linalg.qr, official.qr, [numbers(3, 3)]),
    "qr wide": (linalg.qr, official.qr, [numbers(2, 3, 5)]),
    "qr r": (*both("qr", "r"), [numbers(4, 3)]),
    "eigh": (of_eigh(np), of_eigh(onp), [numbers(2, 3, 3)]),
    "eigh upper": (of_eigh(np, "U"), of_eigh(onp, "U"), [numbers(3, 3)]),
    "eigvalsh": (
        lambda a: linalg.eigvalsh(mirrored(a)),
        lambda a: official.eigvalsh(symmetric(a)),
        [numbers(3, 3)],
    ),
    "pinv tall": (linalg.pinv, official.pinv, [numbers(2, 4, 3)]),
    "pinv wide": (linalg.pinv, official.pinv, [numbers(3, 5)]),
    "pinv of orthogonal": (linalg.pinv, official.pinv, [2 * onp.eye(3)]),
    "matrix_power": (*both("matrix_power", 5), [square(2, 2)]),
    "matrix_power -2": (*both("matrix_power", -2), [square(2)]),
    "multi_dot": (
        lambda *a: linalg.multi_dot(a), lambda *a: official.multi_dot(a),
        [numbers(2, 5), numbers(5, 3, seed=1), numbers(3, 4, seed=2), numbers(4)],
    ),
    "cond": (linalg.cond, official.cond, [square(2, 3)]),
    "cond fro": (*both("cond", "fro"), [square(3)]),
    "matrix_norm": (
        linalg.matrix_norm,
        lambda a: official.norm(a, axis=(-2, -1)),
        [numbers(2, 3, 4)],
    ),
    "vector_norm": (linalg.vector_norm, lambda a: official.norm(a.ravel()), [numbers(2, 3, 4)]),
    "vecdot": (linalg.vecdot, lambda a, b: (a * b).sum(-1), [numbers(2, 3), numbers(2, 3, seed=1)]),
    "matrix_transpose": (
        linalg.matrix_transpose,
        lambda a: onp.swapaxes(a, -1, -2),
        [numbers(2, 3, 4)],
    ),
    "diagonal": (linalg.diagonal, lambda a: onp.diagonal(a, 0, -2, -1), [numbers(2, 3, 4)]),
    "trace": (
        lambda a: linalg.trace(a, offset=1),
        lambda a: onp.trace(a, 1, -2, -1),
        [numbers(2, 3, 4)],
    ),
    "lstsq": (
        lambda a, b: linalg.lstsq(a, b)[0], lambda a, b: official.lstsq(a, b, rcond=None)[0],
        [numbers(5, 3), numbers(5, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_numpy(name):
    function, reference, arrays = CASES[name]
    check(function, reference, arrays)


def test_eig_has_results_and_gradients_of_real_eigenvalues():
    a = onp.diag([1.0, 2.0, 4.0]) + 0.1 * numbers(3, 3)
    w, v = linalg.eig(of(a))
    wanted = official.eig(a)
    assert_same([w, v], list(wanted))
    check_gradient(of_eig(np), of_eig(onp), [square(3)])
    check_gradient(linalg.eigvals, official.eigvals, [a])


NORMS = [
    *((ord, axis) for ord in (None, 0, 1, 2, 3, -1, 0.5, onp.inf, -onp.inf) for axis in (0, -1)),
    *((ord, (2, 0)) for ord in (None, "fro", "nuc", 1, -1, 2, -2, onp.inf, -onp.inf)),
    (None, None),
]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("ord", "axis"), NORMS)
def test_norms_are_those_of_numpy(ord, axis, keepdims):
    def of_norm(xp):
        return lambda a: xp.linalg.norm(a, ord, axis, keepdims)

    check(of_norm(np), of_norm(onp), [numbers(2, 3, 4)], gradient=ord != 0)


@pytest.mark.parametrize("ord", [None, "fro", 2, 3])
def test_the_gradient_of_a_norm_at_zero_is_zero(ord):
    x = np.zeros((3, 1) if ord == "fro" else (3,))
    x.attach_grad()
    with autograd.record():
        loss = linalg.norm(x, ord)
    loss.backward()
    onp.testing.assert_array_equal(x.grad.asnumpy(), 0)


def test_lstsq_returns_residuals_rank_and_singular_values():
    for a in (numbers(5, 3), numbers(3, 5), numbers(5, 1) @ numbers(1, 3)):
        for b in (numbers(len(a)), numbers(len(a), 2)):
            found = linalg.lstsq(of(a), of(b), rcond=None)
            wanted = official.lstsq(a, b, rcond=None)
            assert found[2] == wanted[2]
            assert_same([found[0], found[1], found[3]], [wanted[0], wanted[1], wanted[3]])


def test_ranks_count_singular_values_above_a_limit():
    a = onp.stack([onp.eye(4), onp.diag([1.0, 1.0, 0.0, 1e-3]), onp.zeros((4, 4))])
    for options in ({}, {"tol": 0.01}):
        found = linalg.matrix_rank(of(a), **options)
        assert_same([found], [official.matrix_rank(a, **options)])
    assert linalg.matrix_rank(np.zeros(3)).item() == 0
    assert linalg.matrix_rank(np.ones(3)).item() == 1


def test_matrix_power_zero_is_the_identity():
    assert_same(
        [linalg.matrix_power(of(square(2, 3)), 0)], [official.matrix_power(square(2, 3), 0)]
    )


def test_matrices_without_elements_give_arrays_without_elements():
    for shape in ((0, 3), (3, 0), (0, 2, 2), (0, 0)):
        a = np.zeros(shape)
        assert_same(parts(linalg.svd(a)), official.svd(a.asnumpy(), full_matrices=False))
        assert_same(parts(linalg.qr(a)), official.qr(a.asnumpy()))
        assert linalg.pinv(a).shape == (*shape[:-2], shape[-1], shape[-2])
    assert linalg.det(np.zeros((0, 0))).item() == 1
    assert linalg.norm(np.array([1.0, -3.0]), "inf").item() == 3
    assert linalg.solve(np.zeros((0, 0)), np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 5), (3, 3)])
def test_square_factors(shape):
    """Products of the factors equal NumPy's, and so do their columns except for signs."""
    a = numbers(*shape)
    u, s, v = (part.asnumpy() for part in linalg.svd(of(a), full_matrices=True))
    q, r = (part.asnumpy() for part in linalg.qr(of(a), "complete"))
    for found, wanted in zip((u, s, v), official.svd(a)):
        onp.testing.assert_allclose(abs(found), abs(wanted), atol=1e-10)
    assert q.shape == official.qr(a, "complete")[0].shape
    onp.testing.assert_allclose(q @ r, a, atol=1e-10)
    onp.testing.assert_allclose(q @ q.swapaxes(-1, -2) - onp.eye(shape[-2]), 0, atol=1e-10)


def test_integers_become_float32():
    a = np.array([[2, 1], [1, 3]], dtype="int32")
    for function in (linalg.inv, linalg.det, linalg.cholesky, linalg.svdvals, linalg.norm):
        assert function(a).dtype == onp.float32


ERRORS = [
    (lambda: linalg.inv(np.zeros((2, 2))), "singular"),
    (lambda: linalg.solve(np.ones((2, 2)), np.ones(2)), "singular"),
    (lambda: linalg.cholesky(np.array([[1.0, 2], [2, 1]])), "must be positive definite"),
    (lambda: linalg.svd(np.array([[np.nan, 1.0]])).S, "must be finite"),
    (lambda: linalg.eig(np.array([[0.0, 1], [-1, 0]])).eigenvalues, "must be real"),
    (lambda: linalg.inv(np.ones((2, 3))), "must be square"),
    (lambda: linalg.det(np.ones(3)), "at least 2 dimensions"),
    (lambda: linalg.solve(np.ones((2, 2)), np.ones((3, 2))), "b must have 2 rows"),
    (lambda: linalg.tensorinv(np.ones((2, 3)), 1), "as many elements"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS)
def test_errors_of_matrices_are_linalg_errors(call, text):
    with pytest.raises(official.LinAlgError, match=text) as caught:
        call().wait_to_read()
    assert isinstance(caught.value, mx.MXNetError)
    assert isinstance(caught.value, ValueError)


def test_wrong_arguments_raise():
    for call in (
        lambda: linalg.norm(np.ones((2, 2)), "max"),
        lambda: linalg.norm(np.ones((2, 2, 2)), 2),
        lambda: linalg.qr(np.ones((2, 2)), "raw"),
        lambda: linalg.eigh(np.ones((2, 2)), "X"),
        lambda: linalg.multi_dot([np.ones((2, 2))]),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="as_np_ndarray"):
        linalg.inv(mx.nd.ones((2, 2)))


def test_second_derivatives_of_a_determinant_and_a_solution():
    a, b = square(3), numbers(3)

    def of_both(xp):
        return lambda a, b: xp.linalg.det(a) + (xp.linalg.solve(a, b) ** 2).sum()

    def slope(a, b):
        x, y = of(a), of(b)
        x.attach_grad()
        with autograd.record():
            first = autograd.grad(of_both(np)(x, y), x, create_graph=True)
            first = first[0] if isinstance(first, list) else first
            loss = (first.as_np_ndarray() ** 2).sum()
        loss.backward()
        return loss.item(), x.grad.asnumpy()

    direction = numbers(3, 3, seed=3)
    step = 1e-6
    expected = (slope(a + step * direction, b)[0] - slope(a - step * direction, b)[0]) / (2 * step)
    onp.testing.assert_allclose((slope(a, b)[1] * direction).sum(), expected, rtol=1e-5)


def test_results_are_tuples_and_lists_as_in_1_x():
    a = np.array([[2.0, 1], [1, 3]])
    assert isinstance(linalg.slogdet(a), list)
    for function in (linalg.svd, linalg.eigh, linalg.eig, linalg.qr):
        assert isinstance(function(a), tuple)
    assert len(parts(linalg.svd(a))) == 3
