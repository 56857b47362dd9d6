"""Cells made of other cells: stacks and bidirectional cells."""

from __future__ import annotations

from typing import Any, Callable

from ... import ndarray as nd
from ...base import NotSupportedError, ValueError_
from ...ndarray import NDArray
from ..block.summary import indented, tree
from .base_cell import (
    HybridRecurrentCell,
    RecurrentCell,
    cells_begin_state,
    cells_state_info,
    deal_states,
)
from .sequence import (
    check_length,
    is_merged,
    mask_steps,
    merge,
    reverse,
    split,
)

__all__ = ["BidirectionalCell", "HybridSequentialRNNCell", "SequentialRNNCell"]


class SequentialRNNCell(RecurrentCell):
    """Stacked cells; the states are those of all cells in order.

    Matches ``mxnet.gluon.rnn.SequentialRNNCell``.
    """

    def __repr__(self) -> str:
        lines = [f"({key}): {indented(repr(cell))}" for key, cell in self._children.items()]
        return tree(type(self).__name__, lines)

    def add(self, cell: RecurrentCell) -> None:
        """Append a cell."""
        self.register_child(cell)

    def __getitem__(self, index: int) -> Any:
        return list(self._children.values())[index]

    def __len__(self) -> int:
        return len(self._children)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states of all cells."""
        return cells_state_info(self._children.values(), batch_size)

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the initial states of all cells; see `RecurrentCell.begin_state`."""
        self._check_not_modified()
        return cells_begin_state(self._children.values(), batch_size, func, **kwargs)

    def forward(self, inputs: Any, states: Any) -> tuple[NDArray, list[NDArray]]:
        """Run a step of every cell on the output of the cell below.

        Parameters
        ----------
        inputs : NDArray
        states : list of NDArray

        Returns
        -------
        output : NDArray
        states : list of NDArray
        """
        self._counter += 1
        next_states: list[Any] = []
        cells = list(self._children.values())
        for cell, own in zip(cells, deal_states(cells, states)):
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
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Unroll cell by cell; see `RecurrentCell.unroll`."""
        self.reset()
        check_length(length, inputs, layout)
        begin_state = self._begin_state_for(begin_state, inputs, layout)
        next_states: list[Any] = []
        cells = list(self._children.values())
        for i, (cell, own) in enumerate(zip(cells, deal_states(cells, begin_state))):
            inputs, changed = cell.unroll(  # type: ignore[attr-defined]
                length,
                inputs,
                begin_state=own,
                layout=layout,
                merge_outputs=merge_outputs if i == len(cells) - 1 else None,
                valid_length=valid_length,
            )
            next_states.extend(changed)
        return inputs, next_states


class HybridSequentialRNNCell(SequentialRNNCell, HybridRecurrentCell):
    """A `SequentialRNNCell` of hybrid cells, which can be hybridized.

    Matches ``mxnet.gluon.rnn.HybridSequentialRNNCell``.
    """


class BidirectionalCell(HybridRecurrentCell):
    """One cell over the sequence and one over the reversed sequence; their outputs are joined.

    Matches ``mxnet.gluon.rnn.BidirectionalCell``. It cannot be stepped, only unrolled.

    Parameters
    ----------
    l_cell, r_cell : HybridRecurrentCell
        Cells for the forward and for the backward direction.
    output_prefix : str
        Prefix of the outputs' names.
    """

    def __init__(
        self, l_cell: HybridRecurrentCell, r_cell: HybridRecurrentCell, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __repr__(self) -> str:
        forward, backward = self._children.values()
        return f"{type(self).__name__}(forward={forward}, backward={backward})"

    def __call__(self, *args: Any) -> Any:
        """Raise, because the backward cell needs the whole sequence.

        Raises
        ------
        NotSupportedError
            Always.
        """
        raise NotSupportedError("BidirectionalCell cannot be stepped, use unroll")

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states of both cells, forward first."""
        return cells_state_info(self._children.values(), batch_size)

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the initial states of both cells; see `RecurrentCell.begin_state`."""
        self._check_not_modified()
        return cells_begin_state(self._children.values(), batch_size, func, **kwargs)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Unroll both cells and join their outputs; see `RecurrentCell.unroll`."""
        self.reset()
        check_length(length, inputs, layout)
        begin_state = self._begin_state_for(begin_state, inputs, layout)
        steps = split(inputs, length, layout)
        cells: list[Any] = list(self._children.values())
        left, right = deal_states(cells, begin_state)
        options = {"layout": layout, "valid_length": valid_length}
        outputs, states = cells[0].unroll(
            length, steps, begin_state=left, merge_outputs=merge_outputs, **options
        )
        backward, more_states = cells[1].unroll(
            length,
            reverse(steps, valid_length),
            begin_state=right,
            merge_outputs=False,
            **options,
        )
        backward = reverse(backward, valid_length)
        if merge_outputs is None:
            merge_outputs = is_merged(outputs)
        joined: Any
        if merge_outputs:
            joined = nd.concat(
                merge(outputs, layout), merge(backward, layout), dim=2, name=self._name_of("out")
            )
        else:
            joined = [
                nd.concat(f, b, dim=1, name=self._name_of(f"t{i}"))
                for i, (f, b) in enumerate(zip(split(outputs, length, layout), backward))
            ]
        if valid_length is not None:
            joined = mask_steps(joined, length, layout, valid_length, merge_outputs)
        return joined, [*states, *more_states]

    def _name_of(self, what: str) -> str:
        return f"{self._output_prefix}{what}"


def check_can_step(cell: RecurrentCell, modifier: str) -> None:
    """Raise if a cell does not support single steps, which a modifier needs."""
    if isinstance(cell, BidirectionalCell):
        raise ValueError_(
            f"{modifier}: a BidirectionalCell cannot be stepped; modify the cells inside it instead"
        )
    for child in cell._children.values():
        if isinstance(child, RecurrentCell):
            check_can_step(child, modifier)
