"""Accuracy and speed of a trained network on a record file. MXNet 1.x: ``score.py``.

    python score.py --model prefix,8 --data-val val.rec --rgb-mean 123.68,116.779,103.939

Logs images per second, then accuracy and top-5 accuracy.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from typing import Any

import mxlite as mx
from common import modelzoo


def load_model(name: str) -> tuple:
    """Return symbol and parameters of ``prefix,epoch`` or of a name of common/modelzoo.py."""
    folder = os.path.join(os.path.dirname(os.path.realpath(__file__)), "model")
    prefix, epoch = modelzoo.download_model(name, folder)
    if prefix is None:
        prefix, _, number = name.partition(",")
        epoch = int(number or 0)
    return mx.model.load_checkpoint(prefix, epoch)


def score(
    model: Any,
    data_val: str,
    metrics: Any,
    gpus: str,
    batch_size: int,
    rgb_mean: Any = None,
    mean_img: Any = None,
    image_shape: str = "3,224,224",
    data_nthreads: int = 4,
    label_name: str = "softmax_label",
    max_num_examples: Any = None,
    rgb_std: str = "1,1,1",
) -> tuple:
    """Run a network over a record file.

    Parameters
    ----------
    model : str or (Symbol, dict, dict)
        Argument or result of `load_model`.
    data_val : str
        The record file.
    metrics : EvalMetric or list of EvalMetric
        Updated.
    gpus : str
        Numbers of GPUs, such as ``"0,1"``; ``""`` is the CPU.
    batch_size : int
    rgb_mean, rgb_std : str
        ``"red,green,blue"``.
    mean_img : str, optional
        File of a mean image, which replaces ``rgb_mean``.
    image_shape : str
    data_nthreads : int
        Threads that decode.
    label_name : str
    max_num_examples : int, optional
        Number of samples after which scoring ends, at the end of a batch.

    Returns
    -------
    tuple of float
        Images per second, the only entry.
    """
    normalize = {"mean_img": mean_img} if mean_img is not None else {}
    for kind, text in (("mean", None if normalize else rgb_mean), ("std", rgb_std)):
        for channel, value in zip("rgb", (text or "").split(",")):
            if value:
                normalize[f"{kind}_{channel}"] = float(value)
    images = mx.io.ImageRecordIter(
        path_imgrec=data_val,
        label_width=1,
        preprocess_threads=data_nthreads,
        batch_size=batch_size,
        data_shape=tuple(int(side) for side in image_shape.split(",")),
        label_name=label_name,
        rand_crop=False,
        rand_mirror=False,
        **normalize,
    )
    symbol, arg_params, aux_params = load_model(model) if isinstance(model, str) else model
    devices = [mx.gpu(int(number)) for number in gpus.split(",")] if gpus else mx.cpu()
    module = mx.mod.Module(symbol=symbol, context=devices, label_names=[label_name])
    module.bind(
        for_training=False, data_shapes=images.provide_data, label_shapes=images.provide_label
    )
    module.set_params(arg_params, aux_params)
    count = 0
    begin = time.time()
    for batch in images:
        module.forward(batch, is_train=False)
        # Samples that only fill the last batch do not count.
        real = batch_size - (batch.pad or 0)
        outputs = [output[:real] for output in module.get_outputs()]
        labels = [label[:real] for label in batch.label]
        for metric in metrics if isinstance(metrics, list) else [metrics]:
            metric.update(labels, outputs)
        count += real
        if max_num_examples is not None and count > max_num_examples:
            break
    return (count / (time.time() - begin),)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Score a network on a record file.")
    parser.add_argument("--model", type=str, required=True, help="prefix,epoch or a known name")
    parser.add_argument(
        "--gpus",
        type=str,
        default="0" if mx.context.num_gpus() else "",
        help="GPUs such as 0,2; default: 0, or the CPU where there is none",
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rgb-mean", type=str, default="0,0,0")
    parser.add_argument("--rgb-std", type=str, default="1,1,1")
    parser.add_argument("--data-val", type=str, required=True, help="record file")
    parser.add_argument("--image-shape", type=str, default="3,224,224")
    parser.add_argument("--data-nthreads", type=int, default=4, help="threads that decode")
    return parser


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    args = make_parser().parse_args()
    metrics = [mx.metric.create("acc"), mx.metric.create("top_k_accuracy", top_k=5)]
    (speed,) = score(metrics=metrics, **vars(args))
    logging.info("Finished with %f images per second", speed)
    for metric in metrics:
        logging.info(metric.get())


if __name__ == "__main__":
    main()
