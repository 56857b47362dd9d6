"""Operators written in Python: ``CustomOp``, ``CustomOpProp``, ``register`` (``mx.operator``).

``forward`` and ``backward`` run in a thread of their own, after the arrays they read are there; the
caller of ``mx.nd.Custom`` goes on meanwhile. They may use any operator, wait for arrays, convert to
NumPy and call other custom operators. What they raise reaches whoever waits for the results.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, TypeVar

from . import _core, custom_sparse
from ._core import NDArray
from .base import TypeError_, ValueError_
from .context import Context
from .custom_definition import REGISTRY, Definition
from .python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "Custom",
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]


class CustomOp:
    """Base of operators written in Python."""

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the outputs.

        Parameters
        ----------
        is_train : bool
            Called inside ``autograd.train_mode`` (or ``record``)?
        req : list of str
            What `assign` needs for each output: always 'write'.
        in_data, out_data, aux : list of NDArray
            Inputs, outputs, auxiliary states (which may be written).
        """

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the gradients of the inputs.

        Parameters
        ----------
        req : list of str
            What `assign` needs for each input: 'write', or 'null' where no gradient is asked for.
        out_grad, in_data, out_data, in_grad, aux : list of NDArray
            Gradients of the outputs, inputs, outputs, gradients to be written, auxiliary states.
            None where ``declare_backward_dependency`` did not ask for an array.
        """

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write into an array as requested.

        Parameters
        ----------
        dst : NDArray
        req : {'null', 'write', 'inplace', 'add'}
        src : NDArray or array-like or number
        """
        if req == "null":
            return
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        else:
            raise ValueError_(
                f"assign: req {req!r} given, 'null', 'write', 'inplace' or 'add' expected"
            )


class CustomOpProp:
    """Base of descriptions of operators: names, shapes, types, and how to make one.

    Parameters
    ----------
    need_top_grad : bool
        Does backward use the gradients of the outputs? False for losses.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return shapes of inputs, outputs and (may be left out) auxiliary states.

        Parameters
        ----------
        in_shape : list of list of int
            Of the inputs; 0 for a dimension that is not known, [] for an unknown shape.

        Returns
        -------
        tuple of 2 or 3 lists of shapes
            By default every output has the shape of the first input.
        """
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return types of inputs, outputs and (may be left out) auxiliary states.

        Parameters
        ----------
        in_type : list of numpy types

        Returns
        -------
        tuple of 2 or 3 lists of types
            By default all are of the first input's type.
        """
        first = in_type[0]
        states = self.list_auxiliary_states()
        return in_type, [first] * len(self.list_outputs()), [first] * len(states)

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Return storage types of inputs, outputs and states.

        Where this is not overridden sparse inputs reach the operator as dense copies.
        """
        outputs, states = self.list_outputs(), self.list_auxiliary_states()
        return in_stype, ["default"] * len(outputs), ["default"] * len(states)

    def infer_storage_type_backward(
        self,
        ograd_stype: list[str],
        in_stype: list[str],
        out_stype: list[str],
        igrad_stype: list[str],
        aux_stype: list[str],
    ) -> Any:
        """Return storage types of backward's arrays, in the order of the arguments."""
        groups = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(group) for group in groups)

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs; by default one, 'output'."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs; by default one, 'data'."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states; by default none."""
        return []

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Return the ids of the arrays that backward uses.

        Parameters
        ----------
        out_grad, in_data, out_data : list of int
            Ids of the gradients of outputs, of inputs, of outputs.

        Returns
        -------
        list of int
            By default all, without ``out_grad`` if ``need_top_grad`` is False.
        """
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: list[list[int]], in_dtypes: Any) -> CustomOp:
        """Return the operator for one call; its backward is called on the same object.

        Parameters
        ----------
        ctx : Context
        in_shapes : list of list of int
        in_dtypes : list of numpy types
        """
        return CustomOp()


_PropClass = TypeVar("_PropClass", bound="type[CustomOpProp]")
_TYPE_WORDS = {
    "bool": "boolean",
    "str": "string",
    "int | Sequence[int]": "Shape(tuple)",
    "Sequence[int]": "Shape(tuple)",
}
_lock = threading.Lock()  # guards changes of REGISTRY


