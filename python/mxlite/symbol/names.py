"""Names as 1.x files have them: operators, outputs, counts of variable argument lists."""

from __future__ import annotations

from collections.abc import Mapping

from ..ndarray.sparse.aliases import SCATTER

__all__ = [
    "OUTPUT_NAMES", "NAMED_INPUT", "NAMED_INPUTS", "VARIADIC_COUNT", "engine_name", "file_name",
    "hint", "named_inputs", "total_outputs",
]  # fmt: skip

# Names of outputs; others are called "output", or "output<i>" where there are several.
OUTPUT_NAMES: dict[str, tuple[str, ...]] = {
    "BatchNorm": ("output", "mean", "var"),
    "_contrib_SyncBatchNorm": ("output", "mean", "var"),
    "_contrib_BatchNormWithReLU": ("output", "mean", "var"),
    "InstanceNorm": ("output", "mean", "var"),
    "LayerNorm": ("output", "mean", "std"),
    "GroupNorm": ("output", "mean", "std"),
    "RNN": ("output", "state_output", "statecell_output"),
    "_contrib_MultiBoxTarget": ("loc_target", "loc_mask", "cls_target"),
    "_contrib_hawkesll": ("output", "out_state"),
    **{
        name: ("output",)
        for name in (
            "BilinearSampler", "Correlation", "ROIPooling", "Dropout", "GridGenerator",
            "IdentityAttachKLSparseReg", "L2Normalization", "LRN", "LeakyReLU", "Pooling",
            "SpatialTransformer", "_contrib_DeformablePSROIPooling",
            "SoftmaxOutput",
        )
    },
    **{name: ("output", "score") for name in ("_contrib_MultiProposal", "_contrib_Proposal")},
    **{
        f"_contrib_quantized_{name}": ("output", "min_output", "max_output")
        for name in (
            "act", "batch_norm", "concat", "conv", "elemwise_add", "elemwise_mul", "embedding",
            "flatten", "fully_connected", "pooling",
        )
    },
}  # fmt: skip

# Operators with one input whose name is kept by 1.9.1's monitors, which call the input of all
# others input0.
NAMED_INPUT = frozenset(
    """Correlation Crop Dropout GridGenerator L2Normalization LRN LeakyReLU Pad Pooling SliceChannel
    SwapAxis log_softmax softmax softmin""".split()
)

# Numbers of outputs in 1.9.1, hidden ones too, where this engine has another one.
_TOTALS: dict[str, int] = {
    "Dropout": 2, "LayerNorm": 3, "GroupNorm": 3, "InstanceNorm": 3, "L2Normalization": 2, "LRN": 2,
    "UpSampling": 1, "CTCLoss": 2, "_contrib_box_nms": 2, "sort": 2, "_linalg_slogdet": 4,
    "_linalg_det": 3, "BilinearSampler": 2, "Correlation": 3, "SpatialTransformer": 3,
    "GridGenerator": 2, "_contrib_Proposal": 2, "_contrib_MultiProposal": 2,
    "_contrib_DeformablePSROIPooling": 2, "_contrib_SyncBatchNorm": 3,
    "IdentityAttachKLSparseReg": 1,
}  # fmt: skip


def total_outputs(op: str, attrs: Mapping[str, str], own: int, visible: int) -> int:
    """Return the number of outputs that 1.9.1 counts for a node.

    Parameters
    ----------
    op : str
    attrs : mapping of str to str
    own, visible : int
        All and visible outputs in this engine.

    Returns
    -------
    int
    """
    if op == "Pooling":
        return 2 if attrs.get("pool_type", "max") == "max" else 1
    if op == "LeakyReLU":
        return 2 if attrs.get("act_type") == "rrelu" else 1
    if op == "RNN":
        return visible
    return _TOTALS.get(op, own)


# The parameter that says how many arrays a variadic operator takes; None: the operator has none.
VARIADIC_COUNT: dict[str, str | None] = {
    name: "num_args"
    for name in (
        "Concat", "Crop", "UpSampling", "add_n", "khatri_rao", "stack", "_rnn_param_concat",
        "ElementWiseSum",
    )
}  # fmt: skip
VARIADIC_COUNT["amp_multicast"] = "num_outputs"


# Inputs that a variadic operator takes by name with some parameters.
NAMED_INPUTS = {"UpSampling": ("data", "weight")}


def named_inputs(op: str, attrs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a variadic operator's inputs; empty if they are ``arg<i>``."""
    return NAMED_INPUTS.get(op, ()) if attrs.get("sample_type") == "bilinear" else ()


# Element-wise operators of 1.x that are broadcasting ones here: files keep 1.x's name.
_KEPT = frozenset(
    """_equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or
    _logical_xor _maximum _minimum _mod _power _hypot _grad_add _contrib_SparseEmbedding""".split()
).union(SCATTER)
_RENAMED = {
    "shuffle": "_shuffle",
    "ravel_multi_index": "_ravel_multi_index",
    "unravel_index": "_unravel_index",
    "cumsum": "_np_cumsum",
    "normal": "_random_normal",
    "uniform": "_random_uniform",
}


# Names in 1.x files under which the engine has no operator.
_ENGINE_NAMES = {
    "_np_cumsum": "cumsum",
    "_contrib_SparseEmbedding": "Embedding",
    **SCATTER,
}


def engine_name(op: str) -> str:
    """Return the name by which the engine knows an operator of a 1.x file."""
    return _ENGINE_NAMES.get(op, op)


def file_name(alias: str, canonical: str) -> str:
    """Return the name under which 1.9.1 files have an operator.

    Parameters
    ----------
    alias : str
        The name by which it was called.
    canonical : str
        The operator's own name in this engine.

    Returns
    -------
    str
    """
    if alias.lower() in _KEPT:
        return alias.lower()
    if alias in _KEPT:
        return alias
    if canonical.startswith(("linalg_", "random_", "sample_")):
        return "_" + canonical
    return _RENAMED.get(canonical, canonical)


def hint(alias: str) -> str:
    """Return the text from which automatic names are made: ``fullyconnected`` of FullyConnected."""
    for prefix in ("_contrib_", "_linalg_", "linalg_", "_image_", "_sparse_"):
        if alias.startswith(prefix):
            alias = alias[len(prefix) :]
            break
    return alias.lower()
