"""Signatures and examples of operators, for ``inspect.signature``, ``help`` and editors."""

from __future__ import annotations

import functools
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from .. import _core

EXAMPLES = Path(__file__).with_name("op_examples.txt")  # python -m mxlite._dev.gen_examples
_KEYWORD = Parameter.KEYWORD_ONLY
_EITHER = Parameter.POSITIONAL_OR_KEYWORD
_VALUES = {"None": None, "True": True, "False": False}
# Inputs whose existence depends on parameters such as no_bias or use_length.
_SWITCHED = frozenset(
    "attention_mask bias data_lengths gamma length like sequence_length state_cell trans".split()
)


def required_inputs(op: dict[str, Any]) -> int:
    """Return how many inputs of an operator are required whatever its parameters are."""
    if not op["optional_inputs"]:
        return len(op["inputs"])
    switched = [i for i, name in enumerate(op["inputs"]) if name in _SWITCHED]
    return min(switched, default=1)


def _value(text: str, kind: str) -> Any:
    """Return a default value from its text in the schema."""
    if text in _VALUES:
        return _VALUES[text]
    if kind.startswith(("Literal", "str", "DTypeLike")):
        return text
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    inner = text.strip("()[] ").rstrip(",")
    return tuple(_value(part.strip(), kind) for part in inner.split(",")) if inner else ()


def _inputs(op: dict[str, Any], composes: bool) -> list[Parameter]:
    array = "NDArray | Symbol"
    if op["variadic"]:
        return [Parameter(op["inputs"][0], Parameter.VAR_POSITIONAL, annotation=array)]
    inputs = []
    required = 0 if composes else required_inputs(op)
    for i, name in enumerate(op["inputs"]):
        may_miss = i >= required
        default = None if may_miss else Parameter.empty
        kind = f"{array} | None" if may_miss else array
        inputs.append(Parameter(name, _EITHER, default=default, annotation=kind))
    return inputs


def _signature(
    op: dict[str, Any], result: str, tail: dict[str, str], composes: bool = False
) -> Signature:
    found = _inputs(op, composes)
    for p in op["params"]:
        default = Parameter.empty if p["required"] else _value(p["default"], p["python_type"])
        # A required parameter after one with a default must be keyword-only.
        by_keyword = op["variadic"] or any(
            other.kind is _KEYWORD or (p["required"] and other.default is not Parameter.empty)
            for other in found
        )
        kind = _KEYWORD if by_keyword else _EITHER
        found.append(Parameter(p["name"], kind, default=default, annotation=p["python_type"]))
    known = {p.name for p in found}
    found += [
        Parameter(key, _KEYWORD, default=None, annotation=f"{kind} | None")
        for key, kind in tail.items()
        if key not in known
    ]
    return Signature(found, return_annotation=result)


@functools.cache
def of_operator(name: str, composes: bool = False) -> Signature:
    """Return the signature of an operator on arrays or symbols."""
    op = _core.describe_op(name)
    if composes:
        tail = {"name": "str", "attr": "Mapping[str, Any]", "out": "NDArray | Sequence[NDArray]"}
        return _signature(op, "Symbol | NDArray" if op["inputs"] else "Symbol", tail, composes)
    result = {"one": "NDArray", "many": "list[NDArray]", "any": "NDArray | list[NDArray]"}
    tail = {"out": "NDArray | Sequence[NDArray]", "name": "str"}
    if not op["inputs"]:
        return _signature(op, result[op["outputs"]], tail)
    tail["attr"] = "Mapping[str, Any]"
    return _signature(op, f"{result[op['outputs']]} | Symbol", tail)


@functools.cache
def read_examples() -> dict[str, str]:
    """Return the examples of operators with their results, by the operators' names."""
    blocks = EXAMPLES.read_text().rstrip().split("\n\n")
    return dict(block.split("\n", 1) for block in blocks)


def add_example(name: str, doc: str) -> str:
    """Return the documentation of an operator with its example; hidden operators have none."""
    example = read_examples().get(name)
    return f"{doc.rstrip()}\n\nExamples\n--------\n{example}\n" if example else doc
