"""``mx.sym.Custom``: operators written in Python as nodes of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .. import name as _name
from .._core import NDArray, dtype_type, user_line
from ..base import MXNetError, TypeError_
from ..operator import sparse_arrays as custom_sparse
from ..operator.custom_op import custom_symbol
from ..operator.definition import Definition
from .node import Entry, Node
from .partial import UNKNOWN, may_equal
from .symbol import Symbol

_Spec = tuple[Any, str]


class CustomCall:
    """The parameters of a Custom node, with methods that the core calls for the node."""

    name = "Custom"

    def __init__(self, attrs: dict[str, str]) -> None:
        self.params = {k: v for k, v in attrs.items() if not k.startswith("__")}
        kwargs = dict(self.params)
        op_type = kwargs.pop("op_type", None)
        if op_type is None:
            raise TypeError_("Custom() missing required parameter 'op_type'")
        self.definition = Definition(op_type, kwargs)
        self.input_names = self.definition.arguments + self.definition.states
        self.eager = custom_sparse.takes_sparse(self.definition)  # accepts sparse arrays

    @property
    def output_names(self) -> list[str]:
        """Names that ``list_outputs`` of the definition returns."""
        return self.definition.outputs

    @property
    def num_inputs(self) -> int:
        """Number of inputs and auxiliary states."""
        return len(self.input_names)

    def num_outputs(self, num_inputs: int) -> int:
        """Return the number of outputs."""
        return len(self.definition.outputs)

    def input_name(self, index: int) -> str:
        """Return the name of an input or auxiliary state."""
        return self.input_names[index]

    def mutated(self, num_inputs: int) -> list[int]:
        """Return the positions of the auxiliary states."""
        return list(range(self.definition.num_inputs, num_inputs))

    def _infer(self, specs: Sequence[_Spec]) -> tuple[list[_Spec], list[_Spec]]:
        shapes = [[UNKNOWN if n < 0 else n for n in shape or ()] for shape, _ in specs]
        inputs, outputs = self.definition.infer(shapes, [dtype_type(name) for _, name in specs])
        partial = any(shape is None or -1 in shape for shape, _ in specs)
        return _texts(inputs, partial), _texts(outputs, partial)

    def infer(self, specs: Sequence[_Spec]) -> list[_Spec]:
        """Return shapes and types of the outputs; -1 for dimensions that are not known yet."""
        try:
            inputs, outputs = self._infer(specs)
        except MXNetError:
            if any(-1 in shape for shape, _ in specs):  # infer_shape needs known dimensions
                return [(None, "float32")] * self.num_outputs(len(specs))
            raise
        for name, (given, _), (wanted, _) in zip(self.input_names, specs, inputs):
            if not may_equal(tuple(given), wanted):
                raise MXNetError(
                    f"Custom: {name} must have the shape from infer_shape of "
                    f"{self.definition.op_type!r}, {wanted}, got {tuple(given)}"
                )
        return outputs

    def complete(self, specs: Sequence[_Spec]) -> list[_Spec]:
        """Return the shapes of the inputs as far as the operator infers them."""
        try:
            inputs, _ = self._infer(specs)
        except MXNetError:  # infer_shape needs known dimensions
            return list(specs)
        return [(shape if shape and 0 not in shape else None, dtype) for shape, dtype in inputs]

    def types(self, known: Sequence[str | None]) -> tuple[list[str], list[str]] | None:
        """Return types of inputs and outputs, or None if the first input's type is unknown."""
        wanted = known[: self.definition.num_inputs]
        if not wanted or wanted[0] is None:
            return None
        given = [dtype_type(dtype or wanted[0]) for dtype in wanted]
        inputs, outputs = self.definition.infer_types(given)
        return [np.dtype(t).name for t in inputs], [np.dtype(t).name for t in outputs]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        """Call the operator."""
        return custom_sparse.call(self.definition, inputs)


_core.register_symbol_call("Custom", CustomCall)


def _texts(specs: list[tuple[Any, Any]], partial: bool) -> list[_Spec]:
    """Return specs with names of dtypes; if ``partial``, dimensions of 0 are unknown."""
    return [
        (tuple(-1 if partial and n == 0 else n for n in shape), np.dtype(dtype).name)
        for shape, dtype in specs
    ]


@custom_symbol.provide
def Custom(*args: Any, **kwargs: Any) -> Any:  # noqa: N802 - the operator's name
    """Make a node of an operator registered with :func:`mxlite.operator.register`.

    Parameters
    ----------
    *args : Symbol
        Inputs, then auxiliary states; variables are made for those left out.
    op_type : str
        The registered name.
    name : str, optional
    attr : dict of str to str, optional
    **kwargs
        Inputs by name; everything else is passed to the CustomOpProp as text.

    Returns
    -------
    Symbol
    """
    name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
    given = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
    params = {key: _core.text_of(value) for key, value in kwargs.items() if key not in given}
    call = CustomCall(params)
    attrs = {**_core.scoped_attrs(attr), **params}
    wanted = f"{params['op_type']!r} takes {call.num_inputs} ({', '.join(call.input_names)})"
    if len(args) > call.num_inputs:
        raise TypeError_(f"Custom: {len(args)} inputs given, {wanted}")
    for label, value in zip(call.input_names, args):
        if label in given:
            raise TypeError_(f"Custom: input {label!r} is given twice, {wanted}")
        given[label] = value
    name = _name.current().get(name, "custom")
    inputs: list[Entry] = []
    for label in call.input_names:
        value = given.pop(label, None)
        if value is None:
            inputs.append((Node(None, f"{name}_{label}", _core.scoped_attrs(attr), []), 0))
        elif isinstance(value, Symbol) and len(value._outputs) == 1:
            inputs.append(value._outputs[0])
        else:
            raise TypeError_(
                f"Custom: {label} must be a Symbol of one output, got {type(value).__name__}"
            )
    if given:
        raise TypeError_(f"Custom: input {next(iter(given))!r} is unknown, {wanted}")
    node = Node("Custom", name, attrs, inputs, call, user_line())
    _core.cast_inputs(node)
    return Symbol._single(node)
