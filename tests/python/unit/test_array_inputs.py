"""Every function that takes data takes any array-like, and gives NumPy's values.

Arrays come in all layouts and byte orders, and as objects of other packages, from a seeded
generator; the expected values are those of an ordinary copy of the same array.
"""

import array as python_array
import warnings

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from pairing import pairs

DTYPES = ["float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool"]


class WithArray:
    """Like a tensor of another package: a dtype that NumPy does not know, and ``__array__``."""

    dtype = "other.float32"

    def __init__(self, values):
        self._values = values
        self.shape = values.shape

    def __array__(self, dtype=None, copy=None):
        return self._values if dtype is None else self._values.astype(dtype)

    def __len__(self):
        return len(self._values)

    def __float__(self):
        return float(self._values)

    def __int__(self):
        return int(self._values)

    def __bool__(self):
        return bool(self._values)


class WithInterface:
    def __init__(self, values):
        self._values = values
        self.__array_interface__ = values.__array_interface__


class WithDLPack:
    """Like a tensor whose dtype NumPy lacks: only DLPack exposes its data."""

    def __init__(self, values):
        self._values = nd.array(values, dtype=values.dtype)

    def __dlpack__(self, **kwargs):
        return self._values.__dlpack__()

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no NumPy dtype for these values")


class Sequence:
    def __init__(self, values):
        self._values = values

    def __len__(self):
        return len(self._values)

    def __getitem__(self, index):
        return self._values[index]


def _swapped(values):
    return values.astype(values.dtype.newbyteorder())


def _reversed(values):
    backwards = (..., *(slice(None, None, -1) for _ in values.shape))
    return values[backwards].copy()[backwards]


def _spread(values):
    wide = np.zeros([2 * extent + 1 for extent in values.shape], values.dtype)
    part = wide[(..., *(slice(1, 2 * extent + 1, 2) for extent in values.shape))]
    part[...] = values
    return part


def _read_only(values):
    copy = values.copy()
    copy.flags.writeable = False
    return copy


def _packed(values):
    """Return a field of packed records: strides are not multiples of the element size."""
    records = np.zeros(values.shape, np.dtype([("before", "u1"), ("value", values.dtype)]))
    records["value"] = values
    return records["value"]


def _unaligned(values):
    memory = np.zeros(values.nbytes + 1, np.uint8)
    shifted = memory[1:].view(values.dtype).reshape(values.shape)
    shifted[...] = values
    return shifted


LAYOUTS = {
    "plain": lambda v: v,
    "swapped": _swapped,
    "swapped and spread": lambda v: _spread(_swapped(v)),
    "swapped and reversed": lambda v: _reversed(_swapped(v)),
    "fortran": lambda v: np.array(v, order="F"),
    "reversed": _reversed,
    "spread": _spread,
    "read-only": _read_only,
    "packed": _packed,
    "packed and swapped": lambda v: _packed(_swapped(v)),
    "unaligned": _unaligned,
    "masked": lambda v: np.ma.array(v, mask=np.zeros(v.shape, bool)),
    "broadcast view": lambda v: np.broadcast_to(v[None], (1, *v.shape))[0],
    "subclass": lambda v: v.view(np.recarray),
}
FOREIGN = {
    "__array__": WithArray,
    "__array_interface__": WithInterface,
    "__dlpack__": WithDLPack,
    "memoryview": lambda v: memoryview(np.ascontiguousarray(v)),
    "object": lambda v: v.astype(object),
    "list": lambda v: v.tolist(),
    "tuple of arrays": lambda v: tuple(np.asarray(row) for row in v),
    "list of NDArrays": lambda v: [nd.array(row, dtype=row.dtype) for row in v],
    "list of foreign arrays": lambda v: [WithArray(np.asarray(row)) for row in v],
    "sequence": Sequence,
    "NDArray": lambda v: nd.array(v, dtype=v.dtype),
}
SHAPES = [(3,), (2, 3), (4, 1, 3), (0,), (0, 3), (2, 0), ()]


