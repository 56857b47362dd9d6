"""mx.rtc without a GPU; tests/python/gpu/test_rtc_on_gpu.py has the rest."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest

needs_none = pytest.mark.skipif(mx.num_gpus() > 0, reason="there is a GPU")


@needs_none
def test_modules_need_a_gpu() -> None:
    with pytest.raises(mx.base.DeviceError, match=r"CudaModule: gpu\(0\) cannot be used: "):
        mx.rtc.CudaModule('extern "C" __global__ void f() {}')


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: mx.rtc.CudaModule(b"source"), "source must be str, got bytes"),
        (lambda: mx.rtc.CudaModule("", [1]), "options must be str, got int"),
        (lambda: mx.rtc.CudaModule("", (), [None]), "exports must be str, got NoneType"),
        (lambda: mx.rtc.CudaModule("int x;\0int y;"), "must not contain a NUL character"),
        (lambda: made(None), "get_kernel: signature must be str, got NoneType"),
        (lambda: made("int n", 3), "get_kernel: name must be str, got int"),
        (
            lambda: launched("float *x", mx.nd.ones(1)),
            "args must be a list of arrays and numbers, got NDArray",
        ),
        (lambda: launched("int n", [1], 1), "CudaKernel f: grid_dims must be 3 ints, got int"),
    ],
)
def test_texts_lists_and_dimensions_are_checked(act: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        act()


class Launched:
    """Takes the place of a compiled kernel, and keeps the last launch."""

    def kernel(self, name: str, is_const: list[bool]) -> Launched:
        return self

    def launch(self, device: int, arguments: list[Any], *dims: Any) -> None:
        self.arguments, self.dims = arguments, dims


def made(signature: Any, name: Any = "f") -> mx.rtc.CudaKernel:
    module = mx.rtc.CudaModule.__new__(mx.rtc.CudaModule)
    module.handle = Launched()  # type: ignore[assignment]
    return module.get_kernel(name, signature)


ONE = (1, 1, 1)


def launched(parameter: str, arguments: Any, grid: Any = ONE) -> None:
    made(parameter).launch(arguments, mx.gpu(0), grid, ONE)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("parameter", "value", "want"),
    [
        ("int n", np.float16(3), np.int32(3)),
        ("int64_t n", 2**63 - 1, np.int64(2**63 - 1)),
        ("float x", np.float64(0.1), np.float32(0.1)),
        ("float x", float("inf"), np.float32("inf")),
        ("__half x", np.bool_(True), np.float16(1)),
    ],
)
def test_numbers_become_the_type_of_their_parameter(parameter: str, value: Any, want: Any) -> None:
    kernel = made(parameter)
    kernel.launch([value], mx.gpu(0), ONE, np.array(ONE))
    assert kernel.handle.arguments == [want.tobytes()]  # type: ignore[attr-defined]
    assert kernel.handle.dims == (ONE, ONE, 0)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (
            "float x",
            1e300,
            "argument 0 must be a number from -3.40282e[+]38 to 3.40282e[+]38, .*, got 1e[+]300",
        ),
        ("float x", np.float64(-1e39), "argument 0 must be a number from .*, got -1e[+]39"),
        pytest.param(
            "double x", 10**400, "argument 0 must be a number from .*, got 1000", id="long integer"
        ),
        ("__half x", 1e6, "argument 0 must be a number from -65504 to 65504, .*, got 1000000.0"),
        ("int64_t n", np.float64(2**63), "a whole number from -9223372036854775808 to"),
        ("int n", np.float16("inf"), "argument 0 must be a whole number from .*, got inf"),
    ],
)
def test_numbers_that_a_parameter_cannot_hold_are_refused(
    parameter: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        launched(parameter, [value])
