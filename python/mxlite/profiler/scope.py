"""Scopes of mxlite's Python code, recorded like those of the core."""

from __future__ import annotations

from types import TracebackType

from .. import _core

IO_SCOPE, COMM_SCOPE = 3, 4  # kinds of events, as in record.py


class scope:  # noqa: N801 - used as a statement
    """Records a ``with`` block; no effect while the profiler is off."""

    __slots__ = ("_kind", "_name", "_on")

    def __init__(self, name: str, kind: int) -> None:
        self._name = name
        self._kind = kind
        self._on = False

    def __enter__(self) -> None:
        if _core.profiler_runs():
            self._on = True
            _core.profiler_mark(self._name, self._kind, True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._on:
            _core.profiler_mark(self._name, self._kind, False)
