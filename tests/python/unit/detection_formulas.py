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


def nms_rows(
    rows: np.ndarray,
    overlap_thresh: float,
    valid_thresh: float,
    topk: int,
    columns: tuple[int, int, int],  # coord_start, score_index, id_index
    background_id: int,
    force_suppress: bool,
    fmt: str,
) -> list[int]:
    """Return which rows of one image are kept, best first."""
    start, score, class_id = columns
    valid = [
        i
        for i, row in enumerate(rows)
        if row[score] > valid_thresh and not (class_id >= 0 and row[class_id] == background_id)
    ]
    valid.sort(key=lambda i: -rows[i, score])
    kept: list[int] = []
    for i in valid[: topk if topk >= 0 else None]:
        for j in kept:
            same = (
                class_id < 0 or force_suppress or int(rows[i, class_id]) == int(rows[j, class_id])
            )
            common, union = overlap(rows[j, start : start + 4], rows[i, start : start + 4], fmt)
            if same and common > 0 and common / union > overlap_thresh:
                break
        else:
            kept.append(i)
    return kept


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
    """Return the kept rows of every image, then rows of -1."""
    images = data.reshape(-1, *data.shape[-2:])
    result = np.full(images.shape, -1.0)
    columns = (coord_start, score_index, id_index)
    box = slice(coord_start, coord_start + 4)
    for image, out in zip(images, result):
        kept = nms_rows(
            image,
            overlap_thresh,
            valid_thresh,
            topk,
            columns,
            background_id,
            force_suppress,
            in_format,
        )
        out[: len(kept)] = image[kept]
        if in_format != out_format:
            for row in out:
                row[box] = convert(row[box], out_format)
    return result.reshape(data.shape)
