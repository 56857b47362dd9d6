"""mx.rtc without a GPU; tests/python/gpu/test_rtc_on_gpu.py has the rest."""

from __future__ import annotations

import mxlite as mx
import pytest

needs_none = pytest.mark.skipif(mx.num_gpus() > 0, reason="there is a GPU")


@needs_none
def test_modules_need_a_gpu() -> None:
    with pytest.raises(mx.base.DeviceError, match=r"CudaModule: gpu\(0\) asked for, but"):
        mx.rtc.CudaModule('extern "C" __global__ void f() {}')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((b"source",), "source must be str, bytes given"),
        (("", [1]), "options must be str, int given"),
        (("", (), [None]), "exports must be str, NoneType given"),
    ],
)
def test_texts_are_checked(arguments, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        mx.rtc.CudaModule(*arguments)


def test_a_source_with_a_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="character of code 0"):
        mx.rtc.CudaModule("int x;\0int y;")
