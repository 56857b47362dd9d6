"""NumPy formulas of the detection operators, written from their definition, box by box."""

from __future__ import annotations

import numpy as np


def corners(box: np.ndarray, fmt: str) -> np.ndarray:
    """Return (xmin, ymin, xmax, ymax) of a box in the format corner or center."""
    if fmt == "corner":
        return box
    x, y, w, h = box
    return np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2])


def area(box: np.ndarray, fmt: str) -> float:
    """Return width times height, 0 for a box that is inside out."""
    w, h = (box[2] - box[0], box[3] - box[1]) if fmt == "corner" else (box[2], box[3])
    return 0.0 if w < 0 or h < 0 else w * h


def overlap(a: np.ndarray, b: np.ndarray, fmt: str) -> tuple[float, float]:
    """Return the areas of the intersection and of the union of two boxes."""
    p, q = corners(a, fmt), corners(b, fmt)
    sides = np.minimum(p[2:], q[2:]) - np.maximum(p[:2], q[:2])
    common = float(np.prod(np.where(sides > 0, sides, 0)))
    return common, area(a, fmt) + area(b, fmt) - common


def box_iou(lhs: np.ndarray, rhs: np.ndarray, fmt: str = "corner") -> np.ndarray:
    """Return the intersection over union of every pair of boxes."""
    result = []
    for a in lhs.reshape(-1, 4):
        for b in rhs.reshape(-1, 4):
            common, union = overlap(a, b, fmt)
            result.append(common / union if common > 0 else 0.0)
    return np.reshape(result, lhs.shape[:-1] + rhs.shape[:-1])


def box_encode(
    samples: np.ndarray,
    matches: np.ndarray,
    anchors: np.ndarray,
    refs: np.ndarray,
    means: np.ndarray,
    stds: np.ndarray,
) -> list[np.ndarray]:
    """Return the regression targets of positive anchors and their mask."""
    targets, masks = np.zeros(anchors.shape), np.zeros(anchors.shape)
    for b, n in zip(*np.nonzero(samples > 0.5)):
        ref, anchor = refs[b, int(matches[b, n])], anchors[b, n]
        ref_size, size = ref[2:] - ref[:2], anchor[2:] - anchor[:2]
        offset = (ref[:2] + ref_size / 2 - anchor[:2] - size / 2) / size
        targets[b, n] = (np.concatenate([offset, np.log(ref_size / size)]) - means) / stds
        masks[b, n] = 1
    return [targets, masks]


def box_decode(
    data: np.ndarray,
    anchors: np.ndarray,
    std: tuple[float, ...] = (1, 1, 1, 1),
    clip: float = -1,
    fmt: str = "center",
) -> np.ndarray:
    """Return boxes in corner format from offsets to anchors."""
    if fmt == "corner":
        size = anchors[..., 2:] - anchors[..., :2]
        middle = anchors[..., :2] + size / 2
    else:
        middle, size = anchors[..., :2], anchors[..., 2:]
    scaled = data * np.array(std)
    middle = scaled[..., :2] * size + middle
    logs = np.minimum(scaled[..., 2:], clip) if clip > 0 else scaled[..., 2:]
    half = np.exp(logs) * size / 2
    return np.concatenate([middle - half, middle + half], -1)


def convert(box: np.ndarray, fmt: str) -> np.ndarray:
    """Return a box in the other format `fmt`; one with a negative left edge stays as it is."""
    if box[0] < 0:
        return box
    if fmt == "corner":
        return corners(box, "center")
    return np.concatenate([(box[:2] + box[2:]) / 2, box[2:] - box[:2]])


def box_nms(
    data: np.ndarray,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool = False,
    in_format: str = "corner",
    out_format: str = "corner",
) -> np.ndarray:
    """Return the kept rows of every image, best first, then rows of -1."""
    images = data.reshape(-1, *data.shape[-2:])
    result = np.full(images.shape, -1.0)
    box = slice(coord_start, coord_start + 4)

    def suppresses(kept: np.ndarray, row: np.ndarray) -> bool:
        common, union = overlap(kept[box], row[box], in_format)
        same = id_index < 0 or force_suppress or int(kept[id_index]) == int(row[id_index])
        return bool(same and common > 0 and common / union > overlap_thresh)

    for image, out in zip(images, result):
        rows = [row for row in image if row[score_index] > valid_thresh]
        rows = [row for row in rows if id_index < 0 or row[id_index] != background_id]
        rows.sort(key=lambda row: -row[score_index])
        kept: list[np.ndarray] = []
        for row in rows[: topk if topk >= 0 else None]:
            if not any(suppresses(other, row) for other in kept):
                kept.append(row)
        out[: len(kept)] = np.reshape(kept, (-1, image.shape[1]))
        if in_format != out_format:
            for row in out:
                row[box] = convert(row[box], out_format)
    return result.reshape(data.shape)


