"""Recurrent layers that run whole sequences in one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, overload

from ... import ndarray as nd
from ..._rnn_vector import GATES
from ..._typed_init import check_sizes
from ...base import NotSupportedError, ShapeError, ValueError_
from ...ndarray import NDArray
from ...symbol import Symbol
from ..block import HybridBlock
from ..parameter import Parameter
from ..parameter.parameter import shape_is_known as is_known
from . import rnn_cell
from .sequence import begun_state

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = ["GRU", "LSTM", "RNN"]


class _RNNLayer(HybridBlock):
    """Stacked recurrent layers; see the classes below."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        mode: str,
        dtype: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
        h2r_weight: Any = None,
        projection_size: int | None = None,
        state_clip: tuple[float | None, float | None, bool] = (None, None, False),
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        if layout not in ("TNC", "NTC"):
            raise ValueError_(f"{name}: layout must be 'TNC' or 'NTC', got {layout!r}")
        if mode not in GATES:
            raise ValueError_(f"{name}: activation must be 'relu' or 'tanh', got {mode[4:]!r}")
        check_sizes(name, 1, hidden_size=hidden_size, num_layers=num_layers)
        self._hidden_size = hidden_size
        self._projection_size = projection_size or None
        self._num_layers = num_layers
        self._mode = mode
        self._gates = len(GATES[mode])
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._initializers = {
            "i2h_weight": i2h_weight,
            "h2h_weight": h2h_weight,
            "i2h_bias": i2h_bias,
            "h2h_bias": h2h_bias,
        }
        self._state_clip = state_clip
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        inputs, rows, out = input_size, self._gates * hidden_size, projection_size or hidden_size
        for layer in range(num_layers):
            shapes = {
                "i2h_weight": (rows, inputs),
                "h2h_weight": (rows, out),
                "i2h_bias": (rows,),
                "h2h_bias": (rows,),
            }
            if projection_size:
                shapes["h2r_weight"] = (out, hidden_size)
            for side in "lr"[: self._dir]:
                for kind, shape in shapes.items():
                    init = self._initializers.get(kind, h2r_weight)
                    self._add_param(f"{side}{layer}_{kind}", shape, init)
            inputs = out * self._dir

    def _add_param(self, name: str, shape: tuple[int, ...], init: Any) -> None:
        param = self.params.get(
            name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype
        )
        setattr(self, name, param)

    def __repr__(self) -> str:
        rows, columns = self._reg_params["l0_i2h_weight"].shape or (0, 0)
        parts = [f"{columns or None} -> {rows // self._gates}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._dir == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        # Files of 1.x use the names of the cells that _unfuse creates.
        dot = prefix + "." if prefix else ""
        found = {}
        for name, param in self._reg_params.items():
            place, kind = name.split("_", 1)
            cell = f"{place[0]}_cell." if self._dir == 2 else ""
            found[f"{dot}_unfused.{place[1:]}.{cell}{kind}"] = param
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(dot + name))
        return found

    def cast(self, dtype: Any) -> None:
        """Convert the parameters and the type of first states; see `Block.cast`.

        Parameters
        ----------
        dtype : str or type
        """
        super().cast(dtype)
        self._dtype = dtype

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape, layout and type of each state.

        Returns
        -------
        list of dict
            Dictionaries with the keys ``shape``, ``__layout__`` and ``dtype``.
        """
        first = (self._num_layers * self._dir, batch_size)
        sizes = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            sizes.append(self._hidden_size)
        return [
            {"shape": (*first, size), "__layout__": "LNC", "dtype": self._dtype} for size in sizes
        ]

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the states before the first step.

        Parameters
        ----------
        batch_size : int
        func : callable
            Creates one state: ``mx.nd.zeros``, ``mx.nd.ones``, ``mx.sym.var``, ...
        **kwargs
            Passed to func, for example ``ctx`` and ``dtype``.

        Returns
        -------
        list of NDArray
        """
        states = []
        for i, info in enumerate(self.state_info(batch_size)):
            wanted = {k: v for k, v in info.items() if k != "__layout__"}
            wanted.update(kwargs)
            states.append(begun_state(func, f"{self.prefix}h0_{i}", wanted))
        return states

    @overload
    def __call__(self, inputs: Symbol, *args: Any) -> Symbol: ...
    @overload
    def __call__(
        self, inputs: NDArray, states: None = None, sequence_length: NDArray | None = None
    ) -> NDArray: ...
    @overload
    def __call__(
        self,
        inputs: NDArray,
        states: NDArray | Sequence[NDArray],
        sequence_length: NDArray | None = None,
    ) -> tuple[NDArray, list[NDArray]]: ...
    def __call__(
        self, inputs: Any = None, states: Any = None, sequence_length: Any = None, *extra: Any
    ) -> Any:
        """Run the layer.

        Parameters
        ----------
        inputs : NDArray
            (steps, batch, inputs) in layout ``TNC``, (batch, steps, inputs) in ``NTC``.
        states : NDArray or list of NDArray, optional
            (num_layers * directions, batch, hidden_size) each; zeros by default.
        sequence_length : NDArray of shape (batch,), with ``use_sequence_length`` only

        Returns
        -------
        output : NDArray
            (steps, batch, directions * hidden_size), or in layout ``NTC``.
        states : list of NDArray, only when states were given

        Raises
        ------
        ShapeError
            If a state has another shape.
        """
        if inputs is None or extra:  # the base class raises an error that names the layer
            return super().__call__(*(() if inputs is None else (inputs, states, None, *extra)))
        if states is not None and not isinstance(states, (list, tuple)):
            states = [states]
        if self._use_sequence_length:
            if sequence_length is None:
                raise ValueError_(
                    f"{self.name}: sequence_length must be given with "
                    "use_sequence_length=True, got None"
                )
            return super().__call__(inputs, states, sequence_length)
        if sequence_length is not None:
            raise ValueError_(
                f"{self.name}: sequence_length must be None without "
                "use_sequence_length=True, got an array"
            )
        return super().__call__(inputs) if states is None else super().__call__(inputs, states)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        inputs: Any,
        states: Any = None,
        sequence_length: Any = None,
        **params: Any,
    ) -> Any:
        """Run all layers and steps in the operator RNN."""
        given = states is not None
        if isinstance(inputs, NDArray):
            self._check_inputs(inputs)
            batch = inputs.shape[self._layout.find("N")]
            if states is None:
                states = self.begin_state(batch, nd.zeros, ctx=inputs.ctx, dtype=inputs.dtype)
            self._check_states(states, batch)
            self._find_input_size(inputs, params)
        elif states is None:
            states = self.begin_state(0, F.zeros)
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        extra = [sequence_length] if self._use_sequence_length else []
        clip_min, clip_max, clip_nan = self._state_clip
        output, *states = F.RNN(
            inputs,
            self._packed(F, params),
            *states,
            *extra,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            lstm_state_clip_min=clip_min,
            lstm_state_clip_max=clip_max,
            lstm_state_clip_nan=clip_nan,
        )
        if self._layout == "NTC":
            output = F.swapaxes(output, 0, 1)
        return (output, states) if given else output

    def _packed(self, F: Any, params: dict[str, Any]) -> Any:  # noqa: N803
        """Return the operator's parameter vector: all weights, followed by all biases."""
        places = [f"{side}{k}" for k in range(self._num_layers) for side in "lr"[: self._dir]]
        weights = ["i2h_weight", "h2h_weight", *(["h2r_weight"] if self._projection_size else [])]
        order = [f"{place}_{kind}" for place in places for kind in weights]
        order += [f"{place}_{kind}" for place in places for kind in ("i2h_bias", "h2h_bias")]
        return F.concat(*(F.reshape(params[name], shape=(-1,)) for name in order), dim=0)

    def _check_inputs(self, inputs: NDArray) -> None:
        if len(inputs.shape) != 3:
            raise ShapeError(
                f"{self.name}: input must have 3 dimensions for layout {self._layout}, got shape "
                f"{inputs.shape}"
            )

    def _check_states(self, states: Any, batch: int) -> None:
        expected = [info["shape"] for info in self.state_info(batch)]
        shapes = [tuple(state.shape) for state in states]
        if shapes != expected:
            raise ShapeError(
                f"{self.name}: states must have shapes {expected}, got {shapes}; the batch size is "
                f"{batch}, the data's size of axis {self._layout.find('N')} in layout "
                f"{self._layout!r} (layout= must be the layout of the data, 'TNC' or 'NTC')"
            )

    def _find_input_size(self, inputs: NDArray, params: dict[str, Any]) -> None:
        """Infer the input size with a dense operator whose output is not used."""
        for side in "lr"[: self._dir]:
            weight = params[f"{side}0_i2h_weight"]
            if not is_known(weight.shape):
                rows = self._gates * self._hidden_size
                nd.FullyConnected(inputs, weight, num_hidden=rows, no_bias=True, flatten=False)

    def _unfuse(self) -> rnn_cell.HybridSequentialRNNCell:
        """Return a stack of cells that shares this layer's parameters."""
        if self._projection_size or self._state_clip[0] is not None:
            raise NotSupportedError(
                f"{self.name}: cells have neither projection nor clipped states, so this layer "
                "cannot be unfused"
            )
        make: Callable[..., Any] = {
            "rnn_relu": lambda **kw: rnn_cell.RNNCell(self._hidden_size, "relu", **kw),
            "rnn_tanh": lambda **kw: rnn_cell.RNNCell(self._hidden_size, "tanh", **kw),
            "lstm": lambda **kw: rnn_cell.LSTMCell(self._hidden_size, **kw),
            "gru": lambda **kw: rnn_cell.GRUCell(self._hidden_size, **kw),
        }[self._mode]
        options = {f"{kind}_initializer": init for kind, init in self._initializers.items()}
        stack = rnn_cell.HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        inputs = (self._reg_params["l0_i2h_weight"].shape or (0, 0))[1]
        with stack.name_scope():
            for k in range(self._num_layers):
                sides = [
                    make(prefix=f"{side}{k}_", input_size=inputs, **options)
                    for side in "lr"[: self._dir]
                ]
                stack.add(rnn_cell.BidirectionalCell(*sides) if self._dir == 2 else sides[0])
                if self._dropout > 0 and k != self._num_layers - 1:
                    stack.add(rnn_cell.DropoutCell(self._dropout))
                inputs = self._hidden_size * self._dir
        return stack


