"""Weight updates of several weights by one call: new weights by NumPy formulas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from mxlite.base import ShapeError
from op_table import Case, fails, op, positive, rand
from update_formulas import FORMULAS, HYPER, states_of

CASES: list[Case] = []
_F: dict[str, Any] = {"grad": False, "dtypes": ("float32",)}

# AdamW and LAMB of two weights in one call; lists as the operators take them.
_ADAMW: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.1, 0.3), "etas": (0.5, 1), "num_weights": 2}
_LAMB: dict[str, Any] = {
    "learning_rates": (0.1, 0.2),
    "wds": (0.1, 0.3),
    "step_count": (2, 5),
    "num_tensors": 2,
}


def _quads(mixed: bool) -> list[np.ndarray]:
    """Return weight, grad, mean, var (and weight32) of two weights."""
    return [
        a
        for shape in ((2, 3), (4,))
        for a in (rand(*shape), rand(*shape), rand(*shape), positive(*shape))
        + ((rand(*shape),) if mixed else ())
    ]


def _multi_adamw(*arrays: np.ndarray, mixed: bool) -> list[np.ndarray]:
    size, scale, new = 5 if mixed else 4, arrays[-1], []
    for i in range(2):
        w, g, m, v = arrays[i * size : i * size + 4]
        w = arrays[i * size + 4] if mixed else w
        rates = {"lr": _ADAMW["lrs"][i], "eta": _ADAMW["etas"][i], "wd": _ADAMW["wds"][i]}
        new.append(FORMULAS["_adamw_update"](w, g, m, v, scale, clip_gradient=0.4, **rates)[0])
    return new


def _multi_lamb(*arrays: np.ndarray, mixed: bool, upper: float = 0) -> list[np.ndarray]:
    size, new = 5 if mixed else 4, []
    for i in range(2):
        w, g, m, v = arrays[i * size : i * size + 4]
        w = arrays[i * size + 4] if mixed else w
        step = FORMULAS["lamb_update_phase1"](
            w,
            g,
            m,
            v,
            t=_LAMB["step_count"][i],
            wd=_LAMB["wds"][i],
            rescale_grad=0.7,
            clip_gradient=0.4,
        )[0]
        norm = np.sqrt((w * w).sum())
        norm = min(norm, upper) if upper else norm
        rate = _LAMB["learning_rates"][i] * norm / np.sqrt((step * step).sum())
        new.append(w - rate * step)
    return new


_MANY = "_multi_adam_update"
_ADAM: dict[str, Any] = {"lrs": (0.1, 0.1), "wds": (0, 0), "num_weights": 2}
_CLIPPED: dict[str, Any] = {"rescale_grad": 0.7, "clip_gradient": 0.4}
for _mixed in (False, True):
    _mp = "mp_" if _mixed else ""
    _changed = (2, 3, 4, 7, 8, 9) if _mixed else (2, 3, 6, 7)
    CASES += [
        *(
            op(
                f"_multi_{_mp}{name}_update",
                *_quads(_mixed),
                *scale,
                mutates=_changed,
                ref=ref,
                **options,
                **_F,
            )
            for name, scale, options, ref in [
                (
                    "adamw",
                    [np.array([0.7])],
                    {**_ADAMW, "clip_gradient": 0.4},
                    partial(_multi_adamw, mixed=_mixed),
                ),
                (
                    "adamw",
                    [np.array([np.nan])],
                    _ADAMW,
                    lambda *a, m=_mixed: [a[0], a[5 if m else 4]],
                ),
                ("lamb", [], {**_LAMB, **_CLIPPED}, partial(_multi_lamb, mixed=_mixed)),
                (
                    "lamb",
                    [],
                    {**_LAMB, **_CLIPPED, "upper_bound": 0.5},
                    partial(_multi_lamb, mixed=_mixed, upper=0.5),
                ),
            ]
        ),
        fails(
            f"_multi_{_mp}lamb_update",
            *_quads(_mixed)[:-1],
            match="number of arrays must be",
            **_LAMB,
        ),
        fails(
            f"_multi_{_mp}adamw_update",
            *_quads(_mixed),
            np.array([1.0]),
            match=f"_multi_{_mp}adamw_update: etas must have 2 numbers.*, got 1",
            **{**_ADAMW, "etas": (1,)},
        ),
    ]


def _multi_case(name: str, mixed: bool) -> Case:
    """Return the form of an update over two weights, whose rates differ, with a scale."""
    single = [p for p in HYPER[name] if p not in ("lr", "wd", "eta", "rescale_grad")]
    names = {"lr": "lrs", "wd": "wds", "eta": "etas"}
    lists = {names[k]: (v, 2 * v) for k, v in HYPER[name].items() if k in names}
    scale_is_input = "rescale_grad" not in HYPER[name]
    rescale = {} if scale_is_input else {"rescale_grad": 1.4}
    arrays: list[np.ndarray] = []
    for shape in ((2, 3), (4,)):
        states = states_of(name, shape)
        states = states[:-1] if scale_is_input else states
        arrays += [rand(*shape), rand(*shape), *states, *([rand(*shape)] if mixed else [])]
    group = len(arrays) // 2

    def formula(*given: np.ndarray) -> list[np.ndarray]:
        new = []
        for i in range(2):
            weight, grad, *states = given[i * group : (i + 1) * group]
            if mixed:
                weight = states.pop()
            hyper = {k: v * (1 + i) if k in names else v for k, v in HYPER[name].items()}
            scale = [given[-1]] if scale_is_input else []
            new.append(FORMULAS[name](weight, grad, *states, *scale, **hyper)[0])
        return new

    return op(
        f"_multi_{'mp_' if mixed else ''}{name.lstrip('_')}",
        *arrays,
        np.array([0.7 if scale_is_input else 0.5]),
        mutates=tuple(i * group + k for i in range(2) for k in range(2, group)),
        ref=formula,
        num_weights=2,
        **{key: HYPER[name][key] for key in single},
        **lists,
        **rescale,
        **_F,
    )


for _name in FORMULAS:
    if _name != "lamb_update_phase1":
        CASES += [_multi_case(_name, False), _multi_case(_name, True)]
CASES += [
    op(
        "_multi_ftml_update",
        *[rand(4), rand(4), positive(4), positive(4), rand(4)] * 2,
        mutates=(2, 3, 4, 7, 8, 9),
        lrs=(0.1, 0.1),
        wds=(0, 0),
        t=(1, 9),
        num_weights=2,
        ref=lambda *a: [
            FORMULAS["ftml_update"](*a[i * 5 :][:5], lr=0.1, t=t)[0] for i, t in enumerate((1, 9))
        ],
        **_F,
    ),
    fails(
        _MANY, *_quads(False), match="beta1 must have 2 numbers.*, got 3", **_ADAM, beta1=(0.9,) * 3
    ),
    fails(_MANY, *_quads(False), np.ones(2), error=ShapeError, match="1 numbers", **_ADAM),
    fails(_MANY, *4 * [rand(2)], error=TypeError, match="lrs", num_weights=1),
    fails(_MANY, (2,), match="num_weights", lrs=(0.1,), wds=(0,), num_weights=1 << 40),
]
