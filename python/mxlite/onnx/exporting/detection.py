"""Converters of detection: boxes, non-maximum suppression, proposals, pooling over regions.

Rows have the shape (batch, boxes, elements). The result of ONNX's NonMaxSuppression becomes a mask
over boxes in descending order of score; boxes of equal score keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .table import Call, converter

__all__: list[str] = []

_LOWEST = float(np.finfo(np.float32).min)


def _columns(c: Call, rows: str, begin: int, end: int) -> str:
    """Return the elements [begin, end) of rows."""
    return c.g.slice(rows, [2], [begin], [end])


def _halves(c: Call, boxes: str) -> tuple[str, str]:
    """Return both pairs of elements of boxes."""
    return _columns(c, boxes, 0, 2), _columns(c, boxes, 2, 4)


def _corners(c: Call, middle: str, half: str) -> tuple[str, str]:
    """Return the low and the high corners of boxes around centers."""
    return c.op("Sub", middle, half), c.op("Add", middle, half)


def _column(c: Call, rows: str, index: int) -> str:
    """Return one element of each row, without the axis of elements."""
    return c.op("Gather", rows, c.g.const(index), axis=2)


def _rows_at(c: Call, rows: str, places: str) -> str:
    """Return the rows of each image at indices of shape (batch, count)."""
    return c.op("GatherND", rows, c.g.unsqueeze(places, -1), batch_dims=1)


def _best(c: Call, keys: str, count: int) -> tuple[str, str]:
    """Return the largest keys (batch, count) in descending order, and their indices."""
    values, places = c.op("TopK", keys, c.g.const([count]), outputs=2, axis=1, largest=1)
    return values, places


def _masked(c: Call, mask: str, scores: str) -> str:
    """Return scores, and -infinity where the mask is false."""
    return c.op("Where", mask, scores, c.const(-np.inf))


def _marked_first(c: Call, mask: str, size: int) -> tuple[str, str]:
    """Return indices with those of true entries first, in order, and a mask of the true ones."""
    keys = c.op("Where", mask, c.g.const(np.arange(size, 0, -1)), c.g.const(0))
    values, places = _best(c, keys, size)
    return places, c.op("Greater", values, c.g.const(0))


def _or_minus_one(c: Call, mask: str, rows: str) -> str:
    return c.op("Where", c.g.unsqueeze(mask, -1), rows, c.const(-1))


def _survivors(
    c: Call, boxes: str, scores: str, threshold: float, limit: int, ids: str = "", center: int = 0,
    num_ids: int = 0,
) -> str:  # fmt: skip
    """Return a mask of the sorted boxes that no better box of equal id suppresses.

    Boxes with score -infinity are not in the mask. ``ids`` are int64 (batch, boxes), below
    ``num_ids`` unless ``num_ids`` is 0. Without ``ids``, all boxes have one id.
    """
    if threshold < 0:
        raise c.refuse(f"the overlap threshold must be at least 0, got {threshold}")
    scores = c.g.cast(scores, c.dtype, "float32")
    by_class = c.g.unsqueeze(scores, 1)
    if ids:
        if num_ids:
            classes = c.g.const(np.arange(num_ids))
        else:
            least = c.op("ReduceMin", ids, keepdims=0)
            most = c.op("ReduceMax", ids, keepdims=0)
            classes = c.op("Range", least, c.op("Add", most, c.g.const(1)), c.g.const(1))
        hit = c.op("Equal", c.g.unsqueeze(ids, 1), c.g.unsqueeze(classes, -1))
        by_class = c.op("Where", hit, by_class, c.const(-np.inf, "float32"))
    # Makes negative sides 0, because a box with negative sides overlaps no other box in mxlite, but
    # ONNX swaps the corners of such a box.
    first, second = _halves(c, boxes)
    second = c.op("Max", second, c.const(0) if center else first)
    boxes = c.op("Concat", first, second, axis=2)
    selected = c.op(
        "NonMaxSuppression",
        c.g.cast(boxes, c.dtype, "float32"),
        by_class,
        c.g.const([limit]),
        c.const([min(threshold, 1)], "float32"),
        c.const([_LOWEST], "float32"),
        center_point_box=center,
    )
    places = c.op("Gather", selected, c.g.const([0, 2]), axis=1)
    ones = c.op("Expand", c.g.const(1), c.op("Shape", c.op("Gather", places, c.g.const(0), axis=1)))
    zeros = c.op("Expand", c.g.const(0), c.op("Shape", scores))
    return c.op("Greater", c.op("ScatterND", zeros, places, ones), c.g.const(0))


def _reformatted(c: Call, boxes: str, to_center: bool) -> str:
    """Return boxes in the other format; as in 1.x, boxes with a negative first entry stay as is."""
    first, second = _halves(c, boxes)
    if to_center:
        parts = (
            c.op("Div", c.op("Add", first, second), c.const(2)),
            c.op("Sub", second, first),
        )
    else:
        parts = _corners(c, first, c.op("Div", second, c.const(2)))
    negative = c.op("Less", _columns(c, boxes, 0, 1), c.const(0))
    return c.op("Where", negative, boxes, c.op("Concat", *parts, axis=2))


@converter("_contrib_box_nms")
def _box_nms(c: Call) -> str:
    if c.p.topk == 0:
        return c.x[0]
    size, width = c.extent(0, -2), c.extent(0, -1)
    rows = c.x[0] if c.ndim == 3 else c.op("Reshape", c.x[0], c.g.const([-1, size, width]))
    scores = _column(c, rows, c.p.score_index)
    valid = c.op("Greater", scores, c.const(c.p.valid_thresh))
    if c.p.id_index >= 0:
        is_background = c.op("Equal", _column(c, rows, c.p.id_index), c.const(c.p.background_id))
        valid = c.op("And", valid, c.op("Not", is_background))
    limit = size if c.p.topk < 0 else min(c.p.topk, size)
    scores, order = _best(c, _masked(c, valid, scores), limit)
    rows = _rows_at(c, rows, order)
    ids, start = "", c.p.coord_start
    if c.p.id_index >= 0 and not c.p.force_suppress:
        ids = c.g.cast(_column(c, rows, c.p.id_index), c.dtype, "int64")
    boxes = _columns(c, rows, start, start + 4)
    center = int(c.p.in_format == "center")
    kept = _survivors(c, boxes, scores, c.p.overlap_thresh, limit, ids, center)
    order, found = _marked_first(c, kept, limit)
    if c.p.in_format != c.p.out_format:
        changed = _reformatted(c, boxes, not center)
        parts = [(0, start), (start + 4, width)]
        before, behind = ([_columns(c, rows, *part)] if part[0] < part[1] else [] for part in parts)
        rows = c.op("Concat", *before, changed, *behind, axis=2)
    out = _or_minus_one(c, found, _rows_at(c, rows, order))
    if limit < size:
        pads = c.g.const([0, 0, 0, 0, size - limit, 0])
        out = c.op("Pad", out, pads, c.const(-1), mode="constant")
    return out if c.ndim == 3 else c.g.reshape(out, c.out_shapes[0])


def _moved(
    c: Call, middle: str, size: str, offsets: str, factors: list[Any], most: float = 0
) -> str:
    """Return the boxes that offsets from anchors describe, as corners.

    A positive ``most`` limits the logarithm of the growth of sides.
    """
    parts = zip(_halves(c, offsets), factors)
    at, logarithm = (c.op("Mul", part, c.const(factor)) for part, factor in parts)
    if most > 0:
        logarithm = c.op("Min", logarithm, c.const(most))
    center = c.op("Add", c.op("Mul", at, size), middle)
    half = c.op("Mul", c.op("Mul", c.op("Exp", logarithm), size), c.const(0.5))
    return c.op("Concat", *_corners(c, center, half), axis=2)


@converter("_contrib_MultiBoxDetection")
def _multi_box_detection(c: Call) -> str:
    size, classes = c.extent(2, 1), c.extent(0, 1)
    if classes < 2:
        raise c.refuse("the number of classes must be at least 2, background included, got 1")
    probabilities = c.g.slice(c.x[0], [1], [1], [classes])
    scores = c.g.reduce("ReduceMax", probabilities, [1], False)
    ids = c.g.cast(c.op("ArgMax", probabilities, axis=1, keepdims=0), "int64", c.dtype)
    detected = c.op("GreaterOrEqual", scores, c.const(c.p.threshold))
    offsets = c.op("Reshape", c.x[1], c.g.const([-1, size, 4]))
    low, high = _halves(c, c.x[2])
    length = c.op("Sub", high, low)
    middle = c.op("Div", c.op("Add", low, high), c.const(2))
    factors = [c.p.variances[i : i + 2] for i in (0, 2)]
    boxes = _moved(c, middle, length, offsets, factors)
    if c.p.clip:
        boxes = c.op("Clip", boxes, c.const(0), c.const(1))
    rows = c.op("Concat", c.g.unsqueeze(ids, -1), c.g.unsqueeze(scores, -1), boxes, axis=2)
    order, found = _marked_first(c, detected, size)
    unsorted = _or_minus_one(c, found, _rows_at(c, rows, order))
    if not 0 < c.p.nms_threshold <= 1:
        return unsorted
    limit = size if c.p.nms_topk <= 0 else min(c.p.nms_topk, size)
    scores, order = _best(c, _masked(c, detected, scores), limit)
    rows = _rows_at(c, rows, order)
    own = "" if c.p.force_suppress else c.g.cast(_column(c, rows, 0), c.dtype, "int64")
    # mxlite suppresses at overlap >= threshold, ONNX at overlap > threshold.
    threshold = float(np.nextafter(np.float32(c.p.nms_threshold), np.float32(0)))
    kept = _survivors(
        c, _columns(c, rows, 2, 6), scores, threshold, limit, own, num_ids=classes - 1
    )
    is_box = c.op("Greater", scores, c.const(-np.inf))
    best = _or_minus_one(c, is_box, _with_ids(c, rows, kept))
    if limit == size:
        return best
    rest = c.g.slice(unsorted, [1], [limit], [size])
    never = c.const(np.zeros((1, 1)), "bool")
    return c.op("Concat", best, _with_ids(c, rest, never), axis=1)


def _with_ids(c: Call, rows: str, kept: str) -> str:
    """Return rows with the class (element 0) replaced by -1 where ``kept`` is false."""
    ids = _or_minus_one(c, kept, _columns(c, rows, 0, 1))
    return c.op("Concat", ids, _columns(c, rows, 1, 6), axis=2)


def _grid_anchors(c: Call, height: int, width: int) -> np.ndarray:
    """Return Proposal's anchors, with sides of whole pixels: (height * width * kinds, 4)."""
    stride = c.p.feature_stride
    ratio = np.repeat(np.asarray(c.p.ratios, "float32"), len(c.p.scales))
    scale = np.tile(np.asarray(c.p.scales, "float32"), len(c.p.ratios))
    side = np.floor(np.sqrt(np.floor(np.float32(stride * stride) / ratio)) + np.float32(0.5))
    half_width = (side * scale - 1) / 2
    half_height = (np.floor(side * ratio + np.float32(0.5)) * scale - 1) / 2
    middle = (stride - 1) / 2
    base = middle + np.stack([-half_width, -half_height, half_width, half_height], 1)
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    shift = np.stack([x, y, x, y], -1)[:, :, None] * stride
    return (shift + base).reshape(-1, 4).astype("float32")


