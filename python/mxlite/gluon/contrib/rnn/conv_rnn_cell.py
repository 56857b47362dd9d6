"""Recurrent cells whose linear maps are convolutions, over one to three dimensions."""

from __future__ import annotations

from typing import Any

from ....base import ValueError_
from ....ndarray import NDArray
from ...parameter import ParameterDict
from ...rnn.base_cell import HybridRecurrentCell
from ...rnn.cells import gru_step, lstm_step

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _ConvCell(HybridRecurrentCell):
    """A cell with a convolution of the input and one of the state."""

    _dims = 2
    _gates = 1
    _kind = "conv_rnn"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        hidden_channels: int,
        i2h_kernel: Any,
        h2h_kernel: Any,
        i2h_pad: Any = 0,
        i2h_dilate: Any = 1,
        h2h_dilate: Any = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._hidden_channels = hidden_channels
        self._input_shape = tuple(input_shape)
        self._conv_layout = _LAYOUTS[self._dims][0] if conv_layout is None else conv_layout
        self._activation = activation
        if self._conv_layout not in _LAYOUTS[self._dims]:
            raise ValueError_(
                f"{type(self).__name__}: conv_layout must be one of {_LAYOUTS[self._dims]}, got "
                f"{conv_layout!r}"
            )
        if len(self._input_shape) != self._dims + 1:
            raise ValueError_(
                f"{type(self).__name__}: input_shape must have {self._dims + 1} dimensions, got "
                f"{self._input_shape}"
            )
        self._i2h_kernel = self._tuple("i2h_kernel", i2h_kernel)
        self._h2h_kernel = self._tuple("h2h_kernel", h2h_kernel)
        self._i2h_pad = self._tuple("i2h_pad", i2h_pad)
        self._i2h_dilate = self._tuple("i2h_dilate", i2h_dilate)
        self._h2h_dilate = self._tuple("h2h_dilate", h2h_dilate)
        if any(k % 2 == 0 for k in self._h2h_kernel):
            raise ValueError_(
                f"{type(self).__name__}: h2h_kernel must have odd sizes, got {h2h_kernel}"
            )
        self._h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel))
        rows = self._gates * hidden_channels
        self.i2h_weight: Any = self._param(
            "i2h_weight", self._weight_shape(self._in_channels(), self._i2h_kernel),
            i2h_weight_initializer,
        )  # fmt: skip
        self.h2h_weight: Any = self._param(
            "h2h_weight", self._weight_shape(hidden_channels, self._h2h_kernel),
            h2h_weight_initializer,
        )  # fmt: skip
        self.i2h_bias: Any = self._param("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias: Any = self._param("h2h_bias", (rows,), h2h_bias_initializer)

    def _param(self, name: str, shape: tuple[int, ...], init: Any) -> Any:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _tuple(self, name: str, value: Any) -> tuple[int, ...]:
        sizes = (value,) * self._dims if isinstance(value, int) else tuple(value)
        if len(sizes) != self._dims:
            raise ValueError_(
                f"{type(self).__name__}: {name} must be an int or a tuple of {self._dims}, "
                f"got {value}"
            )
        return sizes

    @property
    def _channel_axis(self) -> int:
        return self._conv_layout.find("C")

    def _in_channels(self) -> int:
        return self._input_shape[self._channel_axis - 1]

    def _with_channels(self, channels: int, spatial: tuple[int, ...]) -> tuple[int, ...]:
        return (channels, *spatial) if self._channel_axis == 1 else (*spatial, channels)

    def _weight_shape(self, channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
        return (self._gates * self._hidden_channels, *self._with_channels(channels, kernel))

    def _state_shape(self) -> tuple[int, ...]:
        first = 0 if self._channel_axis == 1 else -1
        spatial = [n for i, n in enumerate(self._input_shape) if i != first % (self._dims + 1)]
        sizes = zip(spatial, self._i2h_kernel, self._i2h_pad, self._i2h_dilate)
        out = tuple(n + 2 * p - d * (k - 1) if n else 0 for n, k, p, d in sizes)
        return self._with_channels(self._hidden_channels, out)

    def _alias(self) -> str:
        return self._kind

    def __repr__(self) -> str:
        rows = self._gates * self._hidden_channels
        mapping = f"{self._in_channels() or None} -> {rows}"
        return f"{type(self).__name__}({mapping}, {self._activation}, {self._conv_layout})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return one state (batch, hidden_channels, spatial dimensions), in the cell's layout."""
        return [{"shape": (batch_size, *self._state_shape()), "__layout__": self._conv_layout}]

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
        """Convolve input and state, then apply the gates of the kind of cell."""
        common = {
            "num_filter": self._gates * self._hidden_channels,
            "layout": self._conv_layout,
        }
        name = f"t{self._counter}_"
        i2h = F.Convolution(
            inputs, i2h_weight, i2h_bias, kernel=self._i2h_kernel, pad=self._i2h_pad,
            dilate=self._i2h_dilate, name=name + "i2h", **common,
        )  # fmt: skip
        h2h = F.Convolution(
            states[0], h2h_weight, h2h_bias, kernel=self._h2h_kernel, pad=self._h2h_pad,
            dilate=self._h2h_dilate, name=name + "h2h", **common,
        )  # fmt: skip
        new = self._step(F, i2h, h2h, states)
        return new[0], new

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        total = F.elemwise_add(i2h, h2h)
        return [self._get_activation(F, total, self._activation, name=f"t{self._counter}_out")]


class _ConvLSTMCell(_ConvCell):
    _gates = 4
    _kind = "conv_lstm"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states h and c, each (batch, hidden_channels, spatial dimensions)."""
        return super().state_info(batch_size) * 2

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        return lstm_step(self, F, i2h, h2h, states[1], self._activation, axis=self._channel_axis)


class _ConvGRUCell(_ConvCell):
    _gates = 3
    _kind = "conv_gru"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any) -> list[Any]:  # noqa: N803
        return [gru_step(self, F, i2h, h2h, states[0], self._activation, axis=self._channel_axis)]


class Conv1DRNNCell(_ConvCell):
    """``h' = activation(W * x + b + R * h + c)`` with convolutions over width."""

    _dims = 1


class Conv2DRNNCell(_ConvCell):
    """``h' = activation(W * x + b + R * h + c)`` with convolutions over height and width."""

    _dims = 2


class Conv3DRNNCell(_ConvCell):
    """``h' = activation(W * x + b + R * h + c)`` with convolutions over three dimensions."""

    _dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """LSTM with convolutions over width (Xingjian et al., 2015, without peepholes)."""

    _dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """LSTM with convolutions over height and width (Xingjian et al., 2015, without peepholes)."""

    _dims = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """LSTM with convolutions over three dimensions (Xingjian et al., 2015, without peepholes)."""

    _dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """GRU with convolutions over width."""

    _dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """GRU with convolutions over height and width."""

    _dims = 2


class Conv3DGRUCell(_ConvGRUCell):
    """GRU with convolutions over three dimensions."""

    _dims = 3
