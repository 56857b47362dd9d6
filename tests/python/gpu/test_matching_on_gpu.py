"""bipartite_matching and MultiBoxTarget at sizes where sorting takes many blocks, with ties."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


def on_both(function: Any, *inputs: np.ndarray, dtype: str = "float32") -> list[list[np.ndarray]]:
    """Return the results of a function on the CPU and on the GPU."""
    found = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        made = function(*(nd.array(x, ctx=ctx, dtype="float64").astype(dtype) for x in inputs))
        made = made if isinstance(made, (list, tuple)) else [made]
        found.append([y.astype("float64").asnumpy() for y in made])
    return found


def compare_matching(scores: np.ndarray, dtype: str = "float32", **params: Any) -> np.ndarray:
    """Compare both results bit by bit; return the matches of rows."""

    def match(x: nd.NDArray) -> list[nd.NDArray]:
        return nd.contrib.bipartite_matching(x, **params)

    expected, found = on_both(match, scores, dtype=dtype)
    for e, f in zip(expected, found):
        np.testing.assert_array_equal(f, e)
    return found[0]


# One pair, lists of one part (2048 entries at most) and of many, a size that is a power of two.
@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (64, 32), (64, 64), (300, 40), (50, 1100)])
@pytest.mark.parametrize("ascend", [False, True])
def test_matching_of_distinct_scores(shape: tuple[int, int], ascend: bool) -> None:
    rng = np.random.default_rng(shape[1])
    count = 2 * shape[0] * shape[1]
    scores = ((rng.permutation(count) + 0.5) / count).reshape(2, *shape)
    options = {"is_ascend": ascend, "threshold": 0.9 if ascend else 0.1}
    assert (compare_matching(scores, **options) >= 0).any()
    for topk in (1, 5):
        rows = compare_matching(scores, topk=topk, **options)
        assert ((rows >= 0).sum(1) == min(topk + 1, *shape)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("levels", [1, 2, 7])
def test_ties_match_in_the_order_of_the_pairs(dtype: str, levels: int) -> None:
    rng = np.random.default_rng(levels)
    scores = rng.integers(1, levels + 1, (3, 70, 90)) / 8
    rows = compare_matching(scores, dtype, threshold=0)
    assert (rows >= 0).sum() == 3 * 70
    if levels == 1:
        np.testing.assert_array_equal(rows, np.tile(np.arange(70), (3, 1)))


def test_scores_without_an_order_do_not_match() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(-3, 4, (2, 40, 80)).astype(float)
    scores[rng.random(scores.shape) < 0.3] = np.nan
    scores[0, :5, :5] = np.inf
    scores[1, :, 7] = -np.inf
    scores[1, 3] = -0.0
    for options in ({"threshold": -2.5}, {"threshold": 2.5, "is_ascend": True}):
        compare_matching(scores, **options)
    assert (compare_matching(np.full((1, 40, 80), np.nan), threshold=0) == -1).all()


def test_matching_of_more_matrices_than_one_pass_takes() -> None:
    # A list of 2048 entries takes 32 KiB, so that a pass takes 1024 matrices.
    scores = np.random.default_rng(1).integers(0, 50, (1030, 30, 40)) / 64
    compare_matching(scores, threshold=0.25)


def grid(count: int) -> np.ndarray:
    """Return squares of side 1/8 whose corners are multiples of 1/64: overlaps are exact."""
    rng = np.random.default_rng(count)
    low = rng.integers(0, 57, (1, count, 2)) / 64
    return np.concatenate([low, low + 1 / 8], -1)


def compare_targets(*inputs: np.ndarray, **params: Any) -> list[np.ndarray]:
    """Compare MultiBoxTarget on both devices; return its results."""

    def target(*arrays: nd.NDArray) -> list[nd.NDArray]:
        return nd.contrib.MultiBoxTarget(*arrays, **params)

    expected, found = on_both(target, *inputs)
    for e, f in zip(expected[1:], found[1:]):  # mask and classes
        np.testing.assert_array_equal(f, e)
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-5)
    return found


def targets(images: int, anchors: int, labels: int, **params: Any) -> list[np.ndarray]:
    """Compare the targets of random labels, of none in the first image to all in the last one."""
    rng = np.random.default_rng(anchors)
    rows = np.full((images, labels, 5), -1.0)
    for image in range(images):
        valid = image * labels // max(images - 1, 1)  # none, ..., all
        rows[image, :valid, 0] = rng.integers(0, 3, valid)
        rows[image, :valid, 1:] = grid(labels)[0, :valid]
    # Few levels, so that many anchors look equally like background, and exact probabilities.
    predictions = np.log(2.0) * rng.integers(-2, 3, (images, 1, anchors)) * [[[1], [0], [0], [0]]]
    params.setdefault("overlap_threshold", 0.25)
    return compare_targets(grid(anchors), rows, predictions, **params)


@pytest.mark.parametrize("anchors", [1, 63, 500, 2048, 2049, 5000])
@pytest.mark.parametrize("mining", [-1, 0.5, 3])
def test_targets(anchors: int, mining: float) -> None:
    classes = targets(4, anchors, 9, negative_mining_ratio=mining)[2]
    assert (classes[0] == -1).all()
    assert anchors < 63 or (classes[3] > 0).any()
    if mining > 0 and anchors >= 500:
        negative, positive = (classes[3] == 0).sum(), (classes[3] > 0).sum()
        assert negative == int(mining * positive)


@pytest.mark.parametrize("ratio", [1e-9, 1e30])
def test_extreme_numbers_of_mined_anchors(ratio: float) -> None:
    classes = targets(3, 300, 4, negative_mining_ratio=ratio, minimum_negative_samples=11)[2]
    negative = (classes[2] == 0).sum()
    assert negative == 11 if ratio < 1 else negative > 200


def test_equal_overlaps_of_labels_and_anchors() -> None:
    anchors = np.repeat(grid(40), 30, axis=1)  # each anchor 30 times
    rows = np.concatenate([np.tile([[[2.0]]], (2, 25, 1)), np.tile(grid(25), (2, 1, 1))], -1)
    rows[:, 10:20] = rows[:, :10]  # labels that ask for the same anchors
    predictions = np.zeros((2, 3, 1200))
    for params in ({}, {"negative_mining_ratio": 2.5}, {"overlap_threshold": -1}):
        assert (compare_targets(anchors, rows, predictions, **params)[2] > 0).any()


def test_targets_of_more_images_than_one_pass_takes() -> None:
    # Entries, and 4 bytes for each overlap of a label and an anchor: 376 KiB an image.
    targets(95, 2048, 40, negative_mining_ratio=3)


@pytest.mark.parametrize("name", ["bipartite_matching", "MultiBoxTarget"])
def test_one_matrix_or_image_is_sorted_by_many_blocks(name: str, most_blocks: Any) -> None:
    gpu = mx.gpu(0)
    if name == "bipartite_matching":
        inputs = [nd.array(np.random.default_rng(0).random((1, 60, 90)), ctx=gpu)]
        params: dict[str, Any] = {"threshold": 0.1}
    else:
        rows = np.concatenate([np.ones((1, 3, 1)), grid(3)], -1)
        inputs = [nd.array(x, ctx=gpu) for x in (grid(5000), rows, np.zeros((1, 2, 5000)))]
        params = {"negative_mining_ratio": 3}
    mx.nd.waitall()
    most_blocks()
    getattr(nd.contrib, name)(*inputs, **params)[0].wait_to_read()
    assert most_blocks() > 1
