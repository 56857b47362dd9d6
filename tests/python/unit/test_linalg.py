"""Linear algebra beyond the op table: symmetric inputs, products of factors."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


def array(values: np.ndarray) -> nd.NDArray:
    return nd.array(values, dtype="float64")


def matrix(n: int, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, (2, n, n))


def gram(x: nd.NDArray) -> nd.NDArray:
    """Return x x^T + 2: symmetric and positive definite for every x."""
    return nd.linalg_syrk(x) + 2 * array(np.eye(x.shape[-1]))


def cholesky_loss(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return (nd.linalg_potrf(gram(x)) * w).sum()


def upper_loss(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    """Return a number made by upper factors, forth and back."""
    factor = nd.linalg_potrf(gram(x), lower=False)
    inverse = nd.linalg_potri(factor, lower=False)
    np.testing.assert_allclose(inverse.asnumpy(), np.linalg.inv(gram(x).asnumpy()), rtol=1e-9)
    return (factor * w).sum() + (inverse * w).sum()


def eigen_loss(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    """Return a number that does not depend on the signs of eigenvectors."""
    u, values = nd.linalg_syevd(gram(x))
    return (u * u * w).sum() + (values * values).sum()


@pytest.mark.parametrize("loss", [cholesky_loss, upper_loss, eigen_loss])
def test_gradient_on_symmetric_matrices_equals_finite_differences(loss) -> None:
    x, w, direction = matrix(3, 1), array(matrix(3, 2)), matrix(3, 3)
    variable = array(x)
    variable.attach_grad()
    with mx.autograd.record():
        head = loss(variable, w)
    head.backward()
    step = 1e-6
    up, down = (float(loss(array(x + s * step * direction), w).asscalar()) for s in (1, -1))
    got = float((variable.grad.asnumpy() * direction).sum())
    assert got == pytest.approx((up - down) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("n", [1, 4, 10])
def test_eigenvectors_are_orthonormal_and_rebuild_the_matrix(n: int) -> None:
    a = matrix(n, 4)
    a = a + a.swapaxes(-1, -2)
    u, values = (r.asnumpy() for r in nd.linalg_syevd(array(a)))
    np.testing.assert_allclose(u @ u.swapaxes(-1, -2), [np.eye(n)] * 2, atol=1e-12)
    np.testing.assert_allclose(u.swapaxes(-1, -2) @ (values[..., None] * u), a, atol=1e-12)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-12)
    # The largest component of each eigenvector is positive.
    assert (np.take_along_axis(u, np.abs(u).argmax(axis=-1, keepdims=True), -1) > 0).all()


def test_nearly_dependent_rows_still_give_orthonormal_rows() -> None:
    a = np.array([[1.0, 0, 0, 0], [1, 1e-9, 0, 0], [1, 0, 1e-9, 0]])
    q, lower = (r.asnumpy() for r in nd.linalg_gelqf(array(a)))
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(lower @ q, a, atol=1e-15)


@pytest.mark.parametrize("hybrid", [False, True])
def test_the_gradient_of_a_determinant_that_is_0_is_0(hybrid: bool) -> None:
    class Determinants(mx.gluon.HybridBlock):
        def forward(self, x: nd.NDArray) -> list[nd.NDArray]:
            return [nd.linalg_det(x), nd.linalg_slogdet(x)[1]]

    net = Determinants()
    net.hybridize(hybrid)
    singular, regular = [[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]
    inverse = np.linalg.inv(regular).T
    for output, want in enumerate([-2 * inverse, inverse]):
        x = array(np.array([singular, regular]))
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)[output]
        y.backward()
        np.testing.assert_array_equal(x.grad[0].asnumpy(), 0)
        np.testing.assert_allclose(x.grad[1].asnumpy(), want, rtol=1e-12)


def test_diagonals_and_triangles_without_elements_have_gradients() -> None:
    for run, shape in [
        (nd.linalg_extractdiag, (2, 0, 0)),
        (lambda a: nd.linalg_makediag(a, offset=4), (2, 0)),
        (lambda a: nd.linalg_gelqf(a)[1], (2, 0, 3)),
        (lambda a: nd.linalg.maketrian(a, lower=False), (2, 0)),
    ]:
        x = nd.zeros(shape)
        x.attach_grad()
        with mx.autograd.record():
            y = run(x)
        y.backward()
        assert x.grad.shape == shape
    assert y.shape == (2, 0, 0)
    with pytest.raises(ValueError, match="offset must name a triangle of A .*, got 3"):
        nd.linalg.extracttrian(nd.zeros((2, 2)), offset=3)
