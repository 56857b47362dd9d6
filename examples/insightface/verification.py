"""Verification of pairs: ``.bin`` files of the face sets, and the protocol of LFW.

A ``.bin`` file is a pickle of the pair (2n encoded images, n booleans); images 2i and 2i + 1 are a
pair. It is read without Python's unpickler, so a file cannot run code.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import mxlite as mx
import numpy as np
from mxlite._files.pickled import Maker, PickleContentError, numpy_maker, plain_maker, read_pickle

FOLDS = 10
_FALSE_ACCEPTS = 1e-3
_PLAIN = ("bytes", "bytearray", "encode")  # protocol 2 stores bytes as encoded texts


class Result(NamedTuple):
    """Mean and standard deviation over the folds, and the mean norm of embeddings."""

    accuracy: float
    std: float
    validation_rate: float
    norm: float


def _maker(module: str, name: str) -> Maker | None:
    return numpy_maker(module, name) or (plain_maker(module, name) if name in _PLAIN else None)


def read_pairs(path: str | Path) -> tuple[list[bytes], np.ndarray]:
    """Return encoded images and booleans; raise SystemExit for another or a damaged file."""
    try:
        content = read_pickle(Path(path).read_bytes(), _maker, "bytes")
    except (OSError, PickleContentError) as error:
        raise SystemExit(f"insightface: {path} must be a .bin file of pairs, {error}") from error
    if not (isinstance(content, (tuple, list)) and len(content) == 2):
        raise SystemExit(f"insightface: {path} must hold images and booleans")
    images, same = content
    if isinstance(same, np.ndarray):
        same = same.tolist()
    if not isinstance(images, list) or not isinstance(same, list) or len(images) != 2 * len(same):
        raise SystemExit(
            f"insightface: {path} must have two images for each boolean, got {len(images)} and "
            f"{len(same)}"
        )
    found = []
    for number, image in enumerate(images):
        is_array = isinstance(image, np.ndarray) and image.dtype == np.uint8
        if not is_array and not isinstance(image, (bytes, bytearray)):
            raise SystemExit(f"insightface: {path}: image {number} must be bytes or uint8 numbers")
        found.append(image.tobytes() if is_array else bytes(image))
    return found, np.array(same, bool)


def write_pairs(path: str | Path, images: Sequence[bytes], same: Sequence[bool]) -> None:
    """Write a ``.bin`` file."""
    content = (list(images), [bool(value) for value in same])
    Path(path).write_bytes(pickle.dumps(content, protocol=4))


def decode(images: Sequence[bytes], size: int) -> np.ndarray:
    """Return uint8 (images, 3, size, size); other sizes are resized."""
    pixels = np.empty((len(images), 3, size, size), np.uint8)
    for number, encoded in enumerate(images):
        image = mx.image.imdecode(encoded)
        if image.shape[:2] != (size, size):
            image = mx.image.imresize(image, size, size)
        pixels[number] = image.asnumpy().transpose(2, 0, 1)
    return pixels


def embed(
    network: Callable[[mx.nd.NDArray], mx.nd.NDArray], pixels: np.ndarray, batch: int
) -> np.ndarray:
    """Return the sums of the embeddings of pictures and their mirrors.

    All batches have one size, so that a hybridized network has one graph. Therefore the last batch
    overlaps the previous one.
    """
    count = len(pixels)
    batch = min(batch, count)
    total: np.ndarray | None = None
    for given in range(0, count, batch):
        begin = min(given, count - batch)
        part = pixels[begin : begin + batch]
        both = sum(
            network(mx.nd.array(view, dtype="uint8")).astype("float32").asnumpy()
            for view in (part, part[..., ::-1])
        )
        if total is None:
            total = np.empty((count, both.shape[1]), np.float32)
        total[begin : begin + batch] = both
    assert total is not None
    return total


def embed_pairs(
    network: Callable[[mx.nd.NDArray], mx.nd.NDArray],
    images: Sequence[bytes],
    size: int,
    batch: int,
) -> np.ndarray:
    """Return the embeddings of the encoded images of pairs; a repeated image is computed once."""
    rows = {image: row for row, image in enumerate(dict.fromkeys(images))}
    embeddings = embed(network, decode(list(rows), size), batch)
    return embeddings[[rows[image] for image in images]]


def right_pairs(distances: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return which pairs are classified correctly, with the best threshold of other folds."""
    thresholds = np.arange(0, 4, 0.01)
    right = (distances[:, None] < thresholds) == same[:, None]
    found = np.empty(len(same), bool)
    for fold in np.array_split(np.arange(len(same)), FOLDS):
        others = np.ones(len(same), bool)
        others[fold] = False
        found[fold] = right[fold, right[others].mean(axis=0).argmax()]
    return found


def validation_rates(distances: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return each fold's share of accepted same pairs, where other folds accept 0.1 % wrongly.

    The threshold is interpolated between steps of 0.001.
    """
    thresholds = np.arange(0, 4, 0.001)
    accepted = distances[:, None] < thresholds
    rates = []
    for fold in np.array_split(np.arange(len(same)), FOLDS):
        others = ~same
        others[fold] = False
        false_rate = accepted[others].mean(axis=0) if others.any() else np.zeros(1)
        threshold = 0.0
        if false_rate.max() >= _FALSE_ACCEPTS:
            after = int(np.searchsorted(false_rate, _FALSE_ACCEPTS, side="right"))
            ends = slice(after - 1, after + 1)
            threshold = float(np.interp(_FALSE_ACCEPTS, false_rate[ends], thresholds[ends]))
        chosen = fold[same[fold]]
        rates.append((distances[chosen] < threshold).mean() if len(chosen) else 0.0)
    return np.array(rates)


def pair_distances(embeddings: np.ndarray) -> tuple[np.ndarray, float]:
    """Return squared distances of normalized embeddings of pairs, and the mean norm before."""
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    unit = embeddings / np.maximum(norms, 1e-12)
    return np.square(unit[0::2] - unit[1::2]).sum(axis=1), float(norms.mean())


def verify(embeddings: np.ndarray, same: np.ndarray) -> Result:
    """Return the result of LFW's protocol for embeddings of pairs, (2 * pairs, features)."""
    if len(same) < FOLDS:
        raise SystemExit(f"insightface: {FOLDS} pairs or more are needed, got {len(same)}")
    distances, norm = pair_distances(embeddings)
    folds = np.array_split(right_pairs(distances, same), FOLDS)
    accuracies = np.array([fold.mean() for fold in folds])
    rate = validation_rates(distances, same).mean()
    return Result(float(accuracies.mean()), float(accuracies.std()), float(rate), norm)