def register(reg_name: str) -> Callable[[_PropClass], _PropClass]:
    """Return a decorator that makes a CustomOpProp known as ``op_type=reg_name``.

    Parameters
    ----------
    reg_name : str
        A later class of the same name replaces the earlier one.
    """

    def do_register(prop_cls: _PropClass) -> _PropClass:
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise TypeError_(f"register: {prop_cls!r} given, a subclass of CustomOpProp expected")
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
        Inputs by name; ``out``; everything else is handed to the CustomOpProp as text.

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
        For what the methods of the CustomOpProp raise; errors of forward and backward appear when
        the results are waited for.

    Notes
    -----
    Matches ``mxnet.nd.Custom``.
    """
    if any(_is_symbol(value) for value in (*args, *kwargs.values())):
        from .symbol.custom import Custom as compose

        return compose(*args, **kwargs)
    op_type = kwargs.pop("op_type", None)
    if op_type is None:
        raise TypeError_("Custom() missing required parameter 'op_type'")
    kwargs.pop("name", None)
    out = kwargs.pop("out", None)
    named = {key: value for key, value in kwargs.items() if isinstance(value, NDArray)}
    definition = Definition(op_type, {k: v for k, v in kwargs.items() if k not in named})
    outputs = custom_sparse.call(definition, _wide(_inputs(definition, args, named)))
    if out is not None:
        targets = [out] if isinstance(out, NDArray) else list(out)
        if len(targets) != len(outputs):
            raise ValueError_(
                f"Custom: {len(targets)} arrays given as out, {op_type!r} has {len(outputs)} "
                "outputs"
            )
        for target, output in zip(targets, outputs):
            output.copyto(target)
        return out
    return outputs[0] if len(outputs) == 1 else outputs


def _wide(inputs: list[NDArray]) -> list[NDArray]:
    """Cast inputs of the lower precision to float32 where mixed precision asks for it."""
    from .ndarray.serialization import dtype_name
    from .symbol.mixed_precision import ACTIVE, FLOAT32

    rules = ACTIVE.rules
    if rules is None or rules.class_of("Custom", {}) != FLOAT32:
        return inputs
    cast = _core.op("amp_cast")
    return [cast(a, dtype=FLOAT32) if dtype_name(a.dtype) == rules.target else a for a in inputs]


def _is_symbol(value: Any) -> bool:
    return hasattr(value, "list_arguments") and not isinstance(value, NDArray)


def _inputs(
    definition: Definition, args: Sequence[Any], named: dict[str, NDArray]
) -> list[NDArray]:
    """Bring positional and named arrays into the operator's order."""
    names = definition.arguments + definition.states
    wanted = f"{definition.op_type!r} takes {len(names)} arrays ({', '.join(names)})"
    for value in args:
        if not isinstance(value, NDArray):
            raise TypeError_(f"Custom: a {type(value).__name__} given, an NDArray expected")
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
    """Return the names of all operators of the core.

    Returns
    -------
    list of str
    """
    return list(_core.all_ops())


def _type_text(param: Mapping[str, Any]) -> str:
    """Describe a parameter in 1.x's words: ``int, optional, default='1'``."""
    kind, default = param["python_type"], param["default"]
    choices = re.fullmatch(r"Literal\[(.*)\]", kind)
    if choices:
        kind, default = f"{{{choices[1]}}}", f"'{default}'"
    else:
        kind = _TYPE_WORDS.get(kind, kind)
    return f"{kind}, required" if param["required"] else f"{kind}, optional, default={default}"


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return the arguments of an operator.

    Parameters
    ----------
    op_name : str

    Returns
    -------
    OperatorArguments
    """
    name = _core.op(op_name).__name__
    described = next(op for op in _core.list_ops() if op["name"] == name)
    names = [*described["inputs"], *(param["name"] for param in described["params"])]
    types = ["NDArray-or-Symbol"] * len(described["inputs"])
    types += [_type_text(param) for param in described["params"]]
    return OperatorArguments(len(names), names, types)
