"""Train a network on MNIST. MXNet 1.x: ``train_mnist.py``.

    python train_mnist.py --network lenet --data-dir data      # the four idx files, packed or not
    python train_mnist.py --data digits                        # scikit-learn's digits

The images are read into memory.
"""

from __future__ import annotations

import argparse
import logging
import os
from typing import Any

import mxlite as mx
import numpy as np
from common import fit
from common.datasets import enlarge, load_digits
from symbols import get_symbol


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train on MNIST.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-classes", type=int, default=10, help="number of classes")
    parser.add_argument("--num-examples", type=int, default=60000, help="images in an epoch")
    parser.add_argument(
        "--add_stn", action="store_true", help="a spatial transformer in front of lenet"
    )
    parser.add_argument("--image_shape", default="1, 28, 28", help="shape of the images")
    parser.add_argument("--data", choices=["mnist", "digits"], default="mnist")
    parser.add_argument("--data-dir", default="data", help="folder of the idx files")
    fit.add_fit_args(parser)
    parser.set_defaults(
        network="mlp",
        gpus=None,
        batch_size=64,
        disp_batches=100,
        num_epochs=20,
        lr=0.05,
        lr_step_epochs="10",
    )
    return parser


def read_images(args: argparse.Namespace) -> Any:
    """Return training images, labels, validation images, labels; uint8 (n, 28, 28)."""
    if args.data == "digits":
        train, train_label, val, val_label = load_digits()
        return enlarge(train, 28), train_label, enlarge(val, 28), val_label
    parts = []
    for train in (True, False):
        images = mx.gluon.data.vision.MNIST(os.path.abspath(args.data_dir), train=train)
        parts += [images._data.asnumpy()[..., 0], np.asarray(images._label)]
    return parts


def get_mnist_iter(args: argparse.Namespace, kv: Any) -> tuple:
    """Return iterators over pixels in [0, 1], (batch, 1, 28, 28), and labels."""
    train, train_label, val, val_label = read_images(args)
    train, val = (images[:, None].astype(np.float32) / 255 for images in (train, val))
    return (
        mx.io.NDArrayIter(train, train_label, args.batch_size, shuffle=True),
        mx.io.NDArrayIter(val, val_label, args.batch_size),
    )


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    parser = make_parser()
    if parser.parse_args().data == "digits":
        parser.set_defaults(num_examples=1437, disp_batches=10)
    args = parser.parse_args()
    fit.fit(args, get_symbol(**vars(args)), get_mnist_iter)


if __name__ == "__main__":
    main()
