"""Networks for images (MXNet 1.x: ``mxnet.gluon.model_zoo.vision``).

The 34 names of MXNet 1.9.1, ``inception_bn``, ``inception_v4`` and ``inception_resnet_v2`` of its
example symbols, and GluonCV's ``resnet*_v1b``. Parameter names are those of 1.9.1 and GluonCV, so
that their ``.params`` files load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...._names_1x import attributes as _attributes
from ....base import ValueError_, suggestion
from ...block import HybridBlock
from ._build import MODELS
from .alexnet import *  # noqa: F403
from .densenet import *  # noqa: F403
from .inception import *  # noqa: F403
from .inception_bn import *  # noqa: F403
from .inception_resnet_v2 import *  # noqa: F403
from .inception_v4 import *  # noqa: F403
from .mobilenet import *  # noqa: F403
from .resnet import *  # noqa: F403
from .resnet_v1b import *  # noqa: F403
from .squeezenet import *  # noqa: F403
from .vgg import *  # noqa: F403


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
    if key not in MODELS:
        raise ValueError_(
            f"get_model: no network {name!r}{suggestion(key, MODELS) or '.'} "
            f"Available: {', '.join(sorted(MODELS))}"
        )
    return MODELS[key](**kwargs)


if not TYPE_CHECKING:  # type checkers get the names from the imports above
    __all__ = sorted(
        name for name, v in vars().items() if getattr(v, "__module__", "").startswith(__name__)
    )
    __getattr__, __dir__ = _attributes(__name__)
