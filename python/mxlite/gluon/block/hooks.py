"""Functions that blocks call before or after forward, or after each operator in it."""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping
from typing import Any, Callable

from ... import _core
from ...base import ValueError_
from ...ndarray import NDArray

__all__ = ["HookHandle", "OpHook"]

_ids = itertools.count()


class HookHandle:
    """Removes a hook: by `detach`, or at the end of a ``with`` block.

    Matches ``mxnet.gluon.utils.HookHandle``.
    """

    def __init__(self) -> None:
        self._hooks: MutableMapping[int, Callable[..., Any]] | None = None
        self._id = next(_ids)

    def attach(
        self, hooks_dict: MutableMapping[int, Callable[..., Any]], hook: Callable[..., Any]
    ) -> None:
        """Register a hook in a table; a handle may do this once.

        Parameters
        ----------
        hooks_dict : dict of int to callable
        hook : callable
        """
        if self._hooks is not None:
            raise ValueError_("HookHandle: the same handle cannot be attached twice")
        self._hooks = hooks_dict
        hooks_dict[self._id] = hook

    def detach(self) -> None:
        """Remove the hook; a second call does nothing."""
        if self._hooks is not None:
            self._hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.detach()


class _Text(str):
    """A str with a method ``decode``, because 1.x passes names to hooks as bytes."""

    __slots__ = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text."""
        return str(self)


class OpHook:
    """A function that is called with every output (and input) of a block's operators.

    A hybridized block's operators have the names of its symbol, as in 1.x; other
    operators are numbered.
    """

    def __init__(self, callback: Callable[..., Any], monitor_all: bool) -> None:
        self._callback = callback
        self._monitor_all = monitor_all

    def run_symbol(self, symbol: Any, values: dict[str, NDArray]) -> list[NDArray]:
        """Return the values of a symbol's outputs; call the hook after each operator."""

        def watch(node: Any, inputs: list[NDArray], outputs: list[NDArray]) -> None:
            names = [node.input_name(i) for i in range(len(inputs) if self._monitor_all else 0)]
            outputs = outputs[: node.num_outputs]  # as in 1.x, hooks do not get hidden outputs
            names += [node.output_name(i) for i in range(len(outputs))]
            arrays = [*(inputs if self._monitor_all else []), *outputs]
            for name, array in zip(names, arrays):
                self._callback(_Text(name), _Text(node.op), array)

        return _core.evaluate(symbol._outputs, values, watch=watch)

    def run(self, name: str, function: Callable[[], Any]) -> Any:
        """Return ``function()``; call the hook after each operator in it."""
        counts: dict[str, int] = {}

        def hook(op: str, names: list[str], inputs: list[NDArray], outputs: list[NDArray]) -> None:
            count = counts.get(op, 0)
            counts[op] = count + 1
            prefix = f"{name}_{op.lower().strip('_')}{count}"
            if self._monitor_all:
                for input_name, array in zip(names, inputs):
                    self._callback(_Text(f"{prefix}_{input_name}"), _Text(op), array)
            for index, array in enumerate(outputs):
                number = index if len(outputs) > 1 else ""
                self._callback(_Text(f"{prefix}_output{number}"), _Text(op), array)

        return _core.call_observed(hook, function)
