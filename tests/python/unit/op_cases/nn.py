"""Rows of dense layers, activations, Dropout, Embedding, softmax and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from op_table import draws, fails, ints, no_grad, op, rand

_erf = np.vectorize(math.erf)


def np_softmax(x: np.ndarray, axis: int = -1, length: np.ndarray | None = None) -> np.ndarray:
    """Return softmax; entries from length on are 0."""
    if length is not None:
        shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
        inside = np.arange(x.shape[axis]).reshape(shape) < np.expand_dims(length, axis)
        x = np.where(inside, x, -np.inf)
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.log(np_softmax(x, axis))


def _activation(kind: str, ref: Any) -> Any:
    return op("Activation", rand(3, 5, low=-3, high=3), act_type=kind, ref=ref)


def _leaky(kind: str, ref: Any, **params: Any) -> Any:
    x = rand(3, 5, low=-3, high=3)
    return op("LeakyReLU", x, act_type=kind, ref=ref, **params)


def _prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, x * slope)


def _prelu_of_rows(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return _prelu(x, slope.reshape(slope.shape + (1,) * (x.ndim - slope.ndim)))


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _heads(x: np.ndarray, heads: int, parts: int) -> list[np.ndarray]:
    """Return the parts of an interleaved projection, each (batch * heads, length, d)."""
    length, batch, _ = x.shape
    split = x.reshape(length, batch, heads, parts, -1)
    moved = split.transpose(3, 1, 2, 0, 4)
    return list(moved.reshape(parts, batch * heads, length, -1))


def _merge(y: np.ndarray, heads: int) -> np.ndarray:
    """Return (length, batch, heads * d) from (batch * heads, length, d)."""
    _, length, d = y.shape
    return y.reshape(-1, heads, length, d).transpose(2, 0, 1, 3).reshape(length, -1, heads * d)


def _self_qk(x: np.ndarray) -> np.ndarray:
    q, k, _ = _heads(x, 2, 3)
    return q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])


def _enc_qk(x: np.ndarray, kv: np.ndarray) -> np.ndarray:
    (q,), (k, _) = _heads(x, 2, 1), _heads(kv, 2, 2)
    return q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])


_FC = "FullyConnected"
_MATMUL = "_contrib_interleaved_matmul"
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805
_NAN = np.array([np.nan, -1.0, 2.0])

CASES = [
    # FullyConnected
    op(_FC, (4, 6), (3, 6), (3,), num_hidden=3, ref=lambda x, w, b: x @ w.T + b),
    # One row: matrix times vector.
    no_grad(_FC, (1, 203), (301, 203), (301,), num_hidden=301, ref=lambda x, w, b: x @ w.T + b),
    op(_FC, (4, 2, 3), (5, 6), num_hidden=5, no_bias=True, ref=lambda x, w: x.reshape(4, 6) @ w.T),
    op(_FC, (2, 3, 4), (5, 4), (5,), num_hidden=5, flatten=False, ref=lambda x, w, b: x @ w.T + b),
    no_grad(_FC, (0, 4), (5, 4), (5,), num_hidden=5, ref=np.zeros((0, 5))),
    op(
        _FC, ints([[1, 2], [3, 4]]), ints([[1, -1]]), ints([10]), num_hidden=1, ref=ints([[9], [9]])
    ),
    fails(
        _FC,
        *[(32, 28, 28), (10, 784), (10,)],
        num_hidden=10,
        flatten=False,
        match=r"FullyConnected: weight must have shape .* \(10, 28\) for data of shape "
        r"\(32, 28, 28\), got \(10, 784\); or flatten data to \(32, 784\)",
    ),
    *(
        fails(_FC, (4, 6), *inputs, num_hidden=3, error=error, match=match)
        for error, match, *inputs in [
            (ValueError, r"weight must have shape .* \(3, 6\) .*, got \(3, 5\)", (3, 5), (3,)),
            (TypeError, "missing required input 'bias'", (3, 6)),
            (TypeError, "weight must have .* float32, got int32", ints([[1] * 6] * 3), (3,)),
        ]
    ),
    # Activation
    _activation("relu", lambda x: np.maximum(x, 0)),
    _activation("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    _activation("tanh", np.tanh),
    _activation("softrelu", lambda x: np.log1p(np.exp(x))),
    _activation("softsign", lambda x: x / (1 + np.abs(x))),
    no_grad("Activation", _NAN, act_type="relu", ref=np.array([np.nan, 0.0, 2.0])),
    op("Activation", np.array([1e3, -1e3]), act_type="softrelu", ref=lambda x: np.maximum(x, 0)),
    no_grad("Activation", (0, 3), act_type="tanh", ref=lambda x: x),
    op("Activation", ints([-2, 3]), act_type="relu", ref=np.array([0, 3])),
    fails("Activation", (3,), act_type="swish", match="act_type.*swish"),
    # LeakyReLU
    _leaky("leaky", lambda x: np.where(x > 0, x, 0.25 * x)),
    _leaky("leaky", lambda x: np.where(x > 0, x, 0.5 * x), slope=0.5),
    _leaky("elu", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), slope=0.5),
    _leaky("selu", lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(x))),
    _leaky("gelu", _gelu),
    _leaky("rrelu", lambda x: np.where(x > 0, x, 0.375 * x), lower_bound=0.25, upper_bound=0.5),
    op("LeakyReLU", (2, 3, 4), (3,), act_type="prelu", ref=lambda x, g: _prelu(x, g[:, None])),
    op("LeakyReLU", (2, 3), (1,), act_type="prelu", ref=_prelu),
    *(  # one slope for each entry of the first two axes
        op("LeakyReLU", data, gamma, act_type="prelu", ref=_prelu_of_rows)
        for data, gamma in [
            ((2, 3, 4), (2, 3)),
            ((2, 3, 4), (1, 3)),
            ((2, 3), (2, 3)),
            ((5,), (5,)),
        ]
    ),
    fails("LeakyReLU", (2, 3), (3, 3), act_type="prelu", match="gamma"),
    fails(
        "LeakyReLU",
        (2, 3, 4),
        (4,),
        act_type="prelu",
        match=r"gamma must have shape \(3,\).*, got \(4,\)",
    ),
    # Dropout
    op("Dropout", (3, 4), ref=lambda x: x),
    op("Dropout", (3, 4), p=0.0, training=True, ref=lambda x: x),
    op("Dropout", (3, 4), p=1.0, mode="always", ref=np.zeros_like),
    draws(
        "Dropout",
        np.ones((50, 60)),
        p=0.3,
        mode="always",
        check=lambda y: (
            set(np.unique(y.round(4))) == {0.0, 1.4286} and abs((y == 0).mean() - 0.3) < 0.04
        ),
    ),
    draws(
        "Dropout",
        np.ones((40, 50)),
        p=0.5,
        mode="always",
        axes=(0,),
        check=lambda y: (y == y[:1]).all() and 10 < (y[0] == 0).sum() < 40,
    ),
    fails("Dropout", (3,), p=1.5, match="Dropout: parameter p must be from 0 to 1"),
    # Embedding
    *(
        op(
            "Embedding",
            index,
            (4, size),
            input_dim=4,
            output_dim=size,
            grad=[1],
            ref=lambda i, w: w[i.clip(0, 3).astype(int)],
        )
        for index, size in [
            (ints([[0, 3], [1, 1]]), 5),
            (np.array([[-1.0, 9.0], [1.7, 0.0]]), 3),
            (ints([[1, 3, 1, 1], [1, 1, 0, 1]]), 130),  # one row of the table has most of the terms
        ]
    ),
    no_grad("Embedding", ints([]), (4, 3), input_dim=4, output_dim=3, ref=np.zeros((0, 3))),
    fails("Embedding", ints([0]), (4, 3), input_dim=5, output_dim=3, match=r"weight .* .5, 3."),
    # softmax
    op("softmax", (4, 7), ref=np_softmax),
    no_grad("softmax", (41, 500), ref=np_softmax),  # large enough for oneDNN
    no_grad("softmax", (300, 60, 2), axis=1, ref=lambda x: np_softmax(x, 1)),
    no_grad("log_softmax", (41, 500), ref=lambda x: np.log(np_softmax(x)), magnitude=8),
    op("softmax", (4, 7, 3), axis=1, ref=lambda x: np_softmax(x, 1)),
    op("softmax", (4, 7), axis=0, temperature=0.5, ref=lambda x: np_softmax(2 * x, 0)),
    op("softmax", (3, 40, 20), axis=-2, ref=lambda x: np_softmax(x, 1)),
    no_grad("softmax", np.array([[-np.inf, 0.0]]), ref=np.array([[0, 1]])),
    op("softmax", np.array([[1e4, 0.0, -1e4]]), ref=np.array([[1, 0, 0]])),
    no_grad("softmax", (0, 3), ref=lambda x: x),
    op("softmax", (2, 5), ints([3, 5]), use_length=True, ref=lambda x, n: np_softmax(x, -1, n)),
    op(
        "softmax",
        (2, 4, 3),
        ints([[1, 2, 4], [4, 3, 2]]),
        axis=1,
        use_length=True,
        ref=lambda x, n: np_softmax(x, 1, n),
    ),
    op(
        "softmax", (4, 7), dtype="float64", dtypes=("float32",), out_dtype="float64", ref=np_softmax
    ),
    op("log_softmax", (4, 7), ref=_log_softmax),
    op("log_softmax", (4, 7, 2), axis=1, ref=lambda x: _log_softmax(x, 1)),
    op("log_softmax", (4, 7), temperature=2.0, ref=lambda x: _log_softmax(x / 2)),
    op("softmin", (4, 7), ref=lambda x: np_softmax(-x)),
    op("softmin", (4, 7, 3), axis=1, ref=lambda x: np_softmax(-x, 1)),
    fails("softmax", (2, 3), axis=2, error=IndexError, match="axis 2 .* 2 dimensions"),
    fails("softmax", ints([1, 2]), error=TypeError, match="softmax: data must .*, got int32"),
    fails("softmax", (2, 3), ints([1, 2, 3]), use_length=True, match=r"length .* .2,. .* .3,."),
    op("SoftmaxActivation", (3, 2, 4), ref=lambda x: np_softmax(x.reshape(3, 8)).reshape(3, 2, 4)),
    op("SoftmaxActivation", (3, 2, 4), mode="channel", ref=lambda x: np_softmax(x, 1)),
    # attention
    op("_contrib_div_sqrt_dim", (3, 5), ref=lambda x: x / math.sqrt(5)),
    op(f"{_MATMUL}_selfatt_qk", (5, 3, 24), heads=2, ref=_self_qk),
    op(
        f"{_MATMUL}_selfatt_valatt",
        (5, 3, 24),
        (6, 5, 5),
        heads=2,
        ref=lambda x, a: _merge(a @ _heads(x, 2, 3)[2], 2),
    ),
    op(f"{_MATMUL}_encdec_qk", (4, 3, 8), (5, 3, 16), heads=2, ref=_enc_qk),
    op(
        f"{_MATMUL}_encdec_valatt",
        (5, 3, 16),
        (6, 4, 5),
        heads=2,
        ref=lambda kv, a: _merge(a @ _heads(kv, 2, 2)[1], 2),
    ),
    fails(f"{_MATMUL}_selfatt_qk", (5, 3, 20), heads=2, match=r"length, batch, multiple of 6"),
    # GELU: vectors of every length, and values where the tanh is 1.
    _leaky("gelu_tanh", _gelu_tanh),
    op("LeakyReLU", rand(3, 37, low=-8, high=8), act_type="gelu_tanh", ref=_gelu_tanh),
    op("LeakyReLU", rand(3, 37, low=-8, high=8), act_type="gelu", ref=_gelu),
    op("LeakyReLU", np.array([-1e4, -40, 1e4]), act_type="gelu_tanh", ref=np.array([0, 0, 1e4])),
    op("Dropout", (3, 37), p=1.0, mode="always", ref=np.zeros_like),
]
