"""Pre-trained networks by the names of MXNet 1.x; their files must exist."""

from __future__ import annotations

import os
from typing import Any

NAMES = (
    "imagenet1k-inception-bn",
    *(f"imagenet1k-resnet-{layers}" for layers in (18, 34, 50, 101, 152)),
    "imagenet1k-resnext-50",
    "imagenet1k-resnext-101",
    "imagenet1k-resnext-101-64x4d",
    "imagenet11k-resnet-152",
    "imagenet11k-place365ch-resnet-50",
    "imagenet11k-place365ch-resnet-152",
)


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> tuple:
    """Return the prefix and epoch of a pre-trained network.

    The host of these files no longer exists, so nothing is downloaded.

    Parameters
    ----------
    model_name : str
    dst_dir : str
        Folder of ``<name>-symbol.json`` and ``<name>-0000.params``.
    meta_info : collection of str, optional
        Names that are known, other than `NAMES`.

    Returns
    -------
    (str or None, int)
        (None, 0) for a name that is not known.

    Raises
    ------
    FileNotFoundError
        If the name is known and the files do not exist.
    """
    if model_name not in (NAMES if meta_info is None else meta_info):
        return None, 0
    prefix = os.path.join(dst_dir, model_name)
    for path in (f"{prefix}-symbol.json", f"{prefix}-0000.params"):
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"the file {path!r} does not exist: put a copy there, because no host has it"
            )
    return prefix, 0
