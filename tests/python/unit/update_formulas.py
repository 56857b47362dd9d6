"""NumPy formulas of the weight updates: each returns the new weight and the new states."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from op_table import positive, rand

Arrays = tuple[np.ndarray, ...]


def clipped(x: np.ndarray, limit: float) -> np.ndarray:
    """Limit the gradient, if the limit is not below 0."""
    return np.clip(x, -limit, limit) if limit >= 0 else x


def _g(g, rescale_grad=1.0, clip_gradient=-1.0, **_):
    return clipped(rescale_grad * g, clip_gradient)


def _g_wd(w, g, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0, **_):
    return clipped(rescale_grad * g + wd * w, clip_gradient)


def _sgd(w, g, lr, wd=0.0, **kw):
    return (w - lr * (_g(g, **kw) + wd * w),)


def _sgd_mom(w, g, m, lr, momentum=0.0, wd=0.0, **kw):
    m = momentum * m - lr * (_g(g, **kw) + wd * w)
    return w + m, m


def _nag(w, g, m, lr, momentum=0.0, wd=0.0, **kw):
    step = lr * (_g(g, **kw) + wd * w)
    m = momentum * m - step
    return w + momentum * m - step, m


def _adam(w, g, m, v, lr, beta1=0.9, beta2=0.999, epsilon=1e-8, **kw):
    g = _g_wd(w, g, **kw)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return w - lr * m / (np.sqrt(v) + epsilon), m, v


def _adamw(w, g, m, v, s, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0.0, **kw):
    g = clipped(s * g, kw.get("clip_gradient", -1))
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return w - eta * (lr * m / (np.sqrt(v) + epsilon) + wd * w), m, v


def _adagrad(w, g, h, lr, epsilon=1e-7, wd=0.0, **kw):
    g = _g(g, **kw)
    h = h + g * g
    return w - lr * (g / np.sqrt(h + epsilon) + wd * w), h


def _rmsprop(w, g, n, lr, gamma1=0.95, epsilon=1e-8, clip_weights=-1.0, **kw):
    g = _g_wd(w, g, **kw)
    n = gamma1 * n + (1 - gamma1) * g * g
    return clipped(w - lr * g / np.sqrt(n + epsilon), clip_weights), n


def _rmspropalex(w, g, n, m, d, lr, gamma1=0.95, gamma2=0.9, epsilon=1e-8, clip_weights=-1.0, **kw):
    g = _g_wd(w, g, **kw)
    n, m = gamma1 * n + (1 - gamma1) * g * g, gamma1 * m + (1 - gamma1) * g
    d = gamma2 * d - lr * g / np.sqrt(n - m * m + epsilon)
    return clipped(w + d, clip_weights), n, m, d


def _ftrl(w, g, z, n, lr, lamda1=0.01, beta=1.0, wd=0.0, **kw):
    g = _g(g, **kw)
    z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / lr
    n = n + g * g
    step = (np.sign(z) * lamda1 - z) / ((beta + np.sqrt(n)) / lr + wd)
    return step * (np.abs(z) > lamda1), z, n


def _ftml(w, g, d, v, z, lr, t, beta1=0.6, beta2=0.999, epsilon=1e-8, clip_grad=-1.0, **kw):
    g = _g_wd(w, g, clip_gradient=clip_grad, **kw)
    v = beta2 * v + (1 - beta2) * g * g
    new = (1 - beta1**t) / lr * (np.sqrt(v / (1 - beta2**t)) + epsilon)
    z = beta1 * z + (1 - beta1) * g - (new - beta1 * d) * w
    return -z / new, new, v, z


def _signsgd(w, g, lr, wd=0.0, **kw):
    return (w - lr * (np.sign(g) + wd * w),)


def _signum(w, g, m, lr, momentum=0.0, wd=0.0, wd_lh=0.0, **kw):
    m = momentum * m - (1 - momentum) * (_g(g, **kw) + wd * w)
    return (1 - lr * wd_lh) * w + lr * np.sign(m), m


def _lamb(w, g, m, v, t, wd, beta1=0.9, beta2=0.999, epsilon=1e-6, bias_correction=True, **kw):
    g = _g(g, **kw)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    first, second = (1 - beta1**t, 1 - beta2**t) if bias_correction else (1.0, 1.0)
    return m / first / (np.sqrt(v / second) + epsilon) + wd * w, m, v


def _adamax(w, g, m, u, lr, beta1=0.9, beta2=0.999, **kw):
    g = _g_wd(w, g, **kw)
    m, u = beta1 * m + (1 - beta1) * g, np.maximum(beta2 * u, np.abs(g))
    return w - lr * m / u, m, u


def _nadam(
    w, g, m, v, lr, t, momentum, next_momentum, schedule, beta1=0.9, beta2=0.999, epsilon=1e-8, **kw
):
    g = _g_wd(w, g, **kw)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    ahead = (1 - momentum) / (1 - schedule) * g
    ahead = ahead + next_momentum / (1 - schedule * next_momentum) * m
    return w - lr * ahead / (np.sqrt(v / (1 - beta2**t)) + epsilon), m, v


def _adadelta(w, g, squares, steps, rho=0.9, epsilon=1e-5, wd=0.0, **kw):
    g = _g(g, **kw)
    squares = rho * squares + (1 - rho) * g * g
    step = np.sqrt(steps + epsilon) / np.sqrt(squares + epsilon) * g
    steps = rho * steps + (1 - rho) * step * step
    return w - (step + wd * w), squares, steps


def _dcasgd(w, g, previous, lr, lamda=0.04, wd=0.0, **kw):
    g = _g(g, **kw)
    return w - lr * (g + wd * w + lamda * g * g * (w - previous)), w


def _dcasgd_mom(w, g, m, previous, lr, momentum=0.0, **kw):
    m = momentum * m + _dcasgd(w, g, previous, lr, **kw)[0] - w
    return w + m, m, w


_COMMON: dict[str, Any] = {"wd": 0.1, "rescale_grad": 0.7, "clip_gradient": 0.4}
_LR: dict[str, Any] = {"lr": 0.1, **_COMMON}
_FTML: dict[str, Any] = {"lr": 0.1, "t": 3, "wd": 0.1, "rescale_grad": 0.7, "clip_grad": 0.4}
_ADAMW: dict[str, Any] = {"lr": 0.1, "eta": 0.5, "wd": 0.1, "clip_gradient": 0.4}
_NADAM: dict[str, Any] = {"t": 3, "momentum": 0.8, "next_momentum": 0.85, "schedule": 0.6}

# Formula, parameters and states: (p)ositive, (s)mall or (r)andom values, or a number as (g)iven.
# Variances are above zero, centred ones above their mean.
_UPDATES: dict[str, tuple[Callable[..., Arrays], dict[str, Any], str]] = {
    "sgd_update": (_sgd, _LR, ""),
    "sgd_mom_update": (_sgd_mom, {**_LR, "momentum": 0.9}, "s"),
    "nag_mom_update": (_nag, {**_LR, "momentum": 0.9}, "s"),
    "adam_update": (_adam, {**_LR, "beta1": 0.8}, "sp"),
    "_adamw_update": (_adamw, _ADAMW, "spg"),
    "_sparse_adagrad_update": (_adagrad, _LR, "p"),
    "rmsprop_update": (_rmsprop, {**_LR, "clip_weights": 0.5}, "p"),
    "rmspropalex_update": (_rmspropalex, {**_LR, "clip_weights": 0.5}, "psr"),
    "ftrl_update": (_ftrl, {**_LR, "lamda1": 0.3}, "rp"),
    "ftml_update": (_ftml, _FTML, "ppr"),
    "signsgd_update": (_signsgd, _LR, ""),
    "signum_update": (_signum, {**_LR, "momentum": 0.9, "wd_lh": 0.05}, "s"),
    "lamb_update_phase1": (_lamb, {"t": 2, **_COMMON}, "sp"),
    "_adamax_update": (_adamax, {**_LR, "beta1": 0.8}, "sp"),
    "_nadam_update": (_nadam, {**_LR, **_NADAM}, "sp"),
    "_adadelta_update": (_adadelta, _COMMON, "pp"),
    "_dcasgd_update": (_dcasgd, {**_LR, "lamda": 0.3}, "r"),
    "_dcasgd_mom_update": (_dcasgd_mom, {**_LR, "momentum": 0.9, "lamda": 0.3}, "sr"),
}
FORMULAS = {name: formula for name, (formula, _, _) in _UPDATES.items()}
HYPER = {name: parameters for name, (_, parameters, _) in _UPDATES.items()}


def states_of(name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return states with legal values."""
    kinds: dict[str, Callable[..., np.ndarray]] = {
        "p": positive,
        "r": rand,
        "s": lambda *shape: rand(*shape, low=-0.1, high=0.1),
        "g": lambda *shape: np.array([0.7]),
    }
    return [kinds[kind](*shape) for kind in _UPDATES[name][2]]
