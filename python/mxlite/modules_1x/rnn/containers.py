"""Symbolic cells that contain other cells, and dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ...base import NotSupportedError, TypeError_, ValueError_
from ...ndarray import NDArray
from ...symbol import Symbol
from .base_cell import (
    BaseRNNCell,
    RNNParams,
    formatted,
    merge_steps,
    split_steps,
    symbol,
    time_axis,
)

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "ModifierCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]


class _Container(BaseRNNCell):
    """Base of cells that contain other cells and have the states and weights of all of them."""

    def __init__(self, prefix: str, params: RNNParams | None) -> None:
        self._override_cell_params = params is not None
        self._cells: list[BaseRNNCell] = []
        super().__init__(prefix, params)

    def _inner_cells(self) -> list[BaseRNNCell]:
        return self._cells

    def _adopt(self, cell: BaseRNNCell) -> None:
        """Add a cell that shares variables with this one."""
        self._cells.append(cell)
        if self._override_cell_params:
            if not cell._own_params:
                raise ValueError_(
                    f"{type(self).__name__}: params must be None if the cell {cell._prefix!r} has "
                    "params of its own, got both"
                )
            cell._params._params.update(self._params._params)
        self._params._params.update(cell.params._params)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """The states of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Callable[..., Any] = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states of all cells; see `BaseRNNCell.begin_state`."""
        self._check_not_modified()
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Unpack the weights of all cells."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Pack the weights of all cells."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _dealt(self, states: Any) -> list[Any]:
        dealt, at = [], 0
        for cell in self._cells:
            count = len(cell.state_info)
            dealt.append(states[at : at + count])
            at += count
        return dealt


class SequentialRNNCell(_Container):
    """Stacked cells.

    Matches ``mxnet.rnn.SequentialRNNCell``.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__("", params)

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._adopt(cell)

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step of all cells; see `BaseRNNCell`."""
        self._counter += 1
        next_states: list[Symbol] = []
        for cell, own in zip(self._cells, self._dealt(states)):
            inputs, changed = cell(inputs, own)
            next_states.extend(changed)
        return inputs, next_states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Unroll cell by cell; see `BaseRNNCell.unroll`."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        next_states: list[Symbol] = []
        for i, (cell, own) in enumerate(zip(self._cells, self._dealt(states))):
            merged = merge_outputs if i == len(self._cells) - 1 else None
            inputs, changed = cell.unroll(length, inputs, own, layout, merged)
            next_states.extend(changed)
        return inputs, next_states


class BidirectionalCell(_Container):
    """One cell over the sequence and one over the reversed sequence; their outputs are joined.

    Matches ``mxnet.rnn.BidirectionalCell``.

    Parameters
    ----------
    l_cell, r_cell : BaseRNNCell
        Cells for the forward and for the backward direction.
    params : RNNParams, optional
    output_prefix : str
        Beginning of the outputs' names.
    """

    _why_no_step = "a BidirectionalCell cannot be stepped; modify the cells inside it instead"

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        super().__init__("", params)
        self._output_prefix = output_prefix
        self._adopt(l_cell)
        self._adopt(r_cell)

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Raise, because the backward cell needs the whole sequence.

        Raises
        ------
        NotSupportedError
            Always.
        """
        raise NotSupportedError("BidirectionalCell cannot be stepped, use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Unroll both cells and join their outputs; see `BaseRNNCell.unroll`.

        The states are two lists: those of the forward cell and those of the backward cell.
        """
        self.reset()
        steps = split_steps(inputs, length, layout)
        left, right = self._dealt(self.begin_state() if begin_state is None else begin_state)
        forward, states = self._cells[0].unroll(length, steps, left, layout, merge_outputs)
        backward, more = self._cells[1].unroll(length, steps[::-1], right, layout, False)
        if merge_outputs is None:
            merge_outputs = isinstance(forward, Symbol)
        backward = backward[::-1]
        outputs: Any
        if merge_outputs:
            outputs = symbol.Concat(
                merge_steps(forward, layout),
                merge_steps(backward, layout),
                dim=2,
                name=f"{self._output_prefix}out",
            )
        else:
            outputs = [
                symbol.Concat(f, b, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (f, b) in enumerate(zip(split_steps(forward, length, layout), backward))
            ]
        return outputs, [states, more]


class DropoutCell(BaseRNNCell):
    """Dropout of the input; it has no state.

    Matches ``mxnet.rnn.DropoutCell``.

    Parameters
    ----------
    dropout : float
        Probability that an element is set to 0 in training.
    prefix : str
    params : RNNParams, optional
    """

    def __init__(
        self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None
    ) -> None:
        super().__init__(prefix, params)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
            raise TypeError_(f"DropoutCell: dropout must be a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """An empty list."""
        return []

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        return (symbol.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Apply dropout to the whole sequence at once if it is one symbol."""
        self.reset()
        time_axis(layout)
        inputs = formatted(inputs, length, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state or [], layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base of cells that wrap one other cell.

    Matches ``mxnet.rnn.ModifierCell``.

    Parameters
    ----------
    base_cell : BaseRNNCell
        Must not be called directly any more.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        self.base_cell = base_cell
        super().__init__()
        base_cell._modified = True

    def _inner_cells(self) -> list[BaseRNNCell]:
        return [self.base_cell]

    @property
    def params(self) -> RNNParams:
        """Variables of the wrapped cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """The states of the wrapped cell."""
        return self.base_cell.state_info

    # In 1.x, the parameter has another name in this class.
    def begin_state(  # type: ignore[override]
        self, init_sym: Callable[..., Any] = symbol.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the initial states of the wrapped cell."""
        self._check_not_modified()
        return self._unlocked(lambda cell: cell.begin_state(init_sym, **kwargs))

    def _unlocked(self, use: Callable[[BaseRNNCell], Any]) -> Any:
        """Call ``use`` with the wrapped cell, which otherwise raises on direct calls."""
        self.base_cell._modified = False
        try:
            return use(self.base_cell)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Unpack the weights of the wrapped cell."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Pack the weights of the wrapped cell."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Zoneout: in training, random elements keep their value of the previous step.

    Matches ``mxnet.rnn.ZoneoutCell``.

    Parameters
    ----------
    base_cell : BaseRNNCell
    zoneout_outputs, zoneout_states : float
        Fractions that are kept.
    """

    def __init__(
        self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        _check_can_step(base_cell)
        self.prev_output: Symbol | None = None
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        """Forget the previous output; see `BaseRNNCell.reset`."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        output, next_states = self.base_cell(inputs, states)

        def choose(rate: float, new: Any, old: Any) -> Any:
            if rate == 0:
                return new
            mask = symbol.Dropout(symbol.ones_like(new), p=rate)
            return symbol.where(mask, new, symbol.zeros_like(new) if old is None else old)

        output = choose(self.zoneout_outputs, output, self.prev_output)
        self.prev_output = output
        kept = [choose(self.zoneout_states, new, old) for new, old in zip(next_states, states)]
        return output, kept


def _check_can_step(cell: BaseRNNCell) -> None:
    if cell._why_no_step is not None:
        raise ValueError_(f"ZoneoutCell: {cell._why_no_step}")
    for inner in cell._inner_cells():
        _check_can_step(inner)


class ResidualCell(ModifierCell):
    """Adds the input to the output of the wrapped cell.

    Matches ``mxnet.rnn.ResidualCell``.

    Parameters
    ----------
    base_cell : BaseRNNCell
    """

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step; see `BaseRNNCell`."""
        output, states = self.base_cell(inputs, states)
        return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Unroll the wrapped cell and add its inputs; see `BaseRNNCell.unroll`."""
        self.reset()
        outputs, states = self._unlocked(
            lambda cell: cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        )
        inputs = formatted(inputs, length, layout, isinstance(outputs, Symbol))
        if isinstance(outputs, Symbol):
            name = f"{outputs.name}_plus_residual"
            return symbol.elemwise_add(outputs, inputs, name=name), states
        added = [
            symbol.elemwise_add(out, step, name=f"{out.name}_plus_residual")
            for out, step in zip(outputs, inputs)
        ]
        return added, states
