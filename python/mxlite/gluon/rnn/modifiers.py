"""Cells that modify another cell: dropout, zoneout, residual connections."""

from __future__ import annotations

from typing import Any, Callable

from ... import ndarray as nd
from ...base import ValueError_
from ...ndarray import NDArray
from ..parameter import ParameterDict
from .base_cell import HybridRecurrentCell, RecurrentCell
from .containers import check_can_step
from .sequence import check_length, formatted, is_merged, mask_steps

__all__ = ["DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell"]


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input; it has no state.

    Matches ``mxnet.gluon.rnn.DropoutCell``.

    Parameters
    ----------
    rate : float
        Probability that an element is set to 0 in training.
    axes : tuple of int
        Axes along which elements are dropped together; () drops each element independently.
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(
        self,
        rate: float,
        axes: Any = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def _alias(self) -> str:
        return "dropout"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return an empty list."""
        return []

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> tuple[NDArray, list[NDArray]]:  # noqa: N803
        """Return the input after dropout, and the states unchanged."""
        if self._rate > 0:
            inputs = F.Dropout(inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Apply dropout to the whole sequence at once if it is one array."""
        self.reset()
        check_length(length, inputs, layout)
        inputs = formatted(inputs, length, layout, merge_outputs)
        if is_merged(inputs):
            return self.hybrid_forward(nd, inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs, None)


class ModifierCell(HybridRecurrentCell):
    """Base of cells that wrap one other cell, whose parameters and states they use.

    Matches ``mxnet.gluon.rnn.ModifierCell``.

    Parameters
    ----------
    base_cell : HybridRecurrentCell
        Must not be called directly any more.
    """

    base_cell: Any

    def __init__(self, base_cell: RecurrentCell) -> None:
        if base_cell._modified:
            raise ValueError_(
                f"{type(self).__name__}: cell {base_cell.name} has a modifier already, one cell "
                "cannot be modified twice"
            )
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """Parameters of the wrapped cell."""
        return self.base_cell.params

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the states of the wrapped cell."""
        return self.base_cell.state_info(batch_size)

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the initial states of the wrapped cell; see `RecurrentCell.begin_state`."""
        self._check_not_modified()
        return self._unlocked(lambda cell: cell.begin_state(batch_size, func, **kwargs))

    def _unlocked(self, use: Callable[[Any], Any]) -> Any:
        """Call ``use`` with the wrapped cell, which otherwise raises on direct calls."""
        self.base_cell._modified = False
        try:
            return use(self.base_cell)
        finally:
            self.base_cell._modified = True


class _RememberingCell(ModifierCell):
    """A modifier that stores arrays between the steps of a sequence.

    A step of the modifier is never compiled by itself, only the wrapped cell, or an outer block
    that unrolls the whole sequence.
    """

    def hybridize(  # type: ignore[override]
        self, active: bool = True, **kwargs: Any
    ) -> None:
        """Hybridize the wrapped cell; see `HybridBlock.hybridize`.

        Parameters
        ----------
        active : bool
        **kwargs
            As in `HybridBlock.hybridize`.
        """
        super().hybridize(active, **kwargs)
        self._active = False


class ZoneoutCell(_RememberingCell):
    """Zoneout: in training, random elements keep their value of the previous step.

    Matches ``mxnet.gluon.rnn.ZoneoutCell``.

    Parameters
    ----------
    base_cell : HybridRecurrentCell
    zoneout_outputs, zoneout_states : float
        Fractions that are kept.
    """

    def __init__(
        self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        check_can_step(base_cell, "ZoneoutCell")
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        rates = f"p_out={self.zoneout_outputs}, p_state={self.zoneout_states}"
        return f"{type(self).__name__}({rates}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Forget the output of the previous step; see `RecurrentCell.reset`."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> tuple[NDArray, list[NDArray]]:  # noqa: N803
        """Run a step of the wrapped cell, then keep random elements of the previous step."""
        output, next_states = self.base_cell(inputs, states)

        def choose(rate: float, new: Any, old: Any) -> Any:
            if rate == 0:
                return new
            return F.where(F.Dropout(F.ones_like(new), p=rate), new, old)

        before = F.zeros_like(output) if self._prev_output is None else self._prev_output
        output = choose(self.zoneout_outputs, output, before)
        self._prev_output = output
        kept = [choose(self.zoneout_states, new, old) for new, old in zip(next_states, states)]
        return output, kept


class ResidualCell(ModifierCell):
    """Adds the input to the output of the wrapped cell.

    Matches ``mxnet.gluon.rnn.ResidualCell``.

    Parameters
    ----------
    base_cell : HybridRecurrentCell
    """

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> tuple[NDArray, list[NDArray]]:  # noqa: N803
        """Run a step of the wrapped cell and add its input."""
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[NDArray | Any, list[NDArray]]:
        """Unroll the wrapped cell and add its inputs; see `RecurrentCell.unroll`."""
        self.reset()
        outputs, states = self._unlocked(
            lambda cell: cell.unroll(
                length, inputs, begin_state, layout, merge_outputs, valid_length
            )
        )
        merged = is_merged(outputs)
        inputs = formatted(inputs, length, layout, merged)
        if valid_length is not None:
            inputs = mask_steps(inputs, length, layout, valid_length, merged)
        if merged:
            return nd.elemwise_add(outputs, inputs), states
        return [nd.elemwise_add(out, step) for out, step in zip(outputs, inputs)], states