def multibox_prior(
    height: int,
    width: int,
    sizes: tuple[float, ...] = (1,),
    ratios: tuple[float, ...] = (1,),
    clip: bool = False,
    steps: tuple[float, float] = (-1, -1),
    offsets: tuple[float, float] = (0.5, 0.5),
) -> np.ndarray:
    """Return the anchors of a feature map."""
    step_y, step_x = steps if min(steps) > 0 else (1 / height, 1 / width)
    kinds = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    result = []
    for row in range(height):
        for column in range(width):
            middle = np.array([(column + offsets[1]) * step_x, (row + offsets[0]) * step_y])
            for size, ratio in kinds:
                half = np.array([size * height / width * ratio**0.5, size / ratio**0.5]) / 2
                result.append(np.concatenate([middle - half, middle + half]))
    anchors = np.array(result)[None]
    return np.clip(anchors, 0, 1) if clip else anchors


def match_anchors(overlaps: np.ndarray, threshold: float) -> np.ndarray:
    """Return the label of each anchor, -1 without one; overlaps is (anchors, labels)."""
    match = np.full(len(overlaps), -1)
    left = overlaps.copy()
    while left.size and left.max() > 1e-6:  # pairs of most overlap, one after the other
        anchor, label = np.unravel_index(left.argmax(), left.shape)
        match[anchor] = label
        left[anchor], left[:, label] = -1, -1
    if threshold > 0:
        near = (match < 0) & (overlaps.max(1) > threshold)
        match[near] = overlaps.argmax(1)[near]
    return match


def multibox_target(
    anchor: np.ndarray,
    label: np.ndarray,
    cls_pred: np.ndarray,
    overlap_threshold: float = 0.5,
    ignore_label: float = -1,
    negative_mining_ratio: float = -1,
    negative_mining_thresh: float = 0.5,
    minimum_negative_samples: int = 0,
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2),
) -> list[np.ndarray]:
    """Return location targets, their mask and class targets."""
    images, count = len(label), anchor.shape[1]
    location, mask = np.zeros((images, count, 4)), np.zeros((images, count, 4))
    classes = np.full((images, count), float(ignore_label))
    for b in range(images):
        ends = np.nonzero(label[b, :, 0] == -1)[0]
        labels = label[b, : ends[0] if len(ends) else None]
        if not len(labels):
            continue
        overlaps = box_iou(anchor[0], labels[:, 1:5])
        match = match_anchors(overlaps, overlap_threshold)
        positive = match >= 0
        negative = np.nonzero(~positive)[0]
        if negative_mining_ratio > 0:
            wanted = max(int(positive.sum() * negative_mining_ratio), minimum_negative_samples)
            exps = np.exp(cls_pred[b] - cls_pred[b].max(0))
            background = exps[0] / exps.sum(0)
            far = negative[overlaps.max(1)[negative] < negative_mining_thresh]
            negative = far[np.argsort(background[far], kind="stable")][:wanted]
        classes[b, negative] = 0
        classes[b, positive] = labels[match[positive], 0] + 1
        mask[b, positive] = 1
        boxes, scales = labels[None, :, 1:5], np.array(variances)
        samples = positive[None].astype(float)
        location[b] = box_encode(samples, match[None], anchor, boxes, np.zeros(4), scales)[0]
    return [location.reshape(images, -1), mask.reshape(images, -1), classes]