@converter("_contrib_Proposal", "_contrib_MultiProposal")
def _proposal(c: Call) -> list[str]:
    batch, channels, height, width = c.static(0)
    kinds, size = channels // 2, channels // 2 * height * width
    anchors = _grid_anchors(c, height, width)
    foreground = c.g.slice(c.x[0], [1], [kinds], [channels])
    moved = c.op("Transpose", foreground, perm=[0, 2, 3, 1])
    scores = c.op("Reshape", moved, c.g.const([batch, size]))
    split = c.op("Reshape", c.x[1], c.g.const([batch, kinds, 4, height, width]))
    moved = c.op("Transpose", split, perm=[0, 3, 4, 1, 2])
    offsets = c.op("Reshape", moved, c.g.const([batch, size, 4]))
    if c.p.iou_loss:
        boxes = c.op("Add", c.const(anchors), offsets)
    else:
        # The length of a side is the number of its pixels, first and last included.
        sides = anchors[:, 2:] - anchors[:, :2] + 1
        middles = anchors[:, :2] + 0.5 * (sides - 1)
        at = c.op("Mul", _columns(c, offsets, 0, 2), c.const(sides))
        middle = c.op("Add", at, c.const(middles))
        grown = c.op("Mul", c.op("Exp", _columns(c, offsets, 2, 4)), c.const(sides))
        half = c.op("Mul", c.op("Sub", grown, c.const(1)), c.const(0.5))
        boxes = c.op("Concat", *_corners(c, middle, half), axis=2)
    info = c.g.unsqueeze(c.x[2], 1)
    limits = c.op("Sub", c.op("Gather", info, c.g.const([1, 0, 1, 0]), axis=2), c.const(1))
    boxes = c.op("Max", c.op("Min", boxes, limits), c.const(0))
    least = c.op("Mul", _columns(c, info, 2, 3), c.const(c.p.rpn_min_size))
    last = c.op("Add", _columns(c, boxes, 2, 4), c.const(1))
    sides_found = c.op("Sub", last, _columns(c, boxes, 0, 2))
    shortest = c.g.reduce("ReduceMin", sides_found, [2], True)
    is_small = c.op("Less", shortest, least)
    signs = c.const([-0.5, -0.5, 0.5, 0.5])
    boxes = c.op("Where", is_small, c.op("Add", boxes, c.op("Mul", least, signs)), boxes)
    places = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), -1)
    places = np.repeat(places.reshape(-1, 2), kinds, 0)
    sizes = c.op("Floor", c.op("Div", _columns(c, info, 0, 2), c.const(c.p.feature_stride)))
    beyond = c.op("GreaterOrEqual", c.const(places), sizes)
    outside = c.g.reduce("ReduceMax", c.g.cast(beyond, "bool", c.dtype), [2], False)
    is_out = c.op("Or", c.g.squeeze(is_small, 2), c.g.cast(outside, c.dtype, "bool"))
    scores = c.op("Where", is_out, c.const(-1), scores)
    limit = size if c.p.rpn_pre_nms_top_n < 1 else min(c.p.rpn_pre_nms_top_n, size)
    scores, order = _best(c, scores, limit)
    boxes = _rows_at(c, boxes, order)
    wanted = c.p.rpn_post_nms_top_n
    ends = c.op("Add", boxes, c.const([0, 0, 1, 1]))
    kept = _survivors(c, ends, scores, c.p.threshold, wanted)
    order, found = _marked_first(c, kept, limit)
    count = c.g.reduce("ReduceSum", c.g.cast(found, "bool", "int64"), [1], True)
    # Regions are repeated if there are fewer than wanted.
    turns = c.op("Mod", c.g.const(np.arange(wanted)), count)
    order = c.op("GatherElements", order, turns, axis=1)
    image = np.repeat(np.arange(batch), wanted).reshape(batch, wanted, 1)
    regions = c.op("Concat", c.const(image), _rows_at(c, boxes, order), axis=2)
    best = c.op("GatherElements", scores, order, axis=1)
    return [c.op("Reshape", regions, c.g.const([-1, 5])), c.op("Reshape", best, c.g.const([-1, 1]))]


