"""Batches of images with boxes from record files, decoded by the core's threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .image_record import _DEFAULTS, _OPTIONS, ImageRecordIter
from .options import documented

# Options that are passed to the core by name, which declares and checks them. Options of samplers
# are lists with an entry per sampler; the last entry of a shorter list is used for the others.
_BOX_OPTIONS: dict[str, tuple[Any, str]] = _core.ImagePipeline.box_options()
_SAMPLER_OPTIONS: dict[str, tuple[Any, str]] = _core.ImagePipeline.sampler_options()
_BOXES = {name: default for name, (default, _) in _BOX_OPTIONS.items()}
_SAMPLER = {name: default for name, (default, _) in _SAMPLER_OPTIONS.items()}
# Parameters shared with ImageRecordIter; the class below changes some defaults.
_SHARED = (
    "path_imgrec path_imgidx path_imglist data_shape preprocess_threads verbose num_parts "
    "part_index device_id shuffle_chunk_size shuffle_chunk_seed seed_aug shuffle seed batch_size "
    "round_batch prefetch_buffer ctx dtype data_name label_name mean_img on_error on_error_limit "
    "mean_r mean_g mean_b mean_a scale resize inter_method apply_exif_orientation"
).split()


_TEXTS = {
    name: text
    for options in (_OPTIONS, _BOX_OPTIONS, _SAMPLER_OPTIONS)
    for name, (_, text) in options.items()
}


@documented(_TEXTS)
class ImageDetRecordIter(ImageRecordIter):
    """Iterator over batches of images and their boxes from a record file.

    A record's label is ``header width, object width, ..., objects``, an object ``class, left, top,
    right, bottom, ...`` with positions as shares of the sides. A row of the batch's label
    is ``channels, height, width, length``, the label after augmentation, and padding.

    Parameters are given by keyword; a warning names those that the iterator does not have. Those
    that begin with ``min_crop_`` and ``max_crop_`` are lists with an entry for each crop sampler,
    or one number for all samplers.

    Parameters
    ----------
    path_imgrec, path_imgidx, path_imglist, data_shape, batch_size, seed_aug, shuffle_chunk_size
        As in `ImageRecordIter`, which also describes mean_r, mean_g, mean_b, mean_a, std_r, std_g,
        std_b, std_a, mean_img, dtype, data_name, label_name, verbose, on_error, ctx and device_id.
    num_crop_sampler : int
        Number of crop samplers; 0: no random crops.
    aug_seq : str
        Must be the default.
    {options}

    Raises
    ------
    ShapeError
        If a label is longer than label_pad_width.
    RecordError
        If a label does not have this form.
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
        for c in "rgba":  # as in 1.x, 0 means no division in this iterator
            given[f"std_{c}"] = float(given[f"std_{c}"]) or 1.0
        # ImageRecordIter has options of the same names (max_random_contrast), which it would read.
        boxes = {name: given.pop(name) for name in _BOXES}
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
