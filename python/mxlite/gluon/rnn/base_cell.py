"""The bases of recurrent cells: stepping, states and unrolling."""

from __future__ import annotations

from typing import Any, Callable

from ... import ndarray as nd
from ...base import ValueError_
from ...ndarray import NDArray
from ...ndarray.structure import in_class_of
from ..block import Block, HybridBlock
from ..nn import LeakyReLU
from ..parameter import ParameterDict
from . import sequence as steps_of

__all__ = ["HybridRecurrentCell", "RecurrentCell"]

_NAMED_ACTIVATIONS = ("tanh", "relu", "sigmoid", "softsign")


class RecurrentCell(Block):
    """One step of a recurrent network: ``output, states = cell(input, states)``.

    Matches ``mxnet.gluon.rnn.RecurrentCell``. Define ``state_info`` and ``forward`` (or
    ``hybrid_forward``).

    Parameters
    ----------
    prefix : str, optional
    params : ParameterDict, optional
        As in `Block`.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Clear the state of the last sequence. Call it before the first step of a new sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape and layout of each state.

        Returns
        -------
        list of dict
            Dictionaries with the keys ``shape`` and ``__layout__``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

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

        Raises
        ------
        ValueError
            If a modifier cell was made from this cell.
        """
        self._check_not_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            wanted = {k: v for k, v in info.items() if k != "__layout__"}
            wanted.update(kwargs)
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(steps_of.begun_state(func, name, wanted))
        return states

    def _check_not_modified(self) -> None:
        if self._modified:
            raise ValueError_(
                f"{self.name}: a modifier cell (such as ZoneoutCell) was made from this cell; "
                "call the modifier cell instead"
            )

    def _begin_state_for(self, begin_state: Any, inputs: Any, layout: str) -> Any:
        """Return begin_state, or zeros on the context and of the type of inputs."""
        if begin_state is not None:
            return begin_state
        first = steps_of.first_step(inputs)
        batch = steps_of.batch_size(inputs, layout)
        if isinstance(first, NDArray):
            states = self.begin_state(batch, nd.zeros, ctx=first.ctx, dtype=first.dtype)
            return [in_class_of(state, first) for state in states]
        return self.begin_state(batch, steps_of.symbolic_zeros(inputs, layout))

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Run the cell over a sequence.

        Parameters
        ----------
        length : int
            Number of steps.
        inputs : NDArray or list of NDArray
            (batch, length, ...) for layout ``NTC``, (length, batch, ...) for ``TNC``; or one
            array (batch, ...) for each step.
        begin_state : list of NDArray, optional
            Zeros by default.
        layout : {'NTC', 'TNC'}
        merge_outputs : bool, optional
            Whether to return one array with a time axis, or a list. None returns the form that
            needs no conversion.
        valid_length : NDArray, optional
            (batch,): the number of steps of each sample. Later outputs are zero, the states
            are those of its last step.

        Returns
        -------
        outputs : NDArray or list of NDArray
        states : list of NDArray

        Raises
        ------
        ShapeError
            If inputs has another number of steps.
        """
        self.reset()
        steps_of.check_length(length, inputs, layout)
        states = self._begin_state_for(begin_state, inputs, layout)
        outputs, history = [], []
        for step in steps_of.split(inputs, length, layout):
            output, states = self(step, states)
            outputs.append(output)
            if valid_length is not None:
                history.append(states)
        if valid_length is None:
            return steps_of.formatted(outputs, length, layout, merge_outputs), states
        states = steps_of.last_states(history, valid_length)
        return steps_of.mask_steps(outputs, length, layout, valid_length, merge_outputs), states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:  # noqa: N803
        """Apply an activation given as a name, a block or a function."""
        if isinstance(activation, str):
            if activation in _NAMED_ACTIVATIONS:
                return getattr(F, activation)(inputs, **kwargs)
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs)

    def forward(self, inputs: Any, states: Any, *args: Any) -> tuple[NDArray, list[NDArray]]:
        """Compute one step.

        Parameters
        ----------
        inputs : NDArray, shape (batch, ...)
        states : list of NDArray
        *args
            Further arguments of user-defined cells.

        Returns
        -------
        output : NDArray
        states : list of NDArray
        """
        self._counter += 1
        if not args and isinstance(states, (list, tuple)):
            count = len(self.state_info())
            if len(states) != count:
                raise ValueError_(
                    f"{type(self).__name__}: states must have {count} entries, got {len(states)}"
                )
        outputs: Any = super().forward(inputs, states, *args)
        output, states = outputs
        return output, states


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A recurrent cell that can be hybridized.

    Matches ``mxnet.gluon.rnn.HybridRecurrentCell``; define ``hybrid_forward(F, x, states, ...)``.
    """


def cells_state_info(cells: Any, batch_size: int) -> list[dict[str, Any]]:
    """Return the states of several cells, one after the other."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def cells_begin_state(
    cells: Any, batch_size: int, func: Callable[..., Any], **kwargs: Any
) -> list[Any]:
    """Return the initial states of several cells, one after the other."""
    return [state for cell in cells for state in cell.begin_state(batch_size, func, **kwargs)]


def deal_states(cells: Any, states: Any) -> list[Any]:
    """Divide a list of states into one list per cell."""
    dealt, at = [], 0
    for cell in cells:
        count = len(cell.state_info())
        dealt.append(states[at : at + count])
        at += count
    return dealt
