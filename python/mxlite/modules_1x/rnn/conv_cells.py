"""Symbolic recurrent cells whose linear maps are convolutions."""

from __future__ import annotations

import functools
from typing import Any

from ...base import ValueError_
from ...symbol import Symbol
from .base_cell import BaseRNNCell, RNNParams, symbol
from .cells import gru_step, lstm_step

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """A cell with a convolution of the input and one of the state.

    Matches ``mxnet.rnn.BaseConvRNNCell``.

    Parameters
    ----------
    input_shape : tuple of int
        (batch, channels, height, width) of the input; the batch may be 0.
    num_hidden : int
        Channels of the state.
    h2h_kernel, h2h_dilate : tuple of int
        Settings of the state's convolution; kernel sizes must be odd.
    i2h_kernel, i2h_stride, i2h_pad, i2h_dilate : tuple of int
        Settings of the input's convolution.
    i2h_weight_initializer, h2h_weight_initializer : str or Initializer, optional
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
    activation : str or callable
    prefix : str, optional
        ``ConvRNN_``, ``ConvLSTM_`` or ``ConvGRU_`` by default.
    params : RNNParams, optional
    conv_layout : {'NCHW', 'NHWC'}
    """

    _default_prefix = ""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_hidden: int,
        h2h_kernel: tuple[int, ...] = (3, 3),
        h2h_dilate: tuple[int, ...] = (1, 1),
        i2h_kernel: tuple[int, ...] = (3, 3),
        i2h_stride: tuple[int, ...] = (1, 1),
        i2h_pad: tuple[int, ...] = (1, 1),
        i2h_dilate: tuple[int, ...] = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(self._default_prefix if prefix is None else prefix, params)
        if any(k % 2 == 0 for k in h2h_kernel):
            raise ValueError_(
                f"{type(self).__name__}: h2h_kernel must have odd sizes, got {h2h_kernel}"
            )
        self._num_hidden = num_hidden
        self._activation = activation
        self._conv_layout = conv_layout
        self._channel_axis = conv_layout.find("C")
        self._input = {
            "kernel": tuple(i2h_kernel),
            "stride": tuple(i2h_stride),
            "pad": tuple(i2h_pad),
            "dilate": tuple(i2h_dilate),
        }
        self._hidden = {
            "kernel": tuple(h2h_kernel),
            "pad": tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel)),
            "dilate": tuple(h2h_dilate),
        }
        shape = symbol.Convolution(
            symbol.Variable("data"),
            num_filter=num_hidden,
            layout=conv_layout,
            **self._input,
        ).infer_shape(data=(1, *input_shape[1:]))[1][0]
        self._state_shape = (0, *shape[1:])
        # Subclasses of other libraries use these names of 1.x.
        self._iW = self._params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self._params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self._params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self._params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """One state of the output's shape."""
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        parts = []
        for group, values, weight, bias, options in (
            ("i2h", inputs, self._iW, self._iB, self._input),
            ("h2h", states[0], self._hW, self._hB, self._hidden),
        ):
            parts.append(
                symbol.Convolution(
                    values,
                    weight,
                    bias,
                    num_filter=self._num_hidden * self._num_gates,
                    layout=self._conv_layout,
                    name=name + group,
                    **options,
                )
            )
        return self._step(parts[0], parts[1], states, name)

    def _step(self, i2h: Any, h2h: Any, states: Any, name: str) -> tuple[Symbol, list[Symbol]]:
        raise NotImplementedError(f"{type(self).__name__} is abstract")


class ConvRNNCell(BaseConvRNNCell):
    """Vanilla cell with convolutions; parameters as `BaseConvRNNCell`.

    Matches ``mxnet.rnn.ConvRNNCell``.
    """

    _default_prefix = "ConvRNN_"
    _gate_names = ("",)

    def _step(self, i2h: Any, h2h: Any, states: Any, name: str) -> tuple[Symbol, list[Symbol]]:
        output = self._get_activation(i2h + h2h, self._activation, name=name + "out")
        return output, [output]


class ConvLSTMCell(BaseConvRNNCell):
    """LSTM with convolutions (Xingjian et al., 2015); parameters as `BaseConvRNNCell`.

    Matches ``mxnet.rnn.ConvLSTMCell``.
    """

    _default_prefix = "ConvLSTM_"
    _gate_names = ("_i", "_f", "_c", "_o")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """The states h and c."""
        return [*super().state_info, *super().state_info]

    def _step(self, i2h: Any, h2h: Any, states: Any, name: str) -> tuple[Symbol, list[Symbol]]:
        return lstm_step(i2h + h2h, states[1], name, self._channel_axis, self._activation)


class ConvGRUCell(BaseConvRNNCell):
    """GRU with convolutions; parameters as `BaseConvRNNCell`.

    Matches ``mxnet.rnn.ConvGRUCell``.
    """

    _default_prefix = "ConvGRU_"
    _gate_names = ("_r", "_z", "_o")

    def _step(self, i2h: Any, h2h: Any, states: Any, name: str) -> tuple[Symbol, list[Symbol]]:
        output = gru_step(i2h, h2h, states[0], name, self._channel_axis, self._activation)
        return output, [output]
