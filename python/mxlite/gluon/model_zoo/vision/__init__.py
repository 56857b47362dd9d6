"""Networks for images (MXNet 1.x: ``mxnet.gluon.model_zoo.vision``).

The 34 names of MXNet 1.9.1, ``inception_bn``, ``inception_v4`` and ``inception_resnet_v2`` of its
example symbols, and GluonCV's ``resnet*_v1b``. Parameter names are those of 1.9.1 and GluonCV, so
that their ``.params`` files load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ...._names_1x import attributes as _attributes
from ....base import ValueError_, suggestion
from ...block import HybridBlock
from .alexnet import (
    AlexNet,
    alexnet,
)
from .densenet import (
    DenseNet,
    densenet121,
    densenet161,
    densenet169,
    densenet201,
)
from .inception import (
    Inception3,
    inception_v3,
)
from .inception_bn import (
    InceptionBN,
    inception_bn,
)
from .inception_resnet_v2 import (
    InceptionResNetV2,
    inception_resnet_v2,
)
from .inception_v4 import (
    InceptionV4,
    inception_v4,
)
from .mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from .resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v2,
    resnet101_v1,
    resnet101_v2,
    resnet152_v1,
    resnet152_v2,
)
from .resnet_v1b import (
    BasicBlockV1b,
    BottleneckV1b,
    ResNetV1b,
    resnet18_v1b,
    resnet34_v1b,
    resnet50_v1b,
    resnet101_v1b,
    resnet152_v1b,
)
from .squeezenet import (
    SqueezeNet,
    squeezenet1_0,
    squeezenet1_1,
)
from .vgg import (
    VGG,
    get_vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)

__all__ = [
    "VGG",
    "AlexNet",
    "BasicBlockV1",
    "BasicBlockV1b",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV1b",
    "BottleneckV2",
    "DenseNet",
    "Inception3",
    "InceptionBN",
    "InceptionResNetV2",
    "InceptionV4",
    "MobileNet",
    "MobileNetV2",
    "ResNetV1",
    "ResNetV1b",
    "ResNetV2",
    "SqueezeNet",
    "alexnet",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "get_mobilenet",
    "get_mobilenet_v2",
    "get_model",
    "get_resnet",
    "get_vgg",
    "inception_bn",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v4",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
    "resnet18_v1",
    "resnet18_v1b",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v1b",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v1b",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v1b",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v1b",
    "resnet152_v2",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_MODELS: dict[str, Callable[..., HybridBlock]] = {
    "alexnet": alexnet,
    "densenet121": densenet121,
    "densenet161": densenet161,
    "densenet169": densenet169,
    "densenet201": densenet201,
    "inception_bn": inception_bn,
    "inception_resnet_v2": inception_resnet_v2,
    "inception_v4": inception_v4,
    "inceptionv3": inception_v3,
    "mobilenet0.25": mobilenet0_25,
    "mobilenet0.5": mobilenet0_5,
    "mobilenet0.75": mobilenet0_75,
    "mobilenet1.0": mobilenet1_0,
    "mobilenetv2_0.25": mobilenet_v2_0_25,
    "mobilenetv2_0.5": mobilenet_v2_0_5,
    "mobilenetv2_0.75": mobilenet_v2_0_75,
    "mobilenetv2_1.0": mobilenet_v2_1_0,
    "resnet101_v1": resnet101_v1,
    "resnet101_v1b": resnet101_v1b,
    "resnet101_v2": resnet101_v2,
    "resnet152_v1": resnet152_v1,
    "resnet152_v1b": resnet152_v1b,
    "resnet152_v2": resnet152_v2,
    "resnet18_v1": resnet18_v1,
    "resnet18_v1b": resnet18_v1b,
    "resnet18_v2": resnet18_v2,
    "resnet34_v1": resnet34_v1,
    "resnet34_v1b": resnet34_v1b,
    "resnet34_v2": resnet34_v2,
    "resnet50_v1": resnet50_v1,
    "resnet50_v1b": resnet50_v1b,
    "resnet50_v2": resnet50_v2,
    "squeezenet1.0": squeezenet1_0,
    "squeezenet1.1": squeezenet1_1,
    "vgg11": vgg11,
    "vgg11_bn": vgg11_bn,
    "vgg13": vgg13,
    "vgg13_bn": vgg13_bn,
    "vgg16": vgg16,
    "vgg16_bn": vgg16_bn,
    "vgg19": vgg19,
    "vgg19_bn": vgg19_bn,
}


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """Return a network by its name (MXNet 1.x: ``model_zoo.vision.get_model``).

    Parameters
    ----------
    name : str
        A name of the zoo, upper or lower case.
    **kwargs
        ``pretrained=False``, ``ctx``, ``root`` (folder of parameter files), ``classes=1000`` and
        other arguments of the network.

    Returns
    -------
    HybridBlock
        The network.

    Raises
    ------
    ValueError
        If the name is unknown; the message suggests similar names and lists all.
    FileNotFoundError
        If ``pretrained`` and there is no parameter file; the message names the expected paths.
    """
    key = name.lower()
    if key not in _MODELS:
        raise ValueError_(
            f"get_model: no network {name!r}{suggestion(key, _MODELS) or '.'} "
            f"Available: {', '.join(_MODELS)}"
        )
    return _MODELS[key](**kwargs)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
