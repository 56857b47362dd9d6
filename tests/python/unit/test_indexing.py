"""Indexing is that of NumPy, except where 1.x differs (no 0-d results, no boolean masks)."""

from __future__ import annotations

import contextlib
import itertools

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from recording import variable

SHAPES = [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)]


def random_slice(rng, size):
    step = int(rng.choice([1, 1, 1, 2, 3, -1, -2]))
    bounds = [None if rng.random() < 0.3 else int(rng.integers(-size - 1, size + 2)) for _ in "ab"]
    return slice(bounds[0], bounds[1], step)


def random_basic_key(rng, shape):
    key = []
    for size in shape[: rng.integers(1, len(shape) + 1)]:
        if rng.random() < 0.15:
            key.append(None)
        key.append(
            int(rng.integers(-size, size)) if rng.random() < 0.4 else random_slice(rng, size)
        )
    if rng.random() < 0.25:
        # Before the given items, so that they belong to other axes, of other sizes.
        return (Ellipsis,) if rng.random() < 0.3 else (*key, Ellipsis)
    return key[0] if len(key) == 1 and rng.random() < 0.7 else tuple(key)


def random_advanced_key(rng, shape):
    """One to all axes with integer arrays that broadcast together, slices and ints between."""
    common = tuple(int(d) for d in rng.integers(1, 4, size=rng.integers(1, 3)))
    key = []
    for size in shape:
        choice = rng.random()
        if choice < 0.55:
            lead = rng.random() < 0.3
            dims = tuple(1 if lead and i == 0 else d for i, d in enumerate(common))
            values = rng.integers(-size, size, size=dims)
            key.append([values, values.tolist(), nd.array(values, dtype="int64")][rng.integers(3)])
        elif choice < 0.7:
            key.append(int(rng.integers(-size, size)))
        else:
            key.append(random_slice(rng, size))
    if not any(isinstance(k, (list, np.ndarray, nd.NDArray)) for k in key):
        key[0] = [0, -1]
    return tuple(key)


def numpy_key(key):
    convert = lambda k: k.asnumpy() if isinstance(k, nd.NDArray) else k  # noqa: E731
    return tuple(convert(k) for k in key) if isinstance(key, tuple) else convert(key)


def same(ours, theirs, note):
    """A NumPy result with 0 dimensions is one with shape (1,) here."""
    theirs = np.atleast_1d(theirs)
    assert ours.shape == theirs.shape, note
    np.testing.assert_array_equal(ours.asnumpy(), theirs, err_msg=str(note))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [random_basic_key, random_advanced_key])
def test_reading_equals_numpy(kind, shape):
    rng = np.random.default_rng(7)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = nd.array(values)
    for _ in range(250):
        key = kind(rng, shape)
        same(x[key], values[numpy_key(key)], key)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [random_basic_key, random_advanced_key])
def test_reading_a_recorded_array_gives_the_same_and_its_gradient_counts_reads(kind, shape):
    rng = np.random.default_rng(8)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = variable(nd.array(values))
    for _ in range(60):
        key = kind(rng, shape)
        theirs = values[numpy_key(key)]
        if np.size(theirs) == 0:
            continue
        weights = rng.integers(1, 9, size=np.atleast_1d(theirs).shape).astype(np.float32)
        with autograd.record():
            y = x[key]
            total = (y * nd.array(weights)).sum()
        same(y, theirs, key)
        total.backward()
        expected = np.zeros_like(values)
        np.add.at(expected, numpy_key(key), weights.reshape(np.shape(theirs)))
        np.testing.assert_allclose(x.grad.asnumpy(), expected, err_msg=str(key))


def random_value(rng, target_shape):
    """A number, or values that broadcast to the shape: array, NumPy array or nested list."""
    if rng.random() < 0.25:
        return float(rng.integers(100, 200))
    dims = [1 if rng.random() < 0.25 else d for d in target_shape]
    dims = dims[rng.integers(0, len(dims) + 1) :]
    values = rng.integers(100, 200, size=dims).astype(np.float32)
    form = rng.integers(3)
    if form == 0 and values.ndim:
        return nd.array(values)
    return values if form == 1 or not values.size else values.tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [random_basic_key, random_advanced_key])
def test_writing_equals_numpy(kind, shape):
    rng = np.random.default_rng(9)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for _ in range(200):
        key = kind(rng, shape)
        flat = np.arange(values.size).reshape(shape)[numpy_key(key)]
        if len(np.unique(flat)) != flat.size:
            continue  # the last of several writes to one element: NumPy leaves open which
        value = random_value(rng, np.shape(flat))
        x, expected = nd.array(values), values.copy()
        x[key] = value
        expected[numpy_key(key)] = value.asnumpy() if isinstance(value, nd.NDArray) else value
        np.testing.assert_array_equal(x.asnumpy(), expected, err_msg=f"{key} = {value}")


