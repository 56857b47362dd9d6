"""Registers operators written in Python and calls them; describes the operators of the core."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, TypeVar

from .. import _core
from .._core import NDArray
from ..base import Provided, TypeError_, ValueError_
from .classes import CustomOpProp
from .definition import REGISTRY, Definition
from .sparse_arrays import call

_PropClass = TypeVar("_PropClass", bound="type[CustomOpProp]")
_TYPE_WORDS = {
    "bool": "boolean",
    "str": "string",
    "int | Sequence[int]": "Shape(tuple)",
    "Sequence[int]": "Shape(tuple)",
}
# The call on symbols is provided by symbol/custom.py.
custom_symbol = Provided()
_lock = threading.Lock()  # guards changes of REGISTRY


def register(reg_name: str) -> Callable[[_PropClass], _PropClass]:
    """Return a decorator that registers a CustomOpProp as ``op_type=reg_name``.

    A later class of the same name replaces an earlier one.
    """

    def do_register(prop_cls: _PropClass) -> _PropClass:
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise TypeError_(
                f"register: prop_cls must be a subclass of CustomOpProp, got {prop_cls!r}"
            )
        with _lock:
            REGISTRY[reg_name] = prop_cls
        return prop_cls

    return do_register


def Custom(*args: Any, **kwargs: Any) -> Any:  # noqa: N802 - the operator's name
    """Call an operator registered with :func:`register`.

    Parameters
    ----------
    *args : NDArray
        Inputs, then auxiliary states, in the order of ``list_arguments`` and
        ``list_auxiliary_states``.
    op_type : str
        The registered name.
    **kwargs
        Inputs by name; ``out``; everything else is passed to the CustomOpProp as text.

    Returns
    -------
    NDArray or list of NDArray
        A list if there are several outputs.

    Raises
    ------
    ValueError
        If no operator of that name is registered.
    TypeError
        If the number or names of the arrays do not fit.
    MXNetError
        Errors that methods of the CustomOpProp raise; errors of forward and backward are raised
        by waiting for the results.
    """
    if any(_is_symbol(value) for value in (*args, *kwargs.values())):
        return custom_symbol(*args, **kwargs)
    op_type = kwargs.pop("op_type", None)
    if op_type is None:
        raise TypeError_("Custom() missing required parameter 'op_type'")
    kwargs.pop("name", None)
    out = kwargs.pop("out", None)
    named = {key: value for key, value in kwargs.items() if isinstance(value, NDArray)}
    definition = Definition(op_type, {k: v for k, v in kwargs.items() if k not in named})
    outputs = call(definition, _inputs(definition, args, named))
    if out is not None:
        targets = [out] if isinstance(out, NDArray) else list(out)
        if len(targets) != len(outputs):
            raise ValueError_(
                f"Custom: out must have {len(outputs)} arrays, the outputs of {op_type!r}, got "
                f"{len(targets)}"
            )
        for target, output in zip(targets, outputs):
            output.copyto(target)
        return out
    return outputs[0] if len(outputs) == 1 else outputs


def _is_symbol(value: Any) -> bool:
    return hasattr(value, "list_arguments") and not isinstance(value, NDArray)


def _inputs(
    definition: Definition, args: Sequence[Any], named: dict[str, NDArray]
) -> list[NDArray]:
    """Return positional and named arrays in the operator's order."""
    names = definition.arguments + definition.states
    wanted = f"{definition.op_type!r} takes {len(names)} arrays ({', '.join(names)})"
    for value in args:
        if not isinstance(value, NDArray):
            raise TypeError_(f"Custom: inputs must be NDArrays, got {type(value).__name__}")
    if len(args) > len(names):
        raise TypeError_(f"Custom: {len(args)} arrays given, {wanted}")
    found = dict(zip(names, args))
    for name, value in named.items():
        if name in found or name not in names:
            kind = "given twice" if name in found else "unknown"
            raise TypeError_(f"Custom: input {name!r} is {kind}, {wanted}")
        found[name] = value
    missing = [name for name in names if name not in found]
    if missing:
        raise TypeError_(f"Custom: missing input {missing[0]!r}, {wanted}")
    return [found[name] for name in names]


class OperatorArguments(NamedTuple):
    """Arguments of an operator: how many, their names and types."""

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """Return the names of all operators of the core."""
    return list(_core.all_ops())


def _type_text(param: Mapping[str, Any]) -> str:
    """Describe a parameter in 1.x's format: ``int, optional, default='1'``."""
    kind, default = param["python_type"], param["default"]
    choices = re.fullmatch(r"Literal\[(.*)\]", kind)
    if choices:
        kind, default = f"{{{choices[1]}}}", f"'{default}'"
    else:
        kind = _TYPE_WORDS.get(kind, kind)
    return f"{kind}, required" if param["required"] else f"{kind}, optional, default={default}"


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return the arguments of an operator."""
    described = _core.describe_op(_core.op(op_name).__name__)
    names = [*described["inputs"], *(param["name"] for param in described["params"])]
    types = ["NDArray-or-Symbol"] * len(described["inputs"])
    types += [_type_text(param) for param in described["params"]]
    return OperatorArguments(len(names), names, types)
