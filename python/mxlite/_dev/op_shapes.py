"""Shapes of operators' inputs and outputs, for the reference (``docs/ops.md``).

Element-wise operators are recognized by running them; the table has the others.
"""

from __future__ import annotations

from typing import Any

from .. import _core, ndarray

__all__ = ["shapes"]

_REDUCED = "any shape -> data without the axes `axis`, or with size 1 there (`keepdims=True`)"
_UPDATE = "all of one shape -> shape of weight; states are changed in place"
_UPDATES = "weights, gradients and states of one weight behind one another -> one array per weight"
_SOFTMAX = "data of any shape; length: data's shape without `axis` -> shape of data"
_NORMALIZED = "data of any shape; parameters: (size of `axis`,) -> shape of data"
_DRAWN = "no inputs -> `shape`"
_SQUARE = "(..., n, n) -> (..., n, n)"

# Operators by their shapes. N: batch, C: channels, H and W: height and width.
_TABLE: dict[str, str] = {
    "Activation": "any shape -> the same shape",
    "BatchNorm": "data: (N, C, ...), the others (C,) -> shape of data",
    "BilinearSampler": "data: (N, C, H, W), grid: (N, 2, oH, oW) -> (N, C, oH, oW)",
    "CTCLoss": "data: (steps, N, classes), label: (N, length), lengths: (N,) -> (N,)",
    "Cast": "any shape -> the same shape",
    "Concat": "equal shapes except along `dim` -> sum of the sizes along `dim`",
    "Convolution": "data: (N, C, [D, H,] W), weight: (num_filter, C / num_group, *kernel), "
    "bias: (num_filter,) -> (N, num_filter, [oD, oH,] oW); layouts with C last move it in all",
    "Correlation": "data1, data2: (N, C, H, W) -> (N, displacements, oH, oW)",
    "Crop": "data: (N, C, H, W), and one to take the size from -> (N, C, oH, oW)",
    "Deconvolution": "data: (N, C, [D, H,] W), weight: (C, num_filter / num_group, *kernel), "
    "bias: (num_filter,) -> (N, num_filter, [oD, oH,] oW)",
    "Embedding": "data: any shape, weight: (input_dim, output_dim) -> (*data.shape, output_dim)",
    "Flatten": "(N, ...) -> (N, product of the others)",
    "FullyConnected": "data: (N, ...), weight: (num_hidden, inputs), bias: (num_hidden,) -> "
    "(N, num_hidden); flatten=False: (..., inputs) -> (..., num_hidden)",
    "GridGenerator": "affine: (N, 6), warp: (N, 2, H, W) -> (N, 2, H, W)",
    "GroupNorm": "data: (N, C, ...), gamma, beta: (num_groups,) or (C,) -> shape of data",
    "IdentityAttachKLSparseReg": "data: (N, ...), moving_avg: (features,) -> shape of data",
    "InstanceNorm": "data: (N, C, ...), gamma, beta: (C,) -> shape of data",
    "LRN": "(N, C, H, W) -> the same shape",
    "LayerNorm": _NORMALIZED,
    "LeakyReLU": "data: (N, C, ...), gamma (prelu): (C,) or (1,) -> shape of data",
    "Pad": "(N, C, H, W) or (N, C, D, H, W) -> sizes plus both entries of `pad_width`",
    "Pooling": "(N, C, [D, H,] W) -> (N, C, [oD, oH,] oW)",
    "RNN": "data: (steps, N, inputs), parameters: (all weights, then all biases), state, "
    "state_cell: (layers * directions, N, state_size) -> (steps, N, directions * state_size)",
    "ROIPooling": "data: (N, C, H, W), rois: (count, 5) -> (count, C, *pooled_size)",
    "Reshape": "any shape -> `shape` (0 keeps a size, -1 is inferred)",
    "SVMOutput": "data: (N, classes), label: (N,) -> shape of data",
    "SequenceLast": "data: (steps, N, ...), sequence_length: (N,) -> (N, ...)",
    "SequenceMask": "data: (steps, N, ...), sequence_length: (N,) -> shape of data",
    "SequenceReverse": "data: (steps, N, ...), sequence_length: (N,) -> shape of data",
    "SliceChannel": "any shape -> `num_outputs` arrays, `axis` divided by their number",
    "SpatialTransformer": "data: (N, C, H, W), loc: (N, 6) -> (N, C, *target_shape)",
    "UpSampling": "(N, C, H, W) each -> (N, C, scale * H, scale * W)",
    "add_n": "equal shapes -> the same shape",
    "all_finite": "any shape -> (1,)",
    "amp_cast": "any shape -> the same shape",
    "amp_multicast": "any shapes -> the same shapes",
    "argmax": _REDUCED,
    "argmax_channel": "(N, C, ...) -> (N, ...)",
    "argmin": _REDUCED,
    "batch_dot": "lhs: (..., m, k), rhs: (..., k, n) -> (..., m, n)",
    "batch_take": "a: (N, n), indices: (N,) -> (N,)",
    "broadcast_to": "sizes equal to `shape`, or 1 -> `shape`",
    "clip": "any shape -> the same shape",
    "col2im": "(N, C * product of kernel, windows) -> (N, C, *output_size)",
    "cumsum": "any shape -> the same shape; without `axis` (size,)",
    "depth_to_space": "(N, C, H, W) -> (N, C / block^2, H * block, W * block)",
    "diag": "(n,) -> (n, n); (..., m, n) -> the diagonal of two axes, last",
    "dot": "lhs: (..., k), rhs: (k, ...) -> lhs without its last, rhs without its first axis",
    "expand_dims": "any shape -> size 1 inserted at `axis`",
    "fill_element_0index": "lhs: (N, n), mhs, rhs: (N,) -> (N, n)",
    "gather_nd": "data: (a0, ..., aM, ...), indices: (M, b0, ...) -> (b0, ..., rest of data)",
    "im2col": "(N, C, [D, H,] W) -> (N, C * product of kernel, windows)",
    "khatri_rao": "(m_i, n) each -> (product of m_i, n)",
    "linalg_det": "(..., n, n) -> (...)",
    "linalg_extractdiag": "(..., n, n) -> (..., n - |offset|)",
    "linalg_extracttrian": "(..., n, n) -> (..., entries of the triangle)",
    "linalg_gelqf": "(..., m, n) with m <= n -> Q: (..., m, n), L: (..., m, m)",
    "linalg_gemm": "A: (..., m, k), B: (..., k, n), C: (..., m, n) -> (..., m, n)",
    "linalg_gemm2": "A: (..., m, k), B: (..., k, n) -> (..., m, n)",
    "linalg_inverse": _SQUARE,
    "linalg_makediag": "(..., n) -> (..., n + |offset|, n + |offset|)",
    "linalg_maketrian": "(..., entries of the triangle) -> (..., n, n)",
    "linalg_potrf": _SQUARE,
    "linalg_potri": _SQUARE,
    "linalg_slogdet": "(..., n, n) -> sign: (...), logarithm: (...)",
    "linalg_sumlogdiag": "(..., n, n) -> (...)",
    "linalg_syevd": "(..., n, n) -> U: (..., n, n), L: (..., n)",
    "linalg_syrk": "(..., m, n) -> (..., m, m); transpose: (..., n, n)",
    "linalg_trmm": "A: (..., m, m), B: (..., m, n) -> (..., m, n); rightside: B A",
    "linalg_trsm": "A: (..., m, m), B: (..., m, n) -> (..., m, n); rightside: X A = B",
    "log_softmax": _SOFTMAX,
    "moments": "any shape -> mean and variance without the axes `axes`",
    "multi_all_finite": "any shapes -> (1,)",
    "multi_lars": "(count,) each -> (count,)",
    "multi_sum_sq": "any shapes -> (count,)",
    "norm": _REDUCED,
    "one_hot": "any shape -> (*indices.shape, depth)",
    "pick": "data: any shape, index: data without `axis` -> shape of index, or size 1 at `axis`",
    "ravel_multi_index": "(len(shape), count) -> (count,)",
    "repeat": "any shape -> `axis` times `repeats`; without `axis` (size * repeats,)",
    "reset_arrays": "any shapes -> set to 0 in place",
    "reverse": "any shape -> the same shape",
    "sample_multinomial": "(classes,) or (N, classes) -> (*shape) or (N, *shape)",
    "scatter_nd": "data: (b0, ..., rest), indices: (M, b0, ...) -> `shape`",
    "shape_array": "any shape -> (dimensions,)",
    "size_array": "any shape -> (1,)",
    "slice": "any shape -> sizes of begin:end:step",
    "slice_axis": "any shape -> end - begin along `axis`",
    "softmax": _SOFTMAX,
    "softmax_cross_entropy": "data: (N, classes), label: (N,) -> (1,)",
    "softmin": _SOFTMAX,
    "space_to_depth": "(N, C, H, W) -> (N, C * block^2, H / block, W / block)",
    "stack": "equal shapes -> their number inserted at `axis`",
    "take": "a: any shape, indices: any shape -> a with `axis` replaced by indices.shape",
    "tile": "any shape -> sizes times `reps`",
    "topk": "any shape -> `k` along `axis`; ret_typ='both': two arrays",
    "transpose": "any shape -> sizes in the order `axes`, reversed by default",
    "unravel_index": "(count,) -> (len(shape), count)",
    **dict.fromkeys(("sum", "mean", "nansum", "prod", "nanprod", "max", "min"), _REDUCED),
}


