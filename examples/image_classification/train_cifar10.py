"""Train a network on pictures of 32 x 32 pixels. MXNet 1.x: ``train_cifar10.py``.

    python train_cifar10.py --data-dir data                  # CIFAR-10: record files or archive
    python train_cifar10.py --data digits                    # scikit-learn's digits, in a minute

An archive of CIFAR-10 in the folder is written to record files once.
"""

from __future__ import annotations

import argparse
import logging

from common import data, fit
from common.datasets import cifar10_records, digits_records
from symbols import get_symbol

# Settings for 1,437 small digits: a smaller network, batch and number of epochs.
DIGITS = {
    "num_layers": 8,
    "num_examples": 1437,
    "pad_size": 2,
    "fill_value": 0,
    "random_crop": 1,
    "batch_size": 32,
    "num_epochs": 20,
    "lr_step_epochs": "10,15",
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train on CIFAR-10.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    fit.add_fit_args(parser)
    data.add_data_args(parser)
    data.add_data_aug_args(parser)
    parser.add_argument("--data", choices=["cifar10", "digits"], default="cifar10")
    parser.add_argument("--data-dir", default="data", help="folder of the data set")
    parser.set_defaults(
        network="resnet",
        num_layers=110,
        num_classes=10,
        num_examples=50000,
        image_shape="3,28,28",
        pad_size=4,
        batch_size=128,
        num_epochs=300,
        lr=0.05,
        lr_step_epochs="200,250",
    )
    return parser


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    parser = make_parser()
    first = parser.parse_args()
    if first.data == "digits":
        parser.set_defaults(**DIGITS)
    if not (first.benchmark or first.data_train):
        records = digits_records if first.data == "digits" else cifar10_records
        train, val = records(first.data_dir)
        parser.set_defaults(data_train=train, data_val=val)
    args = parser.parse_args()
    fit.fit(args, get_symbol(**vars(args)), data.get_rec_iter)


if __name__ == "__main__":
    main()
