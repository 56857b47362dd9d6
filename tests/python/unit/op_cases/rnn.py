"""Rows of RNN: every mode against loops over steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_table import Case, fails, no_grad, op, rand

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _count(inputs: int, size: int, layers: int, directions: int, gates: int, out: int) -> int:
    total = 0
    for _ in range(layers):
        cell = gates * size * (inputs + out + 2) + (out * size if out != size else 0)
        total += directions * cell
        inputs = directions * out
    return total


class _Reader:
    """Cuts the parameter vector into matrices, in order."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.at = values, 0

    def take(self, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        self.at += size
        return self.values[self.at - size : self.at].reshape(shape)


def _step(mode: str, x: np.ndarray, h: np.ndarray, c: Any, w: dict[str, Any], clip: Any) -> Any:
    a = x @ w["i2h"].T + w["i2h_bias"]
    b = h @ w["h2h"].T + w["h2h_bias"]
    if mode == "rnn_relu":
        return np.maximum(a + b, 0), c
    if mode == "rnn_tanh":
        return np.tanh(a + b), c
    if mode == "gru":
        ar, az, an = np.split(a, 3)
        br, bz, bn = np.split(b, 3)
        r, z = _sigmoid(ar + br), _sigmoid(az + bz)
        n = np.tanh(an + r * bn)
        return (1 - z) * n + z * h, c
    i, f, g, o = np.split(a + b, 4)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    if clip is not None:
        c = np.clip(c, *clip)
    out = _sigmoid(o) * np.tanh(c)
    return (w["h2r"] @ out if "h2r" in w else out), c


def _reference(
    mode: str,
    size: int,
    layers: int,
    directions: int = 1,
    projection: int | None = None,
    clip: tuple[float, float] | None = None,
    lengths: bool = False,
    states: bool = True,
) -> Any:
    def compute(data: np.ndarray, params: np.ndarray, state: np.ndarray, *rest: np.ndarray) -> Any:
        cell = rest[0] if mode == "lstm" else None
        steps, batch = data.shape[:2]
        length = rest[-1].astype(int) if lengths else np.full(batch, steps)
        gates, out = _GATES[mode], projection or size
        reader, weights = _Reader(params), []
        inputs = data.shape[2]
        for _ in range(layers):
            for _ in range(directions):
                w = {"i2h": reader.take(gates * size, inputs)}
                w["h2h"] = reader.take(gates * size, out)
                if projection:
                    w["h2r"] = reader.take(out, size)
                weights.append(w)
            inputs = directions * out
        for w in weights:
            w["i2h_bias"], w["h2h_bias"] = reader.take(gates * size), reader.take(gates * size)
        assert reader.at == len(params)
        last, last_cell = state.copy(), None if cell is None else cell.copy()
        x = data
        for layer in range(layers):
            y = np.zeros((steps, batch, directions * out))
            for d in range(directions):
                k = layer * directions + d
                for n in range(batch):
                    order = range(length[n]) if d == 0 else range(length[n] - 1, -1, -1)
                    h, c = state[k, n], None if cell is None else cell[k, n]
                    for t in order:
                        h, c = _step(mode, x[t, n], h, c, weights[k], clip)
                        y[t, n, d * out : (d + 1) * out] = h
                    last[k, n] = h
                    if last_cell is not None:
                        last_cell[k, n] = c
            x = y
        if not states:
            return x
        return [x, last] if last_cell is None else [x, last, last_cell]

    return compute


def _row(
    mode: str,
    steps: int,
    batch: int,
    inputs: int,
    size: int,
    layers: int = 1,
    bidirectional: bool = False,
    projection: int | None = None,
    clip: tuple[float, float] | None = None,
    lengths: list[float] | None = None,
    states: bool = True,
    **options: Any,
) -> Case:
    directions, out = 1 + bidirectional, projection or size
    shape = (layers * directions, batch)
    arrays = [
        rand(steps, batch, inputs),
        rand(_count(inputs, size, layers, directions, _GATES[mode], out), low=-0.6, high=0.6),
        rand(*shape, out),
    ]
    params: dict[str, Any] = {"mode": mode, "state_size": size, "num_layers": layers}
    if mode == "lstm":
        arrays.append(rand(*shape, size))
    grad = list(range(len(arrays)))
    if lengths is not None:
        arrays.append(np.array(lengths))
        params["use_sequence_length"] = True
    if clip is not None:
        params.update(lstm_state_clip_min=clip[0], lstm_state_clip_max=clip[1])
    if bidirectional:
        params["bidirectional"] = True
    if projection:
        params["projection_size"] = projection
    if states:
        params["state_outputs"] = True
    ref = _reference(mode, size, layers, directions, projection, clip, lengths is not None, states)
    options.setdefault("grad", grad)
    return op("RNN", *arrays, ref=ref, **options, **params)


def _fails(match: str, error: type[Exception] = ValueError, **changes: Any) -> Case:
    params: dict[str, Any] = {"mode": "gru", "state_size": 4, "num_layers": 1}
    arrays = changes.pop("arrays", None)
    params.update(changes)
    if arrays is None:
        arrays = [rand(3, 2, 5), rand(_count(5, 4, 1, 1, 3, 4)), rand(1, 2, 4)]
    return fails("RNN", *arrays, error=error, match=match, **params)


CASES = [
    *(_row(mode, 4, 3, 5, 6, training=training) for mode in _GATES for training in (False, True)),
    *(_row(mode, 3, 2, 4, 5, layers=2, bidirectional=True, training=True) for mode in _GATES),
    # Several blocks of units, with a rest; more rows than one group.
    *(_row(mode, 2, 37, 3, 37, training=True, dtypes=("float32", "float64")) for mode in _GATES),
    *(_row(mode, 5, 3, 4, 5, lengths=[5, 2, 0], training=True) for mode in _GATES),
    *(
        _row(mode, 5, 3, 4, 5, layers=2, bidirectional=True, lengths=[3, 5, 1], training=True)
        for mode in ("gru", "lstm")
    ),
    _row("lstm", 4, 3, 5, 7, projection=3, training=True),
    _row("lstm", 4, 3, 5, 20, layers=2, bidirectional=True, projection=18, training=True),
    _row("lstm", 4, 3, 5, 7, projection=3, lengths=[4, 1, 2], training=True),
    _row("lstm", 4, 3, 5, 7, projection=3),
    _row("lstm", 5, 3, 4, 6, clip=(-0.2, 0.25), training=True, dtypes=("float32", "float64")),
    _row("lstm", 4, 3, 5, 6, states=False, training=True),
    _row("gru", 4, 3, 5, 6, states=False),
    _row("lstm", 4, 0, 5, 6, layers=2, grad=False),
    _row("gru", 0, 3, 5, 6, bidirectional=True, grad=False),
    # Training without anything to drop: p has no effect on a single layer.
    _row("lstm", 3, 2, 4, 5, training=True, p=0.5),
    _row("lstm", 3, 2, 4, 5, layers=3, p=0.5),  # no dropout outside of training
    no_grad(
        "RNN",
        np.full((1, 1, 1), np.nan),
        (16,),
        (1, 1, 1),
        (1, 1, 1),
        mode="lstm",
        state_size=1,
        num_layers=1,
        state_outputs=True,
        lstm_state_clip_min=-1.0,
        lstm_state_clip_max=1.0,
        lstm_state_clip_nan=True,
        ref=[np.full((1, 1, 1), np.nan), np.full((1, 1, 1), np.nan), np.full((1, 1, 1), -1.0)],
    ),
    _fails(r"data must have 3 dim.* \(3, 2\)", arrays=[rand(3, 2), rand(5), rand(1, 2, 4)]),
    _fails(
        r"parameters must have shape \(132,\) for data of shape \(3, 2, 5\), got \(7,\)",
        arrays=[rand(3, 2, 5), rand(7), rand(1, 2, 4)],
    ),
    _fails(
        r"state must have shape \(1, 2, 4\) .*, got \(1, 2, 5\)",
        arrays=[rand(3, 2, 5), rand(132), rand(1, 2, 5)],
    ),
    _fails(r"missing required input 'state_cell'", TypeError, mode="lstm"),
    _fails(r"mode must be one of .*, got 'rnn'", mode="rnn", error=(TypeError, ValueError)),
    _fails(r"num_layers must be from 1 to .*, got 0", num_layers=0),
    _fails(r"state_size must be from 1 to .*, got -1", state_size=-1),
    _fails(r"p must be from 0 to below 1, got 1.5", p=1.5),
    _fails(r"mode must be 'lstm' with projection_size, got", projection_size=2),
    _fails(r"clip_min and lstm_state_clip_max need mode 'lstm'", lstm_state_clip_min=0.0),
    _fails(
        r"data must have dtype .*, got int32",
        TypeError,
        arrays=[np.ones((3, 2, 5), "int32"), rand(132), rand(1, 2, 4)],
    ),
    _fails(
        r"state must have data's dtype float32, got int32",
        TypeError,
        arrays=[rand(3, 2, 5), rand(132), np.ones((1, 2, 4), "int32")],
    ),
    fails(
        "RNN",
        (3, 2, 5),
        (176,),
        (1, 2, 4),
        (1, 2, 4),
        (3,),
        mode="lstm",
        state_size=4,
        num_layers=1,
        use_sequence_length=True,
        match=r"sequence_length must have shape .*, got \(3,\)",
    ),
]
