"""Operators of 1.9.1's numpy mode that are functions of ``mx.np`` in symbols and their files.

1.9.1 writes an operator for each of these functions (``_npi_einsum``); `OPERATORS` lists these
operators, and how the attributes of their nodes correspond to arguments.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .. import numpy as np
from ..numpy import _internal
from . import functions, random

__all__ = ["CUSTOM", "OPERATORS", "Operator"]

# Attributes in files that no function needs: numbers of inputs, devices, and facts that follow from
# the inputs.
_IGNORED = frozenset(
    "ctx flag hermitian is_int is_logit num_args op_type squeeze_axis subok weighted".split()
)


class Operator:
    """Says how the node of an operator calls a function, and how a call becomes a node.

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


class _Raw(Operator):
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


def _operand(name: str, inputs: str) -> Operator:
    """Return an operator of an array and a number."""
    function = getattr(np, name)

    def call(x1: Any, x2: Any) -> Any:
        return function(x1, x2)

    other = "x2" if inputs == "x1" else "x1"
    return Operator(call, inputs, {other: "scalar"})


def _with_number(name: str) -> dict[str, Operator]:
    return {
        f"_npi_{name}_scalar": _operand(name, "x1"),
        f"_npi_r{name}_scalar": _operand(name, "x2"),
    }


def _at_least(ndim: int) -> Operator:
    function = getattr(np, f"atleast_{ndim}d")
    return Operator(lambda arrays: function(*arrays), "*arys", outputs=lambda options, count: count)


