"""Reading and writing parts of mx.np arrays, against NumPy."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import Call, of
from mxlite import autograd

np = mx.np


def arange(*shape, dtype="float32"):
    return onp.arange(onp.prod(shape, dtype=int)).reshape(shape).astype(dtype)


MASK = onp.array([[True, False, True], [False, False, True]])
KEYS = [
    (),
    ...,
    None,
    0,
    -1,
    onp.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(5, 1),
    (0, 1),
    (0, 1, 2),
    (..., 1),
    (0, ..., None),
    (slice(None), 1),
    (slice(None), slice(2, None, -2), slice(0, 4, 3)),
    (None, 1, None, slice(1, 3), ...),
    [0, 1, 1],
    [[0, 1], [1, -1]],
    ([0, 1], [1, 2]),
    (onp.array([[0], [1]]), [1, 2]),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 2], [1, 3]),
    (0, [0, 2]),
    (0, slice(None), [1, 3]),
    ([1, 0], None, slice(1, 3)),
    (slice(None, None, -1), [2, 0], slice(1, 3)),
    (None, [1], [2], None),
    (..., [0, 3]),
    [],
    onp.zeros((0, 2), int),
    onp.array(1),
    True,
    False,
    (True, 1),
    MASK,
    (MASK, 1),
    (MASK, slice(None, None, 2)),
    (slice(None), onp.array([True, False, True])),
    (1, onp.array([True, False, True])),
    ([True, False], [0, 2]),
    onp.zeros((2, 3, 4), bool),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("own", [False, True])  # whether index arrays are mx.np arrays
def test_read_and_write(key, own):
    values = arange(2, 3, 4)

    def converted(item):
        return of(item) if own and isinstance(item, onp.ndarray) else item

    own_key = tuple(map(converted, key)) if isinstance(key, tuple) else converted(key)
    a = of(values)
    result, expected = a[own_key], values[key]
    assert type(result) is np.ndarray
    assert result.shape == expected.shape
    onp.testing.assert_array_equal(result.asnumpy(), expected)
    new = -arange(*expected.shape) - 1
    listed = new.tolist() if new.size else new  # an empty list has no shape
    for given, official in ((7, 7), (of(new), new), (listed, new), (new, new)):
        a, b = of(values), values.copy()
        a[own_key], b[key] = given, official
        onp.testing.assert_array_equal(a.asnumpy(), b)


def random_key(rng, shape):
    """Return a key of ints, slices, new axes, index arrays and masks for an array of the shape."""
    items, axis, common = [], 0, (int(rng.integers(1, 4)),)
    while axis < len(shape):
        kind, n = rng.integers(0, 9), shape[axis]
        if kind == 0:
            items.append(int(rng.integers(-n, n)))
        elif kind == 1:
            items.append(rng.integers(-n, n, (2, *common) if rng.integers(2) else common))
        elif kind == 2:
            items.append(rng.integers(-n, n, (1,)).tolist())
        elif kind == 3:
            items.append(onp.arange(n) < 1)  # one element, which broadcasts
        elif kind == 4:
            items.append(None)
            continue
        elif kind == 5 and ... not in [i for i in items if i is ...]:
            items.append(...)
            axis += int(rng.integers(0, len(shape) - axis + 1))
            continue
        else:
            bounds = [None if rng.integers(3) == 0 else int(rng.integers(-n, n)) for _ in "ab"]
            items.append(slice(*bounds, int(rng.choice([1, 1, 2, -1, -2]))))
        axis += 1
    return tuple(items)


def test_random_keys():
    rng = onp.random.default_rng(5)
    for _ in range(400):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        key = random_key(rng, shape)
        values = arange(*shape)
        a = of(values)
        expected = values[key]
        result = a[key]
        assert result.shape == expected.shape, (shape, key)
        onp.testing.assert_array_equal(result.asnumpy(), expected, err_msg=f"{shape} {key}")
        new = rng.normal(size=expected.shape[-1:]).astype("float32")
        a[key] = of(new)
        values[key] = new
        onp.testing.assert_array_equal(a.asnumpy(), values, err_msg=f"{shape} {key}")


def test_gradients_of_random_keys():
    rng = onp.random.default_rng(6)
    for _ in range(100):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        key = random_key(rng, shape)
        values = arange(*shape)
        a = of(values)
        a.attach_grad()
        head = rng.normal(size=values[key].shape).astype("float32")
        with autograd.record():
            part = a[key]
        part.backward(of(head))
        expected = onp.zeros_like(values)
        onp.add.at(expected, key, head)
        onp.testing.assert_allclose(
            a.grad.asnumpy(), expected, rtol=1e-5, atol=1e-6, err_msg=f"{shape} {key}"
        )


@pytest.mark.parametrize("dtype", ["float16", "float64", "bool", "int8", "uint8", "int64"])
def test_dtypes(dtype):
    values = arange(3, 4, dtype=dtype)
    a = of(values)
    for key in (1, (slice(None), 2), [2, 0], values > 1):
        assert a[key].dtype == values.dtype
        onp.testing.assert_array_equal(a[key].asnumpy(), values[key])
    a[[0, 2], 1] = 1
    values[[0, 2], 1] = 1
    onp.testing.assert_array_equal(a.asnumpy(), values)
    rows = of(onp.array([2, 0], "uint8" if dtype == "bool" else dtype))
    onp.testing.assert_array_equal(a[rows].asnumpy(), values[[2, 0]])


@pytest.mark.parametrize(
    ("key", "view"),
    [
        (1, True),
        (slice(1, 3), True),
        ((1, slice(1, 3)), True),
        ((1, 2), True),
        (..., True),
        ((), True),
        (None, True),
        ((slice(1, 2), slice(None)), True),
        ((slice(None), 0), False),
        (slice(None, None, 2), False),
        ([0, 1], False),
    ],
    ids=str,
)
def test_views(key, view):
    a = np.array(arange(3, 4))
    a[key][...] = -1
    assert ((a == -1).asnumpy().any()) == view


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (3, IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for axis 1 with size 4"),
        ([0, 5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        ((slice(None), [4]), IndexError, "index 4 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), IndexError, "too many indices"),
        ((..., ...), IndexError, "single ellipsis"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast"),
        (1.5, IndexError, "valid indices"),
        ("x", IndexError, "valid indices"),
        (onp.zeros(2, bool), IndexError, "boolean index did not match"),
    ],
    ids=str,
)
def test_errors(key, error, text):
    a = np.array(arange(3, 4))
    with pytest.raises(error, match=text):
        a[key]
    with pytest.raises(error, match=text):
        a[key] = 1


def test_errors_of_values():
    a = np.array(arange(3, 4))
    for key in (0, [0, 1], onp.ones((3, 4), bool)):
        with pytest.raises(TypeError, match="None"):
            a[key] = None
        with pytest.raises(TypeError, match="as_np_ndarray"):
            a[key] = mx.nd.ones((4,))
        with pytest.raises(ValueError, match="cannot be written into shape"):
            a[key] = [1, 2, 3, 4, 5]


def test_zero_dimensions_and_sizes():
    a = np.array(5.0)
    assert a[()].shape == a[...].shape == ()
    a[()] = 3
    a[...] = a + 1
    assert a.item() == 4
    with pytest.raises(IndexError):
        a[0]
    assert a[None].shape == (1,)
    assert a[True].shape == (1,)
    empty = np.array(onp.zeros((0, 3), "float32"))
    assert empty[:, 1].shape == empty[[], 1].shape == (0,)
    assert empty[1:].shape == (0, 3)
    assert empty[onp.zeros((0, 3), bool)].shape == (0,)
    empty[:] = 1


def test_mask_with_number_and_in_place():
    values = arange(3, 4)
    a = of(values)
    a[a > 5] = 0
    values[values > 5] = 0
    a[a == 3] += 10
    values[values == 3] += 10
    a[[0, 0]] += 1  # equal indices count once
    values[[0, 0]] += 1
    onp.testing.assert_array_equal(a.asnumpy(), values)


GRADIENT_KEYS = [
    1,
    slice(1, None),
    (slice(None), slice(None, None, -2)),
    (0, 1),
    [0, 0, 2],
    ([0, 0], [1, 1]),
    ([0, 2], slice(1, 3)),
    (slice(None), None, [3, 3]),
    arange(3, 4) % 3 == 1,
]


@pytest.mark.parametrize("key", GRADIENT_KEYS, ids=str)
def test_gradient(key):
    values = arange(3, 4)
    a = of(values)
    a.attach_grad()
    with autograd.record():
        part = a[key]
        loss = (part * part).sum()
    loss.backward()
    expected = onp.zeros_like(values)
    onp.add.at(expected, key, 2 * values[key])
    onp.testing.assert_array_equal(a.grad.asnumpy(), expected)
    assert type(a.grad) is np.ndarray


def test_write_to_recorded():
    a = np.array(arange(3, 4))
    a.attach_grad()
    with autograd.record():
        b = a * 2
        for key in (0, [0, 1], a.detach() > 3):
            with pytest.raises(mx.MXNetError):
                b[key] = 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[1],
        lambda x, i: x[0, 1:, ::-1],
        lambda x, i: x[..., None, 2],
        lambda x, i: x[1, 2, 3],
        lambda x, i: x[[0, 1], 1],
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, [1, 2]],
        lambda x, i: x[0, :, i],
        lambda x, i: x[i, :, i],
    ],
)
def test_hybridized(function):
    x, i = np.array(arange(2, 3, 4)), np.array([1, -1], dtype="int64")
    results = []
    for active in (False, True):
        net = Call(function)
        net.hybridize(active)
        x.attach_grad()
        with autograd.record():
            y = net(x, i)
            (y * y).backward()
        results.append((y.asnumpy(), x.grad.asnumpy()))
    for eager, graph in zip(*results):
        assert eager.shape == graph.shape
        onp.testing.assert_array_equal(eager, graph)


def test_hybridized_masks_and_writes():
    x, i = np.array(arange(2, 3)), np.array([1, 0], dtype="int64")
    net = Call(lambda x, i: x[x > 1])
    net.hybridize()
    assert net(x, i).asnumpy().tolist() == [2, 3, 4, 5]  # runs operator by operator
    net = Call(lambda x, i: x.__setitem__(0, 1))
    net.hybridize()
    with pytest.warns(UserWarning, match="operator by operator"):
        net(x, i)
    assert x.asnumpy().tolist() == [[1, 1, 1], [3, 4, 5]]
