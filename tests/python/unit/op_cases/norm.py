"""Rows of the normalizing layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_table import fails, no_grad, op, positive, rand

_SYNC = "_contrib_SyncBatchNorm"


def _along(v: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    return v.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def np_batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    *,
    axis: int = 1,
    eps: float = 1e-3,
    fix: bool = True,
    batch: bool = False,
    relu: bool = False,
    added: np.ndarray | float = 0.0,
) -> list[np.ndarray]:
    """Return output, mean and inverse standard deviation."""
    if batch:
        others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        mean, var = x.mean(others), x.var(others)
    inv_std = 1 / np.sqrt(var + eps)
    gamma = np.ones_like(gamma) if fix else gamma
    shift, scale = _along(mean, axis, x.ndim), _along(gamma * inv_std, axis, x.ndim)
    y = (x - shift) * scale + _along(beta, axis, x.ndim) + added
    return [np.maximum(y, 0) if relu else y, mean, inv_std]


def _batch_norm(shape: tuple[int, ...], training: bool, name: str = "BatchNorm", **p: Any) -> Any:
    c = shape[p.get("axis", 1)]
    all_outputs = p.get("output_mean_var", False)
    adds = name.startswith("_batch_norm_add_relu")

    def ref(*arrays: np.ndarray) -> Any:
        outputs = np_batch_norm(
            *arrays[:5],
            added=arrays[5] if adds else 0.0,
            axis=p.get("axis", 1),
            eps=p.get("eps", 1e-3),
            fix=p.get("fix_gamma", True),
            batch=training and not p.get("use_global_stats", False),
            relu="relu" in name.lower(),
        )
        return outputs if all_outputs else outputs[0]

    inputs = [rand(*shape), positive(c), rand(c), rand(c), positive(c)]
    grad = [0, 2] if p.get("fix_gamma", True) else [0, 1, 2]
    if adds:
        inputs.append(rand(*shape))
        grad.append(5)
    return op(
        name,
        *inputs,
        ref=ref,
        training=training,
        grad=False if all_outputs else grad,  # 1.x: no gradient through the statistics
        mutates=(3, 4) if training else (),
        rounded=4.0 if adds else 0.0,  # the sum equals that of BatchNorm and an addition
        **p,
    )


def _sync(training: bool, **p: Any) -> Any:
    """Return a row of SyncBatchNorm: BatchNorm that gives variances."""
    row = _batch_norm((4, 3, 5), training, **p)
    batch_norm = row.ref

    def ref(*arrays: np.ndarray) -> Any:
        outputs = batch_norm(*arrays)
        if not p.get("output_mean_var"):
            return outputs
        return [outputs[0], outputs[1], outputs[2] ** -2 - p.get("eps", 1e-3)]

    row.name, row.ref = _SYNC, ref
    row.params = {**row.params, "key": "bn0_", "ndev": 1}
    return row


def np_rows(x: np.ndarray, axes: tuple[int, ...], eps: float) -> tuple[np.ndarray, ...]:
    """Return normalized x, mean and standard deviation over the axes."""
    mean = x.mean(axes, keepdims=True)
    std = np.sqrt(x.var(axes, keepdims=True) + eps)
    return (x - mean) / std, mean, std


def np_layer_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axis: int = -1, eps: float = 1e-5
) -> list[np.ndarray]:
    """Return output, mean and standard deviation."""
    y, mean, std = np_rows(x, (axis,), eps)
    return [y * _along(gamma, axis, x.ndim) + _along(beta, axis, x.ndim), mean, std]


def np_group_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int, eps: float = 1e-5
) -> list[np.ndarray]:
    """Return output, mean and standard deviation; one gamma per group or per channel."""
    y, mean, std = np_rows(x.reshape(x.shape[0], groups, -1), (2,), eps)
    per = x.shape[1] // gamma.size
    gamma, beta = _along(gamma.repeat(per), 1, x.ndim), _along(beta.repeat(per), 1, x.ndim)
    return [y.reshape(x.shape) * gamma + beta, mean[:, :, 0], std[:, :, 0]]


def np_instance_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-3
) -> np.ndarray:
    """Return x normalized per sample and channel."""
    y = np_rows(x, tuple(range(2, x.ndim)), eps)[0]
    return y * _along(gamma, 1, x.ndim) + _along(beta, 1, x.ndim)


def np_l2(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-10) -> np.ndarray:
    """Return x divided by its norm over the axes."""
    return x / np.sqrt((x * x).sum(axes, keepdims=True) + eps)


def np_lrn(x: np.ndarray, nsize: int, alpha: float, beta: float, knorm: float) -> np.ndarray:
    """Return local response normalization."""
    y = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - nsize // 2, 0) : c + nsize // 2 + 1]
        y[:, c] = x[:, c] * (knorm + alpha / nsize * (near**2).sum(1)) ** -beta
    return y


LN = "LayerNorm"
CASES = [
    # SyncBatchNorm
    _sync(training=True, fix_gamma=False),
    _sync(training=True),
    _sync(training=False, fix_gamma=False, eps=1e-5),
    _sync(training=True, fix_gamma=False, use_global_stats=True),
    _sync(training=True, output_mean_var=True),
    op(
        _SYNC,
        np.ones((2, 3)),
        *[np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)],
        key="bn0_",
        ndev=4,
        ref=lambda x, *_: x / np.sqrt(1.001),
        grad=[0],
    ),
    fails(_SYNC, (2, 3), *[(3,)] * 4, error=TypeError, match="key"),
    fails(_SYNC, (2, 3), (4,), *[(3,)] * 3, key="bn0_", match=r"gamma must .*, got \(4,\)"),
    fails(_SYNC, (3,), *[(3,)] * 4, key="bn0_", match="at least 2 dimensions"),
    # IdentityAttachKLSparseReg; the extra gradient is tested in test_layer_ops.py
    no_grad("IdentityAttachKLSparseReg", positive(4, 3), positive(3), ref=lambda x, _: x),
    no_grad(
        "IdentityAttachKLSparseReg",
        positive(2, 3, 4),
        positive(3),
        penalty=0.5,
        momentum=0.5,
        ref=lambda x, _: x,
        training=True,
        mutates=(1,),
    ),
    fails("IdentityAttachKLSparseReg", positive(4, 3), positive(4), match=r"moving_avg .* .4,."),
    _batch_norm((4, 3, 5), training=False),
    _batch_norm((4, 3, 5), training=True),
    _batch_norm((4, 3, 2, 3), training=True, fix_gamma=False, eps=1e-5),
    _batch_norm((4, 3, 2, 3), training=False, fix_gamma=False),
    _batch_norm((6, 3), training=True, fix_gamma=False),
    _batch_norm((3, 2, 4, 5), training=True, fix_gamma=False, axis=-1),
    _batch_norm((3, 2, 4, 5), training=True, fix_gamma=False, axis=2),
    _batch_norm((2, 3, 2, 2, 3), training=True, fix_gamma=False),
    _batch_norm((4, 3, 5), training=True, use_global_stats=True, fix_gamma=False),
    _batch_norm((4, 3, 5), training=True, output_mean_var=True),
    _batch_norm((4, 3, 5), training=False, output_mean_var=True),
    _batch_norm((0, 3, 5), training=False, output_mean_var=True),
    _batch_norm((4, 3, 5), training=False, name="_contrib_BatchNormWithReLU", fix_gamma=False),
    _batch_norm((4, 3, 2, 2), training=True, name="_contrib_BatchNormWithReLU", fix_gamma=False),
    *[
        _batch_norm((4, 3, 2, 2), training=training, name=name, fix_gamma=fix_gamma)
        for name in ("_batch_norm_relu", "_batch_norm_add_relu", "_batch_norm_add_relu_bits")
        for training in (False, True)
        for fix_gamma in (False, True)
    ],
    *[
        no_grad(
            "_batch_norm_relu_again",
            (4, 3, 2, 2),
            *[positive(3), rand(3), rand(3), positive(3)],
            fix_gamma=fix_gamma,
            ref=lambda x, gamma, beta, mean, inv_std, fix=fix_gamma: np_batch_norm(
                x, gamma, beta, mean, inv_std**-2, eps=0.0, fix=fix, relu=True
            )[0],
        )
        for fix_gamma in (False, True)
    ],
    _batch_norm((3, 2, 4), training=True, name="_batch_norm_add_relu_bits", axis=-1),
    fails("_batch_norm_add_relu", (2, 3, 4), *[(3,)] * 4, (2, 3, 1), match=r"added .* .2, 3, 1."),
    fails("BatchNorm", (2, 3, 4), (4,), *[(3,)] * 3, match=r"BatchNorm: gamma .* .3,. .* .4,."),
    fails("BatchNorm", (2, 3), *[(3,)] * 4, axis=2, error=IndexError, match="axis 2 .* 2 dim"),
    op(LN, (4, 7), (7,), (7,), ref=lambda *a: np_layer_norm(*a)[0]),
    op(LN, (2, 5, 3), (5,), (5,), axis=1, eps=1e-3, ref=lambda *a: np_layer_norm(*a, 1, 1e-3)[0]),
    no_grad(LN, (2, 5, 3), (3,), (3,), output_mean_var=True, ref=np_layer_norm),
    no_grad(LN, (0, 3), (3,), (3,), ref=lambda x, g, b: np.zeros((0, 3))),
    fails(LN, (2, 3), (2,), (3,), match=r"LayerNorm: gamma .* shape \(3,\) .*\(2,\)"),
    op("GroupNorm", (2, 6, 3, 2), (3,), (3,), num_groups=3, ref=lambda *a: np_group_norm(*a, 3)[0]),
    op("GroupNorm", (2, 6, 5), (6,), (6,), num_groups=2, ref=lambda *a: np_group_norm(*a, 2)[0]),
    no_grad(
        "GroupNorm",
        (2, 4, 5),
        (2,),
        (2,),
        num_groups=2,
        output_mean_var=True,
        ref=lambda *a: np_group_norm(*a, 2),
    ),
    fails(
        "GroupNorm", (2, 5, 4), (2,), (2,), num_groups=2, match="multiple of num_groups 2, got 5"
    ),
    op("InstanceNorm", (2, 3, 5), (3,), (3,), ref=np_instance_norm),
    op("InstanceNorm", (2, 3, 4, 5), (3,), (3,), ref=np_instance_norm),
    op("L2Normalization", (3, 4, 5), ref=lambda x: np_l2(x, (1, 2))),
    op("L2Normalization", (3, 4, 5), mode="channel", ref=lambda x: np_l2(x, (1,))),
    op("L2Normalization", (3, 4, 5, 2), mode="spatial", ref=lambda x: np_l2(x, (2, 3))),
    op(
        "LRN", (2, 5, 3, 2), nsize=3, ref=lambda x: np_lrn(x, 3, float(np.float32(1e-4)), 0.75, 2.0)
    ),
    op(
        "LRN",
        (2, 7, 3, 2),
        nsize=5,
        alpha=0.5,
        beta=0.6,
        knorm=1.5,
        ref=lambda x: np_lrn(x, 5, 0.5, np.float32(0.6), 1.5),
    ),
    fails("LRN", (2, 5, 3, 2), nsize=4, match="nsize must be an odd"),
    # LayerNorm in vectors: rows with a rest, several rows together, parts of the rows, long rows.
    op(LN, (9, 37), (37,), (37,), ref=lambda *a: np_layer_norm(*a)[0], terms=37),
    op(LN, (70, 16), (16,), (16,), ref=lambda *a: np_layer_norm(*a)[0], terms=70),
    no_grad(LN, (150, 16), (16,), (16,), output_mean_var=True, ref=np_layer_norm, terms=16),
    op(LN, (2, 4500), (4500,), (4500,), ref=lambda *a: np_layer_norm(*a)[0], terms=4500),
]