def values_of(shape, dtype, seed=0):
    """Return random values that every dtype holds and that differ in every byte order."""
    random = np.random.RandomState(seed)
    if dtype == "bool":
        return random.rand(*shape) < 0.5 if shape else np.array(True)
    return np.asarray(random.randint(1, 100, shape)).astype(dtype)


def arrays(seed, shapes=SHAPES, dtypes=DTYPES, foreign=True):
    """Yield (label, array-like, expected values)."""
    for dtype in dtypes:
        for shape in shapes:
            expected = values_of(shape, dtype, seed)
            makers = dict(LAYOUTS)
            if foreign and shape and 0 not in shape:
                makers.update(FOREIGN)
                if len(shape) == 1 and dtype == "int32":
                    makers["array.array"] = lambda v: python_array.array("i", v.tolist())
            for name, make in makers.items():
                if name == "broadcast view" and not shape:
                    continue
                yield f"{name} {dtype} {shape}", make(expected.copy()), expected


def check(label, found, expected, dtype):
    assert found.dtype == np.dtype(dtype).type, label
    assert found.shape == expected.shape, label
    np.testing.assert_array_equal(found.asnumpy(), expected.astype(dtype), err_msg=label)


def test_array_is_float32_unless_asked():
    for label, given, expected in arrays(1):
        dtype = expected.dtype if isinstance(given, nd.NDArray) else "float32"
        check(label, nd.array(given), expected, dtype)
        for wanted in ("float64", "int64", "uint8"):
            check(label, nd.array(given, dtype=wanted), expected, wanted)


def test_assignment_of_array_likes():
    for label, given, expected in arrays(2):
        for dtype in ("float32", "int64"):
            target = nd.zeros(expected.shape or (1,), dtype=dtype)
            target[:] = given
            check(label, target, np.broadcast_to(expected, target.shape), dtype)
            wide = nd.zeros((2, *expected.shape), dtype=dtype)
            wide[1] = given
            np.testing.assert_array_equal(wide.asnumpy()[1], expected.astype(dtype), label)
            assert not wide.asnumpy()[0].any(), label


def test_assignment_at_indices():
    for label, given, expected in arrays(3, shapes=[(3,), (2, 3)]):
        target = nd.zeros((4, *expected.shape))
        target[[2, 0]] = given
        np.testing.assert_array_equal(target.asnumpy()[2], expected.astype("float32"), label)
        np.testing.assert_array_equal(target.asnumpy()[0], expected.astype("float32"), label)


def test_index_arrays():
    data = np.arange(200.0, dtype="float32").reshape(100, 2)
    for label, given, expected in arrays(4, [(3,), (2, 3)], ["int32", "uint8", "int64"], False):
        found = nd.array(data)[given]
        np.testing.assert_array_equal(found.asnumpy(), data[expected], label)


def test_from_numpy_shares_or_copies():
    for label, given, expected in arrays(5, foreign=False):
        copied = nd.from_numpy(given, zero_copy=False)
        check(label, copied, expected, expected.dtype)
        if not given.flags.c_contiguous:
            with pytest.raises(ValueError, match="C-contiguous"):
                nd.from_numpy(given)
        elif not given.dtype.isnative:
            with pytest.raises(TypeError, match="byte order"):
                nd.from_numpy(given)
        elif not given.flags.aligned:
            with pytest.raises(mx.MXNetError, match="multiples of the element size"):
                nd.from_numpy(given)
        else:
            check(label, nd.from_numpy(given), expected, expected.dtype)


