"""The operators' schemas as text for stubs and documentation."""

from __future__ import annotations

from typing import Any

from .. import _core, ndarray
from ..ndarray.signatures import required_inputs

Op = dict[str, Any]
NAMESPACES = ("contrib", "image", "linalg")


def public_ops() -> list[Op]:
    """Return the schemas of all operators that are not hidden, sorted by name."""
    return sorted((o for o in _core.list_ops() if not o["hidden"]), key=lambda o: o["name"])


def path_of(op: Op) -> str | None:
    """Return the path of an operator below ``mx.nd``, None if programs do not call it."""
    if not op["hidden"]:
        return str(op["name"])
    for space in NAMESPACES:
        name = op["name"].removeprefix(f"_{space}_")
        value = getattr(getattr(ndarray, space), name, None)
        if name != op["name"] and isinstance(value, type(_core.op("relu"))):
            return f"{space}.{name}"
    return None


def documented_ops() -> dict[str, Op]:
    """Return the schemas of all operators that programs call, by path."""
    found = {path: op for op in _core.list_ops() if (path := path_of(op)) is not None}
    return dict(sorted(found.items()))


def all_by_name() -> dict[str, Op]:
    """Return the schemas by name and alias."""
    table: dict[str, Op] = {}
    for op in _core.list_ops():
        for name in (op["name"], *op["aliases"]):
            table[name] = op
    return table


def default_text(param: dict[str, Any]) -> str:
    """Return a parameter's default as Python source."""
    text: str = param["default"]
    kind: str = param["python_type"]
    quoted = kind.startswith(("Literal", "str", "DTypeLike")) and text != "None"
    return repr(text) if quoted else text.replace("nan", "float('nan')")


def input_list(op: Op, first: str | None = None) -> list[str]:
    """Return the inputs as parameters of a stub, with ``first`` in place of the first input."""
    if op["variadic"]:
        # Programs may pass the arrays as one list.
        return [
            *([] if first is None else [first]),
            f"*{op['inputs'][0]}: NDArray | Sequence[NDArray]",
        ]
    inputs = [
        f"{name}: NDArray" if i < required_inputs(op) else f"{name}: NDArray | None = None"
        for i, name in enumerate(op["inputs"])
    ]
    return inputs if first is None else [first, *inputs[1:]]


def _result(op: Op) -> str:
    # An operator with one or several outputs: members of NDArray are checked, and the result may be
    # passed on as a list.
    return {"one": "NDArray", "many": "list[NDArray]", "any": "NDArray | Any"}[op["outputs"]]


def _count(op: Op) -> list[str]:
    """Return the parameter that scripts for 1.x give to variadic operators."""
    return ["num_args: int | None = None"] if op["variadic"] else []


def stub_signature(op: Op, first: str | None = None) -> str:
    """Return "(data: NDArray, axis: int = -1, ...) -> NDArray" for a .pyi file.

    Parameters are positional as well, in the order of the schema, as in 1.x.
    """
    inputs = input_list(op, first)
    params = _param_list(op, optional_inputs=any("= None" in text for text in inputs))
    tail = ["out: NDArray | Sequence[NDArray] | None = None", "name: str | None = None"]
    return f"({', '.join(inputs + params + _count(op) + tail)}) -> {_result(op)}"


def symbol_signature(op: Op, first: str | None = None) -> str:
    """Return "(data: Symbol | None = None, axis: int = -1, ...) -> Symbol" for a .pyi file.

    Every input may be left out: it becomes a variable. ``first`` replaces the first input (self).
    """
    if op["variadic"]:
        inputs = [f"*{op['inputs'][0]}: Symbol | Sequence[Symbol]"]
    else:
        inputs = [f"{name}: Symbol | None = None" for name in op["inputs"]]
    if first is not None:
        inputs = [first, *inputs[0 if op["variadic"] else 1 :]]
    optional = any("= None" in text for text in inputs)
    params = _param_list(op, optional_inputs=optional)
    tail = ["name: str | None = None", "attr: Mapping[str, Any] | None = None"]
    return f"({', '.join(inputs + params + _count(op) + tail)}) -> Symbol"


def _param_list(op: Op, optional_inputs: bool) -> list[str]:
    """Return an operator's parameters as parameters of a stub."""
    params: list[str] = []
    # A required parameter cannot follow a parameter with a default, so the rest is keyword-only.
    if optional_inputs and any(p["required"] for p in op["params"]):
        params.append("*")
    seen_default = False
    for p in op["params"]:
        kind = "str | Context" if p["name"] == "ctx" else p["python_type"]
        if p["required"]:
            if seen_default and "*" not in params and not op["variadic"]:
                params.append("*")
            params.append(f"{p['name']}: {kind}")
        else:
            seen_default = True
            # 1.x passes None for "not given" everywhere.
            kind = kind if kind.endswith("None") or kind == "DTypeLike" else f"{kind} | None"
            params.append(f"{p['name']}: {kind} = {default_text(p)}")
    return params


def numpy_doc(op: Op) -> str:
    """Return the documentation of an operator in NumPy style."""
    lines = [op["doc"]]
    if op["params"]:
        lines += ["", "Parameters", "----------"]
        for p in op["params"]:
            default = "" if p["required"] else f", default {p['default']}"
            lines += [f"{p['name']} : {p['python_type']}{default}", f"    {p['doc']}"]
    return "\n".join(lines)
