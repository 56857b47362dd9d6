"""The C interface for inference on a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import _LIB, MXNetError, check_call, mx_uint


def test_predictors_on_the_gpu_give_the_numbers_of_python(tmp_path: Path) -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    net.hybridize()
    x = mx.nd.random.normal(shape=(2, 4), ctx=mx.gpu(0))
    expected = net(x).asnumpy()
    symbol, params = (Path(name).read_bytes() for name in net.export(str(tmp_path / "net")))
    shapes = ((ctypes.c_char_p * 1)(b"data"), (mx_uint * 2)(0, 2), (mx_uint * 2)(2, 4))
    handle, values = ctypes.c_void_p(), x.asnumpy()
    found = np.empty((2, 3), "float32")
    given, taken = (a.ctypes.data_as(ctypes.c_void_p) for a in (values, found))

    def create(device: int) -> int:
        arguments = (symbol, params, len(params), 2, device, 1, *shapes, ctypes.byref(handle))
        return _LIB.MXPredCreate(*arguments)

    check_call(create(0))
    for _ in range(2):
        check_call(_LIB.MXPredSetInput(handle, b"data", given, 8))
        check_call(_LIB.MXPredForward(handle))
        check_call(_LIB.MXPredGetOutput(handle, 0, taken, 6))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    check_call(_LIB.MXPredFree(handle))
    with pytest.raises(MXNetError, match="^MXPredCreate: .*gpu"):
        check_call(create(99))