def test_memory_that_nobody_may_write_is_copied(tmp_path):
    text = np.arange(4, dtype="float32").tobytes()
    array = nd.from_numpy(np.frombuffer(text, "float32"))
    array[:] = 9
    array.wait_to_read()
    np.testing.assert_array_equal(np.frombuffer(text, "float32"), np.arange(4))
    np.save(tmp_path / "a.npy", np.arange(4.0))
    mapped = nd.from_numpy(np.load(tmp_path / "a.npy", mmap_mode="r"))
    mapped += 1  # a write to the map would end the process
    np.testing.assert_array_equal(mapped.asnumpy(), np.arange(4) + 1)


@pytest.mark.parametrize("shuffle", [False, True])
def test_iterator_over_array_likes(shuffle):
    for label, given, expected in arrays(6, [(5, 2)], foreign=False):
        iterators = []
        for values in (given, nd.array(expected)):
            np.random.seed(7)
            iterators.append(mx.io.NDArrayIter(values, values, batch_size=2, shuffle=shuffle))
        for batch, same in pairs(*iterators):
            check(label, batch.data[0], same.data[0].asnumpy(), "float32")
            check(label, batch.label[0], same.label[0].asnumpy(), "float32")
        assert iterators[0].provide_data[0].dtype == np.float32


def test_iterator_over_a_foreign_table():
    given = WithArray(values_of((4, 2), "int64"))
    batch = next(iter(mx.io.NDArrayIter(given, batch_size=4)))
    check("__array__", batch.data[0], values_of((4, 2), "int64"), "float32")


def test_batchify_and_data_sets():
    for label, given, expected in arrays(8, [(3,), (2, 3), ()], foreign=False):
        batch = gluon.data.dataloader.default_batchify_fn([given, given])
        check(label, batch, np.stack([expected, expected]), expected.dtype)
    for label, given, expected in arrays(9, [(4, 3)], foreign=False):
        loader = gluon.data.DataLoader(gluon.data.ArrayDataset(given, given), batch_size=2)
        found = [part.asnumpy() for part, _ in loader]
        np.testing.assert_array_equal(np.concatenate(found), expected, label)


def test_samples_of_worker_processes():
    values = values_of((4, 3), "int32")
    data = gluon.data.SimpleDataset([_swapped(row) for row in values])
    loader = gluon.data.DataLoader(data, batch_size=2, num_workers=1, batchify_fn=list)
    found = [np.asarray(row) for batch in loader for row in batch]
    np.testing.assert_array_equal(found, values)


def test_parameters_and_initializers():
    for label, given, expected in arrays(10, [(2, 3)]):
        parameter = gluon.Parameter("weight", shape=(2, 3))
        parameter.initialize(mx.init.Constant(given), ctx=mx.cpu())
        check(label, parameter.data(), expected, "float32")
        parameter.set_data(given)
        check(label, parameter.data(), expected, "float32")
        late = gluon.Parameter("late", shape=(2, 0), dtype="int64", allow_deferred_init=True)
        late.initialize()
        late.set_data(given)
        late._finish_deferred_init()
        check(label, late.data(), expected, "int64")
    constant = gluon.Constant("c", _swapped(values_of((2, 3), "float32")))
    constant.initialize()
    check("Constant", constant.data(), values_of((2, 3), "float32"), "float32")


def test_deferred_integers_stay_exact():
    parameter = gluon.Parameter("ids", shape=(0,), dtype="int64", allow_deferred_init=True)
    parameter.initialize()
    parameter.set_data(np.array([2**53 + 1]))
    parameter._finish_deferred_init()
    assert parameter.data().asnumpy().tolist() == [2**53 + 1]


def test_split_and_load():
    for label, given, expected in arrays(11, [(4, 3)]):
        parts = gluon.utils.split_and_load(given, [mx.cpu(0), mx.cpu(1)])
        dtype = expected.dtype if isinstance(given, nd.NDArray) else "float32"
        check(label, parts[0], expected[:2], dtype)
        check(label, parts[1], expected[2:], dtype)


