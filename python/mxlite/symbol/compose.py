"""Calls of operators on symbols: sorts arguments into inputs and parameters, makes the node."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _core, attribute
from .. import name as _name
from .._core import NDArray, user_line
from ..base import TypeError_, suggestion
from ..context import Context
from ..ndarray.precision import ACTIVE
from ..ndarray.serialization import dtype_name
from .mixed_precision import cast_inputs
from .names import NAMED_INPUTS, VARIADIC_COUNT, file_name, hint, named_inputs
from .node import HIDDEN_KEYS, Entry, Node, operator_call, schema_of
from .symbol import Symbol, hidden_key

__all__ = ["compose", "make_variable", "text_of", "variable_attrs"]


def text_of(value: Any) -> str:
    """Return a parameter's value as 1.x files spell it: ``(3, 3)``, ``True``, ``float32``.

    Parameters
    ----------
    value : object
        Number, string, bool, dtype, context, or a sequence of these.

    Returns
    -------
    str
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, np.generic):
        return str(value.item())
    if isinstance(value, (type, np.dtype)):
        return dtype_name(value)
    if isinstance(value, (tuple, list, np.ndarray)):
        items = [text_of(v) for v in value]
        if isinstance(value, list):
            return "[" + ", ".join(items) + "]"
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    return str(value)


def user_attrs(attr: dict[str, Any] | None) -> dict[str, str]:
    """Return the attributes of the current scope updated by ``attr``, values as text.

    An initializer becomes what ``mx.init`` reads back; 1.x scripts hand them over as objects.
    """
    if attr is not None:
        attr = {
            key: value.dumps() if hasattr(value, "dumps") else str(value)
            for key, value in attr.items()
        }
    scoped = attribute.current().get(attr)
    return {hidden_key(key): value for key, value in scoped.items()}


def make_variable(name: str, attrs: dict[str, str]) -> Node:
    """Return a new variable node."""
    return Node(None, name, attrs, [])