def _runs_to(op: dict[str, Any], *inputs: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that an operator makes of ones, None if it refuses or makes several."""
    try:
        result = _core.op(op["name"])(*(ndarray.ones(shape) for shape in inputs))
        return None if isinstance(result, list) else tuple(result.shape)
    except Exception:  # of any kind: the operator is not element-wise
        return None


def shapes(op: dict[str, Any]) -> str:
    """Return "inputs -> output" for an operator of ``_core.list_ops()``.

    Raises
    ------
    KeyError
        If the operator is not element-wise and the table does not have it.
    """
    name, count = op["name"], len(op["inputs"])
    if name in _TABLE:
        return _TABLE[name]
    if name.startswith("random_"):
        return _DRAWN
    if name.startswith(("multi_", "preloaded_multi_")):
        return _UPDATES
    if "update" in name:
        return _UPDATE
    if count == 1 and _runs_to(op, (2, 3, 4)) == (2, 3, 4):
        return "any shape -> the same shape"
    if count == 2 and _runs_to(op, (2, 1, 4), (1, 3, 4)) == (2, 3, 4):
        return "shapes that broadcast as in NumPy -> the broadcast shape"
    if count > 1 and _runs_to(op, *[(2, 3, 4)] * count) == (2, 3, 4):
        return "equal shapes -> the same shape"
    return _TABLE[name]
