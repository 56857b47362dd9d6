"""Variational dropout, LSTM with projection, and unrolling of whole arrays."""

from __future__ import annotations

from typing import Any

from .... import ndarray as nd
from ....ndarray import NDArray
from ...parameter import ParameterDict
from ...rnn import sequence as steps_of
from ...rnn.base_cell import HybridRecurrentCell, RecurrentCell
from ...rnn.cells import _DenseCell, lstm_step
from ...rnn.containers import check_can_step
from ...rnn.modifiers import _RememberingCell

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class VariationalDropoutCell(_RememberingCell):
    """Dropout with one mask for all steps of a sequence (Gal and Ghahramani, 2016).

    Matches ``mxnet.gluon.contrib.rnn.VariationalDropoutCell``. The masks are drawn at the first
    step after ``reset``, which ``unroll`` calls.

    Parameters
    ----------
    base_cell : HybridRecurrentCell
    drop_inputs, drop_states, drop_outputs : float
        Fractions dropped in training; ``drop_states`` applies to the first state only.
    """

    def __init__(
        self,
        base_cell: RecurrentCell,
        drop_inputs: float = 0.0,
        drop_states: float = 0.0,
        drop_outputs: float = 0.0,
    ) -> None:
        if drop_states:
            check_can_step(base_cell, "VariationalDropoutCell: drop_states")
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs
        self._masks: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Drop the masks; see `RecurrentCell.reset`."""
        super().reset()
        self._masks = {}

    def _drop(self, F: Any, kind: str, rate: float, values: Any) -> Any:  # noqa: N803
        if not rate:
            return values
        if kind not in self._masks:
            self._masks[kind] = F.Dropout(F.ones_like(values), p=rate)
        return F.elemwise_mul(values, self._masks[kind])

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> tuple[NDArray, list[NDArray]]:  # noqa: N803
        """Run a step of the wrapped cell, with masks on its inputs, states and outputs."""
        states = [self._drop(F, "states", self.drop_states, states[0]), *states[1:]]
        inputs = self._drop(F, "inputs", self.drop_inputs, inputs)
        output, states = self.base_cell(inputs, states)
        return self._drop(F, "outputs", self.drop_outputs, output), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Apply dropout to the whole sequence at once if no state is dropped."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        steps_of.check_length(length, inputs, layout)
        axes = (steps_of.time_axis(layout),)
        merged = steps_of.merge(inputs, layout)
        states = self._begin_state_for(begin_state, merged, layout)
        if self.drop_inputs:
            merged = nd.Dropout(merged, p=self.drop_inputs, axes=axes)
        outputs, states = self._unlocked(
            lambda cell: cell.unroll(length, merged, states, layout, True, valid_length)
        )
        if self.drop_outputs:
            outputs = nd.Dropout(outputs, p=self.drop_outputs, axes=axes)
        return steps_of.formatted(outputs, length, layout, merge_outputs), states


class LSTMPCell(_DenseCell):
    """LSTM with a projected output: ``r' = P h'`` replaces h.

    Matches ``mxnet.gluon.contrib.rnn.LSTMPCell``: states r (batch, projection_size) and c
    (batch, hidden_size).

    Parameters
    ----------
    hidden_size, projection_size : int
    i2h_weight_initializer, h2h_weight_initializer : str or Initializer, optional
    h2r_weight_initializer : str or Initializer, optional
        Initializer of the projection.
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
    input_size : int
        0 is inferred at the first call.
    prefix : str, optional
    params : ParameterDict, optional
    """

    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        HybridRecurrentCell.__init__(self, prefix, params)
        self._add_parameters(
            hidden_size,
            projection_size,
            input_size,
            i2h_weight=i2h_weight_initializer,
            h2h_weight=h2h_weight_initializer,
            h2r_weight=h2r_weight_initializer,
            i2h_bias=i2h_bias_initializer,
            h2h_bias=h2h_bias_initializer,
        )
        self._projection_size = projection_size

    def _alias(self) -> str:
        return "lstmp"

    def _mapping(self) -> str:
        return f"{super()._mapping()} -> {self._projection_size}"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states r (batch, projection_size) and c (batch, hidden_size)."""
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,  # noqa: N803
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        h2r_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[NDArray, list[NDArray]]:
        """Return r' and the states r', c'."""
        i2h = self._linear(F, inputs, i2h_weight, i2h_bias, "i2h")
        h2h = self._linear(F, states[0], h2h_weight, h2h_bias, "h2h")
        hidden, cell = lstm_step(self, F, i2h, h2h, states[1], "tanh", out_name="hidden")
        output = F.FullyConnected(
            hidden,
            h2r_weight,
            num_hidden=self._projection_size,
            no_bias=True,
            name=f"t{self._counter}_out",
        )
        return output, [output, cell]


def dynamic_unroll(
    cell: RecurrentCell,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[NDArray | Any, list[NDArray]]:
    """Run a cell for as many steps as the input has.

    Matches ``mxnet.gluon.contrib.rnn.rnn_cell.dynamic_unroll``.

    Parameters
    ----------
    cell : RecurrentCell
    inputs : NDArray
        (length, batch, ...) for layout ``TNC``, (batch, length, ...) for ``NTC``.
    begin_state : list of NDArray
    drop_inputs, drop_outputs : float
        Fractions dropped in training, the same elements in all steps.
    layout : {'TNC', 'NTC'}
    valid_length : NDArray, optional
        (batch,): the number of steps of each sample. Later outputs are zero, the states are
        those of its last step.

    Returns
    -------
    outputs : NDArray
        In the layout of inputs.
    states : list of NDArray
    """
    axis = steps_of.time_axis(layout)
    if drop_inputs:
        inputs = nd.Dropout(inputs, p=drop_inputs, axes=(axis,))
    steps_of.check_length(None, inputs, layout)
    outputs, history, states = [], [], begin_state
    for step in steps_of.split(inputs, None, layout):
        output, states = cell(step, states)
        outputs.append(output)
        history.append(states)
    merged = steps_of.merge(outputs, layout)
    if valid_length is not None:
        merged = steps_of.mask_steps(merged, None, layout, valid_length, True)
        states = steps_of.last_states(history, valid_length)
    if drop_outputs:
        merged = nd.Dropout(merged, p=drop_outputs, axes=(axis,))
    return merged, states