class _Arguments:
    """What one call was given: inputs by position, parameters as text."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.schema = schema_of(alias)
        self.variadic: bool = self.schema["variadic"]
        self.inputs: dict[int, Entry] = {}
        self.params: dict[str, str] = {}
        self.next_input = 0
        self.next_param = 0
        self.arrays = 0
        self.by_name: dict[str, Any] = {}  # inputs whose position depends on parameters

    def place_named(self) -> None:
        """Take the inputs that were given by name once all parameters are known."""
        names = named_inputs(self.file_op, self.params)
        for key, value in self.by_name.items():
            if key in names:
                self.input_at(names.index(key), value, key)
            elif key in self.schema["inputs"]:
                self.positional(value)
            else:
                raise TypeError_(f"{self.alias}() got an unexpected keyword argument {key!r}")

    def input_at(self, index: int, value: Any, label: str) -> None:
        if isinstance(value, NDArray):
            self.arrays += 1
            return
        if not isinstance(value, Symbol):
            raise TypeError_(
                f"{self.alias}: {label}: a {type(value).__name__} given, a Symbol expected"
            )
        if len(value._outputs) != 1:
            raise TypeError_(
                f"{self.alias}: {label}: a group of {len(value._outputs)} outputs given, one "
                "output expected; index the symbol"
            )
        self.inputs[index] = value._outputs[0]

    def spread(self, value: Any) -> None:
        """Take all outputs of a symbol as inputs of a variadic operator."""
        for part in value:
            self.input_at(self.next_input, part, f"input {self.next_input}")
            self.next_input += 1

    def positional(self, value: Any) -> None:
        names = self.schema["inputs"]
        tensor = value is None or isinstance(value, (Symbol, NDArray))
        if (
            self.variadic
            and isinstance(value, (list, tuple))
            and self.next_input == 0
            or self.variadic
            and isinstance(value, Symbol)
            and len(value._outputs) > 1
        ):
            self.spread(value)
        elif tensor and (self.variadic or self.next_input < len(names)) and self.next_param == 0:
            if value is not None:
                label = f"input {self.next_input}" if self.variadic else names[self.next_input]
                self.input_at(self.next_input, value, label)
            self.next_input += 1
        else:
            params = self.schema["params"]
            if self.next_param >= len(params):
                raise TypeError_(
                    f"{self.alias}() takes at most {len(names) + len(params)} positional arguments"
                )
            self.param(params[self.next_param]["name"], value)
            self.next_param += 1

    def keyword(self, key: str, value: Any) -> None:
        names = self.schema["inputs"]
        if key in self.schema["param_types"]:
            self.param(key, value)
        elif (
            self.variadic
            and key in NAMED_INPUTS.get(self.file_op, ())
            and isinstance(value, (Symbol, NDArray))
        ):
            self.by_name[key] = value
        elif self.variadic and key.startswith("arg") and key[3:].isdigit():
            self.input_at(int(key[3:]), value, key)
        elif key in names:
            if self.variadic:
                self.positional(value)
            elif value is not None:
                self.input_at(names.index(key), value, key)
        elif (
            self.variadic
            and key == VARIADIC_COUNT.get(self.file_op, "num_args")
            or key.startswith("__")
            and key.endswith("__")
        ):
            self.params[key] = text_of(value)
        elif key in HIDDEN_KEYS:
            self.params[f"__{key}__"] = text_of(value)
        elif key in ("ctx", "device"):
            if value is not None and "ctx" in self.schema["param_types"]:
                self.params["ctx"] = text_of(value)
        elif key in ("out", "stype"):
            pass
        elif not (self.schema["params"] or self.variadic or isinstance(value, (Symbol, NDArray))):
            warnings.warn(  # 1.x looks at no keyword of an operator that has no parameters
                f"{self.alias}: {key!r} is ignored, the operator has no parameters", stacklevel=4
            )
        else:
            raise TypeError_(
                f"{self.alias}() got an unexpected keyword argument {key!r}"
                + suggestion(key, [*names, *self.schema["param_types"]])
            )

    @property
    def file_op(self) -> str:
        return file_name(self.alias, self.schema["name"])

    def param(self, key: str, value: Any) -> None:
        if value is None:
            info = self.schema["param_types"][key]
            # None where the default is another value means "not given", unless it is a value.
            if "None" not in info["python_type"] or info["default"] == "None":
                return
        if isinstance(value, Context):
            value = str(value)
        self.params[key] = text_of(value)


def compose(alias: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the node of one operator call on symbols.

    Parameters
    ----------
    alias : str
        Name or alias of the operator.
    args, kwargs
        As for the operator on arrays, and ``name`` and ``attr`` besides. Inputs that are left out
        become variables named ``<name>_<input>``.

    Returns
    -------
    Symbol
        An array's own result if the inputs are arrays.

    Raises
    ------
    TypeError
        For wrong arguments.
    """
    name, attr = kwargs.get("name"), kwargs.get("attr")
    given = _Arguments(alias)
    for value in args:
        given.positional(value)
    for key, value in kwargs.items():
        if key not in ("name", "attr"):
            given.keyword(key, value)
    given.place_named()
    if given.arrays:
        return _on_arrays(given, alias, args, kwargs)
    op = given.file_op
    attrs = {**user_attrs(attr), **given.params}
    if given.variadic and given.inputs:
        count = VARIADIC_COUNT.get(op)
        if count is not None:
            attrs[count] = str(max(given.inputs) + 1)
    name = _name.current().get(name, hint(alias))
    call = operator_call(given.schema["name"], _without_input_attrs(given, attrs))
    inputs = _complete_inputs(given, call, name, attrs, op)
    if ACTIVE.rules is not None:
        inputs = cast_inputs(ACTIVE.rules, call, inputs)
    return Symbol._single(Node(op, name, _own_attrs(given, attrs), inputs, call, user_line()))


