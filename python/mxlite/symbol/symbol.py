"""The class Symbol: outputs of a graph of operator calls (MXNet 1.x: ``mxnet.symbol.Symbol``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._core import hidden_key
from .._names_1x import attributes as _attributes
from ..base import (
    IndexError_,
    NotImplementedForSymbol,
    NotSupportedError,
    Provided,
    TypeError_,
    ValueError_,
    suggestion,
)
from .exactness import check_exact
from .inference import infer_shape, infer_type
from .node import Entry, Node, schema_of, topological_order

if TYPE_CHECKING:
    from .operator_methods import OperatorMethods as _Base
else:
    _Base = object

__all__ = ["Symbol"]

load_json, to_json, save = Provided(), Provided(), Provided()  # by serialization.py
bind, simple_bind = Provided(), Provided()  # by executor/binding.py
as_numpy = Provided()  # by numpy_symbol.py


class Symbol(_Base):
    """One or several outputs of a symbolic graph; immutable except for `_set_attr`.

    Operators of ``mx.nd`` and ``mx.sym`` called on symbols give symbols. `bind`, `simple_bind` and
    `eval` run them; ``tojson`` and ``save`` write them in the format of MXNet 1.x.
    """

    __array_priority__ = 1000.0
    __slots__ = ("__weakref__", "_outputs")

    _outputs: list[Entry]

    def __init__(self, outputs: Sequence[Entry] | None) -> None:
        self._outputs = list(outputs or ())  # pickles of 1.x call Symbol(None)

    @classmethod
    def _single(cls, node: Node) -> Symbol:
        return Symbol([(node, i) for i in range(node.num_outputs)])

    # -- description -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        name = self.name
        if name is None:
            parts = ", ".join(str(part.name) for part in self)
            return f"<Symbol group [{parts}]>"
        return f"<Symbol {name}>"

    @property
    def name(self) -> str | None:
        """Name of the outputs' node; None if they belong to several nodes."""
        nodes = {node for node, _ in self._outputs}
        return next(iter(nodes)).name if len(nodes) == 1 else None

    def _nodes(self) -> list[Node]:
        return topological_order(self._outputs)

    def _variables(self, states: bool) -> list[str]:
        """Return the names of auxiliary states if ``states``, else of arguments."""
        variables, written = _core.symbol_variables(self._outputs)
        return [node.name for node, is_state in zip(variables, written) if is_state == states]

    def list_arguments(self) -> list[str]:
        """Return the names of the variables that are not auxiliary states, inputs first."""
        return self._variables(states=False)

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of variables that operators write to, such as running statistics."""
        return self._variables(states=True)

    def list_inputs(self) -> list[str]:
        """Return the names of all variables, including auxiliary states."""
        return [node.name for node in _core.symbol_variables(self._outputs)[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs: ``fc1_output``."""
        return [node.output_name(index) for node, index in self._outputs]

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._outputs)

    def debug_str(self) -> str:
        """Return a readable list of all nodes."""
        lines = ["Symbol Outputs:"]
        for i, (node, index) in enumerate(self._outputs):
            lines.append(f"\toutput[{i}]={node.name}({index})")
        for node in self._nodes():
            if node.op is None:
                lines.append(f"Variable:{node.name}")
                continue
            lines += ["--------------------", f"Op:{node.op}, Name={node.name}", "Inputs:"]
            for i, (source, index) in enumerate(node.inputs):
                lines.append(f"\targ[{i}]={source.name}({index}) version=0")
            if attrs := node.attrs:
                lines.append("Attrs:")
                lines += [f"\t{key}={attrs[key]}" for key in sorted(attrs)]
        return "\n".join(lines) + "\n"

    # -- outputs ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        check_exact(self, "len()")
        return len(self._outputs)

    def __iter__(self) -> Iterator[Symbol]:
        check_exact(self, "iteration")
        return (type(self)([entry]) for entry in self._outputs)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """Return one output by number or name, or several by a slice.

        Raises
        ------
        ValueError
            If no output or several outputs have the name.
        IndexError
            For a number out of range.
        """
        check_exact(self, "an element")
        if isinstance(index, slice):
            return type(self)(self._outputs[index])
        if isinstance(index, str):
            names = self.list_outputs()
            found = [i for i, name in enumerate(names) if name == index]
            if len(found) > 1:
                raise ValueError_(f"There are multiple outputs with name {index!r}")
            if not found:
                raise ValueError_(
                    f"Cannot find output that matches name {index!r}" + suggestion(index, names)
                )
            index = found[0]
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            raise TypeError_(
                f"Symbol only supports integer, string and slice indices, got {index!r} of type "
                f"{type(index).__name__}"
            )
        if not -len(self._outputs) <= index < len(self._outputs):
            raise IndexError_(
                f"index {index} is out of range for a symbol of {len(self._outputs)} outputs"
            )
        return type(self)([self._outputs[index]])

    def get_internals(self) -> Symbol:
        """Return a group of the outputs of all nodes, including variables."""
        return type(self)([(node, i) for node in self._nodes() for i in range(node.num_outputs)])

    def get_children(self) -> Symbol | None:
        """Return a group of the direct inputs of the outputs' nodes; None for a variable."""
        seen = dict.fromkeys(node for node, _ in self._outputs)
        entries = [entry for node in seen for entry in node.inputs]
        return type(self)(entries) if entries else None

    def get_inputs(self) -> Symbol:
        """Return a group of all variables."""
        return type(self)([(node, 0) for node in _core.symbol_variables(self._outputs)[0]])

    # -- attributes ------------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """Return an attribute of this symbol's node; None if the node does not have it."""
        return self._node("attr").attr(hidden_key(key))

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return all attributes of this symbol's node; 1.x removed recursive, use `attr_dict`."""
        if recursive:
            raise ValueError_("Symbol.list_attr: recursive must be False, got True; use attr_dict")
        return _public_attrs(self._node("list_attr"))

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of all nodes by name; omit nodes without attributes."""
        return {node.name: _public_attrs(node) for node in self._nodes() if node.attrs}

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of this symbol's node."""
        node = self._node("_set_attr")
        schema = schema_of(node)
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError_(
                    f"Symbol._set_attr: Set Attr only accepts string values, got {key}={value!r}"
                )
            hidden = hidden_key(key)
            known = [] if schema is None else [param["name"] for param in schema["params"]]
            if schema is not None and not hidden.startswith("__") and key not in known:
                hint = suggestion(key, known) or f"; it has {', '.join(known) or 'none'}"
                raise TypeError_(
                    f"Symbol._set_attr: operator {node.op} of {node.name!r} has no parameter "
                    f"{key!r}{hint}; other attributes are named like __{key}__"
                )
            node.set_attr(hidden, value)

    def _node(self, who: str) -> Node:
        nodes = {node for node, _ in self._outputs}
        if len(nodes) != 1:
            raise ValueError_(
                f"Symbol.{who}: the symbol must have one node, got a group of {len(nodes)}"
            )
        return next(iter(nodes))

    # -- composing -------------------------------------------------------------------------------

    def __call__(self, *args: Symbol, **kwargs: Any) -> Symbol:
        """Return a copy in which variables are replaced by other symbols.

        Parameters
        ----------
        *args : Symbol
            Replacements of the variables in the order of `list_arguments`.
        name : str, optional
            New name of the output's node.
        **kwargs : Symbol
            Replacements by variable name.

        Raises
        ------
        TypeError
            If an argument is not a Symbol, or if positional and keyword arguments are mixed.
        ValueError
            If no variable has the name.
        """
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise TypeError_("compose only accept input Symbols either as positional or keyword "
                             "arguments, not both")  # fmt: skip
        arguments = self.list_arguments()
        if len(args) > len(arguments):
            raise TypeError_(
                f"compose: the number of symbols must be at most that of the symbol's arguments, "
                f"{len(arguments)}, got {len(args)}"
            )
        given: dict[str, Symbol] = dict(zip(arguments, args)) if args else kwargs
        known = self.list_inputs()
        for key, value in given.items():
            if not isinstance(value, Symbol):
                raise TypeError_(
                    f"compose: {key}: value must be Symbol, got {type(value).__name__}"
                )
            if len(value) != 1:
                raise ValueError_(
                    f"compose: {key} must be a symbol of one output, got {len(value)}"
                )
            if key not in known:
                raise ValueError_(
                    f"compose: the symbol has no variable {key!r}" + suggestion(key, known)
                )
        result = self._substituted({key: value._outputs[0] for key, value in given.items()})
        if name is not None:
            result._node("compose").name = name
        return result

    def _substituted(self, replaced: dict[str, Entry]) -> Symbol:
        """Return a copy of the graph with variables replaced; other variables are shared."""
        return type(self)(_core.substituted(self._outputs, replaced))

    def _gen_atomic_symbol(self) -> Symbol:
        """Return a symbol of the output's operator, with the same parameters and new variables."""
        node = self._node("_gen_atomic_symbol")
        if node.op is None:
            raise ValueError_(f"_gen_atomic_symbol: {node.name} is a variable, it has no operator")
        inputs: list[Entry] = [
            (Node(None, f"{node.name}_{node.call.input_name(i)}", {}, []), 0)
            for i in range(len(node.inputs))
        ]
        return Symbol._single(node.moved(inputs))

    def __copy__(self) -> Symbol:
        return self._substituted({})

    def __deepcopy__(self, memo: Any) -> Symbol:
        return self._substituted({})

    def __reduce__(self) -> Any:
        return load_json.function, (self.tojson(remove_amp_cast=False),)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a symbol from a pickle of MXNet 1.x: ``{'handle': JSON text}``."""
        self._outputs = load_json(state["handle"])._outputs

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(self.__bool__, "bool")

    def __hash__(self) -> int:
        return id(self) // 16

    # -- inference -------------------------------------------------------------------------------

    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return shapes of arguments, outputs and auxiliary states from those of some arguments.

        Parameters
        ----------
        *args : tuple of int or None
            By position in `list_arguments`.
        **kwargs : tuple of int
            By name. A dimension of 0 or -1 is unknown.

        Returns
        -------
        arg_shapes, out_shapes, aux_shapes : list of tuple of int, or None
            None, with a warning, if a shape stays unknown.

        Raises
        ------
        MXNetError
            If shapes are inconsistent; the message names the operator and its node.
        """
        return infer_shape(self, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Like `infer_shape`, but return 0 for unknown dimensions and () for unknown shapes."""
        return infer_shape(self, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return dtypes of arguments, outputs and auxiliary states from those of some arguments.

        Parameters
        ----------
        *args, **kwargs : dtype
            By position in `list_arguments`, or by name.

        Returns
        -------
        arg_types, out_types, aux_types : list of type, or None
            None if a type stays unknown.
        """
        return infer_type(self, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Like `infer_type`, but return None for each unknown type."""
        return infer_type(self, args, kwargs, partial=True)

    # -- running ---------------------------------------------------------------------------------

    def bind(
        self,
        ctx: Any,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Any:
        """Return an executor on given arrays; see `binding.bind`."""
        return bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx, shared_exec)

    def simple_bind(
        self,
        ctx: Any,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return an executor on new arrays of inferred shapes; see `binding.simple_bind`."""
        return simple_bind(
            self, ctx, grad_req, type_dict, stype_dict, group2ctx, shared_arg_names, shared_exec,
            shared_buffer, kwargs,
        )  # fmt: skip

    def eval(self, ctx: Any = None, **kwargs: Any) -> list[Any]:
        """Bind NDArrays by name on a Context, run forward once, and return the outputs."""
        return self.bind(ctx, kwargs).forward()

    def gradient(self, wrt: Any) -> Any:
        """Raise NotSupportedError, as in 1.x: bind with ``args_grad`` and call backward instead."""
        raise NotSupportedError(
            "Symbol.gradient is not available; bind with args_grad and call Executor.backward"
        )

    # -- files -----------------------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the graph as JSON text in the layout of 1.9.1.

        ``remove_amp_cast`` leaves out amp_cast and amp_multicast operators.
        """
        return to_json(self, remove_amp_cast)

    def save(self, fname: Any, remove_amp_cast: bool = True) -> None:
        """Write `tojson` to a file, named by a str or path."""
        save(self, fname, remove_amp_cast)

    def optimize_for(
        self,
        backend: str | None,
        args: Any = None,
        aux: Any = None,
        ctx: Any = None,
        shape_dict: Any = None,
        type_dict: Any = None,
        stype_dict: Any = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Symbol:
        """Return the symbol itself, because mxlite's passes always run when it is bound."""
        return self

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Return the symbol itself, because there are no other backends."""
        return self

    def as_np_ndarray(self) -> Symbol:
        """Return a symbol of the same outputs whose operators have NumPy's semantics."""
        return as_numpy(self)

    def as_nd_ndarray(self) -> Symbol:
        """Return the symbol itself."""
        return self


def _public_attrs(node: Node) -> dict[str, str]:
    """Return a node's attributes; hidden ones are also included without underscores."""
    attrs = node.attrs
    plain = {k[2:-2]: value for k, value in attrs.items() if k == hidden_key(k[2:-2])}
    return {**attrs, **plain}


_core.set_symbol_type(Symbol)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