def test_sparse_constructors():
    dense = np.array([[0, 1, 0], [2, 0, 3]])
    for layout in LAYOUTS.values():
        for dtype in ("float32", "int64"):
            data = layout(np.array([1, 2, 3], dtype))
            places = layout(np.array([1, 0, 2], "int32")), layout(np.array([0, 1, 3], "int32"))
            found = nd.sparse.csr_matrix((data, *places), shape=(2, 3))
            check("csr", found, dense, dtype)
            row, column = (layout(np.array(v, "int64")) for v in ([0, 1, 1], [1, 0, 2]))
            check("coordinates", nd.sparse.csr_matrix((data, (row, column))), dense, dtype)
            check("dense", nd.sparse.csr_matrix(layout(dense.astype(dtype))), dense, dtype)
            rows = layout(dense.astype(dtype))
            places = layout(np.array([0, 2], "int64"))
            found = nd.sparse.row_sparse_array((rows, places), shape=(4, 3))
            wanted = np.zeros((4, 3))
            wanted[[0, 2]] = dense
            check("row_sparse", found, wanted, dtype)
            found[:] = layout(wanted.astype(dtype))
            check("row_sparse", found, wanted, dtype)


def test_executors_and_metrics():
    data = mx.sym.Variable("data")
    executor = (data * 2).simple_bind(mx.cpu(), data=(2, 3))
    for label, given, expected in arrays(12, [(2, 3)], ["float32", "float64", "int32"], False):
        check(label, executor.forward(data=given)[0], 2 * expected, "float32")
        metric = mx.metric.MSE()
        metric.update([nd.array(expected)], [given])
        assert metric.get()[1] == 0, label
        metric.update([given], [nd.array(expected) + 2])
        assert metric.get()[1] == pytest.approx(2), label


def test_record_labels_and_images():
    for label, given, expected in arrays(13, [(3,)], ["float32", "float64", "int32"]):
        if isinstance(given, np.ndarray):
            packed = mx.recordio.pack(mx.recordio.IRHeader(0, given, 1, 0), b"x")
            found = mx.recordio.unpack(packed)[0].label
            np.testing.assert_array_equal(found, expected.astype("float32"), label)
    picture = np.random.RandomState(0).randint(0, 255, (6, 7, 3)).astype("uint8")
    plain = mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, 1, 0), picture, img_fmt=".png")
    for layout in (np.asfortranarray, _reversed, _spread, _read_only, LAYOUTS["masked"]):
        other = mx.recordio.pack_img(
            mx.recordio.IRHeader(0, 1.0, 1, 0), layout(picture), img_fmt=".png"
        )
        assert other == plain
        check("", mx.image.imresize(nd.array(layout(picture), dtype="uint8"), 7, 6), picture, "u1")


def test_bytes_of_images_in_any_layout():
    picture = np.random.RandomState(0).randint(0, 255, (6, 7, 3)).astype("uint8")
    record = mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, 1, 0), picture, img_fmt=".png")
    content = np.frombuffer(mx.recordio.unpack(record)[1], np.uint8)
    for name, layout in LAYOUTS.items():
        for dtype in ("uint8", "int32", "float32"):
            given = layout(content.astype(dtype))
            check(name, mx.image.imdecode(given, to_rgb=False), picture, "uint8")
    wide = memoryview(_spread(content))
    assert not wide.c_contiguous
    check("memoryview", mx.image.imdecode(wide, to_rgb=False), picture, "uint8")
    check("NDArray", mx.image.imdecode(nd.array(content), to_rgb=False), picture, "uint8")
    for bad in (content.astype("int32") - 1, content * 1.5, content.astype(object), [1, 2]):
        with pytest.raises(TypeError, match="imdecode: .* bytes of an image"):
            mx.image.imdecode(bad)


