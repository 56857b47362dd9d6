"""Operators of 1.9.1's numpy mode that are functions of ``mx.np`` in symbols and their files.

1.9.1 writes an operator for each of these functions (``_npi_einsum``). Here a node of such an
operator calls the function when the symbol runs: a graph that is compiled has the operators that
the function calls, and shapes are inferred by tracing the function.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .. import _core
from .. import name as _name
from .. import numpy as np
from .._core import user_line
from ..base import DynamicShapeError, TypeError_
from ..context import cpu
from ..numpy.arguments import set_name
from ..symbol import Symbol
from ..symbol import custom as _custom
from ..symbol.node import Node
from ..symbol.numpy_symbol import NumpySymbol
from . import functions, random

__all__ = ["OPERATORS", "compose_call", "document", "make_function"]

_Spec = tuple[Any, str]
# Attributes in files that no function needs: numbers of inputs, devices, and facts that follow from
# the inputs.
_IGNORED = frozenset(
    "ctx flag hermitian is_int is_logit num_args op_type squeeze_axis subok weighted".split()
)


class _Operator:
    """How the node of one operator of a file calls a function, and how a call becomes a node.

    Parameters
    ----------
    function : callable
        Gets the arguments by name, and the arrays of a variadic operator in one list.
    inputs : str
        The names of the arguments that are arrays, in the order of the node's inputs. ``*name``
        takes all arrays.
    attributes : dict
        By argument: the attribute that holds it, if it has another name.
    flags : dict
        By attribute: the argument which, if the attribute is true, is an input.
    always : str
        Arguments that 1.9.1 requires although mx.np has defaults for them.
    outputs : int or callable
        The number of outputs, or a function of the arguments and of the number of inputs that
        returns it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: str = "",
        attributes: Mapping[str, str] | None = None,
        flags: Mapping[str, str] | None = None,
        always: str = "",
        outputs: Any = 1,
    ) -> None:
        self.function = function
        self.inputs = inputs.split()
        self.attributes = dict(attributes or {})
        self.arguments = {attr: name for name, attr in self.attributes.items()}
        self.flags = dict(flags or {})
        self.always = frozenset(always.split())
        self.outputs = outputs

    @property
    def takes_list(self) -> bool:
        """Whether the operator has any number of inputs."""
        return bool(self.inputs) and self.inputs[0].startswith("*")

    def options(self, attrs: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments that the attributes of a node hold; those of None are left out."""
        found = {}
        for key, text in attrs.items():
            if key.startswith("__") or key in _IGNORED or key in self.flags:
                continue
            value = _value(text)
            if key == "scalar" and attrs.get("is_int") == "True":
                value = int(value)
            if value is not None:
                found[self.arguments.get(key, key)] = value
        return found

    def call(self, attrs: Mapping[str, str], arrays: Sequence[Any]) -> Any:
        """Call the function with the arrays and the attributes of a node."""
        options = self.options(attrs)
        if self.takes_list:
            return self.function(list(arrays), **options)
        return self.function(**dict(zip(self.free(attrs), arrays)), **options)

    def free(self, attrs: Mapping[str, str]) -> list[str]:
        """Return the arguments that a node may have as inputs, because no attribute holds them."""
        absent = {name for flag, name in self.flags.items() if attrs.get(flag) == "False"}
        held = self.options(attrs)
        return [name for name in self.inputs if name not in held and name not in absent]


def _value(text: str) -> Any:
    """Return the value of an attribute; a text that is no literal of Python stays a text."""
    if text in ("inf", "-inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _span(options: dict[str, Any], obj: Any) -> Any:
    """Return the index of delete and insert: an array, a number, or a slice of three attributes."""
    if obj is not None:
        return obj
    if "int_ind" in options:
        return options.pop("int_ind")
    return slice(*(options.pop(key, None) for key in ("start", "stop", "step")))


def _delete(arr: Any, obj: Any = None, axis: Any = None, **options: Any) -> Any:
    return np.delete(arr, _span(options, obj), axis)


def _insert(arr: Any, values: Any, obj: Any = None, axis: Any = None, **options: Any) -> Any:
    return np.insert(arr, _span(options, obj), values, axis)


def _norm(attrs: Mapping[str, str], arrays: Sequence[Any]) -> Any:
    """Compute ``norm``, whose kind is the attribute ``flag``; see the table of flags below."""
    flag, axis = int(attrs.get("flag", "-1")), _value(attrs.get("axis", "None"))
    kinds = {-2: None, 0: _value(attrs["ord"]), 1: "fro", 2: "nuc", 3: math.inf, 4: -math.inf}
    kind = kinds.get(flag, _value(attrs["ord"]))
    if flag == 1 and axis is not None and len(axis) == 1:
        kind = None
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    return np.linalg.norm(arrays[0], kind, axis, _value(attrs.get("keepdims", "False")))


def _draw_bernoulli(attrs: Mapping[str, str], arrays: Sequence[Any]) -> Any:
    options = {
        key: _value(attrs[key]) for key in ("prob", "logit", "size", "dtype") if key in attrs
    }
    if arrays:
        options["logit" if attrs.get("is_logit") == "True" else "prob"] = arrays[0]
    return random.bernoulli(**options)


class _Raw(_Operator):
    """An operator whose attributes do not correspond to arguments one by one."""

    def call(self, attrs: Mapping[str, str], arrays: Sequence[Any]) -> Any:
        """Call the function with the attributes as text."""
        return self.function(attrs, arrays)


def _count_parts(options: Mapping[str, Any], _: int) -> int:
    """Return the number of outputs of a split."""
    return options.get("sections") or len(options["indices"])


def _split(ary: Any, indices: Any = (), sections: int = 0, axis: int = 1) -> Any:
    axis = axis if ary.ndim > axis else 0  # hsplit of a vector
    return np.array_split(ary, sections or list(indices[1:]), axis)


def _count_unique(options: Mapping[str, Any], _: int) -> int:
    return 1 + sum(bool(v) for k, v in options.items() if k.startswith("return_"))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


def _operand(name: str, inputs: str) -> _Operator:
    """Return an operator of an array and a number."""
    function = getattr(np, name)

    def call(x1: Any, x2: Any) -> Any:
        return function(x1, x2)

    other = "x2" if inputs == "x1" else "x1"
    return _Operator(call, inputs, {other: "scalar"})


def _with_number(name: str) -> dict[str, _Operator]:
    return {
        f"_npi_{name}_scalar": _operand(name, "x1"),
        f"_npi_r{name}_scalar": _operand(name, "x2"),
    }


def _at_least(ndim: int) -> _Operator:
    function = getattr(np, f"atleast_{ndim}d")
    return _Operator(
        lambda arrays: function(*arrays), "*arys", outputs=lambda options, count: count
    )


def _pair(name: str) -> _Operator:
    function = getattr(np, name)
    return _Operator(lambda x1, x2: function(x1, x2), "x1 x2")


_split_family = _Operator(_split, "ary", outputs=_count_parts)
_window = {
    f"_npi_{name}": _Operator(getattr(np, name)) for name in ("blackman", "hamming", "hanning")
}
_joins = {
    f"_npi_{name}": _Operator(getattr(np, name), "*arrays")
    for name in ("column_stack", "dstack", "hstack", "vstack")
}
_samplers = {
    f"_npi_{name}": _Operator(getattr(np.random, name), inputs, always=f"{inputs} size")
    for name, inputs in {
        "exponential": "scale",
        "gamma": "shape scale",
        "gumbel": "loc scale",
        "logistic": "loc scale",
        "normal": "loc scale",
        "pareto": "a",
        "rayleigh": "scale",
        "uniform": "low high",
        "weibull": "a",
    }.items()
}
OPERATORS: dict[str, _Operator] = {
    "_np_all": _Operator(np.all, "a"),
    "_np_any": _Operator(np.any, "a"),
    **{f"_np_atleast_{n}d": _at_least(n) for n in (1, 2, 3)},
    "_np_diagflat": _Operator(np.diagflat, "array"),
    "_np_diagonal": _Operator(np.diagonal, "a"),
    "_np_moveaxis": _Operator(np.moveaxis, "a"),
    "_np_roll": _Operator(np.roll, "a"),
    "_np_trace": _Operator(np.trace, "a"),
    **_with_number("arctan2"),
    **_with_number("copysign"),
    **_with_number("ldexp"),
    **{f"_npi_{n}_scalar": _operand(n, "x1")
       for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")},
    "_npi_around": _Operator(np.around, "x"),
    "_npi_average": _Operator(
        np.average, "a weights", flags={"weighted": "weights"}, always="axis returned",
        outputs=lambda options, _: 1 + bool(options.get("returned")),
    ),
    "_npi_bernoulli": _Raw(_draw_bernoulli, "prob logit", flags={"is_logit": "logit"}),
    "_npi_bincount": _Operator(np.bincount, "x weights", flags={"has_weights": "weights"}),
    "_npi_boolean_mask": _Operator(lambda a, mask: a[mask.astype(bool)], "a mask"),
    # The engine joins along an axis; this is for axis=None.
    "_npi_concatenate": _Operator(
        lambda arrays, axis=None: np.concatenate(arrays, axis), "*arrays"
    ),
    "_npi_choice": _Operator(
        np.random.choice, "p", flags={"weighted": "p"}, always="a size replace"
    ),
    "_npi_delete": _Operator(_delete, "arr obj"),
    "_npi_det": _Operator(np.linalg.det, "a"),
    "_npi_diag_indices_from": _Operator(lambda arr: np.stack(np.diag_indices_from(arr)), "arr"),
    "_npi_diff": _Operator(np.diff, "a"),
    "_npi_dsplit": _split_family,
    "_npi_ediff1d": _Operator(
        np.ediff1d, "ary to_begin to_end",
        {"to_begin": "to_begin_scalar", "to_end": "to_end_scalar"},
        flags={"to_begin_arr_given": "to_begin", "to_end_arr_given": "to_end"},
    ),
    "_npi_eigh": _Operator(np.linalg.eigh, "a", outputs=2),
    "_npi_eigvals": _Operator(np.linalg.eigvals, "a"),
    "_npi_eigvalsh": _Operator(np.linalg.eigvalsh, "a"),
    "_npi_einsum": _Operator(
        lambda arrays, subscripts, optimize=0: np.einsum(
            subscripts, *arrays, optimize=bool(optimize)
        ),
        "*operands",
    ),
    "_npi_eye": _Operator(np.eye),
    "_npi_flip": _Operator(np.flip, "m"),
    "_npi_full_like": _Operator(np.full_like, "a"),
    "_npi_hsplit": _split_family,
    "_npi_identity": _Operator(lambda shape, dtype=None: np.identity(shape[0], dtype)),
    "_npi_indices": _Operator(np.indices),
    "_npi_insert_scalar": _Operator(_insert, "arr values", {"values": "val"}),
    "_npi_insert_slice": _Operator(_insert, "arr values", {"values": "val"}),
    "_npi_insert_tensor": _Operator(_insert, "arr values obj", {"values": "val"}),
    "_npi_isneginf": _Operator(lambda x: np.isneginf(x), "x"),
    "_npi_isposinf": _Operator(lambda x: np.isposinf(x), "x"),
    "_npi_ldexp": _pair("ldexp"),
    "_npi_logspace": _Operator(np.logspace),
    "_npi_multinomial": _Operator(np.random.multinomial, "pvals"),
    "_npi_nan_to_num": _Operator(np.nan_to_num, "x"),
    "_npi_norm": _Raw(_norm, "x"),
    "_npi_normal_n": _Operator(
        random.normal_n, "loc scale", {"batch_shape": "size"}, always="loc scale batch_shape"
    ),
    "_npi_pad": _Operator(np.pad, "x", {"constant_values": "constant_value"}),
    "_npi_percentile": _Operator(np.percentile, "a q", {"q": "q_scalar"}),
    "_npi_pinv": _Operator(np.linalg.pinv, "a rcond"),
    "_npi_pinv_scalar_rcond": _Operator(np.linalg.pinv, "a"),
    "_npi_polyval": _Operator(np.polyval, "p x"),
    "_npi_powerd": _Operator(np.random.power, "a"),
    "_npi_rot90": _Operator(np.rot90, "m", always="axes"),
    "_npi_share_memory": _Operator(
        lambda a, b: np.array(np.shares_memory(a, b), dtype="bool"), "a b"
    ),
    "_npi_slogdet": _Operator(np.linalg.slogdet, "a", outputs=2),
    "_npi_std": _Operator(np.std, "a"),
    "_npi_tensordot": _Operator(
        lambda a, b, a_axes_summed, b_axes_summed: np.tensordot(
            a, b, (a_axes_summed, b_axes_summed)
        ),
        "a b",
    ),
    "_npi_tensordot_int_axes": _Operator(np.tensordot, "a b"),
    "_npi_tensorinv": _Operator(np.linalg.tensorinv, "a"),
    "_npi_tensorsolve": _Operator(np.linalg.tensorsolve, "a b", {"axes": "a_axes"}),
    "_npi_tril": _Operator(np.tril, "m"),
    "_npi_triu": _Operator(np.triu, "m"),
    "_npi_uniform_n": _Operator(
        random.uniform_n, "low high", {"batch_shape": "size"}, always="low high batch_shape"
    ),
    "_npi_unique": _Operator(np.unique, "ar", outputs=_count_unique),
    "_npi_var": _Operator(np.var, "a"),
    "_npi_where": _Operator(_where, "condition x y"),
    "_npi_where_lscalar": _Operator(_where, "condition y", {"x": "scalar"}),
    "_npi_where_rscalar": _Operator(_where, "condition x", {"y": "scalar"}),
    "_npi_where_scalar2": _Operator(_where, "condition"),
    "_npx_constraint_check": _Operator(functions.constraint_check, "data"),
    "_npx_reshape": _Operator(functions.reshape, "a"),
    "_npx_nonzero": _Operator(functions.nonzero, "a"),
    **_window,
    **_joins,
    **_samplers,
}  # fmt: skip

# Operators that 1.9.1 writes as Custom nodes with these types.
_CUSTOM = {
    "empty_like_fallback": _Operator(
        lambda prototype, dtype=None, shape=None, order="C": np.empty_like(
            prototype, dtype, shape=shape
        ),
        "prototype",
        always="dtype order subok shape",
    ),
    "mvn_fallback": _Operator(np.random.multivariate_normal, "mean cov"),
    "resize_fallback": _Operator(np.resize, "a"),
    "unravel_index_fallback": _Operator(
        lambda indices, shape: np.stack(np.unravel_index(indices, shape)), "indices"
    ),
}


class FunctionCall:
    """The parameters of a node of one of the operators, with methods that the core calls."""

    def __init__(self, op: str, attrs: Mapping[str, str]) -> None:
        self.name = op
        self.params = {k: v for k, v in attrs.items() if not k.startswith("__")}
        self._operator = _CUSTOM[attrs["op_type"]] if op == "Custom" else OPERATORS[op]
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
        is_plain = bool(inputs) and not isinstance(inputs[0], np.ndarray)
        return [array.as_nd_ndarray() for array in results] if is_plain else results


def _make_custom(attrs: Mapping[str, str]) -> Any:
    if attrs.get("op_type") in _CUSTOM:
        return FunctionCall("Custom", attrs)
    return _custom.CustomCall(dict(attrs))


OPERATORS.update(
    {
        "_contrib_boolean_mask": OPERATORS["_npi_boolean_mask"],
        "_np_sometrue": OPERATORS["_np_any"],
        "_npi_nonzero": OPERATORS["_npx_nonzero"],
    }
)  # other names of the same operators
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
    hint = params.get("op_type", op).split("_", 2)[-1] if op.startswith("_") else "custom"
    full = _name.current().get(None, hint)
    attributes = {**_core.scoped_attrs(None), **params}
    node = Node(op, full, attributes, entries, call, user_line())
    _core.cast_inputs(node)
    return NumpySymbol([(node, i) for i in range(call.num_outputs(len(entries)))])


def make_function(name: str, op: str, like: Any, fixed: Mapping[str, Any] | None = None) -> Any:
    """Return a function that composes one of the operators with the arguments of another function.

    Parameters
    ----------
    name : str
        The function's name in errors.
    op : str
        The operator's name in files; ``Custom/<type>`` for a Custom node.
    like : callable
        The function of mx.np that has the signature.
    fixed : dict, optional
        More attributes of the node.
    """
    op, _, kind = op.partition("/")
    operator = _CUSTOM[kind] if kind else OPERATORS[op]
    signature = inspect.signature(like)
    more = {"op_type": kind} if kind else dict(fixed or {})

    def function(*args: Any, **kwargs: Any) -> Any:
        if operator.takes_list and len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = (*args[0],)
        if operator.takes_list:
            return compose_call(op, args, {"num_args": len(args), **more, **kwargs})
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError_(f"{name}: {error}") from None
        bound.apply_defaults()
        bound.arguments.update(bound.arguments.pop("kwargs", {}))
        inputs, attrs = [], dict(more)
        for argument in operator.inputs:
            value = bound.arguments.get(argument)
            if isinstance(value, Symbol):
                inputs.append(value)
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

    return document(name, function, like)


def document(name: str, function: Any, like: Any) -> Any:
    """Return a function under its name and with the documentation of its namesake on arrays."""
    doc = f"Compose a symbol of ``{name}``.\n\n{inspect.getdoc(like) or ''}"
    return set_name(function, name, doc)
