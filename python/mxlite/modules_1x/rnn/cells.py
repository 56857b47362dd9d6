"""Symbolic cells with their own weights: vanilla, LSTM and GRU."""

from __future__ import annotations

from typing import Any

from ... import initializer
from ...symbol import Symbol
from .base_cell import BaseRNNCell, RNNParams, symbol

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class _DenseCell(BaseRNNCell):
    """Two linear maps, of the input and of the state."""

    def __init__(
        self, num_hidden: int, prefix: str, params: RNNParams | None, i2h_bias_init: Any = None
    ) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        bias = {} if i2h_bias_init is None else {"init": i2h_bias_init}
        # Subclasses of other libraries use these names of 1.x.
        self._iW = self._params.get("i2h_weight")
        self._iB = self._params.get("i2h_bias", **bias)
        self._hW = self._params.get("h2h_weight")
        self._hB = self._params.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """One state (batch, num_hidden)."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _begin_step(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def _linear(self, group: str, values: Any, name: str) -> Any:
        own = (self._iW, self._iB) if group == "i2h" else (self._hW, self._hB)
        return symbol.FullyConnected(
            values,
            *own,
            num_hidden=self._num_hidden * len(self._gate_names),
            name=name + group,
        )


class RNNCell(_DenseCell):
    """``h' = activation(W x + b + R h + c)``.

    Matches ``mxnet.rnn.RNNCell``.

    Parameters
    ----------
    num_hidden : int
    activation : str or callable
    prefix : str
    params : RNNParams, optional
    """

    _gate_names = ("",)

    def __init__(
        self,
        num_hidden: int,
        activation: Any = "tanh",
        prefix: str = "rnn_",
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        name = self._begin_step()
        total = self._linear("i2h", inputs, name) + self._linear("h2h", states[0], name)
        output = self._get_activation(total, self._activation, name=name + "out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory: ``c' = f * c + i * g``, ``h' = o * tanh(c')``.

    Matches ``mxnet.rnn.LSTMCell``.

    Parameters
    ----------
    num_hidden : int
    prefix : str
    params : RNNParams, optional
    forget_bias : float
        First value of the forget gate's bias.
    """

    _gate_names = ("_i", "_f", "_c", "_o")

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(num_hidden, prefix, params, initializer.LSTMBias(forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """The states h and c, each (batch, num_hidden)."""
        return [*super().state_info, *super().state_info]

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        name = self._begin_step()
        gates = self._linear("i2h", inputs, name) + self._linear("h2h", states[0], name)
        return lstm_step(gates, states[1], name)


def lstm_step(
    gates: Any, cell: Any, name: str, axis: int = 1, activation: Any = "tanh"
) -> tuple[Symbol, list[Symbol]]:
    """Build h' and c' from the sums for the gates."""
    act = BaseRNNCell._get_activation
    i, f, g, o = symbol.SliceChannel(gates, num_outputs=4, axis=axis, name=name + "slice")
    i = act(i, "sigmoid", name=name + "i")
    f = act(f, "sigmoid", name=name + "f")
    g = act(g, activation, name=name + "c")
    o = act(o, "sigmoid", name=name + "o")
    next_cell = symbol.elemwise_add(f * cell, i * g, name=name + "state")
    output = symbol.elemwise_mul(o, act(next_cell, activation), name=name + "out")
    return output, [output, next_cell]


class GRUCell(_DenseCell):
    """Gated recurrent unit: ``h' = (1 - z) * n + z * h``.

    The gates are r and z, and ``n = tanh(W x + b + r * (R h + c))``.

    Matches ``mxnet.rnn.GRUCell``.
    """

    _gate_names = ("_r", "_z", "_o")

    def __init__(
        self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        name = self._begin_step()
        inner = name + "_"  # in 1.x, all names except that of the output have the second underscore
        i2h, h2h = self._linear("i2h", inputs, inner), self._linear("h2h", states[0], inner)
        output = gru_step(i2h, h2h, states[0], inner, out_name=name + "out")
        return output, [output]


def gru_step(
    i2h: Any,
    h2h: Any,
    state: Any,
    name: str,
    axis: int = 1,
    activation: Any = "tanh",
    out_name: str | None = None,
) -> Symbol:
    """Build h' from the input's and the state's contributions to the gates."""
    xr, xz, xn = symbol.SliceChannel(i2h, num_outputs=3, axis=axis, name=name + "i2h_slice")
    hr, hz, hn = symbol.SliceChannel(h2h, num_outputs=3, axis=axis, name=name + "h2h_slice")
    r = symbol.Activation(xr + hr, act_type="sigmoid", name=name + "r_act")
    z = symbol.Activation(xz + hz, act_type="sigmoid", name=name + "z_act")
    n = BaseRNNCell._get_activation(xn + r * hn, activation, name=name + "h_act")
    return symbol.elemwise_add((1.0 - z) * n, z * state, name=out_name or name + "out")
