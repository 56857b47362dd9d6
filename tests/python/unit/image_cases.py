"""Calls on a small picture, run by MXNet 1.9.1 and by mxlite.

``python image_cases.py PICTURE.npy`` with ``mxnet`` installed writes ``image_1_9_1.npz``: the
picture and the result of each call.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("image_1_9_1.npz")

CHANGES = dict.fromkeys(["rand_crop", "rand_mirror", "mean", "std"], True)
CHANGES.update(dict.fromkeys(["brightness", "contrast", "saturation"], 0.2))
CHANGES.update(resize=20, hue=0.1, pca_noise=0.1, rand_gray=0.5)
# Augmenters of pictures with boxes.
AREAS = {"area_range": (0.3, 0.9)}
BOXES = {
    "flipped": lambda image: image.DetHorizontalFlipAug(1.0),
    "cropped": lambda image: image.DetRandomCropAug(),
    "cut": lambda image: image.DetRandomCropAug(0.5, (0.5, 2.0), (0.2, 0.6)),
    "lost": lambda image: image.DetRandomCropAug(0.0, 1.0, (0.1, 0.3), 0.6),
    "padded": lambda image: image.DetRandomPadAug(),
    "far": lambda image: image.DetRandomPadAug(1.0, (2.0, 5.0), 9, (1, 2, 3)),
    "selected": lambda image: image.det.CreateMultiRandCropAugmenter([0.1, 0.5, 0.9], **AREAS),
}
# Each gets the package, the picture (uint8, 26 x 34 x 3) and the picture as float32.
CASES = {
    "resize_short_0": lambda mx, u, f: mx.image.resize_short(u, 20, 0),
    "resize_short_1": lambda mx, u, f: mx.image.resize_short(u, 20, 1),
    "resize_short_2": lambda mx, u, f: mx.image.resize_short(u, 40, 2),
    "imresize_3": lambda mx, u, f: mx.image.imresize(u, 11, 7, 3),
    "imresize_4": lambda mx, u, f: mx.image.imresize(u, 51, 37, 4),
    "imresize_float": lambda mx, u, f: mx.image.imresize(f, 15, 37, 2),
    "center_crop": lambda mx, u, f: mx.image.center_crop(u, (17, 13))[0],
    "center_crop_larger": lambda mx, u, f: mx.image.center_crop(u, (50, 20))[0],
    "random_crop": lambda mx, u, f: mx.image.random_crop(u, (10, 9))[0],
    "random_size_crop": lambda mx, u, f: mx.image.random_size_crop(u, (8, 9), 0.1, (0.7, 1.3))[0],
    "color_normalize": lambda mx, u, f: mx.image.color_normalize(
        f.copy(), mx.nd.array([120, 110, 100]), mx.nd.array([50, 60, 70])
    ),
    "border_0": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, type=0, values=(9, 8, 7)),
    "border_value": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, value=5),
    "border_1": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, type=1),
    "border_2": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, type=2),
    "border_3": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, type=3),
    "border_4": lambda mx, u, f: mx.image.copyMakeBorder(u, 1, 2, 3, 4, type=4),
    "rotate": lambda mx, u, f: mx.image.imrotate(f.transpose((2, 0, 1)), 30),
    "rotate_in": lambda mx, u, f: mx.image.imrotate(f.transpose((2, 0, 1)), -50, zoom_in=True),
    "rotate_out": lambda mx, u, f: mx.image.imrotate(f.transpose((2, 0, 1)), 110, zoom_out=True),
    "rotate_batch": lambda mx, u, f: mx.image.imrotate(
        mx.nd.stack(f, 255 - f).transpose((0, 3, 1, 2)), mx.nd.array([10, -75])
    ),
    "random_rotate": lambda mx, u, f: mx.image.random_rotate(f.transpose((2, 0, 1)), (-40, 40)),
    "brightness": lambda mx, u, f: mx.image.BrightnessJitterAug(0.4)(f.copy()),
    "contrast": lambda mx, u, f: mx.image.ContrastJitterAug(0.4)(f.copy()),
    "saturation": lambda mx, u, f: mx.image.SaturationJitterAug(0.4)(f.copy()),
    "hue": lambda mx, u, f: mx.image.HueJitterAug(0.4)(f.copy()),
    "jitter": lambda mx, u, f: mx.image.ColorJitterAug(0.3, 0.4, 0.5)(f.copy()),
    "gray": lambda mx, u, f: mx.image.RandomGrayAug(1.0)(f.copy()),
    "lighting": lambda mx, u, f: mx.image.LightingAug(0.5, np.array([3.0, 2, 1]), np.eye(3) + 1)(f),
    "pipeline": lambda mx, u, f: apply(mx.image.CreateAugmenter((3, 12, 14), **CHANGES), u),
    "pipeline_resize": lambda mx, u, f: apply(
        mx.image.CreateAugmenter((3, 12, 14), rand_crop=True, rand_resize=True), u
    ),
    "to_tensor": lambda mx, u, f: transforms(mx).ToTensor()(u),
    "to_tensor_batch": lambda mx, u, f: transforms(mx).ToTensor()(mx.nd.stack(u, 255 - u)),
    "normalize": lambda mx, u, f: transforms(mx).Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))(
        transforms(mx).ToTensor()(u)
    ),
    "cast": lambda mx, u, f: transforms(mx).Cast("float16")(u),
    "resize": lambda mx, u, f: transforms(mx).Resize((20, 15))(u),
    "resize_keep": lambda mx, u, f: transforms(mx).Resize(18, keep_ratio=True)(u),
    "resize_square": lambda mx, u, f: transforms(mx).Resize(18)(u),
    "crop_resize": lambda mx, u, f: transforms(mx).CropResize(3, 4, 15, 12, (8, 9), 1)(u),
    "crop_only": lambda mx, u, f: transforms(mx).CropResize(3, 4, 15, 12)(u),
    "center": lambda mx, u, f: transforms(mx).CenterCrop((12, 30))(u),
    "random_resized": lambda mx, u, f: transforms(mx).RandomResizedCrop(16)(u),
    "turned": lambda mx, u, f: transforms(mx).Rotate(25, zoom_in=True)(f.transpose((2, 0, 1))),
    "random_rotation": lambda mx, u, f: transforms(mx).RandomRotation((-60, 60), zoom_out=True)(
        f.transpose((2, 0, 1))
    ),
    "composed": lambda mx, u, f: transforms(mx).Compose(
        [
            transforms(mx).Resize(20, keep_ratio=True),
            transforms(mx).CenterCrop(16),
            transforms(mx).ToTensor(),
            transforms(mx).Normalize(0.5, 0.25),
        ]
    )(u),
}
CASES.update(
    (f"boxes_{name}", lambda mx, u, f, make=make: boxes(mx, make(mx.image), u))
    for name, make in BOXES.items()
)
CASES["boxes_pipeline"] = lambda mx, u, f: boxes(
    mx,
    lambda u, label: apply_both(
        mx.image.CreateDetAugmenter(
            (3, 20, 20), rand_crop=0.9, rand_pad=0.9, rand_mirror=True, mean=True, hue=0.1
        ),
        u,
        label,
    ),
    u,
)


def apply(steps, picture):
    for step in steps:
        picture = step(picture)
    return picture


def apply_both(steps, picture, label):
    for step in steps:
        picture, label = step(picture, label)
    return picture, label


def boxes(mx, augmenter, picture):
    """Return pixels and boxes after each other."""
    label = np.array(
        [[1, 0.1, 0.2, 0.6, 0.7, 0], [2, 0.4, 0.3, 0.9, 0.9, 1], [0, 0, 0, 0.2, 0.3, 2]]
    )
    picture, label = augmenter(picture, label)
    return mx.nd.concat(
        picture.reshape((-1,)).astype("float32"), mx.nd.array(label).reshape((-1,)), dim=0
    )


def transforms(mx):
    return mx.gluon.data.vision.transforms


def result(mx, name, pixels):
    random.seed(len(name))
    np.random.seed(len(name))
    picture = mx.nd.array(pixels, dtype="uint8")
    return CASES[name](mx, picture, picture.astype("float32")).asnumpy()


def main():
    import mxnet

    pixels = np.load(sys.argv[1])
    results = {name: result(mxnet, name, pixels) for name in CASES}
    np.savez_compressed(FILE, picture=pixels, **results)


if __name__ == "__main__":
    main()