@converter("_contrib_box_decode")
def _box_decode(c: Call) -> str:
    first, second = _halves(c, c.x[1])
    if c.p.format == "center":
        middle, size = first, second
    else:
        size = c.op("Sub", second, first)
        middle = c.op("Add", first, c.op("Mul", size, c.const(0.5)))
    factors = [(c.p.std0, c.p.std1), (c.p.std2, c.p.std3)]
    return _moved(c, middle, size, c.x[0], factors, c.p.clip)


@converter("_contrib_box_iou")
def _box_iou(c: Call) -> str:
    corners, areas = [], []
    for value, shape in zip(c.x, ([-1, 1, 4], [1, -1, 4])):
        boxes = c.op("Reshape", value, c.g.const(shape))
        first, second = _halves(c, boxes)
        if c.p.format == "center":
            sides = second
            first, second = _corners(c, first, c.op("Div", second, c.const(2)))
        else:
            sides = c.op("Sub", second, first)
        sides = c.op("Max", sides, c.const(0))
        areas.append(c.g.reduce("ReduceProd", sides, [2], False))
        corners.append((first, second))
    (low, high), (other_low, other_high) = corners
    length = c.op("Sub", c.op("Min", high, other_high), c.op("Max", low, other_low))
    common = c.g.reduce("ReduceProd", c.op("Max", length, c.const(0)), [2], False)
    union = c.op("Sub", c.op("Add", *areas), common)
    ratio = c.op("Where", c.op("Greater", common, c.const(0)), c.op("Div", common, union), common)
    return c.g.reshape(ratio, c.out_shapes[0])


