"""Names as 1.x files have them: operators, outputs, counts of variable argument lists."""

from __future__ import annotations

__all__ = ["OUTPUT_NAMES", "TOTAL_OUTPUTS", "VARIADIC_COUNT", "engine_name", "file_name", "hint"]

# Output names that are not "output" or "output<i>".
OUTPUT_NAMES: dict[str, tuple[str, ...]] = {
    "BatchNorm": ("output", "mean", "var"),
    "BatchNorm_v1": ("output", "mean", "var"),
    "_contrib_SyncBatchNorm": ("output", "mean", "var"),
    "InstanceNorm": ("output", "mean", "var"),
    "LayerNorm": ("output", "mean", "std"),
    "GroupNorm": ("output", "mean", "std"),
}

# Hidden outputs count in node_row_ptr; here where 1.9.1 has another number than this engine.
TOTAL_OUTPUTS: dict[str, int] = {
    "Dropout": 2,
    "LayerNorm": 3,
    "GroupNorm": 3,
    "InstanceNorm": 3,
    "L2Normalization": 2,
    "LRN": 2,
    "LeakyReLU": 2,
    "Pooling": 1,
    "UpSampling": 1,
}

# The parameter that says how many arrays a variadic operator takes; None: the operator has none.
VARIADIC_COUNT: dict[str, str | None] = {
    name: "num_args"
    for name in (
        "Concat", "Crop", "UpSampling", "add_n", "khatri_rao", "stack", "_rnn_param_concat",
        "ElementWiseSum",
    )
}  # fmt: skip
VARIADIC_COUNT["amp_multicast"] = "num_outputs"

# Element-wise operators of 1.x that are broadcasting ones here: files keep 1.x's name.
_KEPT = frozenset(
    """_equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or
    _logical_xor _maximum _minimum _mod _power _hypot _grad_add _contrib_SparseEmbedding""".split()
)
_RENAMED = {
    "shuffle": "_shuffle",
    "ravel_multi_index": "_ravel_multi_index",
    "unravel_index": "_unravel_index",
    "cumsum": "_np_cumsum",
    "normal": "_random_normal",
    "uniform": "_random_uniform",
}


# Names in 1.x files under which the engine has no operator.
_ENGINE_NAMES = {"_np_cumsum": "cumsum", "_contrib_SparseEmbedding": "Embedding"}


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
