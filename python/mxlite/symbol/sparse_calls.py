"""Operators of ``mx.sym`` about storage: ``cast_storage``, ``sparse.retain``, ``_square_sum``.

The core has no such operators; their nodes call the functions of ``mx.nd.sparse`` and run outside
of compiled graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from .. import name as _name
from .. import ndarray as nd
from .._core import NDArray, user_line
from ..base import TypeError_, ValueError_
from .node import Node
from .subgraph import Spec
from .symbol import Symbol

__all__ = ["CALLS", "SparseCall", "cast_storage", "retain", "square_sum"]


class SparseCall:
    """The parameters of such a node, and what the core asks of a node's call.

    Parameters
    ----------
    attrs : mapping of str to str
    """

    name = ""
    input_names: tuple[str, ...] = ("data",)
    completes = False
    #: Executors run node by node.
    eager = True

    def __init__(self, attrs: Mapping[str, str]) -> None:
        self.params = {k: v for k, v in attrs.items() if not k.startswith("__")}

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        return len(self.input_names)

    def num_outputs(self, num_inputs: int) -> int:
        """Return the number of outputs."""
        return 1

    num_visible = num_outputs

    def input_name(self, index: int) -> str:
        """Return the name of an input."""
        return self.input_names[index]

    def mutated(self, num_inputs: int) -> list[int]:
        """Return no positions: nothing is written."""
        return []

    def complete(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the specs as they are."""
        return list(specs)

    def infer(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the output's spec: that of the first input."""
        return [specs[0]]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        """Call the function."""
        raise NotImplementedError


class _CastStorage(SparseCall):
    name = "cast_storage"

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        return [inputs[0].tostype(self.params["stype"])]


class _Retain(SparseCall):
    name = "_sparse_retain"
    input_names = ("data", "indices")

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        return [nd.sparse.retain(inputs[0], inputs[1])]


class _SquareSum(SparseCall):
    name = "_square_sum"

    def _axes(self) -> tuple[int, ...]:
        text = self.params.get("axis", "()").strip("()[] ")
        return tuple(int(part) for part in text.split(",") if part.strip())

    def infer(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the spec without, or with length 1 for, the axes."""
        shape, dtype = specs[0]
        axes = {axis % len(shape) for axis in self._axes()} or set(range(len(shape)))
        if self.params.get("keepdims") in ("True", "1"):
            return [(tuple(1 if i in axes else d for i, d in enumerate(shape)), dtype)]
        return [(tuple(d for i, d in enumerate(shape) if i not in axes) or (1,), dtype)]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        keepdims = self.params.get("keepdims") in ("True", "1")
        axes = self._axes()
        if inputs[0].stype == "default":
            return [nd.sum(nd.square(inputs[0]), axis=axes, keepdims=keepdims)]
        axis = axes[0] if len(axes) == 1 else axes or None
        return [nd.sparse.functions.square_sum(inputs[0], axis, keepdims)]


CALLS: dict[str, type[SparseCall]] = {
    call.name: call for call in (_CastStorage, _Retain, _SquareSum)
}
for _op, _call in CALLS.items():
    _core.register_symbol_call(_op, _call)


def _composed(op: str, inputs: Sequence[Any], params: Mapping[str, Any], kwargs: Any) -> Symbol:
    name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
    if kwargs:
        raise TypeError_(f"{op}() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for value in inputs:
        if not isinstance(value, Symbol) or len(value._outputs) != 1:
            raise TypeError_(f"{op}: {value!r} given, a Symbol of one output expected")
    texts = {key: _core.text_of(value) for key, value in params.items() if value is not None}
    full = _name.current().get(name, op.replace("_sparse_", "sparse_").lower())
    entries = [value._outputs[0] for value in inputs]
    attrs = {**_core.scoped_attrs(attr), **texts}
    return Symbol._single(Node(op, full, attrs, entries, CALLS[op](texts), user_line()))


def cast_storage(data: Symbol, stype: str, **kwargs: Any) -> Symbol:
    """Convert to a storage type; see ``mx.nd.cast_storage``.

    Parameters
    ----------
    data : Symbol
    stype : {'default', 'row_sparse', 'csr'}
    **kwargs
        ``name`` and ``attr``.
    """
    if stype not in ("default", "row_sparse", "csr"):
        raise ValueError_(
            f"cast_storage: stype {stype!r} given, 'default', 'row_sparse' or 'csr' expected"
        )
    return _composed("cast_storage", [data], {"stype": stype}, kwargs)


def retain(data: Symbol, indices: Symbol, **kwargs: Any) -> Symbol:
    """Keep some rows; see ``mx.nd.sparse.retain``.

    Parameters
    ----------
    data, indices : Symbol
    **kwargs
        ``name`` and ``attr``.
    """
    return _composed("_sparse_retain", [data, indices], {}, kwargs)


def square_sum(data: Symbol, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Symbol:
    """Sum squares along axes, of stored rows only.

    Parameters
    ----------
    data : Symbol
    axis : int or tuple of int, optional
    keepdims : bool
    **kwargs
        ``name`` and ``attr``.
    """
    if isinstance(axis, int):
        axis = (axis,)
    params = {"axis": axis, "keepdims": keepdims or None}
    return _composed("_square_sum", [data], params, kwargs)