_split_family = Operator(_split, "ary", outputs=_count_parts)
_window = {
    f"_npi_{name}": Operator(getattr(np, name)) for name in ("blackman", "hamming", "hanning")
}
_joins = {
    f"_npi_{name}": Operator(getattr(np, name), "*arrays")
    for name in ("column_stack", "dstack", "hstack", "vstack")
}
_samplers = {
    f"_npi_{name}": Operator(getattr(np.random, name), inputs, always=f"{inputs} size")
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
OPERATORS: dict[str, Operator] = {
    "_np_all": Operator(np.all, "a"),
    "_np_any": Operator(np.any, "a"),
    **{f"_np_atleast_{n}d": _at_least(n) for n in (1, 2, 3)},
    "_np_diagflat": Operator(np.diagflat, "array"),
    "_np_diagonal": Operator(np.diagonal, "a"),
    "_np_moveaxis": Operator(np.moveaxis, "a"),
    "_np_roll": Operator(np.roll, "a"),
    "_np_trace": Operator(np.trace, "a"),
    **_with_number("arctan2"),
    **_with_number("copysign"),
    **_with_number("ldexp"),
    **{f"_npi_{n}_scalar": _operand(n, "x1")
       for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")},
    "_npi_around": Operator(np.around, "x"),
    "_npi_average": Operator(
        np.average, "a weights", flags={"weighted": "weights"}, always="axis returned",
        outputs=lambda options, _: 1 + bool(options.get("returned")),
    ),
    "_npi_bernoulli": _Raw(_draw_bernoulli, "prob logit", flags={"is_logit": "logit"}),
    "_npi_bincount": Operator(np.bincount, "x weights", flags={"has_weights": "weights"}),
    "_npi_boolean_mask": Operator(lambda a, mask: a[mask.astype(bool)], "a mask"),
    **{
        f"_npi_boolean_mask_assign_{kind}": Operator(
            _internal.boolean_mask_assign_tensor, "data mask value"
        )
        for kind in ("scalar", "tensor")
    },
    # The engine's concatenate needs an axis; this entry also runs axis=None.
    "_npi_concatenate": Operator(
        lambda arrays, axis=None: np.concatenate(arrays, axis), "*arrays"
    ),
    "_npi_choice": Operator(
        np.random.choice, "p", flags={"weighted": "p"}, always="a size replace"
    ),
    "_npi_delete": Operator(_delete, "arr obj"),
    "_npi_det": Operator(np.linalg.det, "a"),
    "_npi_diag_indices_from": Operator(lambda arr: np.stack(np.diag_indices_from(arr)), "arr"),
    "_npi_diff": Operator(np.diff, "a"),
    "_npi_dsplit": _split_family,
    "_npi_ediff1d": Operator(
        np.ediff1d, "ary to_begin to_end",
        {"to_begin": "to_begin_scalar", "to_end": "to_end_scalar"},
        flags={"to_begin_arr_given": "to_begin", "to_end_arr_given": "to_end"},
    ),
    "_npi_eigh": Operator(np.linalg.eigh, "a", outputs=2),
    "_npi_eigvals": Operator(np.linalg.eigvals, "a"),
    "_npi_eigvalsh": Operator(np.linalg.eigvalsh, "a"),
    "_npi_einsum": Operator(
        lambda arrays, subscripts, optimize=0: np.einsum(
            subscripts, *arrays, optimize=bool(optimize)
        ),
        "*operands",
    ),
    "_npi_eye": Operator(np.eye),
    "_npi_flip": Operator(np.flip, "m"),
    "_npi_full_like": Operator(np.full_like, "a"),
    "_npi_hsplit": _split_family,
    "_npi_identity": Operator(lambda shape, dtype=None: np.identity(shape[0], dtype)),
    "_npi_indices": Operator(np.indices),
    "_npi_insert_scalar": Operator(_insert, "arr values", {"values": "val"}),
    "_npi_insert_slice": Operator(_insert, "arr values", {"values": "val"}),
    "_npi_insert_tensor": Operator(_insert, "arr values obj", {"values": "val"}),
    "_npi_isneginf": Operator(lambda x: np.isneginf(x), "x"),
    "_npi_isposinf": Operator(lambda x: np.isposinf(x), "x"),
    "_npi_ldexp": Operator(lambda x1, x2: np.ldexp(x1, x2), "x1 x2"),
    "_npi_logspace": Operator(np.logspace),
    "_npi_multinomial": Operator(np.random.multinomial, "pvals"),
    "_npi_nan_to_num": Operator(np.nan_to_num, "x"),
    "_npi_norm": _Raw(_norm, "x"),
    "_npi_normal_n": Operator(
        random.normal_n, "loc scale", {"batch_shape": "size"}, always="loc scale batch_shape"
    ),
    "_npi_pad": Operator(np.pad, "x", {"constant_values": "constant_value"}),
    "_npi_percentile": Operator(np.percentile, "a q", {"q": "q_scalar"}),
    "_npi_pinv": Operator(np.linalg.pinv, "a rcond"),
    "_npi_pinv_scalar_rcond": Operator(np.linalg.pinv, "a"),
    "_npi_polyval": Operator(np.polyval, "p x"),
    "_npi_powerd": Operator(np.random.power, "a"),
    "_npi_rot90": Operator(np.rot90, "m", always="axes"),
    "_npi_share_memory": Operator(
        lambda a, b: np.array(np.shares_memory(a, b), dtype="bool"), "a b"
    ),
    "_npi_slogdet": Operator(np.linalg.slogdet, "a", outputs=2),
    "_npi_std": Operator(np.std, "a"),
    "_npi_tensordot": Operator(
        lambda a, b, a_axes_summed, b_axes_summed: np.tensordot(
            a, b, (a_axes_summed, b_axes_summed)
        ),
        "a b",
    ),
    "_npi_tensordot_int_axes": Operator(np.tensordot, "a b"),
    "_npi_tensorinv": Operator(np.linalg.tensorinv, "a"),
    "_npi_tensorsolve": Operator(np.linalg.tensorsolve, "a b", {"axes": "a_axes"}),
    "_npi_tril": Operator(np.tril, "m"),
    "_npi_triu": Operator(np.triu, "m"),
    "_npi_uniform_n": Operator(
        random.uniform_n, "low high", {"batch_shape": "size"}, always="low high batch_shape"
    ),
    "_npi_unique": Operator(np.unique, "ar", outputs=_count_unique),
    "_npi_var": Operator(np.var, "a"),
    "_npi_where": Operator(_where, "condition x y"),
    "_npi_where_lscalar": Operator(_where, "condition y", {"x": "scalar"}),
    "_npi_where_rscalar": Operator(_where, "condition x", {"y": "scalar"}),
    "_npi_where_scalar2": Operator(_where, "condition"),
    "_npx_constraint_check": Operator(functions.constraint_check, "data"),
    "_npx_reshape": Operator(functions.reshape, "a"),
    "_npx_nonzero": Operator(functions.nonzero, "a"),
    **_window,
    **_joins,
    **_samplers,
}  # fmt: skip

# Operators that 1.9.1 writes as Custom nodes with these types.
CUSTOM = {
    "empty_like_fallback": Operator(
        lambda prototype, dtype=None, shape=None, order="C": np.empty_like(
            prototype, dtype, shape=shape
        ),
        "prototype",
        always="dtype order subok shape",
    ),
    "mvn_fallback": Operator(np.random.multivariate_normal, "mean cov"),
    "resize_fallback": Operator(np.resize, "a"),
    "unravel_index_fallback": Operator(
        lambda indices, shape: np.stack(np.unravel_index(indices, shape)), "indices"
    ),
}
OPERATORS.update(
    {
        "_contrib_boolean_mask": OPERATORS["_npi_boolean_mask"],
        "_np_sometrue": OPERATORS["_np_any"],
        "_npi_nonzero": OPERATORS["_npx_nonzero"],
    }
)  # other names of the same operators