def _regions(c: Call) -> tuple[str, str, str]:
    """Return image indices (at least 0), corners, and a mask of regions without an image."""
    rois = c.cast(1, c.dtype)
    images = c.g.slice(rois, [1], [0], [1])
    without = c.g.unsqueeze(c.op("Less", images, c.const(0)), 2, 3)
    return c.op("Max", images, c.const(0)), c.g.slice(rois, [1], [1], [5]), without


@converter("ROIPooling")
def _roi_pooling(c: Call) -> str:
    images, corners, without = _regions(c)
    out = c.op(
        "MaxRoiPool", c.x[0], c.op("Concat", images, corners, axis=1),
        pooled_shape=c.p.pooled_size, spatial_scale=c.p.spatial_scale,
    )  # fmt: skip
    return c.op("Where", without, c.const(0), out)


@converter("_contrib_ROIAlign")
def _roi_align(c: Call) -> str:
    if c.p.position_sensitive:
        raise c.refuse("position_sensitive True has no equivalent")
    if c.p.aligned and c.g.opset < 16:
        raise c.refuse("aligned True has no equivalent before opset 16")
    images, corners, without = _regions(c)
    mode = "half_pixel" if c.p.aligned else "output_half_pixel"
    out = c.op(
        "RoiAlign", c.x[0], corners, c.g.squeeze(c.g.cast(images, c.dtype, "int64"), 1),
        output_height=c.p.pooled_size[0],
        output_width=c.p.pooled_size[1],
        spatial_scale=c.p.spatial_scale,
        sampling_ratio=max(c.p.sample_ratio, 0),
        coordinate_transformation_mode=mode if c.g.opset >= 16 else None,
    )  # fmt: skip
    return c.op("Where", without, c.const(0), out)
