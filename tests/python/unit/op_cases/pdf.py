"""Densities against SciPy; the gradients follow from finite differences."""

from __future__ import annotations

from typing import Callable

import numpy as np
from op_table import Case, fails, ints, no_grad, op, positive, rand
from scipy import stats

# name: density or probability, samples, parameters (one per row of samples)
_COUNTS = np.array([[0.0, 1.0, 4.0], [2.0, 3.0, 7.0]])
_LOW, _HIGH = np.array([-2.0, -1.5]), np.array([1.5, 3.0])
DENSITIES: dict[str, tuple[Callable[..., np.ndarray], np.ndarray, list[np.ndarray]]] = {
    "uniform": (lambda x, a, b: stats.uniform.pdf(x, a, b - a), rand(2, 3), [_LOW, _HIGH]),
    "normal": (lambda x, m, s: stats.norm.pdf(x, m, s), rand(2, 3), [rand(2), positive(2)]),
    "gamma": (
        lambda x, a, b: stats.gamma.pdf(x, a, scale=1 / b),
        positive(2, 3),
        [positive(2), positive(2)],
    ),
    "exponential": (
        lambda x, lam: stats.expon.pdf(x, scale=1 / lam),
        positive(2, 3),
        [positive(2)],
    ),
    "poisson": (lambda x, lam: stats.poisson.pmf(x, lam), _COUNTS, [positive(2)]),
    "negative_binomial": (
        lambda x, k, p: stats.nbinom.pmf(x, k, p),
        _COUNTS,
        [positive(2, low=1, high=4), positive(2, low=0.2, high=0.8)],
    ),
    "generalized_negative_binomial": (
        lambda x, m, a: stats.nbinom.pmf(x, 1 / a, 1 / (m * a + 1)),
        _COUNTS,
        [positive(2), positive(2)],
    ),
}
_DISCRETE = {"poisson", "negative_binomial", "generalized_negative_binomial"}

CASES: list[Case] = []
for _name, (_density, _x, _params) in DENSITIES.items():

    def _ref(x: np.ndarray, *p: np.ndarray, f: Callable[..., np.ndarray] = _density) -> np.ndarray:
        return f(x, *(v.reshape(v.shape + (1,) * (x.ndim - v.ndim)) for v in p))

    def _log(x: np.ndarray, *p: np.ndarray, f: Callable[..., np.ndarray] = _ref) -> np.ndarray:
        return np.log(f(x, *p))

    # Samples of a discrete distribution are counts: the operator gives them a zero gradient.
    _grad = list(range(1, len(_params) + 1)) if _name in _DISCRETE else True
    _op = "random_pdf_" + _name
    CASES += [
        op(_op, _x, *_params, ref=_ref, grad=_grad),
        # The gradient by alpha is a difference of logarithms of the other parameter's products.
        op(_op, _x, *_params, is_log=True, ref=_log, grad=_grad, grad_tol=4),
        op(_op, _x[:, 0], *_params, ref=_ref, grad=_grad),
        op(_op, np.stack([_x, _x], -1), *_params, ref=_ref, grad=_grad),
        no_grad(_op, np.zeros((0, 3)), *[np.zeros(0) for _ in _params], ref=_ref),
        fails(_op, _x, *[np.ones(3) for _ in _params], match=rf"{_op}.*\(2, 3\).*\(3,\)"),
        fails(_op, ints([[1]]), *[np.ones(1) for _ in _params], error=TypeError, match="int32"),
    ]

# Nothing lies outside of the support.
CASES += [
    op(f"random_pdf_{name}", np.array([x]), *map(np.array, params), ref=np.array([want]), grad=grad)
    for name, x, params, want, grad in [
        ("uniform", [-3.0, 0.0, 4.0], [[-1.0], [1.0]], [0, 0.5, 0], True),
        ("exponential", [-1.0, 1.0], [[2.0]], [0, 2 * np.exp(-2)], True),
        ("gamma", [-1.0, 0.0], [[1.0], [2.0]], [0, 2], False),
        ("poisson", [-1.0, 0.0], [[1.0]], [0, np.exp(-1)], [1]),
    ]
]


_PDF = "random_pdf_dirichlet"


def _dirichlet(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    a = alpha.reshape(alpha.shape[:-1] + (1,) * (x.ndim - alpha.ndim) + alpha.shape[-1:])
    a = np.broadcast_to(a, x.shape)
    flat = [
        np.exp(np.sum((q - 1) * np.log(p)) - stats._multivariate._lnB(q))
        for p, q in zip(x.reshape(-1, x.shape[-1]), a.reshape(-1, x.shape[-1]))
    ]
    return np.reshape(flat, x.shape[:-1] or (1,))


_SAMPLES = positive(2, 3, 4)
_SAMPLES /= _SAMPLES.sum(-1, keepdims=True)
CASES += [
    op(_PDF, _SAMPLES, positive(2, 4), ref=_dirichlet),
    op(_PDF, _SAMPLES[0], positive(4), ref=_dirichlet),
    op(_PDF, _SAMPLES[0, 0], positive(4), ref=_dirichlet),
    op(_PDF, _SAMPLES, positive(2, 3, 4), is_log=True, ref=lambda x, a: np.log(_dirichlet(x, a))),
    fails(_PDF, (2, 3), (2, 4), match=r"random_pdf_dirichlet.*\(2, 3\).*\(2, 4\)"),
]
