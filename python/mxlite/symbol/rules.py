"""Type rules, and shape rules from outputs to inputs, of operators on symbols.

The engine infers forward from complete inputs. Symbols need more: types without shapes, and shapes
of inputs from those of outputs (``begin_state`` of a recurrent cell). This is read from here; an
operator without an entry takes the general rule.
"""

from __future__ import annotations

from typing import Any

from .node import Node

__all__ = ["filled_types", "is_elementwise", "output_type", "shaped_like_first", "weight_names"]

# Inputs and outputs all have one shape.
_ELEMENTWISE = frozenset(
    """elemwise_add elemwise_sub elemwise_mul elemwise_div _grad_add add_n _equal _not_equal
    _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or _logical_xor _maximum
    _minimum
    _mod _power _hypot LinearRegressionOutput MAERegressionOutput LogisticRegressionOutput
    smooth_l1 Activation BlockGrad make_loss MakeLoss Cast amp_cast _copy identity SoftmaxActivation
    softmax log_softmax softmin zeros_like ones_like clip Dropout
    _identity_with_attr_like_rhs _scatter_elemwise_div""".split()
)
# The first output has the first input's shape.
_LIKE_FIRST = frozenset(
    """BatchNorm _contrib_SyncBatchNorm LayerNorm InstanceNorm GroupNorm LeakyReLU L2Normalization
    LRN SoftmaxOutput SVMOutput SequenceMask SequenceReverse _shuffle
    IdentityAttachKLSparseReg""".split()
)
# The output's type is the parameter dtype, float32 if it is not given.
_DTYPE_PARAM = frozenset(
    """Cast amp_cast _zeros _ones _full _arange _linspace _eye one_hot topk argsort Embedding
    _contrib_SparseEmbedding _random_uniform _random_normal _random_exponential _random_gamma
    _random_poisson _random_negative_binomial _random_generalized_negative_binomial _random_randint
    _sample_uniform _sample_normal _sample_exponential _sample_gamma _sample_poisson
    _sample_negative_binomial _sample_generalized_negative_binomial _sample_multinomial
    softmax log_softmax softmin sum_dtype _contrib_quantize_v2""".split()
)
# Inputs whose types are independent of each other; the rest of an operator's inputs agree.
_FREE_INPUTS: dict[str, tuple[int, ...]] = {
    "Embedding": (0,), "_contrib_SparseEmbedding": (0,), "take": (1,), "batch_take": (1,),
    "pick": (1,), "gather_nd": (1,), "scatter_nd": (1,), "one_hot": (0,), "Cast": (0,),
    "amp_cast": (0,), "where": (0,), "SequenceMask": (1,), "SequenceLast": (1,),
    "SequenceReverse": (1,), "topk": (0,), "argsort": (0,), "_contrib_boolean_mask": (1,),
    "_contrib_index_copy": (1,), "shape_array": (0,), "size_array": (0,), "ROIPooling": (),
    "softmax": (1,), "log_softmax": (1,), "softmin": (1,), "_sample_multinomial": (0,),
    "_index_copy": (1,), "ravel_multi_index": (0,), "_scatter_set_nd": (2,), "CTCLoss": (1, 2, 3),
}  # fmt: skip
# How many inputs of an operator on quantized arrays are no ends of ranges, which are float32; those
# behind the first are int8.
_QUANTIZED = {
    "_contrib_quantized_conv": 3, "_contrib_quantized_fully_connected": 3,
    "_contrib_quantized_embedding": 2, "_contrib_quantized_pooling": 1,
    "_contrib_quantized_act": 1, "_contrib_quantized_flatten": 1,
    "_contrib_quantized_batch_norm": 1, "_contrib_quantized_elemwise_add": 2,
    "_contrib_quantized_elemwise_mul": 2,
}  # fmt: skip
_LENGTHS = ("softmax", "log_softmax", "softmin")  # their second input has to be integers
_HALVES = ("float16", "bfloat16")
_FLOATS = ("float64", "float32", *_HALVES)  # widest first
_NORMS = ("BatchNorm", "_contrib_SyncBatchNorm")


def is_elementwise(node: Node) -> bool:
    """Say whether all inputs and outputs of a node have one shape."""
    if node.op in _ELEMENTWISE:
        return True
    return bool(node.call.pointwise) and len(node.inputs) == 1


def shaped_like_first(node: Node) -> bool:
    """Say whether the first output of a node has its first input's shape."""
    return node.op in _LIKE_FIRST