def test_writes_of_single_values_and_of_overlapping_parts():
    x = nd.zeros((3,))
    x[1] = nd.array([5])
    np.testing.assert_array_equal(x.asnumpy(), [0, 5, 0])
    x[1:] = x[:-1].copy()
    np.testing.assert_array_equal(x.asnumpy(), [0, 0, 5])


def test_values_are_converted_to_the_dtype_of_the_target():
    x = nd.zeros((3,), dtype="int32")
    x[:2] = nd.array([1.7, 2.2])
    x[2] = 3.9
    np.testing.assert_array_equal(x.asnumpy(), [1, 2, 3])


def test_float_indices_of_1x_are_taken_as_integers():
    x = nd.array([10, 20, 30])
    np.testing.assert_array_equal(x[nd.array([2, 0])].asnumpy(), [30, 10])


@pytest.mark.parametrize(
    ("key", "error", "match"),
    [
        (5, IndexError, "index 5 .* axis 0 with size 3"),
        (-4, IndexError, "index -4 .* axis 0 with size 3"),
        ((0, 4), IndexError, "index 4 .* axis 1 with size 4"),
        ((slice(None), [0, 9]), IndexError, "index 9 .* axis 1 with size 4"),
        ((0, 0, 0), IndexError, "too many indices.* 2 dimensions, 3"),
        ((Ellipsis, Ellipsis), IndexError, "single ellipsis"),
        ("name", TypeError, "str"),
        (1.5, TypeError, "float"),
        (np.array([True, False, True]), TypeError, "boolean_mask"),
    ],
)
def test_impossible_indices_are_named(key, error, match):
    x = nd.zeros((3, 4))
    with pytest.raises(error, match=match):
        x[key]
    with pytest.raises(error, match=match):
        x[key] = 1
    np.testing.assert_array_equal(x.asnumpy(), np.zeros((3, 4)))


@pytest.mark.parametrize("value", [nd.ones((2,)), np.ones(2), [1, 2], np.ones((2, 2, 4))])
@pytest.mark.parametrize("key", [slice(None), ([0, 1], slice(None))])
def test_values_that_do_not_fit_are_a_value_error_and_change_nothing(key, value):
    x = nd.zeros((3, 4))
    with pytest.raises(ValueError):
        x[key] = value
    np.testing.assert_array_equal(x.asnumpy(), np.zeros((3, 4)))


SLICES = [slice(None), slice(1, 3), slice(0, 1), slice(1, None, 2), slice(None, None, -1)]


@pytest.mark.parametrize("recording", [False, True])
def test_what_lies_together_is_a_view(recording):
    values = np.arange(4 * 3 * 4, dtype=np.float32).reshape(4, 3, 4)
    for key in itertools.product([*SLICES, 2], repeat=3):
        array = nd.array(values)
        together = values[key].flags.contiguous
        assert nd.NDArray._basic_indexing_slice_is_contiguous(key, array.shape) == together, key
        with autograd.record() if recording else contextlib.nullcontext():
            array[key][:] = -1
        expected = values.copy()
        if together:
            expected[key] = -1
        assert np.array_equal(array.asnumpy(), expected), key
    with pytest.raises(ValueError, match="key must have .*got 1"):
        nd.NDArray._basic_indexing_slice_is_contiguous((slice(None),), (2, 3))


@pytest.mark.parametrize("key", [slice(None), Ellipsis, None, (slice(None), slice(0, 4))])
def test_gradients_return_from_an_array_overwritten_by_a_result(key):
    target, source = nd.zeros((3, 4), dtype="float64"), nd.array([[1.0, 2, 3, 4]])
    source.attach_grad()
    with autograd.record():
        target[key] = source * 2
        loss = (target * target).sum()
    loss.backward()
    assert np.array_equal(target.asnumpy(), np.tile([2.0, 4, 6, 8], (3, 1)))
    assert np.array_equal(source.grad.asnumpy(), [[24, 48, 72, 96]])


@pytest.mark.parametrize("key", [0, slice(0, 2), (slice(None), 1), [0, 1], slice(None, None, -1)])
def test_a_part_cannot_be_overwritten_by_a_recorded_result(key):
    target = nd.zeros((3, 4))
    source = variable(nd.ones(target[key].shape))
    with autograd.record(), pytest.raises(mx.MXNetError, match="not supported when recording with"):
        target[key] = source
    assert (target == 0).asnumpy().all()
    target[key] = source
    assert target.sum().asscalar() == source.size
