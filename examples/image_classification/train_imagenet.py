"""Train a network on ImageNet's record files. MXNet 1.x: ``train_imagenet.py``.

    python train_imagenet.py --data-train train.rec --data-val val.rec --num-layers 50
    python train_imagenet.py --benchmark 1 --network inception-v3 --image-shape 3,299,299

``--benchmark 1`` trains on one synthetic batch.
"""

from __future__ import annotations

import argparse
import logging

from common import data, fit
from symbols import get_symbol

AUGMENTATION = {
    "rgb_mean": "123.68,116.779,103.939",
    "rgb_std": "58.393,57.12,57.375",
    "random_crop": 0,
    "random_resized_crop": 1,
    "random_mirror": 1,
    "min_random_area": 0.08,
    "max_random_aspect_ratio": 4 / 3,
    "min_random_aspect_ratio": 3 / 4,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "pca_noise": 0.1,
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train on ImageNet-1k.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    fit.add_fit_args(parser)
    data.add_data_args(parser)
    data.add_data_aug_args(parser)
    parser.set_defaults(
        network="resnet",
        num_layers=50,
        num_classes=1000,
        num_examples=1281167,
        image_shape="3,224,224",
        min_random_scale=1,
        num_epochs=80,
        lr_step_epochs="30,60",
        dtype="float32",
    )
    return parser


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    parser = make_parser()
    if parser.parse_args().use_imagenet_data_augmentation:
        # Parses again below, because new defaults have no effect on parsed arguments.
        parser.set_defaults(**AUGMENTATION)
    args = parser.parse_args()
    fit.fit(args, get_symbol(**vars(args)), data.get_rec_iter)


if __name__ == "__main__":
    main()
