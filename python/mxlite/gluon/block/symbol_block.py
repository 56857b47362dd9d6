"""SymbolBlock: a block made from a symbol, such as a network that was exported."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._core import dtype_type
from ...base import TypeError_, ValueError_
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...parallel.shard import SHARD_ATTRIBUTE, options_of_attribute
from ...symbol import Group, Symbol, load
from ...symbol import var as make_var
from ...symbol.inference import uninferred
from ...symbol.node import schema_of
from ..parameter import ParameterDict
from ..parameter.files import load_named
from ..parameter.parameter import StorageTypeError
from .formats import regroup
from .hybrid_block import HybridBlock
from .symbolic import has_symbol

__all__ = ["SymbolBlock"]

_ROW_SPARSE = "1"  # value of the attribute __storage_type__


def _saved_names(param_file: str | os.PathLike[str] | None) -> set[str]:
    """Return the names of the variables for which an exported file has values."""
    arrays = {} if param_file is None else load_named(param_file)
    return {name.partition(":")[2] for name in arrays}


class SymbolBlock(HybridBlock):
    """A block that computes a symbol.

    Matches ``mxnet.gluon.SymbolBlock``. It runs as a compiled graph unless ``hybridize(False)`` is
    called.

    Parameters
    ----------
    outputs : Symbol or list of Symbol
    inputs : Symbol or list of Symbol
        Variables that the block's arguments stand for; all others become parameters.
    params : ParameterDict, optional
        Existing parameters, which are used where the names match.

    Raises
    ------
    TypeError
        If an input is not a variable.
    StorageTypeError
        If a parameter would be row-sparse.

    Examples
    --------
    >>> internals = net(mx.sym.var("data")).get_internals()
    >>> features = SymbolBlock(internals["flatten0_output"], mx.sym.var("data"),
    ...                        params=net.collect_params())
    """

    def __init__(
        self,
        outputs: Symbol | Sequence[Symbol],
        inputs: Symbol | Sequence[Symbol],
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        if isinstance(inputs, Symbol) and len(inputs) == 1:
            inputs = [inputs]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        self._single = isinstance(outputs, Symbol) and len(outputs) == 1
        symbol = outputs if isinstance(outputs, Symbol) else Group(list(outputs))
        self._symbol = symbol
        self._input_names = [_input_name(entry) for entry in inputs]
        self._cached_graph = list(inputs), symbol
        self._make_parameters()
        # As in 1.x, the block is hybridized from the start.
        self._active = True
        self._compilation.flags = {"static_alloc": False, "static_shape": False}

    def _make_parameters(self) -> None:
        inference = uninferred(self._symbol._outputs, {}, {})
        inference.run_types("float32")
        written = set(self._symbol.list_auxiliary_states())
        for node in inference.nodes:
            if node.op is not None or node.name in self._input_names:
                continue
            if node.attr("__storage_type__") == _ROW_SPARSE:
                raise StorageTypeError(
                    f"SymbolBlock doesn't support Parameter {node.name!r} because its storage type "
                    "is 'row_sparse'."
                )
            options: dict[str, Any] = {"allow_deferred_init": True}
            dtype = inference.type(node, 0)
            if dtype is not None:
                options["dtype"] = dtype_type(dtype)
            if node.name in written:
                options["grad_req"] = "null"
                options["differentiable"] = False
            existing = self._params._find(node.name)
            if existing is None:
                shape = inference.shape(node, 0)
                for factor in ("lr_mult", "wd_mult"):
                    given = node.attr(f"__{factor}__")
                    if given is not None:
                        options[factor] = float(given)
                if shape is not None:
                    options["shape"] = tuple(0 if d == -1 else d for d in shape)
                shard = node.attr(SHARD_ATTRIBUTE)
                exported_by: int | None = None
                if shard is not None:
                    options.pop("shape", None)  # the attribute has the shape of one shard
                    of_shard, exported_by = options_of_attribute(node.name, shard)
                    options.update(of_shard)
                param = self._params.get(node.name, **options)
                if exported_by is not None and param._shard is not None:
                    param._shard.exported_by = exported_by
                    param._graph_of_rank = True
        common = os.path.commonprefix(list(self._params.keys()))
        cut = common.rfind("_") + 1 if len(self._params) > 1 else 0
        self._reg_params = {name[cut:]: param for name, param in self._params.items()}

    def __repr__(self) -> str:
        outputs = len(self._symbol.list_outputs())
        return (
            f"{type(self).__name__}(\n{self._symbol!r} : {len(self._input_names)} -> {outputs}\n)"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @staticmethod
    def imports(
        symbol_file: str | os.PathLike[str],
        input_names: str | Sequence[str],
        param_file: str | os.PathLike[str] | None = None,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Return a block from files that `HybridBlock.export` or MXNet 1.x wrote.

        Parameters
        ----------
        symbol_file : str or path
            ``<prefix>-symbol.json``.
        input_names : str or list of str
            In the order of the block's arguments. A name that no operator of the symbol uses gives
            a warning if the parameter file has values for all other variables.
        param_file : str or path, optional
            ``<prefix>-0000.params``; None leaves the block uninitialized.
        ctx : Context or list of Context, optional
        allow_missing, ignore_extra : bool
            As in ``ParameterDict.load``.

        Raises
        ------
        ValueError
            If the symbol has no input of a name, and the name is not that of an unused argument.
        """
        symbol = load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        variables = symbol.list_inputs()
        if unknown := [name for name in names if name not in variables]:
            named = ", ".join(map(repr, unknown))
            if not set(variables) <= {*names, *_saved_names(param_file)}:
                raise ValueError_(
                    f"SymbolBlock.imports: {os.fspath(symbol_file)!r} has no input {named}; the "
                    f"first are {variables[:3]}"
                )
            warnings.warn(
                f"SymbolBlock.imports: {os.fspath(symbol_file)!r} does not use the input {named}",
                stacklevel=2,
            )
        block = SymbolBlock(symbol, [make_var(name) for name in names])
        if param_file is not None:
            block.collect_params().load(
                param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved"
            )
        return block

    def forward(self, x: Any, *args: Any) -> NDArray | Any:
        """Compute the symbol's outputs.

        Parameters
        ----------
        x, *args : NDArray or Symbol
            One for each input.

        Returns
        -------
        NDArray or Symbol, or a list of them
        """
        given = _flat((x, *args))
        if len(given) != len(self._input_names):
            raise ValueError_(
                f"{self.name}: the number of inputs must be {len(self._input_names)} "
                f"({', '.join(self._input_names)}), got {len(given)}"
            )
        for name, value in zip(self._input_names, given):
            if not isinstance(value, (NDArray, Symbol)):
                raise TypeError_(
                    f"{self.name}: input {name} must be an NDArray or a Symbol, got a "
                    f"{type(value).__name__}; mx.nd.array(...) converts NumPy arrays and lists"
                )
        fmt = self.__dict__.get("_out_format")
        if has_symbol(given):
            replaced = {n: s._outputs[0] for n, s in zip(self._input_names, given)}
            composed = self._symbol._substituted(replaced)
            return composed if fmt is None else regroup(list(composed), fmt)
        ctx = given[0].ctx
        values: dict[str, NDArray] = dict(zip(self._input_names, given))
        for name, param in self._params.items():
            values[name] = param.data() if given[0]._traced else param.data(ctx)
        outputs = _core.evaluate(self._symbol._outputs, values)
        if fmt is not None:
            return regroup(outputs, fmt)
        return outputs[0] if self._single else outputs

    def cast(self, dtype: Any) -> None:
        """Convert the parameters, except those that their operators need in float32."""
        super().cast(dtype)
        if not _core.is_half(dtype_name(dtype)):
            return
        for node in self._symbol._nodes():
            schema = schema_of(node)
            for index in schema["amp"]["float32_inputs"] if schema is not None else ():
                source = node.inputs[index][0]
                if source.name in self._params:
                    self._params[source.name].cast("float32")


def _input_name(entry: Any) -> str:
    if not isinstance(entry, Symbol) or len(entry) != 1 or entry._outputs[0][0].op is not None:
        raise TypeError_(
            f"Input symbols must be variable, but {entry!r} is an output of operators"
            if isinstance(entry, Symbol)
            else f"SymbolBlock: input must be a Symbol, got {entry!r}"
        )
    return entry._outputs[0][0].name


def _flat(nested: Any) -> list[Any]:
    if isinstance(nested, (list, tuple)):
        return [part for entry in nested for part in _flat(entry)]
    return [nested]