class RNN(_RNNLayer):
    """Vanilla recurrent layers: ``h' = activation(W x + b + R h + c)``.

    Matches ``mxnet.gluon.rnn.RNN``. Call it with (inputs, states, sequence_length).

    Parameters
    ----------
    hidden_size : int
    num_layers : int
    activation : {'relu', 'tanh'}
    layout : {'TNC', 'NTC'}
        Layout of inputs and outputs; ``NTC`` costs a transpose each way.
    dropout : float
        Probability that an element between two layers is set to 0 in training.
    bidirectional : bool
    i2h_weight_initializer, h2h_weight_initializer : str or Initializer, optional
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
    input_size : int
        0 is inferred at the first call.
    dtype : str or type
    **kwargs
        ``use_sequence_length``, ``prefix``, ``params``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size,
            "rnn_" + activation, dtype, i2h_weight_initializer, h2h_weight_initializer,
            i2h_bias_initializer, h2h_bias_initializer, **kwargs,
        )  # fmt: skip


class LSTM(_RNNLayer):
    """Long short-term memory: ``c' = f * c + i * g``, ``h' = o * tanh(c')``; gates i, f, g, o.

    Matches ``mxnet.gluon.rnn.LSTM``. Call it with (inputs, [h, c], sequence_length). `RNN`
    describes the other parameters.

    Parameters
    ----------
    projection_size : int, optional
        Size to which h' is projected.
    h2r_weight_initializer : str or Initializer, optional
        Initializer of the projection.
    state_clip_min, state_clip_max : float, optional
        Bounds of c', given together.
    state_clip_nan : bool
        Turn NaN in c' into the lower bound.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, "lstm", dtype,
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer, h2r_weight_initializer, projection_size,
            (state_clip_min, state_clip_max, state_clip_nan), **kwargs,
        )  # fmt: skip


class GRU(_RNNLayer):
    """Gated recurrent layers: ``h' = (1 - z) * n + z * h``.

    The gates are r and z, and ``n = tanh(W x + b + r * (R h + c))``.

    Matches ``mxnet.gluon.rnn.GRU``. Call it with (inputs, states, sequence_length). `RNN` describes
    the parameters.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, "gru", dtype,
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer, **kwargs,
        )  # fmt: skip
