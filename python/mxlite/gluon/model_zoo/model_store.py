"""Finds parameter files of the zoo on this machine.

mxlite never downloads them: it reads the files that MXNet 1.x left in its cache, or that the user
put there. MXNet's own file names carry the first eight digits of the file's SHA-1.
"""

from __future__ import annotations

import os

from ..._files.checksum import sha1_of
from ...base import FileFormatError, MissingFileError, ValueError_, data_dir, suggestion

__all__ = ["get_model_file", "purge", "short_hash"]

# First eight hexadecimal digits of the SHA-1 of each published file: MXNet 1.9.1's list, and
# GluonCV's for the v1b networks.
_SHORT_SHA1 = {
    "alexnet": "44335d1f",
    "densenet121": "f27dbf2d",
    "densenet161": "b6c8a957",
    "densenet169": "2603f878",
    "densenet201": "1cdbc116",
    "inceptionv3": "ed47ec45",
    "mobilenet0.25": "9f83e440",
    "mobilenet0.5": "8e9d539c",
    "mobilenet0.75": "529b2c7f",
    "mobilenet1.0": "6b8c5106",
    "mobilenetv2_0.25": "ae8f9392",
    "mobilenetv2_0.5": "aabd26cd",
    "mobilenetv2_0.75": "e2be7b72",
    "mobilenetv2_1.0": "36da4ff1",
    "resnet101_v1": "d988c13d",
    "resnet101_v1b": "a455932a",
    "resnet101_v2": "18e93e4f",
    "resnet152_v1": "671c637a",
    "resnet152_v1b": "a5a61ee1",
    "resnet152_v2": "f2695542",
    "resnet18_v1": "a0666292",
    "resnet18_v1b": "2d9d980c",
    "resnet18_v2": "a81db45f",
    "resnet34_v1": "48216ba9",
    "resnet34_v1b": "8e16b848",
    "resnet34_v2": "9d6b80bb",
    "resnet50_v1": "0aee57f9",
    "resnet50_v1b": "0ecdba34",
    "resnet50_v2": "ecdde353",
    "squeezenet1.0": "264ba497",
    "squeezenet1.1": "33ba0f93",
    "vgg11": "dd221b16",
    "vgg11_bn": "ee79a809",
    "vgg13": "6bc5de58",
    "vgg13_bn": "7d97a06c",
    "vgg16": "e660d456",
    "vgg16_bn": "7f01cf05",
    "vgg19": "ad2f660d",
    "vgg19_bn": "f360b758",
}

# SHA-1 of further files, which libraries add when they are imported.
_model_sha1: dict[str, str] = {}


def _known_hash(name: str) -> str | None:
    """Return the first eight digits for a file of this zoo or of a library, or None."""
    return _SHORT_SHA1.get(name) or (_model_sha1[name][:8] if name in _model_sha1 else None)


def _folder(root: str | None) -> str:
    return os.path.expanduser(root or os.path.join(data_dir(), "models"))


def short_hash(name: str) -> str:
    """Return the first eight SHA-1 digits of a published parameter file.

    Parameters
    ----------
    name : str
        Name of the network.

    Returns
    -------
    str
        Eight hexadecimal digits.

    Raises
    ------
    ValueError
        No parameters were ever published under this name.
    """
    known = _known_hash(name)
    if known is None:
        raise ValueError_(
            f"model_store: no published parameters for {name!r}{suggestion(name, _SHORT_SHA1)}"
        )
    return known


def get_model_file(name: str, root: str | None = None) -> str:
    """Return the path of a network's parameter file on this machine.

    ``<root>/<name>-<hash>.params``, the name in MXNet's cache, is taken first and then
    ``<root>/<name>.params``.

    Parameters
    ----------
    name : str
        Name of the network.
    root : str, optional
        Folder of parameter files; ``$MXNET_HOME/models`` (``~/.mxnet/models``) by default.

    Returns
    -------
    str
        An existing file.

    Raises
    ------
    FileNotFoundError
        Neither file exists; the message names both. mxlite downloads nothing.
    FileFormatError
        The file is not the published one: its SHA-1 begins with other digits.
    """
    folder = _folder(root)
    plain = os.path.join(folder, f"{name}.params")
    known = _known_hash(name)
    if known is None:
        if os.path.isfile(plain):
            return plain
        raise MissingFileError(
            f"model_store: no parameters of {name!r}: {plain} does not exist, "
            "and none were ever published under this name; train the network and save it there"
        )
    published = os.path.join(folder, f"{name}-{known}.params")
    for path in (published, plain):
        if os.path.isfile(path):
            return _checked(path, known)
    raise MissingFileError(
        f"model_store: no parameters of {name!r} on this machine, and mxlite does not download: "
        f"expected {published} (as MXNet 1.9.1 caches it) or {plain}"
    )


def _checked(path: str, digits: str) -> str:
    """Return the path of a file with the published content."""
    found = sha1_of(path)
    if not found.startswith(digits):
        raise FileFormatError(
            f"model_store: file {path!r} has the SHA-1 {found[:8]}..., the published parameters "
            f"have {digits}...: it is damaged or another file; remove it, or load parameters of "
            "your own with net.load_parameters"
        )
    return path


def purge(root: str | None = None) -> None:
    """Delete the ``.params`` files of the zoo's folder.

    Parameters
    ----------
    root : str, optional
        Folder of parameter files; ``$MXNET_HOME/models`` by default.
    """
    folder = _folder(root)
    if not os.path.isdir(folder):
        return
    for entry in os.listdir(folder):
        if entry.endswith(".params"):
            os.remove(os.path.join(folder, entry))
