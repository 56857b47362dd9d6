"""Rows of the shape operators."""

from __future__ import annotations

from functools import partial

import numpy as np
from op_table import fails, ints, no_grad, op, randint


def depth_to_space(x: np.ndarray, block: int) -> np.ndarray:
    n, c, h, w = x.shape
    deep = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return deep.reshape(n, c // block**2, h * block, w * block)


def space_to_depth(x: np.ndarray, block: int) -> np.ndarray:
    n, c, h, w = x.shape
    wide = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return wide.reshape(n, c * block**2, h // block, w // block)


def padded(mode: str, width: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    options = {"constant_values": 1.5} if mode == "constant" else {}
    return np.pad(x, np.reshape(width, (-1, 2)), mode=mode, **options)


FILL = {"constant_value": 1.5}
ENDS = {"lhs_begin": -1, "rhs_begin": -2, "grad": [0]}
OPEN = (None, None)
SET = "_slice_assign"
CASES = [
    op("Reshape", (2, 3, 4), shape=(6, 4), ref=lambda x: x.reshape(6, 4)),
    op("Reshape", (2, 3, 4), shape=(0, -1), ref=lambda x: x.reshape(2, 12)),
    op("Reshape", (2, 3, 4), shape=(-1, 0, 4), ref=lambda x: x.reshape(2, 3, 4)),
    op("Reshape", (2, 3, 4), shape=(-2,), ref=lambda x: x),
    op("Reshape", (2, 3, 4), shape=(2, -2), ref=lambda x: x),
    op("Reshape", (2, 3, 4), shape=(-3, 0), ref=lambda x: x.reshape(6, 4)),
    op("Reshape", (2, 3, 4, 5), shape=(-3, -3), ref=lambda x: x.reshape(6, 20)),
    op("Reshape", (2, 3, 4), shape=(-4, 1, 2, -2), ref=lambda x: x.reshape(1, 2, 3, 4)),
    op("Reshape", (2, 3, 4), shape=(2, -4, -1, 3, -2), ref=lambda x: x.reshape(2, 1, 3, 4)),
    op("Reshape", (10, 5, 4), shape=(-1, 0), ref=lambda x: x.reshape(40, 5)),
    op("Reshape", (10, 5, 4), shape=(-1, 0), reverse=True, ref=lambda x: x.reshape(50, 4)),
    op("Reshape", (6, 4), shape=(2, 3, -4, 0), reverse=True, ref=lambda x: x.reshape(2, 3, 4)),
    op("Reshape", (2, 9), shape=(-2, 3, 3, -4), reverse=True, ref=lambda x: x.reshape(2, 3, 3)),
    op("Reshape", (6, 4), shape=(6, -1, 2, -4), reverse=True, ref=lambda x: x.reshape(6, 2, 2)),
    fails("Reshape", (6, 4), shape=(-4, 2, 3, 0), reverse=True, match="-4"),
    op("Reshape", (2, 3, 4), target_shape=(4, 0), ref=lambda x: x.reshape(4, 6)),
    op(
        "Reshape", (2, 3, 4), target_shape=(7, 0), keep_highest=True, ref=lambda x: x.reshape(2, 12)
    ),
    no_grad("Reshape", (3, 0), shape=(0, 0, 5), ref=np.zeros((3, 0, 5))),
    op("Reshape", (1,), shape=(), ref=lambda x: x.reshape(())),
    op("reshape", randint(0, 9, 2, 3, dtype="int8"), shape=(3, 2), ref=lambda x: x.reshape(3, 2)),
    fails("Reshape", (2, 3), shape=(4, 2), match="6 elements.*8"),
    fails("Reshape", (2, 3), shape=(-1, -1), match="more than one"),
    fails("Reshape", (2, 3), shape=(-5,), match=r"shape must be at least -4, got .-5"),
    fails("Reshape", (2, 3), shape=(-4, 4, 2, 0), match="split into 4 x 2"),
    fails("Reshape", (2, 3), shape=(0, 0, 0), match="more dimensions"),
    op("_reshape_to", (2, 6), shape=(3, 4), ref=lambda x: x.reshape(3, 4)),
    op("Flatten", (2, 3, 4), ref=lambda x: x.reshape(2, 12)),
    op("Flatten", (5,), ref=lambda x: x.reshape(5, 1)),
    op("expand_dims", (2, 3), axis=1, ref=lambda x: x[:, None]),
    op("expand_dims", (2, 3), axis=-1, ref=lambda x: x[..., None]),
    fails("expand_dims", (2, 3), axis=3, error=IndexError, match="axis 3 .* 2 dimensions"),
    op("squeeze", (1, 3, 1, 2), ref=lambda x: x.reshape(3, 2)),
    op("squeeze", (1, 3, 1, 2), axis=(-2,), ref=lambda x: x.reshape(1, 3, 2)),
    op("squeeze", (1, 1), ref=lambda x: x.reshape(1)),
    fails("squeeze", (2, 1), axis=0, match="length 1, got 2"),
    op("reshape_like", (2, 6), (3, 4), grad=[0], ref=lambda x, y: x.reshape(3, 4)),
    op(
        "reshape_like",
        (30, 7),
        (15, 2, 4),
        lhs_begin=0,
        lhs_end=1,
        rhs_begin=0,
        rhs_end=2,
        grad=[0],
        ref=lambda x, y: x.reshape(15, 2, 7),
    ),
    op("reshape_like", (2, 6), (9, 2, 3), **ENDS, ref=lambda x, _: x.reshape(2, 2, 3)),
    op("_identity_with_attr_like_rhs", (2, 3), (2, 3), grad=[0], ref=lambda x, y: x),
    no_grad("_identity_with_attr_like_rhs", (0, 3), (0, 3), ref=lambda x, y: x),
    fails("_identity_with_attr_like_rhs", (2, 3), (3, 2), match="rhs must have the shape of lhs"),
    fails("reshape_like", (2, 3), (4,), match="6 elements"),
    op("transpose", (2, 3, 4), ref=lambda x: x.transpose()),
    op("transpose", (2, 3, 4, 5), axes=(0, 2, 3, 1), ref=lambda x: x.transpose(0, 2, 3, 1)),
    op("transpose", (2, 3, 4), axes=(-1, 0, 1), ref=lambda x: x.transpose(2, 0, 1)),
    op("transpose", (70, 75), ref=lambda x: x.T),
    op("transpose", (3, 130, 17), axes=(0, 2, 1), ref=lambda x: x.transpose(0, 2, 1)),
    no_grad("transpose", (0, 3), ref=np.zeros((3, 0))),
    op("transpose", randint(0, 99, 9, 70, dtype="uint8"), ref=lambda x: x.T),
    op("transpose", randint(0, 99, 20, 21, dtype="int64"), ref=lambda x: x.T),
    fails("transpose", (2, 3), axes=(0, 0), match="axis 0 twice"),
    fails("transpose", (2, 3), axes=(0,), match="2 dimensions"),
    op("SwapAxis", (2, 3, 4), dim1=0, dim2=-1, ref=lambda x: x.swapaxes(0, 2)),
    fails("SwapAxis", (2, 3), dim1=2, error=IndexError, match="axis 2"),
    op("reverse", (2, 3, 4), axis=1, ref=lambda x: x[:, ::-1]),
    op("flip", (2, 3, 4), axis=(0, -1), ref=lambda x: x[::-1, :, ::-1]),
    no_grad("reverse", (0, 3), axis=0, ref=np.zeros((0, 3))),
    fails("reverse", (2, 3), axis=5, error=IndexError, match="axis 5"),
    op("repeat", (2, 3), repeats=2, ref=lambda x: x.repeat(2)),
    op("repeat", (2, 3, 2), repeats=3, axis=1, ref=lambda x: x.repeat(3, 1)),
    op("repeat", (2, 3), repeats=2, axis=-1, ref=lambda x: x.repeat(2, -1)),
    fails("repeat", (2,), repeats=-1, match="repeats must be from 0"),
    op("tile", (2, 3), reps=(2, 2), ref=lambda x: np.tile(x, (2, 2))),
    op("tile", (2, 3), reps=(3,), ref=lambda x: np.tile(x, 3)),
    op("tile", (3,), reps=(2, 1, 2), ref=lambda x: np.tile(x, (2, 1, 2))),
    no_grad("tile", (2, 3), reps=(0, 1), ref=np.zeros((0, 3))),
    fails("tile", (2,), reps=(-2,), match=r"reps must be from 0 .*-2"),
    *(
        op("Pad", x, mode=mode, pad_width=width, **FILL, ref=partial(padded, mode, width))
        for mode, x, width in [
            ("constant", (1, 2, 3, 4), (0, 0, 0, 0, 1, 2, 2, 1)),
            ("edge", (2, 2, 3, 4), (0, 0, 0, 0, 2, 1, 0, 3)),
            ("reflect", (1, 2, 3, 4, 5), (0, 0, 0, 0, 1, 2, 3, 0, 4, 4)),
            ("edge", (2, 3), (1, 1, 0, 2)),
        ]
    ),
    fails("Pad", (2, 3), mode="edge", pad_width=(1, 1), match="must have 4"),
    fails("Pad", (2, 3), mode="reflect", pad_width=(2, 0, 0, 0), match="reflect"),
    fails("Pad", (2,), mode="constant", pad_width=(-1, 0), match=r"pad_width must be from 0 .*-1"),
    op("depth_to_space", (2, 12, 3, 2), block_size=2, ref=lambda x: depth_to_space(x, 2)),
    fails("depth_to_space", (1, 6, 2, 2), block_size=2, match="multiple"),
    op("space_to_depth", (2, 3, 4, 6), block_size=2, ref=lambda x: space_to_depth(x, 2)),
    fails("space_to_depth", (1, 1, 3, 2), block_size=2, match="multiples"),
    fails("space_to_depth", (3, 2), block_size=2, match="batch, channels"),
    op("diag", (4,), ref=np.diag),
    op("diag", (3,), k=-2, ref=lambda x: np.diag(x, -2)),
    op("diag", (4, 5), k=1, ref=lambda x: np.diagonal(x, 1)),
    op("diag", (4, 5), k=-2, ref=lambda x: np.diagonal(x, -2)),
    no_grad("diag", (2, 3), k=3, ref=np.zeros((0,))),
    fails("diag", (2, 3), k=4, match="from -2 to 3"),
    fails("diag", (2, 3), k=-3, match="from -2 to 3"),
    op("diag", (2, 3, 4), axis1=-1, axis2=0, ref=lambda x: np.diagonal(x, 0, -1, 0)),
    fails("diag", (2, 3), axis1=1, axis2=-1, match="must be different axes, got 1 and -1"),
    op("Concat", (2, 3), (2, 5), ref=lambda a, b: np.concatenate([a, b], 1)),
    op("concat", (2, 3, 2), (1, 3, 2), (3, 3, 2), dim=0, ref=lambda *a: np.concatenate(a, 0)),
    op("Concat", (2, 3), (2, 0), (2, 1), dim=-1, ref=lambda *a: np.concatenate(a, -1)),
    op("Concat", (2, 3), ref=lambda a: a),
    fails("Concat", (2, 3), (3, 3), match="array 1 of shape"),
    fails("Concat", (2, 3), ints([[1, 2]] * 2), error=TypeError, match="int32"),
    fails("Concat", (3,), (3,), error=IndexError, match="axis 1 .* 1 dimensions"),
    op("stack", (2, 3), (2, 3), axis=1, ref=lambda a, b: np.stack([a, b], 1)),
    op("stack", (2, 3), (2, 3), (2, 3), axis=-1, ref=lambda *a: np.stack(a, -1)),
    fails("stack", (2, 3), (3, 2), match="array 1 must have the shape"),
    op("SliceChannel", (2, 6, 3), num_outputs=3, ref=lambda x: np.split(x, 3, 1)),
    op("split", (4, 3), num_outputs=2, axis=0, ref=lambda x: np.split(x, 2, 0)),
    op("SliceChannel", (2, 3, 4), num_outputs=3, squeeze_axis=1, ref=lambda x: [*x.swapaxes(0, 1)]),
    fails("SliceChannel", (2, 5), num_outputs=2, match="2 equal parts"),
    op("_split_v2", (2, 7), indices=(0, 2, 5), ref=lambda x: np.split(x, [2, 5], 1)),
    op("_split_v2", (7, 2), indices=(), sections=3, axis=0, ref=lambda x: np.array_split(x, 3)),
    op("_split_v2", (2, 3), indices=(0, 1, 2), squeeze_axis=True, ref=lambda x: [*x.T]),
    fails(
        "_split_v2",
        (2, 7),
        indices=(0, 5, 2),
        match="indices must be at least 0 and ascend, got 5 before 2",
    ),
    no_grad("shape_array", (2, 3, 4), out_dtype="int64", ref=np.array([2, 3, 4])),
    no_grad("size_array", (2, 3, 4), out_dtype="int64", ref=np.array([24])),
    op("slice", (4, 5), begin=(1, 0), end=(3, 4), ref=lambda x: x[1:3, 0:4]),
    op("slice", (4, 5), begin=(None, -3), end=(None, None), ref=lambda x: x[:, -3:]),
    op("slice", (4, 5, 6), begin=(1,), end=(4,), step=(2,), ref=lambda x: x[1:4:2]),
    op("slice", (4, 5), begin=(None, 3), end=OPEN, step=(-1, -2), ref=lambda x: x[::-1, 3::-2]),
    op("crop", (4, 5), begin=(2, 0), end=(99, 2), ref=lambda x: x[2:99, 0:2]),
    no_grad("slice", (4, 5), begin=(3, 0), end=(1, 5), ref=np.zeros((0, 5))),
    op("slice", randint(0, 9, 4, 5, dtype="int64"), begin=(1,), end=(2,), ref=lambda x: x[1:2]),
    fails(
        "slice", (4,), begin=(0,), end=(2,), step=(0,), match="step must not be 0, got 0 for axis 0"
    ),
    fails("slice", (4,), begin=(0, 0), end=(2, 2), match="indices .*, got 2"),
    op("slice_axis", (4, 5), axis=1, begin=1, end=-1, ref=lambda x: x[:, 1:-1]),
    op("slice_axis", (4, 5), axis=-2, begin=2, end=None, ref=lambda x: x[2:]),
    fails("slice_axis", (4,), axis=0, begin=2, end=7, error=IndexError, match="got 2 and 7"),
    op("slice_like", (4, 5), (2, 3), grad=[0], ref=lambda x, y: x[:2, :3]),
    op("slice_like", (4, 5), (9, 3), axes=(-1,), grad=[0], ref=lambda x, y: x[:, :3]),
    fails("slice_like", (2, 2), (3, 2), match="at least as long"),
]


def with_slice(x: np.ndarray, index: tuple, value: object) -> np.ndarray:
    result = np.array(x)
    result[index] = value
    return result


CASES += [
    op(
        SET,
        (4, 5),
        (2, 2),
        begin=(1, 0),
        end=(3, 4),
        step=(1, 2),
        ref=lambda x, y: with_slice(x, np.s_[1:3, 0:4:2], y),
    ),
    op(SET, (4, 5), (1, 5), begin=(None,), end=(2,), ref=lambda x, y: with_slice(x, slice(2), y)),
    fails(SET, (4, 5), (3, 2), begin=(0, 0), end=(2, 2), match=r"slice of shape \(2, 2\)"),
    op(
        "_slice_assign_scalar",
        (4, 5),
        scalar=7,
        begin=(1, -2),
        end=(None, None),
        ref=lambda x: with_slice(x, np.s_[1:, -2:], 7),
    ),
]
