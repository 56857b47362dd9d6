"""Cells with their own weights: vanilla, LSTM and GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._typed_init import with_defaults
from ...ndarray import NDArray
from ..nn.activations import checked_activation
from ..parameter import ParameterDict
from .base_cell import HybridRecurrentCell

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class _DenseCell(HybridRecurrentCell):
    """Two linear maps, of the input and of the state, to ``gates * hidden_size`` values."""

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._add_parameters(
            hidden_size,
            hidden_size,
            input_size,
            i2h_weight=i2h_weight_initializer,
            h2h_weight=h2h_weight_initializer,
            i2h_bias=i2h_bias_initializer,
            h2h_bias=h2h_bias_initializer,
        )

    def _add_parameters(
        self, hidden_size: int, state_size: int, input_size: int, **initializers: Any
    ) -> None:
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        shapes = {
            "i2h_weight": (rows, input_size),
            "h2h_weight": (rows, state_size),
            "h2r_weight": (state_size, hidden_size),
            "i2h_bias": (rows,),
            "h2h_bias": (rows,),
        }
        for name, init in initializers.items():
            param = self.params.get(name, shape=shapes[name], init=init, allow_deferred_init=True)
            setattr(self, name, param)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return one state (batch, hidden_size)."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def _mapping(self) -> str:
        rows, columns = self._reg_params["i2h_weight"].shape or (0, 0)
        return f"{columns or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()})"

    def _linear(self, F: Any, values: Any, weight: Any, bias: Any, name: str) -> Any:  # noqa: N803
        return F.FullyConnected(
            values,
            weight,
            bias,
            num_hidden=self._gates * self._hidden_size,
            name=f"t{self._counter}_{name}",
        )

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[NDArray, list[NDArray]]:
        """Return the output, which is also the first of the new states."""
        i2h = self._linear(F, inputs, i2h_weight, i2h_bias, "i2h")
        h2h = self._linear(F, states[0], h2h_weight, h2h_bias, "h2h")
        new = self._step(F, i2h, h2h, states)
        return new[0], new

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        """Return the new states, given the input's and the state's contributions to the gates."""
        raise NotImplementedError(f"{type(self).__name__} does not define hybrid_forward")


class RNNCell(_DenseCell):
    """``h' = activation(W x + b + R h + c)``.

    Matches ``mxnet.gluon.rnn.RNNCell``: input (batch, input_size), one state (batch, hidden_size).

    Parameters
    ----------
    hidden_size : int
    activation : str or HybridBlock
    i2h_weight_initializer, h2h_weight_initializer : str or Initializer, optional
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
    input_size : int
        0 is inferred at the first call.
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer, input_size, prefix, params,
        )  # fmt: skip
        self._activation = checked_activation(activation)

    def _alias(self) -> str:
        return "rnn"

    def _mapping(self) -> str:
        return f"{super()._mapping()}, {self._activation}"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        name = f"t{self._counter}_"
        total = F.elemwise_add(i2h, h2h, name=name + "plus0")
        return [self._get_activation(F, total, self._activation, name=name + "out")]


class LSTMCell(_DenseCell):
    """Long short-term memory: gates i, f, g, o; ``c' = f * c + i * g``, ``h' = o * tanh(c')``.

    Matches ``mxnet.gluon.rnn.LSTMCell``: input (batch, input_size), states h and c
    (batch, hidden_size). `RNNCell` describes the other parameters.

    Parameters
    ----------
    activation, recurrent_activation : str or HybridBlock
        ``activation`` is applied to g and c', ``recurrent_activation`` to the gates i, f and o.
    """

    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer, input_size, prefix, params,
        )  # fmt: skip
        self._activation = checked_activation(activation)
        self._recurrent_activation = checked_activation(recurrent_activation)

    def _alias(self) -> str:
        return "lstm"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states h and c, each (batch, hidden_size)."""
        return super().state_info(batch_size) * 2

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        return lstm_step(self, F, i2h, h2h, states[1], self._activation, self._recurrent_activation)


def lstm_step(
    owner: HybridRecurrentCell,
    F: Any,  # noqa: N803
    i2h: Any,
    h2h: Any,
    cell: Any,
    activation: Any,
    recurrent_activation: Any = "sigmoid",
    axis: int = 1,
    out_name: str = "out",
) -> list[Any]:
    """Compute h' and c', given the input's and the state's contributions to the gates."""
    name = f"t{owner._counter}_"
    gates = F.SliceChannel(
        F.elemwise_add(i2h, h2h, name=name + "plus0"), num_outputs=4, axis=axis, name=name + "slice"
    )
    act = owner._get_activation
    i = act(F, gates[0], recurrent_activation, name=name + "i")
    f = act(F, gates[1], recurrent_activation, name=name + "f")
    g = act(F, gates[2], activation, name=name + "c")
    o = act(F, gates[3], recurrent_activation, name=name + "o")
    kept = F.elemwise_mul(f, cell, name=name + "mul0")
    added = F.elemwise_mul(i, g, name=name + "mul1")
    next_cell = F.elemwise_add(kept, added, name=name + "state")
    seen = act(F, next_cell, activation, name=name + "activation0")
    return [F.elemwise_mul(o, seen, name=name + out_name), next_cell]


class GRUCell(_DenseCell):
    """Gated recurrent unit: ``h' = (1 - z) * n + z * h``.

    The gates are r and z, and ``n = tanh(W x + b + r * (R h + c))``.

    Matches ``mxnet.gluon.rnn.GRUCell``: input (batch, input_size), one state (batch, hidden_size).
    `RNNCell` describes the parameters.
    """

    _gates = 3

    if not TYPE_CHECKING:
        __init__ = with_defaults(_DenseCell.__init__, "GRUCell")

    def _alias(self) -> str:
        return "gru"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        return [gru_step(self, F, i2h, h2h, states[0])]


def gru_step(
    owner: HybridRecurrentCell,
    F: Any,  # noqa: N803
    i2h: Any,
    h2h: Any,
    state: Any,
    activation: Any = "tanh",
    axis: int = 1,
) -> Any:
    """Compute h', given the input's and the state's contributions to the gates."""
    name = f"t{owner._counter}_"
    xr, xz, xn = F.SliceChannel(i2h, num_outputs=3, axis=axis, name=name + "i2h_slice")
    hr, hz, hn = F.SliceChannel(h2h, num_outputs=3, axis=axis, name=name + "h2h_slice")
    r = F.sigmoid(F.elemwise_add(xr, hr, name=name + "plus0"), name=name + "r_act")
    z = F.sigmoid(F.elemwise_add(xz, hz, name=name + "plus1"), name=name + "z_act")
    total = F.elemwise_add(xn, F.elemwise_mul(r, hn, name=name + "mul0"), name=name + "plus2")
    n = owner._get_activation(F, total, activation, name=name + "h_act")
    # Uses two products instead of one formula: both save their factors for backward, so that, as in
    # 1.x, gradients use a state that is overwritten before backward.
    new = F.elemwise_mul(1 - z, n, name=name + "mul1")
    return F.elemwise_add(new, F.elemwise_mul(z, state, name=name + "mul2"), name=name + "out")
