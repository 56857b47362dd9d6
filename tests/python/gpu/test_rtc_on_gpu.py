"""Kernels compiled at run time: mx.rtc, and generated kernels of hybridized networks."""

from __future__ import annotations

import os
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from processes import run_python

STAND_IN = "_gpu.so" in os.environ.get("MXLITE_CUDA_LIBRARY", "")

AXPY = r"""
extern "C" __global__ void axpy(const float *x, float *y, float alpha, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) y[i] += alpha * x[i];
}
"""
AXPY_SIGNATURE = "const float *x, float *y, float alpha, int n"
FILL = r"""
template <class T>
__global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
"""


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep compiled code of the tests apart; the variable is read at the first compilation."""
    os.environ.setdefault("MXLITE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def axpy(own_cache: None) -> mx.rtc.CudaKernel:
    return mx.rtc.CudaModule(AXPY).get_kernel("axpy", AXPY_SIGNATURE)


def test_a_kernel_runs_in_the_order_of_operators(axpy: mx.rtc.CudaKernel) -> None:
    gpu = mx.gpu(0)
    x = nd.arange(1000, ctx=gpu) * 2  # not computed yet when the kernel is launched
    y = nd.ones((1000,), ctx=gpu)
    for _ in range(3):
        axpy.launch([x, y, 0.5, 1000], gpu, (4, 1, 1), (256, 1, 1))
    x[:] = -1  # after the kernels that read it
    z = y * 2
    np.testing.assert_array_equal(z.asnumpy(), 2 + 6 * np.arange(1000))


def test_views_are_written_in_place(axpy: mx.rtc.CudaKernel) -> None:
    whole = nd.zeros((4, 10), ctx=mx.gpu(0))
    axpy.launch([nd.ones((10,), ctx=mx.gpu(0)), whole[2], 3, 10], mx.gpu(0), (1, 1, 1), (16, 1, 1))
    want = np.zeros((4, 10))
    want[2] = 3
    np.testing.assert_array_equal(whole.asnumpy(), want)


@pytest.mark.parametrize(
    ("cpp_type", "dtype", "value"),
    [
        ("float", "float32", 1.5),
        ("double", "float64", -1e300),
        ("uint8_t", "uint8", 255),
        ("int", "int32", -(2**31)),
        ("int32_t", "int32", 7),
        ("int8_t", "int8", -128),
        ("char", "int8", 127),
        ("int64_t", "int64", 2**62 + 1),
    ],
)
def test_exported_templates_take_arrays_and_numbers(cpp_type: str, dtype: str, value) -> None:
    types = "using int64_t = long long; using uint8_t = unsigned char; using int8_t = signed char;"
    source = FILL if STAND_IN else f"{types} using int32_t = int;\n{FILL}"
    name = f"fill<{'signed char' if cpp_type == 'char' else cpp_type}>"
    module = mx.rtc.CudaModule(source, exports=(name,))
    x = nd.zeros((7,), ctx=mx.gpu(0), dtype=dtype)
    kernel = module.get_kernel(name, f"{cpp_type}*, {cpp_type}")
    kernel.launch((x, value), mx.gpu(0), (1, 1, 1), (7, 1, 1))
    np.testing.assert_array_equal(x.asnumpy(), np.full(7, value, dtype))


def test_shared_memory_and_barriers() -> None:
    source = r"""
    extern "C" __global__ void reversed(const float* x, float* y) {
      __shared__ float kept[64];
      kept[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      y[threadIdx.x] = kept[63 - threadIdx.x];
    }"""
    x, y = nd.arange(64, ctx=mx.gpu(0)), nd.zeros((64,), ctx=mx.gpu(0))
    kernel = mx.rtc.CudaModule(source).get_kernel("reversed", "const float *, float *")
    kernel.launch([x, y], mx.gpu(0), [1, 1, 1], [64, 1, 1])
    np.testing.assert_array_equal(y.asnumpy(), np.arange(64)[::-1])


def test_messages_of_the_compiler_are_the_error() -> None:
    with pytest.raises(ValueError, match=r"NVRTC(.|\n)*nothing_of_that_name"):
        mx.rtc.CudaModule('extern "C" __global__ void f(float* x) { *x = nothing_of_that_name; }')


def test_unknown_kernels_are_named(axpy: mx.rtc.CudaKernel) -> None:
    kernel = mx.rtc.CudaModule(AXPY).get_kernel("saxpy", "float*")
    with pytest.raises(ValueError, match="no kernel 'saxpy'; declare it extern"):
        kernel.launch([nd.zeros((1,), ctx=mx.gpu(0))], mx.gpu(0), (1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("signature", "error", "message"),
    [
        ("const *x", ValueError, r"parameter 0 must be .*, got 'const \*x'"),
        ("float *x, ", ValueError, "parameter 1 must be .*, got ''"),
        ("float &x", ValueError, "parameter 0 must be .*, got 'float &x'"),
        ("float x y", ValueError, "parameter 0"),
        ("float **x", ValueError, "parameter 0"),
        ("float *x, long n", TypeError, "parameter 1 must have one of the types float"),
        ("half *x", TypeError, "__half"),
    ],
)
def test_signatures_are_checked(signature: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        mx.rtc.CudaModule(AXPY).get_kernel("axpy", signature)


def every_second() -> nd.NDArray:
    return nd.zeros((20,), ctx=mx.gpu(0))._strided_view((10,), (2,), 0)


def at(position: int, value: object) -> dict[str, object]:
    """Return the arguments of a launch with one of them replaced."""
    given = [nd.ones((10,), ctx=mx.gpu(0)), nd.zeros((10,), ctx=mx.gpu(0)), 1.0, 10]
    given[position] = value
    return {"args": given}


def arguments(**changed):
    dims = {"grid_dims": (1, 1, 1), "block_dims": (16, 1, 1)}
    return {**at(3, 10), "ctx": mx.gpu(0), **dims, **changed}


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (lambda: {"args": [1]}, ValueError, "number of arguments must be 4, got 1"),
        (lambda: at(0, 3.0), TypeError, "argument 0 must be an NDArray of"),
        (lambda: at(2, "x"), TypeError, "argument 2 must be a number for"),
        (lambda: at(3, 2.5), ValueError, "argument 3 must be .*, got 2.5"),
        (lambda: at(3, 2**31), ValueError, "argument 3 must be .*, got 2147483648"),
        (lambda: at(3, float("nan")), ValueError, "argument 3 must be .*, got nan"),
        (
            lambda: at(1, nd.zeros((10,), mx.gpu(0), "float64")),
            TypeError,
            "must have dtype float32, got float64",
        ),
        (
            lambda: at(1, nd.zeros((10,))),
            mx.base.DeviceError,
            r"argument 1 must be on the device of the launch, gpu\(0\), got an array on cpu\(0\)",
        ),
        (lambda: at(1, every_second()), ValueError, "argument 1 of shape .* must be contiguous"),
        (
            lambda: at(0, nd.ones((2, 5), mx.gpu(0)).tostype("csr")),
            TypeError,
            "argument 0 must be dense, got a csr array",
        ),
        (lambda: {"ctx": mx.cpu()}, mx.base.DeviceError, r"ctx must be a GPU, got cpu\(0\)"),
        (lambda: {"ctx": "gpu"}, TypeError, "ctx must be a Context, got str"),
        (lambda: {"ctx": mx.gpu(77)}, mx.base.DeviceError, r"gpu\(77\)"),
        (lambda: {"grid_dims": (1, 1)}, ValueError, "grid_dims must be 3 numbers, got 2"),
        (lambda: {"grid_dims": (0, 1, 1)}, ValueError, r"grid_dims must be .*got \(0, 1, 1\)"),
        (lambda: {"block_dims": (1.0, 1, 1)}, TypeError, "block_dims must be int, got float"),
        (lambda: {"block_dims": (512, 4, 1)}, ValueError, "at most 1024 threads"),
        (lambda: {"shared_mem": -1}, ValueError, "shared_mem must be .*, got -1"),
        (lambda: {"shared_mem": 1.5}, TypeError, "shared_mem must be int"),
    ],
)
def test_launches_are_checked(axpy: mx.rtc.CudaKernel, changed, error, message: str) -> None:
    with pytest.raises(error, match=message):
        axpy.launch(**arguments(**changed()))


def test_a_kernel_without_a_name_in_the_signature_and_shared_memory() -> None:
    source = r"""
    extern "C" __global__ void sum(const int* x, int* total) {
      extern __shared__ int kept[];
      kept[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      if (threadIdx.x == 0)
        for (int i = 0; i < 32; ++i) *total += kept[i];
    }"""
    if STAND_IN:  # as the emulator's kernels declare dynamic shared memory
        source = source.replace("extern __shared__ int kept[]", "MX_DYNAMIC_SHARED(int, kept)")
    x, total = nd.arange(32, ctx=mx.gpu(0), dtype="int32"), nd.zeros((1,), mx.gpu(0), "int32")
    kernel = mx.rtc.CudaModule(source).get_kernel("sum", "const int*,int*")
    kernel.launch([x, total], mx.gpu(0), (1, 1, 1), (32, 1, 1), shared_mem=128)
    assert total.asscalar() == 31 * 16


def test_recorded_arrays_are_not_overwritten(axpy: mx.rtc.CudaKernel) -> None:
    x = nd.ones((10,), ctx=mx.gpu(0))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        with pytest.raises(mx.MXNetError, match="CudaKernel axpy: argument 1"):
            axpy.launch(**arguments(**at(1, y)))


def test_errors_of_inputs_reach_the_outputs(axpy: mx.rtc.CudaKernel) -> None:
    broken = mx._core.op("_raise_async")(nd.ones((10,), ctx=mx.gpu(0)))
    y = nd.zeros((10,), ctx=mx.gpu(0))
    axpy.launch(**arguments(args=[broken, y, 1.0, 10]))
    with pytest.raises(mx.MXNetError):
        y.asnumpy()


CHAINS = r"""
import mxlite as mx, numpy as np
from mxlite import nd
from mxlite.gluon import nn

class Net(nn.HybridBlock):
    def hybrid_forward(self, F, x, scale, shift):
        y = F.tanh(F.broadcast_add(F.broadcast_mul(x, scale), shift))
        return F.softmax(y * 3), F.sin(x) * x + 1

net = Net()
rng = np.random.RandomState(0)
data = [rng.uniform(-1, 1, s).astype("float32") for s in ((64, 48), (64, 1), (48,))]
want = [y.asnumpy() for y in net(*[nd.array(a) for a in data])]
net.hybridize()
there = [nd.array(a, ctx=mx.gpu(0)) for a in data]
for _ in range(4):
    for y, w in zip(net(*there), want):
        np.testing.assert_allclose(y.asnumpy(), w, 1e-5, 1e-6)
print("values are right")
"""


def run_chains(cache: Path, **environment: str) -> str:
    variables = {"MXLITE_NVRTC": "1", "MXLITE_CACHE_DIR": str(cache), "MXLITE_VERBOSE": "rtc"}
    done = run_python("-c", CHAINS, environment={**variables, **environment})
    assert "values are right" in done.stdout
    return done.stderr


def test_hybridized_networks_run_generated_kernels_from_the_disk(tmp_path: Path) -> None:
    first = run_chains(tmp_path)
    assert "is a generated kernel" in first
    assert "chain broadcast_mul..softmax (5 steps) is a generated kernel" in first
    compiled = first.count("compiled for")
    assert compiled >= 2
    files = sorted((tmp_path / "kernels").iterdir())
    assert len(files) == compiled
    second = run_chains(tmp_path)
    assert "compiled for" not in second
    assert second.count("holds the compiled code") == compiled
    # A damaged file is compiled again and replaced.
    good = files[0].read_bytes()
    files[0].write_bytes(good[: len(good) // 2])
    third = run_chains(tmp_path)
    assert third.count("compiled for") == 1
    assert len(files[0].read_bytes()) == len(good)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"MXLITE_NVRTC": "0"}, "MXLITE_NVRTC=0"),
        ({"MXLITE_NVRTC_LIBRARY": "/no/libnvrtc.so"}, "NVRTC cannot be loaded: /no/libnvrtc.so"),
    ],
)
def test_without_nvrtc_chains_are_interpreted(tmp_path: Path, environment, reason: str) -> None:
    printed = run_chains(tmp_path, **environment)
    assert f"mxlite: rtc: pointwise chains are interpreted: {reason}" in printed
    assert "is a generated kernel" not in printed
    assert not (tmp_path / "kernels").exists()


def test_without_nvrtc_modules_are_an_error(tmp_path: Path) -> None:
    missing = {"MXLITE_NVRTC_LIBRARY": "/no/libnvrtc.so"}
    program = "import mxlite as mx; mx.rtc.CudaModule('')"
    error = run_python("-c", program, environment=missing, status=1).stderr
    assert "NotSupportedError: compiling kernels at run time needs NVRTC" in error
    assert "/no/libnvrtc.so" in error
