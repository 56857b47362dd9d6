"""Networks of MXNet's scoring benchmark: their names there and in the model zoo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxlite as mx
from mxlite.base import ValueError_, suggestion
from mxlite.gluon import nn
from mxlite.gluon.block import HybridBlock
from mxlite.gluon.model_zoo import vision

# Name on MXNet's performance page or in benchmark_score's list of choices: name in the zoo.
# resnet-* are the pre-activation (v2) networks there, vgg the one of 11 layers.
NETWORKS = {
    "alexnet": "alexnet",
    "vgg": "vgg11",
    "vgg-16": "vgg16",
    "resnetv1-50": "resnet50_v1",
    "resnet-50": "resnet50_v2",
    "resnet-152": "resnet152_v2",
    "inception-bn": "inception_bn",
    "inception-v3": "inceptionv3",
    "inception-v4": "inception_v4",
    "inception-resnet-v2": "inception_resnet_v2",
    "mobilenet": "mobilenet1.0",
    "densenet121": "densenet121",
    "squeezenet1.1": "squeezenet1.1",
}
# The six networks of MXNet's performance page.
DEFAULT = ["alexnet", "vgg", "inception-bn", "inception-v3", "resnet-50", "resnet-152"]
_LARGE_IMAGES = ("inceptionv3", "inception_v4")


def zoo_name(network: str) -> str:
    """Return the model zoo's name of a network.

    Parameters
    ----------
    network : str
        A name of :data:`NETWORKS` or of the zoo.

    Returns
    -------
    str
        Name for ``get_model``.

    Raises
    ------
    ValueError
        Unknown network; the message suggests near names.
    """
    if network in NETWORKS:
        return NETWORKS[network]
    if network in vision.MODELS:
        return network
    known = [*NETWORKS, *vision.MODELS]
    raise ValueError_(
        f"benchmark_score: no network {network!r}{suggestion(network, known)} "
        f"Choices: all, {', '.join(NETWORKS)} and every name of gluon.model_zoo.vision"
    )


def image_size(network: str) -> int:
    """Return height and width of the images that a network takes.

    Parameters
    ----------
    network : str
        A name of :data:`NETWORKS` or of the zoo.

    Returns
    -------
    int
        299 for Inception v3 and v4, 224 for all others.
    """
    return 299 if zoo_name(network) in _LARGE_IMAGES else 224


def build(network: str) -> HybridBlock:
    """Return a network with random parameters.

    Parameters
    ----------
    network : str
        A name of :data:`NETWORKS` or of the zoo.

    Returns
    -------
    HybridBlock
        Initialized with Xavier of magnitude 2, shapes not yet known.

    Raises
    ------
    ValueError
        Unknown network.
    """
    net = vision.get_model(zoo_name(network))
    net.initialize(mx.init.Xavier(magnitude=2.0))
    return net


def _walk(block: Any) -> Iterator[Any]:
    yield block
    for child in block._children.values():
        yield from _walk(child)


def describe(network: str, net: HybridBlock) -> dict[str, Any]:
    """Count a network's layers and parameters; its shapes must be known.

    Parameters
    ----------
    network : str
        Name that was asked for.
    net : HybridBlock
        The network, after its first call.

    Returns
    -------
    dict
        ``network``, ``zoo``, ``image``, ``convolutions``, ``dense`` and ``parameters``.
    """
    blocks = list(_walk(net))
    count = 0
    for parameter in net.collect_params().values():
        values = 1
        for length in parameter.shape:
            values *= length
        count += values
    return {
        "network": network,
        "zoo": zoo_name(network),
        "image": image_size(network),
        "convolutions": sum(isinstance(block, nn.Conv2D) for block in blocks),
        "dense": sum(isinstance(block, nn.Dense) for block in blocks),
        "parameters": count,
    }
