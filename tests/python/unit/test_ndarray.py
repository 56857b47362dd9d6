"""Arrays as values: making, converting, arithmetic in place, views, printing, contexts."""

from __future__ import annotations

import copy
import pickle

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from processes import run_python


class Sizes(tuple):
    """A shape of another library."""


DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: nd.array([1, 2]), np.float32),
        (lambda: nd.array(np.arange(3)), np.float32),
        (lambda: nd.array(np.float64([1.5])), np.float32),
        (lambda: nd.array([1, 2], dtype="int32"), np.int32),
        (lambda: nd.array(nd.array([1], dtype="int64")), np.int64),
        (lambda: nd.zeros((2, 3)), np.float32),
        (lambda: nd.ones((2, 3), dtype=np.float16), np.float16),
        (lambda: nd.full((2,), 7, dtype="uint8"), np.uint8),
        (lambda: nd.arange(5), np.float32),
        (lambda: nd.eye(3), np.float32),
        (lambda: nd.empty((2,), dtype="int8"), np.int8),
    ],
)
def test_what_is_not_asked_for_is_float32(make, dtype):
    assert make().dtype is dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_survive_the_way_there_and_back(dtype):
    values = np.array([[0, 1, 2], [3, 100, 5]]).astype(dtype)
    back = nd.array(values, dtype=dtype).asnumpy()
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)


def test_a_transposed_numpy_array_is_read_by_its_strides():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(nd.array(values.T).asnumpy(), values.T)
    np.testing.assert_array_equal(nd.array(values[::-1, ::2]).asnumpy(), values[::-1, ::2])


def test_from_numpy_shares_memory_and_locks_the_source():
    source = np.arange(4, dtype=np.float32)
    copied, x = nd.array(source), nd.from_numpy(source)
    x[1] = 50
    x.wait_to_read()
    assert source[1] == 50
    assert not source.flags.writeable
    copied.asnumpy()[:] = 7
    np.testing.assert_array_equal(copied.asnumpy(), [0, 1, 2, 3])


def test_from_numpy_keeps_the_memory_alive():
    x = nd.from_numpy(np.full(100_000, 3, np.float32))
    filler = [np.zeros(100_000, np.float32) for _ in range(8)]
    np.testing.assert_array_equal(x.asnumpy(), np.full(100_000, 3))
    assert len(filler) == 8


# -- operators of Python -----------------------------------------------------------------------


BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a % b,
    lambda a, b: a**b,
]


@pytest.mark.parametrize("f", BINARY)
def test_a_number_on_either_side_keeps_the_dtype(f):
    values = np.float32([[1.5, 2, 3], [4, 5, 6]])
    x = nd.array(values)
    for number in (2, 2.5, np.float64(2.5), np.int64(3), True):
        for ours, theirs in ((f(x, number), f(values, number)), (f(number, x), f(number, values))):
            assert ours.dtype is np.float32
            np.testing.assert_allclose(ours.asnumpy(), theirs.astype(np.float32), rtol=1e-5)


@pytest.mark.parametrize("f", BINARY)
def test_arrays_broadcast(f):
    a, b = np.float32(np.random.rand(2, 3, 1) + 1), np.float32(np.random.rand(3, 5) + 1)
    np.testing.assert_allclose(f(nd.array(a), nd.array(b)).asnumpy(), f(a, b), rtol=1e-5)


def test_integers_divided_stay_integers():
    assert (nd.array([7, 8], dtype="int32") / 2).dtype is np.int32
    np.testing.assert_array_equal((nd.array([7, 8], dtype="int32") / 2).asnumpy(), [3, 4])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_comparisons_give_zeros_and_ones_of_the_same_dtype(dtype):
    a, b = nd.array([1, 2, 3], dtype=dtype), nd.array([3, 2, 1], dtype=dtype)
    for result, expected in [
        (a == b, [0, 1, 0]),
        (a != b, [1, 0, 1]),
        (a > b, [0, 0, 1]),
        (a >= b, [0, 1, 1]),
        (a < b, [1, 0, 0]),
        (a <= 2, [1, 1, 0]),
    ]:
        assert result.dtype is np.dtype(dtype).type
        np.testing.assert_array_equal(result.asnumpy(), expected)


def test_in_place_arithmetic_writes_into_the_same_memory():
    x = nd.array([1, 2, 3])
    same, view = x, x[1:]
    x += 1
    x *= nd.array([2, 2, 2])
    x -= 1
    x /= 2
    assert x is same
    np.testing.assert_allclose(x.asnumpy(), [1.5, 2.5, 3.5])
    np.testing.assert_allclose(view.asnumpy(), [2.5, 3.5])
    view += 5  # a view of the array
    x[0] -= 1
    np.testing.assert_array_equal(x.asnumpy(), [0.5, 7.5, 8.5])
    with pytest.raises(ValueError, match=r"\(2, ?3\)"):
        x += nd.ones((2, 3))
    np.testing.assert_array_equal(abs(-x).asnumpy(), [0.5, 7.5, 8.5])
    assert (-x)[0].asscalar() == -0.5


