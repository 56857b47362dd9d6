"""Options of images and their augmentation, and the iterators made from them."""

from __future__ import annotations

import argparse
from typing import Any

import mxlite as mx
import numpy as np

# Each entry has the flag, its type, default and meaning. Switches are 0 or 1.
_DATA = [
    ("--data-train", str, None, "record file to train from"),
    ("--data-train-idx", str, "", "its index; without one, records are found by reading it once"),
    ("--data-val", str, None, "record file to validate on after each epoch"),
    ("--data-val-idx", str, "", "its index"),
    ("--rgb-mean", str, "123.68,116.779,103.939", "subtracted from red, green and blue"),
    ("--rgb-std", str, "1,1,1", "red, green and blue are divided by it"),
    ("--pad-size", int, 0, "pixels added at each side before cropping"),
    ("--fill-value", int, 127, "value of pixels that are added"),
    ("--image-shape", str, None, "channels,height,width that the network gets: 3,224,224"),
    ("--num-classes", int, None, "number of classes"),
    ("--num-examples", int, None, "number of images in an epoch"),
    ("--data-nthreads", int, 4, "threads that decode"),
    ("--benchmark", int, 0, "1: one random batch again and again, no files"),
]
_AUGMENTATION = [
    ("--random-crop", int, 0, "crop at a random place instead of the center"),
    ("--random-mirror", int, 0, "mirror half of the images"),
    ("--max-random-h", int, 0, "largest change of hue, up to 180"),
    ("--max-random-s", int, 0, "largest change of saturation, up to 255"),
    ("--max-random-l", int, 0, "largest change of lightness, up to 255"),
    ("--min-random-aspect-ratio", float, None, "least aspect ratio; None: 1 minus the largest"),
    (
        "--max-random-aspect-ratio",
        float,
        0,
        "largest aspect ratio; without a least one, the largest deviation from 1",
    ),
    ("--max-random-rotate-angle", int, 0, "largest angle in degrees, up to 360"),
    ("--max-random-shear-ratio", float, 0, "largest shear, up to 1"),
    ("--max-random-scale", float, 1, "largest scale"),
    ("--min-random-scale", float, 1, "least scale; images must stay as large as the crop"),
    ("--max-random-area", float, 1, "largest share of the image in a random resized crop"),
    ("--min-random-area", float, 1, "least share of the image in a random resized crop"),
    ("--min-crop-size", int, -1, "least side of a random square that is cropped"),
    ("--max-crop-size", int, -1, "largest side of a random square that is cropped"),
    ("--brightness", float, 0, "jitter of brightness, up to 1"),
    ("--contrast", float, 0, "jitter of contrast, up to 1"),
    ("--saturation", float, 0, "jitter of saturation, up to 1"),
    ("--pca-noise", float, 0, "noise along the principal colors, up to 1"),
    ("--random-resized-crop", int, 0, "crop a random share of the image and resize it"),
]


def _add(parser: Any, title: str, rows: Any) -> Any:
    group = parser.add_argument_group(title)
    for flag, kind, default, meaning in rows:
        group.add_argument(flag, type=kind, default=default, help=meaning)
    return group


def add_data_args(parser: argparse.ArgumentParser) -> Any:
    """Add the options that say where images are and how many."""
    return _add(parser, "images", _DATA)


def add_data_aug_args(parser: argparse.ArgumentParser) -> Any:
    """Add the options of augmentation."""
    return _add(parser, "augmentation of training images", _AUGMENTATION)


class SyntheticDataIter(mx.io.DataIter):
    """Repeats one random batch.

    Parameters
    ----------
    num_classes : int
    data_shape : tuple of int
        Shape of a batch, which begins with the batch size.
    max_iter : float
        Batches of an epoch, rounded down.
    dtype : str or type
    """

    def __init__(self, num_classes: int, data_shape: Any, max_iter: float, dtype: Any) -> None:
        super().__init__(data_shape[0])
        self.max_iter = int(max_iter)
        self.count = 0
        data = mx.nd.array(np.random.uniform(-1, 1, data_shape), dtype=dtype)
        label = mx.nd.array(np.random.randint(0, num_classes, self.batch_size), dtype=dtype)
        self.provide_data = [mx.io.DataDesc("data", data.shape, dtype)]
        self.provide_label = [mx.io.DataDesc("softmax_label", label.shape, dtype)]
        self.batch = mx.io.DataBatch(
            data=[data],
            label=[label],
            pad=0,
            index=None,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )

    def next(self) -> Any:
        """Return the batch, or end the epoch."""
        if self.count == self.max_iter:
            raise StopIteration
        self.count += 1
        return self.batch

    def reset(self) -> None:
        """Begin an epoch."""
        self.count = 0


def get_rec_iter(args: argparse.Namespace, kv: Any = None) -> tuple:
    """Return the iterators over training and validation images.

    Parameters
    ----------
    args : argparse.Namespace
        Values of this module's options.
    kv : KVStore, optional
        Each worker gets its part of the records.

    Returns
    -------
    (DataIter, DataIter or None)

    Raises
    ------
    ValueError
        Without ``--data-train`` and without ``--benchmark 1``.
    """
    image_shape = tuple(int(side) for side in args.image_shape.split(","))
    if args.benchmark:
        shape = (args.batch_size, *image_shape)
        batches = args.num_examples / args.batch_size
        return SyntheticDataIter(args.num_classes, shape, batches, np.float32), None
    if not args.data_train:
        raise ValueError("no images: give a record file with --data-train, or --benchmark 1")
    common = {
        "label_width": 1,
        "data_name": "data",
        "label_name": "softmax_label",
        "data_shape": image_shape,
        "batch_size": args.batch_size,
        "preprocess_threads": args.data_nthreads,
        "num_parts": kv.num_workers if kv else 1,
        "part_index": kv.rank if kv else 0,
    }
    for kind, text in (("mean", args.rgb_mean), ("std", args.rgb_std)):
        for channel, value in zip("rgb", text.split(",")):
            common[f"{kind}_{channel}"] = float(value)
    train = mx.io.ImageRecordIter(
        path_imgrec=args.data_train,
        path_imgidx=args.data_train_idx,
        shuffle=True,
        rand_crop=args.random_crop,
        rand_mirror=args.random_mirror,
        pad=args.pad_size,
        fill_value=args.fill_value,
        random_resized_crop=args.random_resized_crop,
        max_random_scale=args.max_random_scale,
        min_random_scale=args.min_random_scale,
        max_aspect_ratio=args.max_random_aspect_ratio,
        min_aspect_ratio=args.min_random_aspect_ratio,
        max_random_area=args.max_random_area,
        min_random_area=args.min_random_area,
        min_crop_size=args.min_crop_size,
        max_crop_size=args.max_crop_size,
        brightness=args.brightness,
        contrast=args.contrast,
        saturation=args.saturation,
        pca_noise=args.pca_noise,
        random_h=args.max_random_h,
        random_s=args.max_random_s,
        random_l=args.max_random_l,
        max_rotate_angle=args.max_random_rotate_angle,
        max_shear_ratio=args.max_random_shear_ratio,
        **common,
    )
    if args.data_val is None:
        return train, None
    val = mx.io.ImageRecordIter(
        path_imgrec=args.data_val,
        path_imgidx=args.data_val_idx,
        rand_crop=False,
        rand_mirror=False,
        **common,
    )
    return train, val
