"""All layers and steps of a recurrent network in the one operator RNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import initializer
from ..._rnn_vector import GATES, RNNVector
from ...base import NotSupportedError, ValueError_
from ...ndarray import NDArray, array
from ...symbol import Symbol
from .base_cell import BaseRNNCell, RNNParams, formatted, merge_steps, symbol, time_axis
from .cells import GRUCell, LSTMCell, RNNCell
from .containers import BidirectionalCell, DropoutCell, SequentialRNNCell

__all__ = ["FusedRNNCell"]


class FusedRNNCell(BaseRNNCell):
    """Stacked layers in one operator; it can only be unrolled.

    Matches ``mxnet.rnn.FusedRNNCell``.

    Parameters
    ----------
    num_hidden, num_layers : int
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
    bidirectional : bool
    dropout : float
        Probability that an element between two layers is set to 0 in training.
    get_next_state : bool
        Let ``unroll`` return the last states; otherwise an empty list.
    forget_bias : float
        First value of the LSTM forget gates' bias.
    prefix : str, optional
        ``<mode>_`` by default.
    params : RNNParams, optional
    """

    _why_no_step = "a FusedRNNCell has no steps; modify cell.unfuse() instead"

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        if mode not in GATES:
            raise ValueError_(f"FusedRNNCell: mode must be one of {sorted(GATES)}, got {mode!r}")
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._gate_names = GATES[mode]
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._vector = RNNVector(num_hidden, num_layers, mode, bidirectional)
        self._directions = self._vector.directions
        init = initializer.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self._params.get("parameters", init=init)

    @property
    def _vector_name(self) -> str:
        return f"{self._params._prefix}parameters"

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """State h (for an LSTM also c) of all layers and directions."""
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        count = 2 if self._mode == "lstm" else 1
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(count)]

    def unpack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Split the parameter vector into matrices for each layer, direction and gate.

        Parameters
        ----------
        args : dict of str to NDArray
            With ``<prefix>parameters``.

        Returns
        -------
        dict of str to NDArray
            With ``<prefix>l0_i2h_i_weight`` and so on, as `unfuse`'s cells have them unpacked.
        """
        unpacked = dict(args)
        vector = unpacked.pop(self._vector_name)
        values, at = vector.asnumpy(), 0
        inputs = self._vector.input_size(values.size, "FusedRNNCell")
        for name, shape in self._vector.pieces(inputs):
            size = int(np.prod(shape))
            unpacked[self._prefix + name] = array(
                values[at : at + size].reshape(shape), dtype=vector.dtype
            )
            at += size
        return unpacked

    def pack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Undo `unpack_weights`."""
        packed = dict(args)
        first = packed[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"]
        pieces = self._vector.pieces(first.shape[1])
        parts = [packed.pop(self._prefix + name).asnumpy() for name, _ in pieces]
        joined = np.concatenate([part.reshape(-1) for part in parts])
        packed[self._vector_name] = array(joined, dtype=first.dtype)
        return packed

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Raise, because the operator needs whole sequences.

        Raises
        ------
        NotSupportedError
            Always.
        """
        raise NotSupportedError("FusedRNNCell cannot be stepped, use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Build the operator; see `BaseRNNCell.unroll`."""
        self.reset()
        inputs = merge_steps(inputs, layout)
        if time_axis(layout) == 1:
            inputs = symbol.swapaxes(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        result = symbol.RNN(
            inputs,
            self._parameter,
            *states,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
        )
        outputs, next_states = result, []
        if self._get_next_state:
            result._set_attr(__layout__="LNC")
            outputs, *next_states = list(result)
        if time_axis(layout) == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return formatted(outputs, length, layout, merge_outputs), next_states

    def unfuse(self) -> SequentialRNNCell:
        """Return a stack of cells that computes the same outputs with the unpacked weights."""

        def make(prefix: str) -> BaseRNNCell:
            if self._mode == "lstm":
                return LSTMCell(self._num_hidden, prefix=prefix)
            if self._mode == "gru":
                return GRUCell(self._num_hidden, prefix=prefix)
            return RNNCell(self._num_hidden, activation=self._mode[4:], prefix=prefix)

        stack = SequentialRNNCell()
        for k in range(self._num_layers):
            sides = [make(f"{self._prefix}{side}{k}_") for side in self._directions]
            if self._bidirectional:
                output_prefix = f"{self._prefix}bi_l{k}_"
                stack.add(BidirectionalCell(sides[0], sides[1], output_prefix=output_prefix))
            else:
                stack.add(sides[0])
            if self._dropout > 0 and k != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{k}_"))
        return stack
