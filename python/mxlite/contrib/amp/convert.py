"""Mixed precision for trained models: adds casts to a symbol; optionally casts parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import _core
from ...base import TypeError_, ValueError_
from ...context import current_context
from ...gluon.block import HybridBlock, SymbolBlock
from ...gluon.block.exporting import exported_symbol
from ...module import BucketingModule
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_code
from ...symbol import Symbol
from ...symbol import var as make_var
from . import amp as _amp
from .amp import AmpListError, Conditions, list_widest_type_cast, make_rules

Params = Mapping[str, NDArray]


def convert_symbol(
    sym: Symbol,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    data_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """Return a symbol with the casts of mixed precision.

    Parameters
    ----------
    sym : Symbol
        A float32 network.
    target_dtype : {'float16', 'bfloat16'}
    target_dtype_ops, fp32_ops : list of str, optional
        Lists that replace the default ones.
    conditional_fp32_ops : list of (str, str, list of str), optional
    excluded_sym_names : list of str, optional
        Nodes that stay in float32.
    data_names : list of str, optional
        Inputs that are data, not parameters; default: variables without ``__dtype__``.
    cast_optional_params : bool
        Mark parameters that are used in the lower precision only, so that they are stored in it.

    Raises
    ------
    TypeError, ValueError
        For wrong arguments, an operator in two lists, or an operator whose inputs are cast to the
        widest type among them.
    """
    if not isinstance(sym, Symbol):
        raise TypeError_(f"convert_symbol: sym must be a Symbol, got {type(sym).__name__}")
    if excluded_sym_names is not None and not isinstance(excluded_sym_names, (list, tuple)):
        raise TypeError_(
            f"convert_symbol: excluded_sym_names must be a list of str, got {excluded_sym_names!r}"
        )
    rules = make_rules(target_dtype, target_dtype_ops, conditional_fp32_ops, fp32_ops)
    conditional = [entry[0] for entry in conditional_fp32_ops or ()]
    given = {*(target_dtype_ops or ()), *(fp32_ops or ()), *conditional}
    widest = given.intersection(list_widest_type_cast(target_dtype))
    if widest:
        raise AmpListError(
            f"convert_symbol: {', '.join(sorted(widest))} given, which take the widest type of "
            "their inputs (list_widest_type_cast) and can be in no other list"
        )
    heads = _core.run_symbol_pass(
        "mixed-precision", sym._outputs, rules, set(excluded_sym_names or ())
    )
    if data_names is None:
        attrs = sym.attr_dict()
        data_names = [n for n in sym.list_inputs() if "__dtype__" not in attrs.get(n, {})]
    if cast_optional_params:
        heads = _core.run_symbol_pass("lower-parameters", heads, rules, set(data_names))
    return Symbol(heads)


def _typed(symbol: Symbol, arrays: Params) -> dict[str, NDArray]:
    """Return the parameters; cast those for which the symbol specifies a lower precision."""
    lower = {str(dtype_code(dtype)): dtype for dtype in ("float16", "bfloat16")}
    codes = {n.name: n.attr("__dtype__") or "" for n in symbol._nodes() if n.op is None}
    dtypes = {name: lower.get(codes.get(name, "")) for name in arrays}
    return {
        name: value if dtypes[name] is None else value.astype(dtypes[name])
        for name, value in arrays.items()
    }


def convert_model(
    sym: Symbol,
    arg_params: Params,
    aux_params: Params,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return a symbolic model for mixed precision.

    Parameters
    ----------
    sym : Symbol
    arg_params, aux_params : dict of str to NDArray
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
        As in `convert_symbol`.
    cast_optional_params : bool
        Store parameters in the lower precision if they are used in it only.

    Returns
    -------
    sym : Symbol
    arg_params, aux_params : dict of str to NDArray
    """
    for label, given in (("arg_params", arg_params), ("aux_params", aux_params)):
        if not isinstance(given, Mapping):
            raise TypeError_(
                f"convert_model: {label} must be a dict of NDArrays, got {type(given).__name__}"
            )
    if not isinstance(sym, Symbol):
        raise TypeError_(f"convert_model: sym must be a Symbol, got {type(sym).__name__}")
    data_names = [n for n in sym.list_inputs() if n not in arg_params and n not in aux_params]
    converted = convert_symbol(
        sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
        data_names, cast_optional_params,
    )  # fmt: skip
    return converted, _typed(converted, arg_params), _typed(converted, aux_params)


def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    ctx: Any = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """Return a block for inference in mixed precision.

    Parameters
    ----------
    block : HybridBlock
        Hybridized and run at least once.
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
        As in `convert_symbol`.
    ctx : Context or list of Context, optional
        Context of the parameters; default: the current context (1.x: ``gpu(0)``).
    cast_optional_params : bool
        As in `convert_model`.

    Raises
    ------
    TypeError
        If it is not a HybridBlock.
    MXNetError
        If the block was not hybridized and run.
    """
    if not isinstance(block, HybridBlock):
        raise TypeError_(
            f"convert_hybrid_block: block must be a HybridBlock, got {type(block).__name__}"
        )
    symbol, arrays = exported_symbol(block)
    known = set(symbol.list_inputs())
    params = block.collect_params().items()
    arrays.update((name, param._reduce()) for name, param in params if name in known)
    inputs = [name for name in symbol.list_inputs() if name not in arrays]
    converted = convert_symbol(
        symbol, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
        excluded_sym_names, inputs, cast_optional_params,
    )  # fmt: skip
    result = SymbolBlock(converted, [make_var(name) for name in inputs])
    values = _typed(
        converted, {name: arrays[name] for name in converted.list_inputs() if name in arrays}
    )
    for name, param in result.collect_params().items():
        if param.dtype != values[name].dtype:
            param.cast(values[name].dtype)
    result.collect_params().load_dict(values, ctx=ctx or current_context())
    return result


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """Return a bucketing module whose symbols run in mixed precision.

    Parameters
    ----------
    bucketing_mod : BucketingModule
        Bound, with parameters.
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
        As in `convert_symbol`.
    cast_optional_params : bool
        As in `convert_model`.

    Returns
    -------
    BucketingModule
        A module that is not bound yet.
    """
    if not isinstance(bucketing_mod, BucketingModule):
        raise TypeError_(
            "convert_bucketing_module: bucketing_mod must be a BucketingModule, got "
            f"{type(bucketing_mod).__name__}"
        )
    if not bucketing_mod.binded or not bucketing_mod.params_initialized:
        raise ValueError_("convert_bucketing_module: the module has no parameters yet")

    def convert(symbol: Symbol, data_names: Sequence[str] | None) -> Symbol:
        return convert_symbol(
            symbol, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
            excluded_sym_names, data_names, cast_optional_params,
        )  # fmt: skip

    generate = bucketing_mod._sym_gen

    def generate_converted(key: Any) -> tuple[Any, Any, Any]:
        symbol, data_names, label_names = generate(key)
        given = [n for n in symbol.list_inputs() if n not in arg_params and n not in aux_params]
        return convert(symbol, given), data_names, label_names

    arg_params, aux_params = bucketing_mod.get_params()
    key = bucketing_mod._default_bucket_key
    converted = generate_converted(key)[0]
    return BucketingModule.load_dict(
        sym_gen=generate_converted,
        default_bucket_key=key,
        arg_params=_typed(converted, arg_params),
        aux_params=_typed(converted, aux_params),
        **bucketing_mod._options,
    )


# As in 1.x, these functions are also in amp.py.
for _function in (convert_bucketing_module, convert_hybrid_block, convert_model, convert_symbol):
    setattr(_amp, _function.__name__, _function)
