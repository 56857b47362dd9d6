"""Nodes of symbols that call functions of ``mx.np``, for the operators of `file_operators`.

A node calls the function when the symbol runs: a graph that is compiled has the operators that the
function calls, and shapes are inferred by tracing the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from .. import name as _name
from .._core import user_line
from ..base import DynamicShapeError, TypeError_
from ..context import cpu
from ..numpy import ndarray
from ..numpy.arguments import set_name
from ..symbol import Symbol
from ..symbol import custom as _custom
from ..symbol.node import Node
from ..symbol.numpy_symbol import NumpySymbol
from .file_operators import CUSTOM, OPERATORS

__all__ = [
    "bind_arguments", "compose_call", "convert_symbols", "document", "make_function",
    "make_functions",
]  # fmt: skip

_Spec = tuple[Any, str]


class FunctionCall:
    """The parameters of a node of one of the operators, with methods that the core calls."""

    def __init__(self, op: str, attrs: Mapping[str, str]) -> None:
        self.name = op
        self.params = {k: v for k, v in attrs.items() if not k.startswith("__")}
        self._operator = CUSTOM[attrs["op_type"]] if op == "Custom" else OPERATORS[op]
        is_open = self._operator.takes_list or self._operator.free(self.params)
        self.num_inputs = -1 if is_open else 0
        self.needs_values = False  # whether `infer` found that the result's shape needs values

    def num_outputs(self, num_inputs: int) -> int:
        """Return the number of outputs."""
        count = self._operator.outputs
        return count if isinstance(count, int) else count(self._options(), num_inputs)

    def _options(self) -> dict[str, Any]:
        return self._operator.options(self.params)

    def input_name(self, index: int) -> str:
        """Return the name of an input."""
        return f"data{index}"

    def mutated(self, num_inputs: int) -> list[int]:
        """Return the inputs that the operator changes: none."""
        return []

    def complete(self, specs: Sequence[_Spec]) -> list[_Spec]:
        """Return the shapes of the inputs as they are."""
        return list(specs)

    def infer(self, specs: Sequence[_Spec]) -> list[_Spec]:
        """Return shapes and types of the outputs; None for shapes that are not known yet."""
        known = all(shape is not None and -1 not in shape for shape, _ in specs)
        if known:
            try:
                return _core.traced_specs(lambda arrays, _: self.run(arrays), cpu(), specs)
            except DynamicShapeError:
                self.needs_values = True
        return [(None, "float32")] * self.num_outputs(len(specs))

    def types(self, known: Sequence[str | None]) -> tuple[Any, Any]:
        """Return the types of the inputs as they are, and the likely type of the outputs."""
        dtype = self.params.get("dtype", "None")
        if dtype == "None":
            dtype = next((name for name in known if name), "float32")
        return list(known), [dtype] * self.num_outputs(len(known))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Call the function; arrays of mx.nd give arrays of mx.nd."""
        result = self._operator.call(self.params, [array.as_np_ndarray() for array in inputs])
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        is_plain = bool(inputs) and not isinstance(inputs[0], ndarray)
        return [array.as_nd_ndarray() for array in results] if is_plain else results


def _make_custom(attrs: Mapping[str, str]) -> Any:
    if attrs.get("op_type") in CUSTOM:
        return FunctionCall("Custom", attrs)
    return _custom.CustomCall(dict(attrs))


for _op in OPERATORS:
    _core.register_symbol_call(_op, lambda attrs, op=_op: FunctionCall(op, attrs))
_core.register_symbol_call("Custom", _make_custom)
_core.register_symbol_call("_npi_Custom", _make_custom)


def compose_call(op: str, inputs: Sequence[Symbol], attrs: Mapping[str, Any]) -> Any:
    """Return the symbol of a call of one of the operators; attributes of None are left out.

    Raises TypeError if an input is not a symbol of one output.
    """
    entries = []
    for value in inputs:
        if not isinstance(value, Symbol) or len(value._outputs) != 1:
            raise TypeError_(f"{op}: inputs must be Symbols of one output, got {value!r}")
        entries.append(value._outputs[0])
    params = {key: _core.text_of(value) for key, value in attrs.items() if value is not None}
    call = FunctionCall(op, params)
    full = _name.current().get(None, op.split("_", 2)[-1].lower())
    attributes = {**_core.scoped_attrs(None), **params}
    node = Node(op, full, attributes, entries, call, user_line())
    _core.cast_inputs(node)
    return NumpySymbol([(node, i) for i in range(call.num_outputs(len(entries)))])


def convert_symbols(value: Any) -> Any:
    """Return a Symbol, or a list of Symbols, as symbols of numpy mode; other values stay."""
    if isinstance(value, Symbol):
        return value.as_np_ndarray()
    return [convert_symbols(v) for v in value] if isinstance(value, (list, tuple)) else value


def bind_arguments(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Bind the arguments of a call; a TypeError begins with the name of the function."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError_(f"{name}: {error}") from None


def make_function(name: str, op: str, like: Any) -> Any:
    """Return a function that composes one of the operators with the arguments of another function.

    Parameters
    ----------
    name : str
        The function's name in errors.
    op : str
        The operator's name in files; ``Custom/<type>`` for a Custom node.
    like : callable
        The function of mx.np that has the signature.
    """
    op, _, kind = op.partition("/")
    operator = CUSTOM[kind] if kind else OPERATORS[op]
    signature = inspect.signature(like)
    more = {"op_type": kind} if kind else {}

    def function(*args: Any, **kwargs: Any) -> Any:
        if operator.takes_list and len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = (*args[0],)
        if operator.takes_list:
            return compose_call(op, args, {"num_args": len(args), **more, **kwargs})
        bound = bind_arguments(name, signature, args, kwargs)
        bound.apply_defaults()
        bound.arguments.update(bound.arguments.pop("kwargs", {}))
        given = [bound.arguments.get(argument) for argument in operator.inputs]
        inputs = [value for value in given if isinstance(value, Symbol)]
        attrs: dict[str, Any] = dict(more)
        for flag, argument in operator.flags.items():
            attrs[flag] = isinstance(bound.arguments.get(argument), Symbol)
        for argument, value in bound.arguments.items():
            is_input = isinstance(value, Symbol)
            if is_input and argument not in operator.inputs:
                raise TypeError_(f"{name}: {argument} must be no Symbol, got {value!r}")
            attribute = operator.attributes.get(argument, argument)
            parameter = signature.parameters.get(argument)
            is_default = parameter is not None and value is parameter.default
            if argument in operator.always:
                attrs[attribute] = "None" if value is None or is_input else value
            elif not is_input and not is_default and argument not in ("ctx", "device"):
                attrs[attribute] = value
        return compose_call(op, inputs, attrs)

    function.__signature__ = signature  # type: ignore[attr-defined]
    return document(name, function, like)


def document(name: str, function: Any, like: Any) -> Any:
    """Set the name of a function; add the documentation of ``like``, its namesake on arrays."""
    doc = f"Compose a symbol of ``{name}``.\n\n{inspect.getdoc(like) or ''}"
    return set_name(function, name, doc)


def make_functions(table: Mapping[str, str], module: Any) -> dict[str, Any]:
    """Return a function for each name of ``table``, with the signature of its namesake."""
    return {name: make_function(name, op, getattr(module, name)) for name, op in table.items()}
