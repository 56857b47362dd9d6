"""Parts of symbols that operators of control flow call: the bodies of loops and branches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import NDArray
from ..attribute import AttrScope
from ..base import TypeError_
from ..ndarray.structure import LEAF, NONE, Layout
from .inference import Inference, infer, uninferred
from .node import Entry, Node, topological_order
from .symbol import Symbol

__all__ = ["Spec", "SubGraph", "flatten_symbols"]

Spec = tuple[Any, str]
# Counts the subgraphs of each name.
_numbers: dict[str, itertools.count[int]] = {}


def flatten_symbols(nested: Any, label: str) -> tuple[list[Entry], Layout]:
    """Take nested lists of symbols apart.

    Parameters
    ----------
    nested : Symbol, None or nested lists of them
    label : str
        Named in errors.

    Returns
    -------
    entries : list of (Node, int)
    layout : Layout
        What ``ndarray.structure.unflatten`` needs; a symbol of several outputs counts as a list.

    Raises
    ------
    TypeError
        For anything that is no symbol.
    """
    if nested is None:
        return [], NONE
    if isinstance(nested, Symbol):
        entries = list(nested._outputs)
        return entries, LEAF if len(entries) == 1 else (LEAF,) * len(entries)
    if not isinstance(nested, (list, tuple)):
        raise TypeError_(
            f"{label} must be Symbols or (nested) lists of them, but got {nested!r} of type "
            f"{type(nested).__name__}"
        )
    parts = [flatten_symbols(part, label) for part in nested]
    return [entry for part, _ in parts for entry in part], tuple(layout for _, layout in parts)


class SubGraph:
    """The graph of a function of symbols.

    Parameters
    ----------
    name : str
        Name of the operator that calls it, for attributes and errors.
    function : callable
        Takes a list of symbols, returns entries of the graph.
    count : int
        Number of its arguments.

    Attributes
    ----------
    heads : list of (Node, int)
        The outputs.
    imports : list of (Node, int)
        Values of the surrounding graph that the function uses, behind its arguments.
    """

    def __init__(self, name: str, function: Callable[[list[Any]], list[Entry]], count: int) -> None:
        tag = f"{name}{next(_numbers.setdefault(name, itertools.count()))}"
        self._variables = [Node(None, f"{tag}_arg{i}", {}, []) for i in range(count)]
        with AttrScope(__subgraph_name__=tag):
            heads = function([Symbol([(node, 0)]) for node in self._variables])
        self.imports: list[Entry] = []
        self.heads = self._cut(heads, tag)

    def _cut(self, heads: list[Entry], tag: str) -> list[Entry]:
        """Copy what the function made; everything else becomes an import."""
        own = {node: node for node in self._variables}
        imported: dict[Entry, Node] = {}

        def source(entry: Entry) -> Entry:
            node, index = entry
            if node in own:
                return own[node], index
            key = (node, index)
            if key not in imported:
                imported[key] = Node(None, self._import_name(entry), {}, [])
                self.imports.append(entry)
                self._variables.append(imported[key])
            return imported[key], 0

        for node in topological_order(heads):
            if node.op is not None and node.attrs.get("__subgraph_name__") == tag:
                inputs = [source(entry) for entry in node.inputs]
                own[node] = node.moved(inputs)
        return [source(entry) for entry in heads]

    def _import_name(self, entry: Entry) -> str:
        """Return the name that a value has outside, or one like it that is not taken."""
        name, taken = entry[0].output_name(entry[1]), {node.name for node in self._variables}
        return name if name not in taken else f"{name}_import{len(self.imports)}"

    @classmethod
    def loaded(cls, heads: list[Entry], variables: list[Node], imports: list[Entry]) -> SubGraph:
        """Return a graph that a file has.

        Parameters
        ----------
        heads : list of (Node, int)
        variables : list of Node
            Arguments, then those that stand for imports.
        imports : list of (Node, int)
        """
        graph = cls.__new__(cls)
        graph.heads, graph._variables, graph.imports = heads, variables, imports
        return graph

    def order(self) -> list[int]:
        """Return the numbers of the variables that the outputs use, in the order of files."""
        numbers = {node: i for i, node in enumerate(self._variables)}
        used = (node for node in topological_order(self.heads) if node.op is None)
        return [numbers[node] for node in used]

    @property
    def num_inputs(self) -> int:
        """Number of arguments and imports."""
        return len(self._variables)

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.heads)

    def mutated(self) -> set[int]:
        """Return the positions of the inputs that operators of the graph write."""
        written = {
            node.inputs[i][0]
            for node in topological_order(self.heads)
            for i in node.mutated_inputs()
        }
        return {i for i, node in enumerate(self._variables) if node in written}

    def _inference(self, specs: Sequence[Spec]) -> Inference:
        known = list(zip(self._variables, specs))
        return infer(
            self.heads,
            {node.name: shape for node, (shape, _) in known if shape is not None},
            {node.name: dtype for node, (_, dtype) in known if dtype is not None},
        )

    def infer(self, specs: Sequence[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return shapes and types of the inputs, as far as they are known, and of the outputs."""
        found = self._inference(specs)
        used = set(found.nodes)

        def spec(entry: Entry, given: Spec) -> Spec:
            if entry[0] not in used:
                return given
            return found.shape(*entry), found.type(*entry) or given[1]

        inputs = [spec((node, 0), given) for node, given in zip(self._variables, specs)]
        return inputs, [spec(entry, (None, "float32")) for entry in self.heads]

    def infer_types(self, types: Sequence[str]) -> list[str]:
        """Return the types of the outputs."""
        named = {node.name: dtype for node, dtype in zip(self._variables, types)}
        found = uninferred(self.heads, {}, named)
        found.run_types("float32")
        return [found.type(node, index) or "float32" for node, index in self.heads]

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Run on arrays for the arguments and the imports."""
        values = {node.name: array for node, array in zip(self._variables, arrays)}
        return _core.evaluate(self.heads, values)