def test_parameters_of_modules_and_executors():
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, num_hidden=2, no_bias=True, name="f")
    for label, given, expected in arrays(14, [(2, 3)], ["float32", "float64", "int32"]):
        module = mx.mod.Module(net, label_names=None)
        module.bind([("data", (2, 3))], for_training=False)
        module.init_params(arg_params={"f_weight": given})
        check(label, module.get_params()[0]["f_weight"], expected, "float32")
        module.init_params(mx.init.Zero(), force_init=True)
        module.set_params({"f_weight": given}, {})
        check(label, module.get_params()[0]["f_weight"], expected, "float32")
        executor = net.simple_bind(mx.cpu(), data=(2, 3))
        executor.copy_params_from({"f_weight": given})
        check(label, executor.arg_dict["f_weight"], expected, "float32")
        loaded = nd.zeros((2, 3))
        mx.init.Load({"f_weight": given})("f_weight", loaded)
        check(label, loaded, expected, "float32")


def test_what_is_written_in_place_has_to_be_an_ndarray():
    with pytest.raises(TypeError, match="array 0 must be .*got ndarray"):
        gluon.utils.clip_global_norm([np.ones(2)], 1.0)
    with pytest.raises(TypeError, match="split_data: data must be an NDArray, got list"):
        gluon.utils.split_data([1, 2], 2)


def test_full_takes_arrays():
    check("", nd.full((2, 2), nd.array([3])), np.full((2, 2), 3), "float32")
    check(
        "", nd.full((2, 2), _swapped(np.array([1, 2], "int32"))), np.array([[1, 2]] * 2), "float32"
    )


@pytest.mark.parametrize(
    "given",
    [
        np.array([1 + 2j]),
        [1j],
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]),
        [[1], [1, 2]],
        ["one"],
        {1: 2},
        (number for number in (1, 2)),
        object(),
        b"abc",
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_holds_no_numbers_is_a_type_error(given):
    calls = [
        lambda: nd.array(given),
        lambda: nd.sparse.csr_matrix((given, [0], [0, 1]), shape=(1, 1)),
        lambda: nd.zeros(1).__setitem__(slice(None), given),
    ]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((TypeError, ValueError)) as caught:
                call()
        assert isinstance(caught.value, mx.MXNetError) or not isinstance(given, np.ndarray)


def test_numbers_of_many_kinds():
    from decimal import Decimal
    from fractions import Fraction

    cases = [
        (np.array([1.5], np.longdouble), [1.5]),
        ([Decimal("1.5"), Fraction(1, 2)], [1.5, 0.5]),
        (["2.5", "3"], [2.5, 3]),
        ([None, 1], [np.nan, 1]),
        (np.array([1, 2.5], object), [1, 2.5]),
        ([2**70], [2.0**70]),
        (range(3), [0, 1, 2]),
        (np.array(["2020-01-01"], "M8[D]"), [18262]),
    ]
    for given, expected in cases:
        found = nd.array(given)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.asnumpy(), np.array(expected, "float32"))
    assert nd.array(np.array([2**53 + 1], object), dtype="int64").asnumpy()[0] == 2**53 + 1
    assert nd.array(["9007199254740993"], dtype="int64").asnumpy()[0] == 2**53 + 1
    for bad in ([float("nan")], [None], [2**63]):
        with pytest.raises((TypeError, ValueError)):
            nd.array(bad, dtype="int64")


def test_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2, 3], "b": [4.5, 5.5, 6.5]})
    check("frame", nd.array(table), table.to_numpy(), "float32")
    assert (nd.array(table["a"]) / 2).asnumpy().tolist() == [0.5, 1.0, 1.5]
    for dtype in ("Int64", "Float64", "boolean", "category"):
        column = pandas.Series([1, 0, 1], dtype=dtype)
        check(dtype, nd.array(column), np.array([1, 0, 1]), "float32")
        target = nd.zeros(3)
        target[:] = column
        check(dtype, target, np.array([1, 0, 1]), "float32")
    batches = mx.io.NDArrayIter(table, table["a"], batch_size=3, shuffle=False)
    batch = next(batches)
    check("frame", batch.data[0], table.to_numpy(), "float32")
    check("series", batch.label[0], np.array([1, 2, 3]), "float32")
