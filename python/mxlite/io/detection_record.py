"""Batches of images with boxes from record files, decoded by the core's threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .image_record import _DEFAULTS, ImageRecordIter

__all__ = ["ImageDetRecordIter"]

# Options that the core declares and checks; they are passed to it by name. Those of samplers are
# lists with an entry for each sampler; a shorter list is continued by its last entry.
_BOXES: dict[str, Any] = _core.ImagePipeline.box_defaults()
_SAMPLER: dict[str, Any] = _core.ImagePipeline.sampler_defaults()
# Parameters shared with ImageRecordIter; the class below changes some defaults.
_SHARED = (
    "path_imgrec path_imgidx path_imglist data_shape preprocess_threads verbose num_parts "
    "part_index device_id shuffle_chunk_size shuffle_chunk_seed seed_aug shuffle seed batch_size "
    "round_batch prefetch_buffer ctx dtype data_name label_name mean_img on_error on_error_limit "
    "mean_r mean_g mean_b mean_a scale resize inter_method"
).split()


class ImageDetRecordIter(ImageRecordIter):
    """Iterator over batches of images and their boxes from a record file.

    A record's label is ``header width, object width, ..., objects``, an object ``class, left, top,
    right, bottom, ...`` with places as shares of the sides. A row of the batch's label is
    ``channels, height, width, length``, this label as the augmentation left it, and padding.

    The parameters are those of 1.x, by keyword: those of `ImageRecordIter` for files, parts, order,
    batches, means and deviations, and:

    Parameters
    ----------
    label_width : int
        Width that every label must have; -1: any.
    label_pad_width : int
        Length of labels in a batch; 0: that of the longest in the file.
    label_pad_value : float
    resize : int
        New length of the short side, before all others.
    rand_crop_prob, num_crop_sampler, max_crop_trials, crop_emit_mode, emit_overlap_thresh
        Random crops, by samplers with a list entry each in ``min_`` and ``max_`` of
        ``crop_scales, crop_aspect_ratios, crop_overlaps, crop_sample_coverages,
        crop_object_coverages``. Boxes whose ``'center'`` is outside go, or (``'overlap'``) those of
        which less than the threshold is left.
    rand_pad_prob, max_pad_scale, fill_value
        Random borders.
    max_random_hue, max_random_saturation, max_random_illumination, max_random_contrast
        Ranges of colors, each applied with ``random_..._prob``.
    rand_mirror_prob : float
    resize_mode : {'force', 'shrink', 'fit'}
        Resize to data_shape; only shrink, keeping the ratio; smaller or larger, keeping the ratio.

    Raises
    ------
    ShapeError
        If a label is longer than label_pad_width.
    RecordError
        If a label is none of a detection set.

    Notes
    -----
    Matches ``mxnet.io.ImageDetRecordIter``.
    """

    _aug_seq = "det_aug_default"
    _defaults = {
        **{name: _DEFAULTS[name] for name in _SHARED},
        **{f"std_{c}": 0.0 for c in "rgba"},
        **_BOXES,
        **_SAMPLER,
        "aug_seq": "det_aug_default",
        "label_width": -1,
        "num_crop_sampler": 1,
        "fill_value": 127,
    }

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        for c in "rgba":  # 0 means as it is, in this iterator of 1.x
            given[f"std_{c}"] = float(given[f"std_{c}"]) or 1.0
        boxes = {name: given.pop(name) for name in _BOXES}  # some have names of other options
        options = super()._options(given)
        options.update(detection=True, boxes={**boxes, "samplers": _samplers(given)})
        return options


def _samplers(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the limits of each crop sampler."""
    lists = {
        name: np.atleast_1d(given[name]).tolist() or [default] for name, default in _SAMPLER.items()
    }
    return [
        {name: values[min(i, len(values) - 1)] for name, values in lists.items()}
        for i in range(int(given["num_crop_sampler"]))
    ]