def test_numpy_scalars_leave_the_work_to_the_array():
    assert isinstance(np.float32(2) * nd.ones((2,)), nd.NDArray)


def test_writes_and_reads_keep_the_order_of_the_program():
    x = nd.zeros((64, 64))
    snapshots = []
    for i in range(200):
        x += 1
        snapshots.append(x.sum())
        x[i % 64] += 0
    assert [s.asscalar() for s in snapshots] == [(i + 1) * 4096 for i in range(200)]


# -- shapes and views --------------------------------------------------------------------------


def test_reshape_shares_memory_and_knows_the_codes():
    x = nd.arange(24).reshape((2, 3, 4))
    assert x.reshape((0, -1)).shape == (2, 12)
    assert x.reshape(-1).shape == (24,)
    assert x.reshape(6, 4).shape == (6, 4)
    assert x.reshape((-1, 0), reverse=True).shape == (6, 4)
    y = x.reshape((4, 6))
    y[0, 0] = 99
    assert x[0, 0, 0].asscalar() == 99


def test_flatten_expand_dims_and_transpose():
    x = nd.arange(6).reshape((1, 2, 3))
    assert x.flatten().shape == (1, 6)
    assert x.expand_dims(axis=-1).shape == (1, 2, 3, 1)
    assert x.T.shape == (3, 2, 1)
    assert x.transpose((2, 0, 1)).shape == x.transpose(2, 0, 1).shape == (3, 1, 2)
    np.testing.assert_array_equal(x.swapaxes(1, 2).asnumpy(), x.asnumpy().swapaxes(1, 2))


def test_only_whole_slices_of_axis_0_are_views():
    x = nd.zeros((4, 3))
    for key in [0, -1, slice(1, 3), (slice(1, 3), slice(None)), slice(None), Ellipsis]:
        x[:] = 0
        x[key][:] = 1
        assert x.sum().asscalar() == np.zeros((4, 3))[key].size, key
    for key in [(slice(None), 1), slice(None, None, 2), [0, 1]]:
        x[:] = 0
        x[key][:] = 1
        assert x.sum().asscalar() == 0, key


def test_a_view_outlives_its_owner():
    view = nd.arange(10)[5:]
    np.testing.assert_array_equal(view.asnumpy(), [5, 6, 7, 8, 9])


def test_copies_do_not_share():
    x = nd.zeros((2,))
    copies = [x.copy(), copy.copy(x), copy.deepcopy(x), x.astype("float32"), nd.array(x)]
    x += 1
    for c in copies:
        np.testing.assert_array_equal(c.asnumpy(), [0, 0])
    assert x.astype("float32", copy=False) is x


def test_copyto_converts_and_writes():
    target = nd.zeros((2,), dtype="int32")
    assert nd.array([1.9, -1.9]).copyto(target) is target
    np.testing.assert_array_equal(target.asnumpy(), [1, -1])
    with pytest.raises(ValueError, match="3"):
        nd.zeros((3,)).copyto(target)


# -- Python's protocols ------------------------------------------------------------------------