def multibox_detection(
    cls_prob: np.ndarray,
    loc_pred: np.ndarray,
    anchor: np.ndarray,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> np.ndarray:
    """Return (class, probability, box) rows; suppressed ones keep their place with class -1."""
    images, _, count = cls_prob.shape
    offsets = loc_pred.reshape(images, count, 4)
    boxes = box_decode(offsets, anchor, variances, fmt="corner")
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    result = np.full((images, count, 6), -1.0)
    for b in range(images):
        objects = np.concatenate([np.full((1, count), -1.0), cls_prob[b, 1:]])
        best, score = objects.argmax(0) - 1, objects.max(0)
        found = np.nonzero(score >= threshold)[0]
        rows = np.concatenate([best[found, None], score[found, None], boxes[b, found]], 1)
        if 0 < nms_threshold <= 1:
            order = np.argsort(-rows[:, 1], kind="stable")
            compared = min(nms_topk, len(rows)) if nms_topk > 0 else len(rows)
            rest = rows[compared:].copy()  # boxes that are not compared lose their class only
            rest[:, 0] = -1
            rows = np.concatenate([rows[order[:compared]], rest])
            for i in range(compared):
                for j in range(i):
                    common, union = overlap(rows[i, 2:], rows[j, 2:], "corner")
                    rivals = rows[j, 0] >= 0 and (force_suppress or rows[i, 0] == rows[j, 0])
                    if rivals and union > 0 and common / union >= nms_threshold:
                        rows[i, 0] = -1
                        break
        result[b, : len(rows)] = rows
    return result


def bipartite_matching(
    scores: np.ndarray, threshold: float, is_ascend: bool = False, topk: int = -1
) -> list[np.ndarray]:
    """Return the column of each row and the row of each column."""
    matrices = scores.reshape(-1, *scores.shape[-2:])
    rows, columns = np.full(matrices.shape[:2], -1.0), np.full(matrices.shape[::2], -1.0)
    for matrix, row_match, column_match in zip(matrices, rows, columns):
        flat = matrix.ravel() if is_ascend else -matrix.ravel()
        matched = 0
        for place in np.argsort(flat, kind="stable"):
            r, c = np.unravel_index(place, matrix.shape)
            good = matrix[r, c] < threshold if is_ascend else matrix[r, c] > threshold
            if good and row_match[r] < 0 and column_match[c] < 0 and not 0 < topk < matched:
                row_match[r], column_match[c] = c, r
                matched += 1
    lead = scores.shape[:-2]
    return [rows.reshape(*lead, -1), columns.reshape(*lead, -1)]


def rpn_anchors(stride: int, scales: tuple[float, ...], ratios: tuple[float, ...]) -> np.ndarray:
    """Return the anchors at the first position, ratios first."""
    result = []
    for ratio in ratios:
        width = np.floor(np.sqrt(np.floor(stride * stride / ratio)) + 0.5)
        size = np.array([width, np.floor(width * ratio + 0.5)])
        for scale in scales:
            half = (size * scale - 1) / 2
            result.append(np.concatenate([(stride - 1) / 2 - half, (stride - 1) / 2 + half]))
    return np.array(result)


def predicted_boxes(anchors: np.ndarray, offsets: np.ndarray, iou_loss: bool) -> np.ndarray:
    """Return boxes from (n, 4) anchors and offsets, in whole pixels."""
    if iou_loss:
        return anchors + offsets
    size = anchors[:, 2:] - anchors[:, :2] + 1
    middle = anchors[:, :2] + (size - 1) / 2 + offsets[:, :2] * size
    half = (np.exp(offsets[:, 2:]) * size - 1) / 2
    return np.concatenate([middle - half, middle + half], 1)


def keep_regions(boxes: np.ndarray, threshold: float, limit: int) -> list[int]:
    """Return which boxes, best first, overlap none before them by more than threshold."""
    areas = np.prod(boxes[:, 2:] - boxes[:, :2] + 1, 1)
    kept: list[int] = []
    for i, box in enumerate(boxes):
        low = np.maximum(boxes[kept, :2], box[:2])
        sides = np.maximum(np.minimum(boxes[kept, 2:], box[2:]) - low + 1, 0)
        common = np.prod(sides, 1)
        if len(kept) < limit and not np.any(common / (areas[kept] + areas[i] - common) > threshold):
            kept.append(i)
    return kept


def multi_proposal(
    cls_prob: np.ndarray,
    bbox_pred: np.ndarray,
    im_info: np.ndarray,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: tuple[float, ...] = (4, 8, 16, 32),
    ratios: tuple[float, ...] = (0.5, 1, 2),
    feature_stride: int = 16,
    output_score: bool = False,
    iou_loss: bool = False,
) -> list[np.ndarray]:
    """Return regions (image, box) and their scores."""
    images, _, height, width = cls_prob.shape
    base = rpn_anchors(feature_stride, scales, ratios)
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 1, 2)
    anchors = (base + np.tile(grid, 2) * feature_stride).reshape(-1, 4)
    regions, region_scores = [], []
    for b in range(images):
        offsets = bbox_pred[b].reshape(len(base), 4, -1).transpose(2, 0, 1).reshape(-1, 4)
        boxes = predicted_boxes(anchors, offsets, iou_loss)
        limits = np.array([im_info[b, 1], im_info[b, 0]] * 2) - 1
        boxes = np.maximum(np.minimum(boxes, limits), 0)
        scores = cls_prob[b, len(base) :].transpose(1, 2, 0).copy()
        scores[int(im_info[b, 0] // feature_stride) :] = -1
        scores[:, int(im_info[b, 1] // feature_stride) :] = -1
        scores = scores.ravel()
        least = rpn_min_size * im_info[b, 2]
        small = np.any(boxes[:, 2:] - boxes[:, :2] + 1 < least, 1)
        boxes[small] += np.array([-1, -1, 1, 1]) * least / 2
        scores[small] = -1
        compared = rpn_pre_nms_top_n if rpn_pre_nms_top_n > 0 else len(scores)
        order = np.argsort(-scores, kind="stable")[:compared]
        kept = order[keep_regions(boxes[order], threshold, rpn_post_nms_top_n)]
        chosen = kept[np.arange(rpn_post_nms_top_n) % len(kept)]
        ids = np.full((rpn_post_nms_top_n, 1), float(b))
        regions.append(np.concatenate([ids, boxes[chosen]], 1))
        region_scores.append(scores[chosen, None])
    return [np.concatenate(regions), np.concatenate(region_scores)][: 2 if output_score else 1]
