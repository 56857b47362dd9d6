"""Data sets for tests, read from local files, because 1.x's servers no longer exist."""

from __future__ import annotations

import bz2
import os
import shutil
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import io
from .._files.packed import content_of, read_idx
from ..base import MissingFileError, data_dir
from ..gluon import utils

__all__ = [
    "download",
    "download_model",
    "get_bz2_data",
    "get_cifar10",
    "get_im2rec_path",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_zip_data",
]

_MNIST = {
    "train_data": "train-images-idx3-ubyte",
    "train_label": "train-labels-idx1-ubyte",
    "test_data": "t10k-images-idx3-ubyte",
    "test_label": "t10k-labels-idx1-ubyte",
}


def _find(names: Sequence[str], folders: Sequence[str], what: str) -> str:
    """Return the first file that exists."""
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    raise MissingFileError(
        f"{what}: no file {' or '.join(names)} in {', '.join(map(os.path.abspath, folders))}; "
        "put it there, the server it came from is gone"
    )


def _mnist_folders() -> list[str]:
    return ["data", ".", os.path.join(data_dir(), "datasets", "mnist")]


def get_mnist() -> dict[str, np.ndarray[Any, Any]]:
    """Return MNIST from the four IDX files (``.gz`` or not).

    They are looked for in ``data``, the current folder and ``$MXNET_HOME/datasets/mnist``.

    Returns
    -------
    dict
        train_data, test_data: float32 of shape (n, 1, 28, 28), 0 to 1;
        train_label, test_label: int32 of shape (n,).

    Raises
    ------
    MissingFileError
        Naming the file and the folders.
    """
    found: dict[str, np.ndarray[Any, Any]] = {}
    for key, name in _MNIST.items():
        path = _find([name + ".gz", name], _mnist_folders(), "get_mnist")
        values = read_idx(path, 3 if key.endswith("data") else 1, "get_mnist")
        if key.endswith("data"):
            found[key] = values[:, None].astype(np.float32) / 255
        else:
            found[key] = values.astype(np.int32)
    return found


def get_mnist_ubyte() -> None:
    """Ensure that ``data`` has the four uncompressed IDX files; unpack ``.gz`` files.

    Raises MissingFileError, which names the file and the folders.
    """
    os.makedirs("data", exist_ok=True)
    for name in _MNIST.values():
        target = os.path.join("data", name)
        if os.path.isfile(target):
            continue
        source = _find([name, name + ".gz"], _mnist_folders(), "get_mnist_ubyte")
        content = content_of(source, "get_mnist_ubyte")
        with open(target, "wb") as output:
            output.write(content)


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """Return iterators over MNIST for training (shuffled) and validation.

    Parameters
    ----------
    batch_size : int
    input_shape : tuple of int
        ``(1, 28, 28)``, or ``(784,)`` for flat rows.
    num_parts, part_index : int
        Give only one of several equal parts.

    Returns
    -------
    tuple of DataIter
    """
    get_mnist_ubyte()
    common: dict[str, Any] = {
        "batch_size": batch_size,
        "flat": len(input_shape) == 1,
        "num_parts": num_parts,
        "part_index": part_index,
    }
    paths = {key: os.path.join("data", name) for key, name in _MNIST.items()}
    train = io.MNISTIter(
        image=paths["train_data"], label=paths["train_label"], shuffle=True, **common
    )
    return train, io.MNISTIter(image=paths["test_data"], label=paths["test_label"], **common)


def get_mnist_pkl() -> None:
    """Raise MissingFileError unless ``data/mnist.pkl.gz`` exists."""
    _find(["mnist.pkl.gz"], ["data"], "get_mnist_pkl")


def get_cifar10() -> None:
    """Ensure that CIFAR-10's record files are in ``data/cifar``, or raise MissingFileError."""
    for name in ("train.rec", "test.rec"):
        _find([name], [os.path.join("data", "cifar")], "get_cifar10")


def download(
    url: str,
    fname: str | None = None,
    dirname: str | None = None,
    overwrite: bool = False,
    retries: int = 5,
) -> str:
    """Download a file unless it exists.

    Parameters
    ----------
    url : str
    fname : str, optional
        Name of the file; the URL's by default.
    dirname : str, optional
        Folder; made if needed.
    overwrite : bool
    retries : int
        Number of attempts.

    Returns
    -------
    str
        Path of the file.
    """
    name = fname or url.split("/")[-1]
    path = name if dirname is None else os.path.join(dirname, name)
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    return utils.download(url, path, overwrite=overwrite, retries=retries)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Download a zip archive into a folder and unpack it there.

    Parameters
    ----------
    data_dir : str
    url : str
    data_origin_name : str
        Name of the archive; an existing one is not fetched.
    """
    archive = os.path.join(data_dir, data_origin_name)
    if not os.path.isfile(archive):
        download(url, data_origin_name, data_dir)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Download a bz2 file into a folder and unpack it there.

    Parameters
    ----------
    data_dir : str
    data_name : str
        Name of the unpacked file; an existing one is kept.
    url : str
    data_origin_name : str
        Name of the packed file, removed afterwards.
    """
    target = os.path.join(data_dir, data_name)
    if os.path.isfile(target):
        return
    packed = os.path.join(data_dir, data_origin_name)
    if not os.path.isfile(packed):
        download(url, data_origin_name, data_dir)
    with bz2.open(packed, "rb") as source, open(target, "wb") as output:
        shutil.copyfileobj(source, output)
    os.remove(packed)


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> tuple[Any, int]:
    """Download a model as symbol and parameters.

    Parameters
    ----------
    model_name : str
    dst_dir : str
    meta_info : dict, optional
        ``{model_name: {"symbol": url, "params": url}}``; 1.x's own list is gone with its server.

    Returns
    -------
    tuple
        Path of the model without "-symbol.json", and the epoch, 0. (None, 0) for an unknown name.
    """
    if not meta_info or model_name not in meta_info:
        return None, 0
    urls = meta_info[model_name]
    os.makedirs(dst_dir, exist_ok=True)
    prefix = os.path.join(dst_dir, model_name)
    for key, ending in (("symbol", "-symbol.json"), ("params", "-0000.params")):
        if key not in urls:
            raise ValueError(f"download_model: no URL of {key} for {model_name}")
        download(urls[key], prefix + ending)
    return prefix, 0


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """Return the path of the im2rec tool; raise MissingFileError if there is none.

    The environment variable ``home_env`` names a folder of MXNet's sources to look at first.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.environ.get(home_env)
    folders = [os.path.join(home, "tools")] if home else []
    return _find(["im2rec.py"], [*folders, os.path.join(package, "tools")], "get_im2rec_path")