def _on_arrays(given: _Arguments, alias: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if given.inputs:
        raise TypeError_(f"{alias}: Symbols and NDArrays given together, all of one kind expected")
    return _core.op(alias)(*args, **kwargs)


def _input_attr(given: _Arguments, key: str) -> tuple[str, str] | None:
    """Split ``weight_lr_mult`` into input and hidden attribute."""
    plain = key[2:-2] if key.startswith("__") and key.endswith("__") else key
    for hidden in HIDDEN_KEYS:
        if plain.endswith("_" + hidden) and plain[: -len(hidden) - 1] in given.schema["inputs"]:
            return plain[: -len(hidden) - 1], f"__{hidden}__"
    return None


def _without_input_attrs(given: _Arguments, attrs: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in attrs.items() if _input_attr(given, key) is None}


_own_attrs = _without_input_attrs

# What 1.x sets on the variables of an operator that say nothing about it themselves.
_VARIABLE_INIT = {
    ("BatchNorm", "moving_mean"): '["zero", {}]',
    ("BatchNorm", "moving_var"): '["one", {}]',
    ("_contrib_SyncBatchNorm", "moving_mean"): '["zero", {}]',
    ("_contrib_SyncBatchNorm", "moving_var"): '["one", {}]',
    ("UpSampling", "weight"): '["bilinear", {}]',
    ("LeakyReLU", "gamma"): '["Constant", {"value": 0.25}]',
}


def variable_attrs(op: str, label: str, attrs: dict[str, str]) -> dict[str, str]:
    """Return the attributes of a variable made for an operator's input: the operator's own."""
    init = _VARIABLE_INIT.get((op, label))
    return dict(attrs) if init is None else {**attrs, "__init__": init}


def _complete_inputs(
    given: _Arguments, call: Any, name: str, attrs: dict[str, str], op: str
) -> list[Entry]:
    """Return all inputs of the node; those that were not given become variables."""
    count = call.num_inputs
    names = named_inputs(op, given.params) if given.variadic else ()
    if names:
        count = len(names)
    if count < 0:
        wanted = attrs.get(VARIADIC_COUNT.get(op) or "num_args", "0")
        count = max(max(given.inputs, default=-1) + 1, int(wanted))
        if count == 0:
            raise TypeError_(f"{given.alias}() needs at least one input or num_args")
    taken = dict(given.inputs)
    if taken and max(taken) >= count:
        # An optional input before a given one (CTCLoss with label_lengths only) leaves a gap.
        if len(taken) > count:
            raise TypeError_(
                f"{given.alias}() takes {count} inputs with these parameters, {len(taken)} given"
            )
        taken = dict(enumerate(entry for _, entry in sorted(taken.items())))
    labels = list(given.schema["inputs"])
    without_bias = "bias" in labels and call.params.get("no_bias")
    if without_bias and max(taken, default=0) < labels.index("bias"):
        labels = [label for label in labels if "bias" not in label]  # nor the ends of its range
    inputs: list[Entry] = []
    for i in range(count):
        label = (names[i] if names else f"arg{i}") if given.variadic else labels[i]
        if i in taken:
            source = taken[i][0]
            if source.op is None and (op, label) in _VARIABLE_INIT:
                source.attrs.setdefault("__init__", _VARIABLE_INIT[op, label])
            inputs.append(taken[i])
            continue
        own = _own_attrs(given, attrs)
        for key, value in attrs.items():
            moved = _input_attr(given, key)
            if moved is not None and moved[0] == label:
                own[moved[1]] = value
        own = variable_attrs(op, label, own)
        inputs.append((make_variable(f"{name}_{label}", own), 0))
    return inputs


def _compose_call(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Symbol:
    """Serve operators of ``mx.nd`` that are called on symbols."""
    return compose(op.__name__, args, kwargs)


_core.set_symbol_type(Symbol, _compose_call)
