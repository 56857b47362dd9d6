"""Weight updates: new weights by NumPy formulas. New states: test_update_ops.py."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
from op_table import Case, fails, ints, op, positive, rand
from update_formulas import FORMULAS, HYPER, clipped, states_of

SHAPE = (3, 5)

CASES: list[Case] = []
for _name, _formula in FORMULAS.items():
    _states = states_of(_name, SHAPE)
    _mutated = tuple(range(2, 2 + len(_states)))
    CASES.append(
        op(
            _name,
            rand(*SHAPE),
            rand(*SHAPE),
            *_states,
            grad=False,
            mutates=_mutated,
            dtypes=("float32", "float64"),
            ref=lambda *a, f=_formula, n=_name: f(*a, **HYPER[n])[0],
            **HYPER[_name],
        )
    )
    CASES += [
        fails(
            _name,
            rand(2, 3),
            rand(3, 2),
            *states_of(_name, (2, 3)),
            error=mx.base.ShapeError,
            match=_name + r": grad of shape \(3, 2\)",
            **HYPER[_name],
        ),
        fails(
            _name,
            ints([1, 2]),
            ints([1, 2]),
            *states_of(_name, (2,)),
            error=mx.base.DTypeError,
            match=_name + ": weight of dtype int32",
            **HYPER[_name],
        ),
    ]


def _scaled(w: np.ndarray, g: np.ndarray, lr: float, wd: float) -> np.ndarray:
    return w - lr * (clipped(0.7 * g, 0.4) + wd * w)


_MULTI: dict[str, Any] = {"rescale_grad": 0.7, "clip_gradient": 0.4, "num_weights": 2}
_RATES: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.1, 0.3)}
_LOADED = [np.array([0.1, 0.2]), np.array([0.1, 0.3])]


def _two(w: Any, g: Any, w2: Any, g2: Any, *_: Any) -> list[np.ndarray]:
    return [_scaled(w, g, 0.1, 0.1), _scaled(w2, g2, 0.2, 0.3)]


def _two_mom(w: Any, g: Any, m: Any, w2: Any, g2: Any, m2: Any, *_: Any) -> list[np.ndarray]:
    first = 0.9 * m - 0.1 * (clipped(0.7 * g, 0.4) + 0.1 * w)
    second = 0.9 * m2 - 0.2 * (clipped(0.7 * g2, 0.4) + 0.3 * w2)
    return [w + first, w2 + second]


_PAIR = [rand(2, 3), rand(2, 3), rand(4), rand(4)]
_TRIPLE = [rand(2, 3), rand(2, 3), rand(2, 3), rand(4), rand(4), rand(4)]
_F: dict[str, Any] = {"grad": False, "dtypes": ("float32",)}
CASES += [
    op("multi_sgd_update", *_PAIR, ref=_two, **_RATES, **_MULTI, **_F),
    op("preloaded_multi_sgd_update", *_PAIR, *_LOADED, ref=_two, **_MULTI, **_F),
    op(
        "multi_sgd_mom_update",
        *_TRIPLE,
        ref=_two_mom,
        momentum=0.9,
        mutates=(2, 5),
        **_RATES,
        **_MULTI,
        **_F,
    ),
    op(
        "preloaded_multi_sgd_mom_update",
        *_TRIPLE,
        *_LOADED,
        ref=_two_mom,
        momentum=0.9,
        mutates=(2, 5),
        **_MULTI,
        **_F,
    ),
    # In float32 the mixed-precision forms are plain ones with the weight given twice.
    op(
        "multi_mp_sgd_update",
        *[_PAIR[i] for i in (0, 1, 0, 2, 3, 2)],
        mutates=(2, 5),
        **_RATES,
        ref=lambda w, g, _, w2, g2, __: _two(w, g, w2, g2),
        **_MULTI,
        **_F,
    ),
    op(
        "preloaded_multi_mp_sgd_update",
        *[_PAIR[i] for i in (0, 1, 0, 2, 3, 2)],
        *_LOADED,
        mutates=(2, 5),
        ref=lambda w, g, _, w2, g2, *__: _two(w, g, w2, g2),
        **_MULTI,
        **_F,
    ),
    op(
        "multi_mp_sgd_mom_update",
        *[_TRIPLE[i] for i in (0, 1, 2, 0, 3, 4, 5, 3)],
        momentum=0.9,
        mutates=(2, 3, 6, 7),
        ref=lambda a, b, c, _, d, e, f, __: _two_mom(a, b, c, d, e, f),
        **_RATES,
        **_MULTI,
        **_F,
    ),
    op(
        "preloaded_multi_mp_sgd_mom_update",
        *[_TRIPLE[i] for i in (0, 1, 2, 0, 3, 4, 5, 3)],
        *_LOADED,
        momentum=0.9,
        mutates=(2, 3, 6, 7),
        ref=lambda a, b, c, _, d, e, f, *__: _two_mom(a, b, c, d, e, f),
        **_MULTI,
        **_F,
    ),
    fails(
        "multi_sgd_update",
        *_PAIR[:3],
        error=ValueError,
        match="multi_sgd_update: 3 arrays",
        **_RATES,
        **_MULTI,
    ),
    fails(
        "multi_sgd_update",
        *_PAIR,
        lrs=(0.1,),
        wds=(0, 0),
        error=ValueError,
        match="1 lrs",
        **_MULTI,
    ),
    fails(
        "multi_sgd_update",
        _PAIR[0],
        _PAIR[2],
        *_PAIR[2:],
        error=mx.base.ShapeError,
        match=r"grad 0 of shape \(4,\)",
        **_RATES,
        **_MULTI,
    ),
    op(
        "mp_sgd_update",
        rand(4),
        rand(4),
        rand(4),
        lr=0.1,
        mutates=(2,),
        **_F,
        ref=lambda w, g, w32: w32 - 0.1 * g,
    ),
    op(
        "mp_sgd_mom_update",
        rand(4),
        rand(4),
        rand(4),
        rand(4),
        lr=0.1,
        momentum=0.5,
        mutates=(2, 3),
        ref=lambda w, g, m, w32: w32 + 0.5 * m - 0.1 * g,
        **_F,
    ),
    op(
        "mp_nag_mom_update",
        rand(4),
        rand(4),
        rand(4),
        rand(4),
        lr=0.1,
        momentum=0.5,
        mutates=(2, 3),
        ref=lambda w, g, m, w32: w32 + 0.5 * (0.5 * m - 0.1 * g) - 0.1 * g,
        **_F,
    ),
    op(
        "lamb_update_phase2",
        rand(4),
        rand(4),
        np.array([2.0]),
        np.array([3.0]),
        lr=0.1,
        ref=lambda w, g, a, b: w - 0.1 * 2 / 3 * g,
        **_F,
    ),
    op(
        "lamb_update_phase2",
        rand(4),
        rand(4),
        np.array([2.0]),
        np.array([0.0]),
        lr=0.1,
        ref=lambda w, g, a, b: w - 0.1 * g,
        **_F,
    ),
    op(
        "lamb_update_phase2",
        rand(4),
        rand(4),
        np.array([9.0]),
        np.array([3.0]),
        lr=0.1,
        upper_bound=6,
        ref=lambda w, g, a, b: w - 0.2 * g,
        **_F,
    ),
    op(
        "lamb_update_phase2",  # a weight below the lower bound counts as the bound
        rand(4),
        rand(4),
        np.array([0.25]),
        np.array([2.0]),
        lr=0.1,
        lower_bound=0.5,
        ref=lambda w, g, a, b: w - 0.025 * g,
        **_F,
    ),
    op(
        "mp_lamb_update_phase1",
        rand(4),
        rand(4),
        rand(4),
        positive(4),
        rand(4),
        mutates=(2, 3),
        ref=lambda w, g, m, v, w32: FORMULAS["lamb_update_phase1"](w32, g, m, v, t=2, wd=0.1)[0],
        t=2,
        wd=0.1,
        **_F,
    ),
    op(
        "mp_lamb_update_phase2",
        rand(4),
        rand(4),
        np.array([2.0]),
        np.array([4.0]),
        rand(4),
        lr=0.1,
        mutates=(4,),
        ref=lambda w, g, a, b, w32: w32 - 0.05 * g,
        **_F,
    ),
    op(
        "_mp_adamw_update",
        rand(4),
        rand(4),
        rand(4),
        positive(4),
        rand(4),
        np.array([0.7]),
        lr=0.1,
        eta=0.5,
        mutates=(2, 3, 4),
        **_F,
        ref=lambda w, g, m, v, w32, s: FORMULAS["_adamw_update"](w32, g, m, v, s, lr=0.1, eta=0.5)[
            0
        ],
    ),
    op(
        "_adamw_update",
        rand(4),
        rand(4),
        rand(4),
        positive(4),
        np.array([np.inf]),
        lr=0.1,
        eta=1,
        mutates=(2, 3),
        ref=lambda w, *_: w,
        **_F,
    ),
    *(
        op(
            "_mp_adamw_update",
            rand(4),
            rand(4),
            rand(4),
            positive(4),
            rand(4),
            np.array([scale]),
            lr=0.1,
            eta=1,
            mutates=(2, 3, 4),
            ref=lambda w, *_: w,  # skipped: the weight as it is, not the one in float32
            **_F,
        )
        for scale in (0.0, np.nan, -np.inf)
    ),
    op(
        "_contrib_group_adagrad_update",
        rand(3, 4),
        rand(3, 4),
        positive(3, 1),
        lr=0.1,
        mutates=(2,),
        **_F,
        ref=lambda w, g, h: w - 0.1 * g / np.sqrt(h + (g * g).mean(1, keepdims=True) + 1e-5),
    ),
    op(
        "multi_sum_sq",
        rand(2, 3),
        rand(700),
        num_arrays=2,
        **_F,
        ref=lambda a, b: np.array([(a * a).sum(), (b * b).sum()]),
    ),
    fails("multi_sum_sq", rand(2), num_arrays=2, error=ValueError, match="1 arrays.*num_arrays 2"),
    op(
        "multi_lars",
        np.array([0.1, 0.2]),
        np.array([4.0, 0.0]),
        np.array([9.0, 1.0]),
        np.array([0.5, 0.5]),
        eta=0.1,
        eps=0.25,
        rescale_grad=0.5,
        **_F,
        ref=np.array([0.1 * 0.1 * 2 / (3 * 0.5 + 0.5 * 2 + 0.25), 0.2]),
    ),
    op("all_finite", rand(700), ref=np.array([1.0]), out_dtype="float32", grad=False),
    op("all_finite", np.array([1, np.nan]), ref=np.array([0.0]), out_dtype="float32", grad=False),
    op("multi_all_finite", rand(3), np.array([-np.inf]), num_arrays=2, ref=np.array([0.0]), **_F),
    op("multi_all_finite", rand(3), ints([1]), num_arrays=2, ref=np.array([1.0]), **_F),
    fails("all_finite", rand(2), init_output=False, error=NotImplementedError, match="init_output"),
    # Values: test_update_ops.py (it has no output).
    fails("reset_arrays", rand(2), num_arrays=2, error=ValueError, match="reset_arrays: 1 arrays"),
]
CASES += [
    op(
        "multi_sgd_update",
        *_PAIR,
        np.array([scale]),
        ref=lambda w, g, w2, *_: [w, w2],  # skipped
        **_RATES,
        **_MULTI,
        **_F,
    )
    for scale in (0.0, np.inf)
]
