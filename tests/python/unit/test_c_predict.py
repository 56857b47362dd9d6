"""MXNet's C interface for inference, called from Python so that the sanitizers' run covers it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest

LIBRARY = ctypes.CDLL(str(Path(mx.__file__).parent / "libmxlite.so"))
LIBRARY.MXGetLastError.restype = ctypes.c_char_p
FILES = Path(__file__).resolve().parents[2] / "data" / "mxnet_1_9_1"
SYMBOL, PARAMS = (
    (FILES / f"classifier-{end}").read_bytes() for end in ("symbol.json", "0001.params")
)


def create(symbol: bytes = SYMBOL, params: bytes = PARAMS, key: bytes = b"data",
           shape: tuple[int, ...] = (2, 5)) -> tuple[int, ctypes.c_void_p]:  # fmt: skip
    handle = ctypes.c_void_p()
    shapes = (ctypes.c_uint * 2)(0, len(shape)), (ctypes.c_uint * len(shape))(*shape)
    status = LIBRARY.MXPredCreate(
        symbol, params, len(params), 1, 0, 1, (ctypes.c_char_p * 1)(key), *shapes,
        ctypes.byref(handle),
    )  # fmt: skip
    return status, handle


@pytest.fixture
def predictor() -> Any:
    status, handle = create()
    assert status == 0, LIBRARY.MXGetLastError()
    yield handle
    assert LIBRARY.MXPredFree(handle) == 0


def run(handle: ctypes.c_void_p, values: np.ndarray) -> np.ndarray:
    found = np.empty((2, 3), "float32")
    data, out = (a.ctypes.data_as(ctypes.c_void_p) for a in (values, found))
    assert LIBRARY.MXPredSetInput(handle, b"data", data, values.size) == 0
    assert LIBRARY.MXPredForward(handle) == 0, LIBRARY.MXGetLastError()
    assert LIBRARY.MXPredGetOutput(handle, 0, out, found.size) == 0
    return found


VALUES = np.linspace(-1, 1.25, 10, dtype="float32").reshape(2, 5)


def test_numbers_are_those_of_python(predictor: ctypes.c_void_p) -> None:
    block = mx.gluon.SymbolBlock.imports(
        str(FILES / "classifier-symbol.json"), ["data", "softmax_label"],
        str(FILES / "classifier-0001.params"),
    )  # fmt: skip
    expected = block(mx.nd.array(VALUES), mx.nd.zeros(2)).asnumpy()
    np.testing.assert_allclose(run(predictor, VALUES), expected, 1e-5)


def test_a_monitor_gets_the_results_of_each_node(predictor: ctypes.c_void_p) -> None:
    seen: dict[str, np.ndarray] = {}

    def note(name: bytes, array: int, _: int) -> None:
        ndim, shape = ctypes.c_uint(), ctypes.POINTER(ctypes.c_uint)()
        handle = ctypes.c_void_p(array)
        LIBRARY.MXNDArrayGetShape(handle, ctypes.byref(ndim), ctypes.byref(shape))
        found = np.zeros([shape[i] for i in range(ndim.value)], "float32")
        size = ctypes.c_size_t(found.size)
        LIBRARY.MXNDArraySyncCopyToCPU(handle, found.ctypes.data_as(ctypes.c_void_p), size)
        assert LIBRARY.MXNDArrayFree(handle) == 0
        seen[name.decode()] = found

    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
    callback, never = kind(note), ctypes.cast(None, kind)
    assert LIBRARY.MXPredSetMonitorCallback(predictor, callback, None, ctypes.c_bool(True)) == 0
    scores = run(predictor, VALUES)
    np.testing.assert_array_equal(seen["softmax_output"], scores)
    np.testing.assert_array_equal(seen["fc1_data"], VALUES)
    np.testing.assert_allclose(
        seen["fc1_output"], VALUES @ seen["fc1_weight"].T + seen["fc1_bias"], 1e-5
    )
    seen.clear()
    assert LIBRARY.MXPredSetMonitorCallback(predictor, never, None, ctypes.c_bool(True)) == 0
    np.testing.assert_allclose(run(predictor, VALUES), scores, 1e-5)
    assert not seen


WRONG: dict[str, tuple[Callable[[], int], str]] = {
    "no symbol": (lambda: create(symbol=b"{")[0], "MXPredCreate"),
    "half of a symbol": (lambda: create(symbol=SYMBOL[: len(SYMBOL) // 2])[0], "MXPredCreate"),
    "half of the parameters": (lambda: create(params=PARAMS[: len(PARAMS) // 2])[0], "parameters"),
    "no parameters": (lambda: create(params=b"")[0], "MXPredCreate"),
    "unknown input": (lambda: create(key=b"pixels")[0], "must be one of data"),
    "empty shape": (lambda: create(shape=(0, 5))[0], "extents of at least 1"),
    "freed handle": (lambda: LIBRARY.MXPredForward(ctypes.c_void_p(16)), "not freed"),
    "no handle": (lambda: LIBRARY.MXPredFree(None), "the handle must be"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_errors(name: str) -> None:
    call, words = WRONG[name]
    assert call() == -1
    assert words in LIBRARY.MXGetLastError().decode()
