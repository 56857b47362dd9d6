"""Networks as symbols, with the layer names of MXNet 1.x, so that its checkpoints load.

``get_symbol("inception-v3", num_classes=1000)`` finds ``inception_v3.py`` here and calls its
``get_symbol``. Each of these functions gets the whole command line as keywords and uses what it
needs.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_SHARED = {"__init__", "layers", "residual_parts"}


def networks() -> list:
    """Return the names that ``--network`` takes."""
    found = {path.stem for path in Path(__file__).parent.glob("*.py")} - _SHARED
    return sorted(name.replace("_", "-") for name in found)


def get_symbol(network: str, **options: Any) -> Any:
    """Return a network that ends in a ``SoftmaxOutput`` named ``softmax``.

    Parameters
    ----------
    network : str
        One of `networks`; ``_`` and ``-`` are the same.
    **options
        ``num_classes``, ``num_layers``, ``image_shape`` (such as ``"3,224,224"``), ``dtype``, and
        further options of the network; others are ignored.

    Returns
    -------
    Symbol

    Raises
    ------
    ValueError
        For an unknown network, or options that it does not support.
    """
    name = network.replace("_", "-")
    name = {"resnetv1": "resnet-v1"}.get(name, name)
    if name not in networks():
        raise ValueError(f"network must be one of {', '.join(networks())}, got {network!r}")
    return import_module(f"{__name__}.{name.replace('-', '_')}").get_symbol(**options)