def filled_types(node: Node, inputs: list[str | None], output: str | None) -> list[str | None]:
    """Fill unknown types of a node's inputs from its other inputs, parameters and output.

    Parameters
    ----------
    node : Node
    inputs : list of str or None
    output : str or None
        Type of the first output, as far as it is known.

    Returns
    -------
    list of str or None
    """
    if node.op == "amp_multicast":
        return inputs
    if node.op in _QUANTIZED:
        arrays = _QUANTIZED[node.op]
        if node.call.params.get("no_bias"):
            arrays -= 1
        ends = ["float32" if i >= arrays else "int8" for i in range(len(inputs))]
        return [inputs[0] or "int8", *(given or end for given, end in zip(inputs[1:], ends[1:]))]
    free = _FREE_INPUTS.get(str(node.op), ())
    tied = [i for i in range(len(inputs)) if i not in free]
    known = next((inputs[i] for i in tied if inputs[i] is not None), None)
    if node.op in ("Embedding", "_contrib_SparseEmbedding"):
        known = known or str(node.call.params["dtype"])
    if known is None and node.op not in _DTYPE_PARAM and _follows_input(node):
        known = output
    result = list(inputs)
    for i in tied:
        if result[i] is None and known is not None:
            half = node.op in _NORMS and i > 0 and known in _HALVES
            result[i] = "float32" if half else known
    if node.op in _LENGTHS and len(result) > 1 and result[1] is None:
        result[1] = "int32"
    return result


def _follows_input(node: Node) -> bool:
    return node.op not in ("shape_array", "size_array", "_contrib_arange_like")


def _pair_type(node: Node, inputs: list[str | None]) -> str:
    params = node.call.params
    if params.get("enable_float_output"):
        return "float32"
    if params.get("min_calib_range") is None:
        return "int32"
    is_sum = node.op == "_contrib_quantized_elemwise_add"
    return "uint8" if is_sum and inputs[:2] == ["uint8", "uint8"] else "int8"


def output_type(node: Node, inputs: list[str | None], index: int) -> str | None:
    """Return the type of an output from those of the inputs; None if they do not tell.

    Parameters
    ----------
    node : Node
    inputs : list of str or None
    index : int
        Which output.

    Returns
    -------
    str or None
    """
    params = node.call.params
    if node.op == "amp_multicast":
        return _multicast_type(inputs, index)
    if node.op == "amp_cast" and inputs[0] is not None and inputs[0] not in _FLOATS:
        return inputs[0]  # integers stay
    if node.op in ("shape_array", "size_array"):
        return "int64"
    if node.op in _QUANTIZED:
        sums = node.op in ("_contrib_quantized_conv", "_contrib_quantized_fully_connected")
        rows = 1 if node.op == "_contrib_quantized_embedding" else 0
        if node.op.startswith("_contrib_quantized_elemwise_") and index == 0:
            return _pair_type(node, inputs)
        return "float32" if index > 0 else "int32" if sums else inputs[rows]
    if node.op == "topk":
        kind = params.get("ret_typ")
        if kind == "value" or (kind == "both" and index == 0) or kind == "mask":
            return inputs[0]
    if node.op in _DTYPE_PARAM or (not inputs and "dtype" in params):
        asked = params.get("dtype")
        if asked is not None and asked != "None":
            return str(asked)
        if node.op not in ("softmax", "log_softmax", "softmin", "Cast", "amp_cast"):
            return "float32"
    free = _FREE_INPUTS.get(str(node.op), ())
    tied = [i for i in range(len(inputs)) if i not in free]
    return inputs[tied[0]] if tied else None


def _multicast_type(inputs: list[str | None], index: int) -> str | None:
    """Return the type of an output of amp_multicast: the widest of the floating inputs."""
    own = inputs[index]
    if own is not None and own not in _FLOATS:
        return own
    if None in inputs:
        return None
    floats = {dtype for dtype in inputs if dtype in _FLOATS}
    if len(floats) > 1 and floats <= set(_HALVES):
        return "float32"
    return next((dtype for dtype in _FLOATS if dtype in floats), None)


def weight_names(symbol: Any) -> set[str]:
    """Return variables that operators use as weights only, auxiliary states too.

    Parameters
    ----------
    symbol : Symbol

    Returns
    -------
    set of str
    """
    weights: set[str] = set()
    others: set[str] = set()
    for node in symbol._nodes():
        if node.op is None:
            continue
        written = node.mutated_inputs()
        for i, (source, _) in enumerate(node.inputs):
            if source.op is None:
                weight = (node.call.completes and i > 0 and "label" not in source.name) or (
                    i in written
                )
                (weights if weight else others).add(source.name)
    others.update(node.name for node, _ in symbol._outputs if node.op is None)
    return weights - others | set(symbol.list_auxiliary_states())
