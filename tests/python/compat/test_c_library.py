"""mx.base._LIB: the functions that programs outside of MXNet call, with 1.9.1's arguments."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from alias_runner import run_code
from mxlite.base import (
    _LIB,
    MXNetError,
    NDArrayHandle,
    SymbolHandle,
    c_handle_array,
    check_call,
    mx_uint,
    py_str,
)


def test_a_program_that_makes_an_index_runs_by_the_import_alias(tmp_path: Path) -> None:
    """The program makes the calls of rec2idx.py of 1.9.1."""
    printed = run_code(
        """
        import ctypes
        import mxnet
        from mxnet.base import _LIB, check_call

        class Indexer(mxnet.recordio.MXRecordIO):
            def __init__(self, uri, path, key_type=int):
                self.key_type, self.path, self.lines = key_type, path, None
                super().__init__(uri, "r")

            def open(self):
                super().open()
                self.lines = open(self.path, "w")

            def close(self):
                super().close()
                self.lines.close()

            def tell(self):
                position = ctypes.c_size_t()
                check_call(_LIB.MXRecordIOReaderTell(self.handle, ctypes.byref(position)))
                return position.value

            def index(self):
                self.reset()
                number = 0
                while True:
                    position = self.tell()
                    if self.read() is None:
                        break
                    self.lines.write("%s\\t%d\\n" % (str(self.key_type(number)), position))
                    number += 1

        expected = mxnet.recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")
        for number, size in enumerate((3, 0, 100, 7)):
            expected.write_idx(number, b"x" * size)
        expected.close()
        indexer = Indexer("a.rec", "b.idx")
        indexer.index()
        indexer.close()
        print(open("a.idx").read() == open("b.idx").read(), len(open("b.idx").readlines()))
        """,
        tmp_path,
    )
    assert printed.split() == ["True", "4"]


def address_of(array: mx.nd.NDArray) -> int:
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    assert pointer.value is not None
    return pointer.value


def test_data_can_be_read_and_written_at_its_address() -> None:
    array = mx.nd.arange(6).reshape((2, 3)) + 1
    assert isinstance(array.handle, NDArrayHandle) and NDArrayHandle is SymbolHandle
    check_call(_LIB.MXNDArrayWaitToRead(array.handle))
    check_call(_LIB.MXNDArrayWaitToWrite(array.handle))
    floats = ctypes.cast(address_of(array), ctypes.POINTER(ctypes.c_float))
    assert [floats[i] for i in range(6)] == [1, 2, 3, 4, 5, 6]
    floats[4] = 50
    assert array[1, 1].asscalar() == 50
    assert address_of(array[1]) == address_of(array) + 12
    assert list(c_handle_array([array, array])) == [array.handle.value] * 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_values_are_copied_from_and_to_memory(dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype(dtype)
    array = mx.nd.zeros((3, 4), dtype=dtype)
    size = ctypes.c_size_t(12)
    source = values.ctypes.data_as(ctypes.c_void_p)
    check_call(_LIB.MXNDArraySyncCopyFromCPU(array.handle, source, size))
    assert np.array_equal(array.asnumpy(), values)
    found = np.zeros_like(values)
    turned = array.T
    target = found.ctypes.data_as(ctypes.c_void_p)
    check_call(_LIB.MXNDArraySyncCopyToCPU(turned.handle, target, size))
    assert np.array_equal(found.reshape(4, 3), values.T)
    empty = mx.nd.zeros((0, 2))
    check_call(_LIB.MXNDArraySyncCopyToCPU(empty.handle, None, ctypes.c_size_t(0)))


def sparse() -> mx.nd.NDArray:
    return mx.nd.ones((2, 2)).tostype("csr")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _LIB.MXNDArrayGetData(None, ctypes.byref(ctypes.c_void_p())), "got null"),
        (lambda: _LIB.MXNDArrayGetData(mx.nd.ones(1).handle, None), "data must be an address"),
        (lambda: _LIB.MXNDArrayWaitToRead(sparse().handle), "must be dense"),
        (lambda: copied(mx.nd.ones(4), 3), "must be the 4 elements of the array, got 3"),
        (lambda: copied(mx.nd.ones(4), 4, 1), "multiple of the element size 4"),
        (lambda: _LIB.MXRecordIOReaderTell(None, None), "got null"),
        (lambda: _LIB.MXListAllOpNames(None, None), "size must be an address"),
        (lambda: _LIB.MXSetNumOMPThreads(ctypes.c_int(0)), "thread count must be positive, got 0"),
        (lambda: _LIB.MXStorageEmptyCache(9, 0), "must be 1, 2 or 3, got 9"),
        (lambda: _LIB.MXGetGPUMemoryInformation64(1000, None, None), "1000"),
        (lambda: _LIB.MXNDArrayFromDLPack(None, 0, None), "tensor must be an address"),
        (lambda: _LIB.MXNDArrayFree(mx.nd.ones(1).handle), "must be a new one"),
    ],
)
def test_mistakes_are_errors(call: Callable[[], int], message: str) -> None:
    returned = call()
    assert returned == -1
    with pytest.raises(MXNetError, match=message):
        check_call(returned)


def copied(array: mx.nd.NDArray, size: int, shift: int = 0) -> Any:
    memory = np.zeros(16, "uint8").ctypes.data + shift
    return _LIB.MXNDArraySyncCopyToCPU(array.handle, ctypes.c_void_p(memory), ctypes.c_size_t(size))


def test_a_computation_that_failed_is_an_error_of_the_call() -> None:
    class Fails(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            raise ValueError("on purpose")

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Fails()

    mx.operator.register("fails_for_c_library")(Prop)
    array = mx.nd.Custom(mx.nd.ones(2), op_type="fails_for_c_library")
    assert _LIB.MXNDArrayGetData(array.handle, ctypes.byref(ctypes.c_void_p())) == -1
    assert b"on purpose" in _LIB.MXGetLastError()


def test_operators_are_listed() -> None:
    size, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    found = {py_str(names[i]) for i in range(size.value)}
    assert {"Convolution", "FullyConnected", "elemwise_add", "_plus_scalar", "dot"} <= found


def test_gpus_are_counted() -> None:
    count = ctypes.c_int(7)
    check_call(_LIB.MXGetGPUCount(ctypes.byref(count)))
    assert count.value == mx.num_gpus()


def test_threads_seeds_caches_and_bulks_are_set() -> None:
    before = mx._core.cpu_threads()
    try:
        check_call(_LIB.MXSetNumOMPThreads(ctypes.c_int(before + 1)))
        assert mx._core.cpu_threads() == before + 1
    finally:
        mx._core.set_cpu_threads(before)
    drawn = []
    for seed in (lambda: check_call(_LIB.MXRandomSeed(-5)), lambda: mx.random.seed(-5)):
        seed()
        drawn.append(mx.nd.random.uniform(shape=4).asnumpy().tolist())
    assert drawn[0] == drawn[1]
    check_call(_LIB.MXStorageEmptyCache(1, 0))
    old = ctypes.c_int()
    check_call(_LIB.MXEngineSetBulkSize(ctypes.c_int(7), ctypes.byref(old)))
    assert mx.engine.set_bulk_size(old.value) == 7


def dlpack_of(array: mx.nd.NDArray) -> ctypes.c_void_p:
    tensor = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayToDLPack(array.handle, ctypes.byref(tensor)))
    return tensor


def test_arrays_pass_through_dlpack_tensors() -> None:
    array = mx.nd.arange(6).reshape((2, 3))
    handle = NDArrayHandle()
    check_call(_LIB.MXNDArrayFromDLPack(dlpack_of(array), False, ctypes.byref(handle)))
    same = mx.nd.NDArray(handle=handle)
    assert same.handle.value == handle.value
    same[0, 1] = 10
    assert array[0, 1].asscalar() == 10
    with pytest.raises(ValueError, match="must be a new one of MXNDArrayFromDLPack"):
        mx.nd.NDArray(handle)
    with pytest.raises(ValueError, match="must be a new one"):
        mx.nd.NDArray(ctypes.c_void_p())
    with pytest.raises(TypeError, match="cannot be made directly"):
        mx.nd.NDArray(5)
    check_call(_LIB.MXNDArrayFromDLPack(dlpack_of(array), False, ctypes.byref(handle)))
    check_call(_LIB.MXNDArrayFree(handle))

    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                                   ctypes.c_void_p]  # fmt: skip
    capsule = new_capsule(dlpack_of(array), b"dltensor", None)
    assert mx.nd.from_dlpack(capsule).asnumpy().tolist() == array.asnumpy().tolist()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("MXSymbolCreateVariable", "mx.sym.Symbol"),
        ("MXLoadLib", "mx.operator.CustomOp"),
        ("MXImperativeInvokeEx", "the operators of mx.nd"),
        ("MXNotThere", "the Python functions of mxlite"),
    ],
)
def test_other_functions_say_what_to_use(name: str, use: str) -> None:
    with pytest.raises(AttributeError, match=f"_LIB has no function '{name}'; use .*{use}"):
        getattr(_LIB, name)
    assert not hasattr(_LIB, name)


def test_symbols_of_libraries_behind_it_are_found() -> None:
    assert _LIB.omp_get_max_threads() >= 1
    assert os.path.samefile(_LIB._name, mx._core.__file__)