def test_length_and_iteration_go_over_axis_0():
    x = nd.arange(6).reshape((3, 2))
    assert len(x) == 3
    assert [row.asnumpy().tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert [v.shape for v in nd.arange(2)] == [(1,), (1,)]


def test_one_element_has_a_truth_value():
    for values, truth in (([0], False), ([2], True), ([[-1]], True)):
        assert bool(nd.array(values)) is truth
    with pytest.raises(ValueError, match=r"\(2,\).*ambiguous"):
        bool(nd.ones((2,)))


def test_numbers_come_out_of_single_elements_only():
    x = nd.array([3.5])
    assert (x.asscalar(), float(x), int(x)) == (3.5, 3.5, 3)
    assert isinstance(x.asscalar(), np.float32)
    assert [10, 20, 30][nd.array([2], dtype="int32")] == 30
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        nd.ones((2, 3)).asscalar()
    with pytest.raises(TypeError, match="float32"):
        [1, 2][x]


def test_printing_shows_values_shape_and_context():
    assert repr(nd.array([[1, 2, 3]])) == "\n[[1. 2. 3.]]\n<NDArray 1x3 @cpu(0)>"
    assert str(nd.array([7], dtype="int32")) == "\n[7]\n<NDArray 1 @cpu(0)>"


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pickling_keeps_values_dtype_and_shape(dtype):
    x = nd.array([[0, 1, 2]], dtype=dtype)
    y = pickle.loads(pickle.dumps(x))
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(
        y.astype("float32").asnumpy(), [[0, 1, 1 if dtype == "bool" else 2]]
    )


def test_numpy_takes_an_array_as_an_array():
    x = nd.array([1, 2, 3])
    np.testing.assert_array_equal(np.asarray(x), [1, 2, 3])
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert np.stack([x, x]).shape == (2, 3)


def test_zero_size_arrays_pass_through():
    x = nd.array(np.zeros((0, 3), np.float32))
    assert (x + 1).shape == (0, 3)
    assert x.asnumpy().shape == (0, 3)
    assert len(x) == 0
    assert not bool(x)


# -- contexts ----------------------------------------------------------------------------------


def test_arrays_live_on_the_current_context():
    assert nd.zeros((1,)).context == mx.cpu(0)
    with mx.Context("cpu", 1):
        assert nd.zeros((1,)).ctx == nd.array([1]).ctx == mx.cpu(1)
    assert nd.zeros((1,), ctx=mx.cpu(2)).context == mx.cpu(2)
    assert mx.current_context() == mx.cpu(0)


def test_arrays_move_between_contexts():
    x = nd.array([1, 2])
    y = x.as_in_context(mx.cpu(1))
    assert y.context == mx.cpu(1)
    assert x.as_in_context(mx.cpu(0)) is x
    y += 1
    np.testing.assert_array_equal(x.asnumpy(), [1, 2])
    np.testing.assert_array_equal(y.copyto(mx.cpu(0)).asnumpy(), [2, 3])


@pytest.mark.parametrize(
    "make",
    [
        lambda out: nd.zeros((2, 3), out=out),
        lambda out: nd.full((2, 3), 4, ctx=mx.cpu(0), out=out),
        lambda out: nd.random.normal(0, 1, out=out),
        lambda out: nd.random_uniform(2, 3, out=out),
        lambda out: nd.random_uniform(2, 3, shape=None, ctx=mx.cpu(0), out=out),
        lambda out: nd.random.randint(3, 9, dtype="int32", out=out.astype("int32")),
    ],
)
def test_without_inputs_out_says_where_and_which_shape(make):
    out = nd.full((2, 3), -7, ctx=mx.cpu(1))
    made = make(out)
    assert made.ctx == mx.cpu(1)
    assert made.shape == (2, 3)
    assert -7 not in made.asnumpy()
    assert made is out or made.dtype == np.int32


def test_a_given_shape_must_be_that_of_out():
    with pytest.raises(ValueError, match=r"out must have shape \(3, 3\), got \(2, 3\)"):
        nd.random_uniform(0, 1, shape=(3, 3), out=nd.zeros((2, 3)))


@pytest.mark.parametrize("kind", ["cpu_pinned", "cpu_shared"])
def test_transfer_memory_goes_with_any_cpu(kind):
    there = mx.Context(kind, 0)
    x, y = nd.array([1, 2]), nd.array([10, 20], ctx=there)
    for total in (x + y, y + x, nd.add_n(y, y, x) - y):
        assert total.ctx == mx.cpu(0)
        np.testing.assert_array_equal(total.asnumpy(), [11, 22])
    assert (y * 2).ctx == nd.stack(y, y).ctx == mx.cpu(0)
    assert (nd.ones((2,), ctx=mx.cpu(1)) + y).ctx == mx.cpu(1)
    out = nd.zeros((2, 2), ctx=there)
    assert nd.stack(x, x, out=out) is out and out.ctx == there
    np.testing.assert_array_equal(out.asnumpy(), [[1, 2], [1, 2]])
    y += x
    assert y.ctx == there
    np.testing.assert_array_equal(y.asnumpy(), [11, 22])
    y.attach_grad()
    with mx.autograd.record():
        loss = (y * x).sum()
    loss.backward()
    np.testing.assert_array_equal(y.grad.asnumpy(), [1, 2])


def test_an_array_stands_for_its_type():
    x = nd.array([1.5, 2])
    assert x.astype(nd.zeros((3,), dtype="int32")).dtype == np.int32
    assert x.astype(np.zeros(1, "float16")).dtype == np.float16
    assert x.astype(nd.zeros((1,)), copy=False) is x
    with pytest.raises(TypeError, match="dtype"):
        x.astype(object())


def test_out_and_name_may_follow_the_parameters():
    x, out = nd.array([[4, 9]]), nd.zeros((1, 2))
    assert nd.sqrt(x, out) is out
    np.testing.assert_array_equal(out.asnumpy(), [[2, 3]])
    nd.dot(x, nd.ones((2, 2)), False, False, None, out, "product")
    np.testing.assert_array_equal(out.asnumpy(), [[13, 13]])
    order = nd.arange(100)
    nd.random.shuffle(order, out=order)
    nd.shuffle(order, order)
    np.testing.assert_array_equal(np.sort(order.asnumpy()), np.arange(100))
    with pytest.raises(TypeError, match="sqrt: out must be .*, got int"):
        nd.sqrt(x, 3)
    with pytest.raises(TypeError, match="sqrt.*at most 1 positional.*name must be .*, got int"):
        nd.sqrt(x, None, 3)
    with pytest.raises(TypeError, match="at most 1 positional arguments, then out and name$"):
        nd.sqrt(x, out, "name", 1)


def test_functions_of_two_operands_take_numbers():
    x = nd.array([1, 5])
    for found, expected in (
        (nd.maximum(x, 3), [3, 5]),
        (nd.minimum(3, x), [1, 3]),
        (nd.subtract(10, x), [9, 5]),
        (nd.lesser(x, 3), [1, 0]),
    ):
        np.testing.assert_array_equal(found.asnumpy(), expected)
    assert nd.maximum(2, 3) == 3
    with pytest.raises(TypeError, match="maximum.*str"):
        nd.maximum("a", 3)


def test_moveaxis_and_concatenate_are_numpys():
    x = nd.arange(24).reshape((2, 3, 4))
    for axes in ((0, 2), ([0, 1], [-1, 0])):
        moved = nd.moveaxis(x, *axes).asnumpy()
        np.testing.assert_array_equal(moved, np.moveaxis(x.asnumpy(), *axes))
    joined = nd.concatenate([x, x], axis=1)
    np.testing.assert_array_equal(joined.asnumpy(), np.concatenate([x.asnumpy()] * 2, 1))


@pytest.mark.parametrize(
    "name, dtype",
    [("int", "int64"), ("float", "float64"), ("half", "float16"), ("f4", "float32"),
     ("<f8", "float64"), ("|u1", "uint8"), ("=u2", "uint16"), ("|b1", "bool"),
     *[(c, c) for c in "?efdbhilqpBHILQP"],
     *[(n, n) for n in ("short", "intc", "intp", "longlong", "ushort", "uintc", "uintp",
                        "ulonglong")]],
)  # fmt: skip
def test_other_names_of_numpy_for_dtypes(name, dtype):
    ones = mx.nd.ones((2,))
    assert ones.astype(name).dtype == np.dtype(dtype)
    assert mx.nd.one_hot(ones, 3, dtype=name).dtype == np.dtype(dtype)
    assert mx.nd.zeros((1,), dtype=name).dtype == nd.array([1], dtype=name).dtype == np.dtype(dtype)
    with pytest.raises(TypeError, match="dtype must be .*, got 'halves'"):
        nd.array([1], dtype="halves")


def test_texts_of_numbers_are_numbers():
    assert nd.array(["1", "20"]).asnumpy().tolist() == [1, 20]
    found = nd.array([["1.5"], ["-2"]], dtype="float64")
    assert (found.dtype, found.asnumpy().tolist()) == (np.float64, [[1.5], [-2]])
    with pytest.raises(TypeError, match="values must be .*, got dtype <U1"):
        nd.array(["a"])


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[1], 2], [object()], "abc", {"a": 1}])
def test_values_that_are_no_rectangle_of_numbers(values):
    with pytest.raises(TypeError, match="rectangular array of numbers"):
        nd.array(values)


@pytest.mark.parametrize(
    "shape",
    [(2, 1), [2, 1], (np.int64(2), np.uint8(1)), (2, True), np.array([2, 1]), Sizes((2, 1))],
)
@pytest.mark.parametrize("make", [nd.empty, nd.zeros, lambda s: nd.reshape(nd.ones(2), shape=s)])
def test_shapes_of_all_integer_types_are_read_alike(make, shape):
    assert make(shape).shape == (2, 1)


@pytest.mark.parametrize("make", [nd.empty, nd.zeros])
def test_shapes_that_are_none_are_errors_that_name_them(make):
    for shape in [(2, 2**63), (2, -(2**70)), (1,) * 13, (2.5,), ("2",), (2, None)]:
        with pytest.raises((TypeError, ValueError), match="shape"):
            make(shape)
    assert make(()).shape == ()
    assert make((1,) * 12).ndim == 12


def test_bfloat16_without_the_package_of_its_type():
    text = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "from mxlite import nd\n"
        "x = nd.array([1, 2], dtype='bfloat16')\n"
        "x[:] = [3, 4]; x[[0]] = [5]\n"
        "print(x.astype('float32').asnumpy())"
    )
    assert run_python("-c", text).stdout == "[5. 4.]\n"
