"""Train a pre-trained network on other classes. MXNet 1.x: ``fine-tune.py``.

    python fine_tune.py --pretrained-model prefix --load-epoch 8 --num-classes 20 \
        --data-train train.rec --data-val val.rec --num-examples 5000

The prefix is that of a checkpoint, or a name of ``common/modelzoo.py``.
"""

from __future__ import annotations

import argparse
import logging
import os
from typing import Any

import mxlite as mx
from common import data, fit, modelzoo
from symbols import get_symbol
from symbols.layers import classifier


def get_fine_tune_model(
    symbol: Any, arg_params: Any, num_classes: int, layer_name: str, dtype: str = "float32"
) -> tuple:
    """Put a new last layer on a network.

    Parameters
    ----------
    symbol : Symbol
        The pre-trained network.
    arg_params : dict of str to NDArray
        Its parameters.
    num_classes : int
        Classes of the new last layer, ``fc``.
    layer_name : str
        Layer before the new one.
    dtype : str
        Type in which the network computes.

    Returns
    -------
    (Symbol, dict)
        The new network; the parameters that stay, those without ``fc`` in their names.

    Raises
    ------
    ValueError
        If there is no such layer.
    """
    layers = symbol.get_internals()
    if f"{layer_name}_output" not in layers.list_outputs():
        near = [name[:-7] for name in layers.list_outputs() if name.endswith("_output")][-6:]
        raise ValueError(
            f"--layer-before-fullc {layer_name}: no such layer; the last ones are {', '.join(near)}"
        )
    network = classifier(layers[f"{layer_name}_output"], num_classes, dtype, "fc")
    return network, {name: value for name, value in arg_params.items() if "fc" not in name}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Fine-tune a network on other images.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    fit.add_fit_args(parser)
    data.add_data_args(parser)
    data.add_data_aug_args(parser)
    parser.add_argument("--pretrained-model", type=str, help="prefix of a checkpoint, or a name")
    parser.add_argument(
        "--layer-before-fullc", type=str, default="flatten0", help="layer before the last dense one"
    )
    parser.set_defaults(
        image_shape="3,224,224", num_epochs=30, lr=0.01, lr_step_epochs="20", wd=0, mom=0
    )
    return parser


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    parser = make_parser()
    args = parser.parse_args()
    if not args.pretrained_model:
        parser.error("--pretrained-model is missing")
    folder = os.path.join(os.path.dirname(os.path.realpath(__file__)), "model")
    prefix, epoch = modelzoo.download_model(args.pretrained_model, folder)
    if prefix is None:
        prefix, epoch = args.pretrained_model, args.load_epoch or 0
    symbol, arg_params, aux_params = mx.model.load_checkpoint(prefix, epoch)
    if args.dtype != "float32":
        # Casts are part of a network's code, so the network is built again, and its parameters are
        # cast.
        if not args.network:
            parser.error(f"--dtype {args.dtype} needs the --network that the model is")
        symbol = get_symbol(**vars(args))
    network, arg_params = get_fine_tune_model(
        symbol, arg_params, args.num_classes, args.layer_before_fullc, args.dtype
    )
    fit.fit(args, network, data.get_rec_iter, arg_params=arg_params, aux_params=aux_params)


if __name__ == "__main__":
    main()
