"""Prefixes of blocks, numbered as in MXNet 1.x: ``net0_``, ``net0_conv0_``, ..."""

from __future__ import annotations

import threading
from typing import Any

from ... import name as _name
from ..call_types import BlockLike
from ..parameter import ParameterDict

__all__ = ["BlockScope"]


class _Local(threading.local):
    """The innermost name scope of each thread."""

    current: BlockScope | None = None


_local = _Local()


class BlockScope:
    """The name scope of one block: children that are created within it get its prefix."""

    def __init__(self, block: BlockLike) -> None:
        self._block = block
        self._counter: dict[str, int] = {}
        self._outer: list[tuple[BlockScope | None, _name.Prefix]] = []

    @staticmethod
    def create(
        prefix: str | None, params: ParameterDict | None, hint: str
    ) -> tuple[str, ParameterDict]:
        """Return full prefix and parameter dictionary of a new block."""
        scope = _local.current
        if scope is None:
            if prefix is None:
                prefix = _name.current().get(None, hint) + "_"
            if params is None:
                return prefix, ParameterDict(prefix)
            return prefix, ParameterDict(params.prefix, params)
        if prefix is None:
            count = scope._counter.get(hint, 0)
            scope._counter[hint] = count + 1
            prefix = f"{hint}{count}_"
        outer = scope._block
        if params is None:
            shared = outer.params
            own = ParameterDict(shared.prefix + prefix, shared._shared)
        else:
            own = ParameterDict(params.prefix, params)
        return outer.prefix + prefix, own

    def __enter__(self) -> BlockScope:
        if self._block._empty_prefix:
            return self
        manager = _name.Prefix(self._block.prefix)
        self._outer.append((_local.current, manager))
        _local.current = self
        manager.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._block._empty_prefix:
            return
        outer, manager = self._outer.pop()
        manager.__exit__(*exc)
        _local.current = outer
