"""Code shared by all symbolic cells: parameters by name, initial states, unrolling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ... import symbol as _symbol
from ...base import ShapeError, TypeError_, ValueError_
from ...name import NameManager
from ...ndarray import NDArray, concat
from ...symbol import Symbol

__all__ = ["BaseRNNCell", "RNNParams"]

symbol: Any = _symbol  # operators are set at import, so mypy does not see them


class RNNParams:
    """Variables by name; cells that get the same object share them.

    Matches ``mxnet.rnn.RNNParams``.

    Parameters
    ----------
    prefix : str
        Beginning of all names.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """Return the variable with that name, created on first use.

        Parameters
        ----------
        name : str
            Name without prefix.
        **kwargs
            Options of ``mx.sym.Variable``.
        """
        full = self._prefix + name
        if full not in self._params:
            self._params[full] = symbol.Variable(full, **kwargs)
        return self._params[full]


class BaseRNNCell:
    """One step of a recurrent network as a symbol: ``output, states = cell(input, states)``.

    Matches ``mxnet.rnn.BaseRNNCell``.

    Parameters
    ----------
    prefix : str
        Beginning of the names of its variables and nodes.
    params : RNNParams, optional
        Shared with another cell.
    """

    _why_no_step: str | None = None  # error text of a modifier that needs single steps
    _gate_names: tuple[str, ...] = ()

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Restart the count of steps, which is part of node names. Call it before each sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._inner_cells():
            cell.reset()

    def _inner_cells(self) -> list[BaseRNNCell]:
        return []

    def __call__(self, inputs: Any, states: Any) -> tuple[Symbol, list[Symbol]]:
        """Build one step.

        Parameters
        ----------
        inputs : Symbol
            (batch, inputs).
        states : list of Symbol

        Returns
        -------
        output : Symbol
        states : list of Symbol
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be stepped")

    @property
    def params(self) -> RNNParams:
        """The cell's variables; after this access, other cells may share them."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape (0 for the batch) and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shape of each state, 0 for the batch."""
        return [info["shape"] for info in self.state_info]

    def _check_not_modified(self) -> None:
        if self._modified:
            raise ValueError_(
                f"{type(self).__name__} {self._prefix!r}: a modifier cell (such as ZoneoutCell) "
                "was made from this cell; call the modifier cell instead"
            )

    def begin_state(self, func: Callable[..., Any] = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Return the states before the first step.

        Parameters
        ----------
        func : callable
            ``mx.sym.zeros``, ``mx.sym.Variable`` to feed them, ...
        **kwargs
            Passed to func.

        Returns
        -------
        list of Symbol
        """
        self._check_not_modified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**info, **kwargs}))
        return states

    def unpack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Split the joined matrices into one per gate.

        Returns
        -------
        dict of str to NDArray
            With ``<prefix>i2h_i_weight`` and so on in place of ``<prefix>i2h_weight``.
        """
        unpacked = dict(args)
        if not self._gate_names:
            return unpacked
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                joined = unpacked.pop(f"{self._prefix}{group}_{kind}")
                rows = joined.shape[0] // len(self._gate_names)
                for j, gate in enumerate(self._gate_names):
                    name = f"{self._prefix}{group}{gate}_{kind}"
                    unpacked[name] = joined[j * rows : (j + 1) * rows].copy()
        return unpacked

    def pack_weights(self, args: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Undo `unpack_weights`."""
        packed = dict(args)
        if not self._gate_names:
            return packed
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                parts = [
                    packed.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names
                ]
                packed[f"{self._prefix}{group}_{kind}"] = concat(*parts, dim=0)
        return packed

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, Any]:
        """Build all steps of a sequence.

        Parameters
        ----------
        length : int
        inputs : Symbol or list of Symbol
            (batch, length, inputs) for layout ``NTC``, (length, batch, inputs) for ``TNC``; or one
            symbol (batch, inputs) for each step.
        begin_state : list of Symbol, optional
            Zeros by default.
        layout : {'NTC', 'TNC'}
        merge_outputs : bool, optional
            Whether to return one symbol with a time axis, or a list. None returns the form that
            needs no conversion.

        Returns
        -------
        outputs : Symbol or list of Symbol
        states : list of Symbol
        """
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in split_steps(inputs, length, layout):
            output, states = self(step, states)
            outputs.append(output)
        return formatted(outputs, length, layout, merge_outputs), states

    @staticmethod
    def _get_activation(inputs: Any, activation: Any, **kwargs: Any) -> Symbol:
        """Apply an activation given as a name or a function."""
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


def split_steps(inputs: Any, length: int, layout: str) -> list[Any]:
    """Return one symbol for each step."""
    axis = time_axis(layout)
    if isinstance(inputs, Symbol):
        if len(inputs.list_outputs()) != 1:
            raise TypeError_(
                "unroll: inputs must be a Symbol of one output or a list, got a Symbol of several "
                "outputs; pass list(inputs) instead"
            )
        return list(symbol.split(inputs, axis=axis, num_outputs=length, squeeze_axis=True))
    if inputs is None:
        raise TypeError_("unroll: inputs must be a Symbol or a list of Symbols, got None")
    if len(inputs) != length:
        raise ShapeError(
            f"unroll: length must be the number of steps of inputs, {len(inputs)}, got {length}"
        )
    return list(inputs)


def merge_steps(steps: Any, layout: str) -> Symbol:
    """Return one symbol, with the time axis at its position in the layout."""
    if isinstance(steps, Symbol):
        return steps
    name = NameManager.current.get(None, "concat")  # 1.x concatenates
    return symbol.stack(*steps, axis=time_axis(layout), name=name)


def formatted(steps: Any, length: int, layout: str, merged: bool | None) -> Any:
    """Return steps merged (True), split (False) or unchanged (None)."""
    if merged is None:
        return steps
    return merge_steps(steps, layout) if merged else split_steps(steps, length, layout)


def time_axis(layout: str) -> int:
    """Return the axis of the steps."""
    if "T" not in layout or "N" not in layout:
        raise ValueError_(f"unroll: layout must be a text such as 'NTC', got {layout!r}")
    return layout.find("T")
