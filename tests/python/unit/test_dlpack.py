"""Arrays to and from other libraries by DLPack, without copies."""

from __future__ import annotations

import ctypes
import gc

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from recording import differentiated

needs_numpy_dlpack = pytest.mark.skipif(
    not hasattr(np, "from_dlpack"), reason="numpy.from_dlpack came with NumPy 1.23"
)
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]


@needs_numpy_dlpack
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_the_memory_of_an_array(dtype):
    x = nd.array([[0, 1, 2], [3, 4, 5]], dtype=dtype)
    view = np.from_dlpack(x)
    assert view.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(view, [[0, 1, 2], [3, 4, 5]])
    x[0, 1] = 7
    x.wait_to_read()
    assert view[0, 1] == 7


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_reads_the_memory_of_numpy(dtype):
    source = np.arange(6).reshape(2, 3).astype(dtype)
    x = nd.from_dlpack(source)
    assert (x.shape, x.dtype) == ((2, 3), np.dtype(dtype).type)
    np.testing.assert_array_equal(x.asnumpy(), source)
    source[1, 2] = 9
    assert x[1, 2].asscalar() == 9


def test_strided_memory_is_taken_as_it_is():
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = nd.from_dlpack(source.T)
    np.testing.assert_array_equal(x.asnumpy(), source.T)
    np.testing.assert_array_equal((x * 2).asnumpy(), source.T * 2)


@needs_numpy_dlpack
def test_either_side_keeps_the_memory_alive():
    view = np.from_dlpack(nd.full((1000,), 3))
    x = nd.from_dlpack(np.full(1000, 4, np.float32))
    gc.collect()
    filler = [nd.zeros((1000,)) for _ in range(16)]
    np.testing.assert_array_equal(view, np.full(1000, 3))
    np.testing.assert_array_equal(x.asnumpy(), np.full(1000, 4))
    assert len(filler) == 16


def test_a_capsule_goes_round():
    x = nd.arange(4)
    for export in (nd.to_dlpack_for_read, nd.to_dlpack_for_write):
        y = nd.from_dlpack(export(x))
        y += 1
        y.wait_to_read()
    np.testing.assert_array_equal(x.asnumpy(), [2, 3, 4, 5])


def test_work_on_both_arrays_of_a_round_trip_stays_in_order():
    x = nd.zeros((1 << 20,))
    y = nd.from_dlpack(x.__dlpack__())
    for _ in range(20):
        y += 1
        x += 1
    np.testing.assert_array_equal(x.asnumpy(), np.full(1 << 20, 40, np.float32))
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())


def test_a_capsule_serves_once():
    capsule = nd.arange(4).__dlpack__()
    nd.from_dlpack(capsule)
    with pytest.raises(mx.MXNetError, match=r"(?i)capsule"):
        nd.from_dlpack(capsule)


def test_an_unused_capsule_frees_its_array():
    before = mx._core.memory_stats()["in_use"]
    for _ in range(10):
        nd.zeros((1 << 20,)).__dlpack__()
    gc.collect()
    nd.waitall()
    assert mx._core.memory_stats()["in_use"] <= before + (1 << 20)


def test_exporting_waits_for_the_value():
    x = nd.ones((400, 400))
    for _ in range(10):
        x = nd.dot(x, nd.ones((400, 400))) / 400
    y = nd.from_dlpack(x.__dlpack__())
    np.testing.assert_allclose(y.asnumpy(), np.ones((400, 400)), rtol=1e-5)


def test_the_device_is_the_host():
    assert tuple(nd.ones((1,)).__dlpack_device__()) == (1, 0)


@pytest.mark.parametrize("bad", [3, "text", [1, 2], None])
def test_what_has_no_dlpack_is_a_type_error(bad):
    with pytest.raises(TypeError):
        nd.from_dlpack(bad)


def test_an_imported_array_can_be_a_variable():
    x = nd.from_dlpack(np.float32([1, 2, 3]))
    differentiated(lambda x: x * x, x)
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4, 6])


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int * 2),
        ("ndim", ctypes.c_int),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": None}, "must have memory"),
        ({"byte_offset": 1}, "must be a multiple of the element size"),
        ({"shape": None}, "must have a shape, got none for 1 dimensions"),
        ({"strides": (ctypes.c_int64 * 1)(2**62)}, "overflows 64 bits"),
    ],
)
def test_a_capsule_of_another_library_is_checked(change, words):
    values = np.arange(8, dtype="float32")
    tensor = _Tensor()
    tensor.data, tensor.ndim, tensor.byte_offset = values.ctypes.data, 1, 0
    tensor.device[:], tensor.dtype[:] = (1, 0), (2, 32, 1, 0)
    tensor.shape = (ctypes.c_int64 * 1)(5)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    address = ctypes.addressof(tensor)
    assert nd.from_dlpack(new(address, b"dltensor", None)).asnumpy().tolist() == [0, 1, 2, 3, 4]
    for name, value in change.items():
        setattr(tensor, name, value)
    with pytest.raises(ValueError, match=words) as caught:
        nd.from_dlpack(new(address, b"dltensor", None))
    assert isinstance(caught.value, mx.MXNetError)


@pytest.mark.parametrize("share", [nd.from_numpy, nd.from_dlpack])
@pytest.mark.parametrize(
    "view",
    [
        lambda values: values[::-1],
        lambda values: values.T,
        lambda values: values[:, ::-1].T,
        lambda values: np.broadcast_to(values[1], (4, 4)),
        lambda values: np.broadcast_to(values[:, 2:3], (4, 4)),
    ],
)
def test_values_from_the_memory_that_is_written(share, view):
    values = np.arange(16, dtype="float32").reshape(4, 4)
    x = share(values)
    expected = view(values).copy()
    x[:] = view(values)
    np.testing.assert_array_equal(x.asnumpy(), expected)
    x[1:] = values[:-1]
    np.testing.assert_array_equal(x.asnumpy()[1:], expected[:-1])
