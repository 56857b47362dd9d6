"""Weight updates: new weights by NumPy formulas. New states: test_update_ops.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from mxlite.base import DTypeError, ShapeError
from op_table import Case, fails, ints, no_grad, op, positive, rand
from update_formulas import FORMULAS, HYPER, clipped, states_of

SHAPE = (3, 5)

CASES: list[Case] = []
for _name, _formula in FORMULAS.items():
    _states = states_of(_name, SHAPE)
    _mutated = tuple(range(2, 2 + len(_states)))
    CASES.append(
        no_grad(
            _name,
            rand(*SHAPE),
            rand(*SHAPE),
            *_states,
            mutates=_mutated,
            dtypes=("float32", "float64"),
            ref=lambda *a, f=_formula, n=_name: f(*a, **HYPER[n])[0],
            **HYPER[_name],
        )
    )
    CASES += [
        *(
            fails(_name, *inputs, *states_of(_name, shape), error=e, match=match, **HYPER[_name])
            for shape, inputs, e, match in [
                ((2, 3), [(2, 3), (3, 2)], ShapeError, r"grad must have .*, got \(3, 2\)"),
                ((2,), [ints([1, 2])] * 2, DTypeError, "weight must be of .*, got int32"),
            ]
        )
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


def _moved(rate: float, w: np.ndarray, g: np.ndarray, *_: Any) -> np.ndarray:
    return w - rate * g


def _kept(w: np.ndarray, *_: Any) -> np.ndarray:
    return w


_MP_PAIR = [_PAIR[i] for i in (0, 1, 0, 2, 3, 2)]
_MP_TRIPLE = [_TRIPLE[i] for i in (0, 1, 2, 0, 3, 4, 5, 3)]
CASES += [
    op(f"{form}multi_{name}", *arrays, *lists, ref=ref, **options, **rates, **_MULTI, **_F)
    for name, arrays, options, ref in [
        ("sgd_update", _PAIR, {}, _two),
        ("sgd_mom_update", _TRIPLE, {"momentum": 0.9, "mutates": (2, 5)}, _two_mom),
        # In float32 the mixed-precision forms are plain ones with the weight given twice.
        (
            "mp_sgd_update",
            _MP_PAIR,
            {"mutates": (2, 5)},
            lambda w, g, _, w2, g2, *__: _two(w, g, w2, g2),
        ),
        (
            "mp_sgd_mom_update",
            _MP_TRIPLE,
            {"momentum": 0.9, "mutates": (2, 3, 6, 7)},
            lambda a, b, c, _, d, e, f, *__: _two_mom(a, b, c, d, e, f),
        ),
    ]
    for form, lists, rates in [("", [], _RATES), ("preloaded_", _LOADED, {})]
]


def _squares(*arrays: np.ndarray) -> list[list[float]]:
    return [[(x * x).sum() for x in arrays]]


_MEANS = [rand(4), rand(4), rand(4), positive(4)]
_MIXED = [*_MEANS, rand(4)]
_ADAMW: dict[str, Any] = {"lr": 0.1, "eta": 0.5}
CASES += [
    fails("multi_sgd_update", *_PAIR[:3], match="multi_sgd_update: .*, got 3", **_RATES, **_MULTI),
    fails("multi_sgd_update", *_PAIR, lrs=(0.1,), wds=(0, 0), match="lrs must .*, got 1", **_MULTI),
    fails("multi_sgd_update", (2, 3), (4,), *_PAIR[2:], match="grad 0 .*4,", **_RATES, **_MULTI),
    op("mp_sgd_update", *[(4,)] * 3, lr=0.1, mutates=(2,), **_F, ref=lambda w, g, m: m - 0.1 * g),
    *(
        op(f"mp_{kind}_mom_update", *[(4,)] * 4, lr=0.1, momentum=0.5, mutates=(2, 3), ref=f, **_F)
        for kind, f in [
            ("sgd", lambda w, g, m, w32: w32 + 0.5 * m - 0.1 * g),
            ("nag", lambda w, g, m, w32: w32 + 0.5 * (0.5 * m - 0.1 * g) - 0.1 * g),
        ]
    ),
    *(
        op("lamb_update_phase2", (4,), (4,), *norms, lr=0.1, ref=partial(_moved, n), **bound, **_F)
        for norms, bound, n in [
            (np.array([[2.0], [3.0]]), {}, 0.1 * 2 / 3),
            (np.array([[2.0], [0.0]]), {}, 0.1),
            (np.array([[9.0], [3.0]]), {"upper_bound": 6}, 0.2),
            (
                np.array([[0.25], [2.0]]),
                {"lower_bound": 0.5},
                0.025,
            ),  # below the bound counts as the bound
        ]
    ),
    op(
        "mp_lamb_update_phase1",
        (4,),
        (4,),
        (4,),
        positive(4),
        (4,),
        mutates=(2, 3),
        ref=lambda w, g, m, v, w32: FORMULAS["lamb_update_phase1"](w32, g, m, v, t=2, wd=0.1)[0],
        t=2,
        wd=0.1,
        **_F,
    ),
    op(
        "mp_lamb_update_phase2",
        (4,),
        (4,),
        np.array([2.0]),
        np.array([4.0]),
        (4,),
        lr=0.1,
        mutates=(4,),
        ref=lambda w, g, a, b, w32: w32 - 0.05 * g,
        **_F,
    ),
    # Steps with these scales are skipped: the weight stays, also if there is one in float32.
    op("_adamw_update", *_MEANS, np.array([np.inf]), **_ADAMW, mutates=(2, 3), ref=_kept, **_F),
    *(
        op("_mp_adamw_update", *_MIXED, np.array([a]), **_ADAMW, mutates=(2, 3, 4), ref=f, **_F)
        for a, f in [
            (
                0.7,
                lambda w, g, m, v, w32, s: FORMULAS["_adamw_update"](w32, g, m, v, s, **_ADAMW)[0],
            ),
            *((skipped, _kept) for skipped in (0.0, np.nan, -np.inf)),
        ]
    ),
    op(
        "_contrib_group_adagrad_update",
        (3, 4),
        (3, 4),
        positive(3, 1),
        lr=0.1,
        mutates=(2,),
        **_F,
        ref=lambda w, g, h: w - 0.1 * g / np.sqrt(h + (g * g).mean(1, keepdims=True) + 1e-5),
    ),
    op("multi_sum_sq", (2, 3), (700,), num_arrays=2, **_F, ref=_squares),
    fails("multi_sum_sq", (2,), num_arrays=2, match="num_arrays, 2, got 1"),
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
    no_grad("all_finite", (700,), ref=np.array([1.0]), out_dtype="float32"),
    no_grad("all_finite", np.array([1, np.nan]), ref=np.array([0.0]), out_dtype="float32"),
    op("multi_all_finite", (3,), np.array([-np.inf]), num_arrays=2, ref=np.array([0.0]), **_F),
    op("multi_all_finite", (3,), ints([1]), num_arrays=2, ref=np.array([1.0]), **_F),
    fails("all_finite", (2,), init_output=False, error=NotImplementedError, match="init_output"),
    # Values: test_update_ops.py (it has no output).
    fails("reset_arrays", (2,), num_arrays=2, match="reset_arrays: .*, got 1"),
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
