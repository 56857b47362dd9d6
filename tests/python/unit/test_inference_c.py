"""C and C++ programs that run exported networks, built as users build them."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import config
from mxlite.base import _LIB, MXNetError, check_call, mx_uint
from processes import run_command

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = Path(config.library_dir()) / "libmxlite.so"
COMPILER = shutil.which("cc")
CMAKE = shutil.which("cmake")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
needs_cmake = pytest.mark.skipif(
    COMPILER is None or CMAKE is None or shutil.which("c++") is None, reason="no compiler or CMake"
)


def options_of(*flags: str) -> list[str]:
    return run_command(sys.executable, "-m", "mxlite.config", *flags).stdout.split()


def scores_of(text: str) -> list[tuple[int, float]]:
    found = re.findall(r": class (\d+), score (\S+)", text)
    return [(int(best), float(score)) for best, score in found]


def exported(folder: Path, net: mx.gluon.HybridBlock, x: mx.nd.NDArray) -> tuple[str, str]:
    net.hybridize()
    net(x)
    return net.export(str(folder / "model"))


def expect_best(text: str, expected: np.ndarray) -> None:
    found = scores_of(text)
    assert [best for best, _ in found] == expected.argmax(axis=1).tolist(), text
    np.testing.assert_allclose([score for _, score in found], expected.max(axis=1), rtol=1e-5)


@needs_compiler
def test_the_c_example_gives_the_numbers_of_python(tmp_path: Path) -> None:
    mx.random.seed(1)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.BatchNorm())
    net.add(mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.normal(shape=(3, 2, 8, 8))
    files = exported(tmp_path, net, x)
    (tmp_path / "values.bin").write_bytes(x.asnumpy().tobytes())
    program = tmp_path / "classify"
    source = ROOT / "examples/inference_c/classify.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *options_of("--includes", "--libs")]
    run_command(COMPILER, source, "-o", program, *flags)
    arguments = (*files, tmp_path / "values.bin", 2, 8, 8)
    expect_best(run_command(program, *arguments).stdout, net(x).asnumpy())
    missing = run_command(program, "no.json", *arguments[1:], status=1)
    assert "mxlite_predict_create_from_files: the file must be readable" in missing.stderr
    wrong = run_command(program, *arguments[:3], 2, 4, 16, status=None)
    assert wrong.returncode == 1 and "Error" not in wrong.stdout


@needs_cmake
def test_the_cpp_example_classifies_an_image(tmp_path: Path) -> None:
    mx.random.seed(2)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, strides=2), mx.gluon.nn.Dense(6))
    net.initialize(mx.init.Xavier())
    side, photo = 14, ROOT / "tests/data/gradient.jpg"
    pixels = np.empty((1, 3, side, side), "float32")
    mean = (ctypes.c_float * 3)(123.68, 116.779, 103.939)
    std = (ctypes.c_float * 3)(58.393, 57.12, 57.375)
    image = photo.read_bytes()
    address = pixels.ctypes.data_as(ctypes.c_void_p)
    size = ctypes.c_size_t(len(image))
    check_call(
        _LIB.mxlite_predict_decode_image(image, size, side * 8 // 7, side, side, mean, std, address)
    )
    files = exported(tmp_path, net, mx.nd.array(pixels))
    [cmake_dir] = options_of("--cmake")
    build = tmp_path / "build"
    source = ROOT / "examples/inference_cpp"
    run_command(CMAKE, "-S", source, "-B", build, f"-Dmxlite_DIR={cmake_dir}")
    run_command(CMAKE, "--build", build)
    done = run_command(build / "classify_images", *files, side, photo, photo, "no.jpg")
    expect_best(done.stdout, np.repeat(net(mx.nd.array(pixels)).asnumpy(), 2, axis=0))
    assert "no.jpg: cannot be read" in done.stdout


def test_the_config_command_wants_an_option() -> None:
    done = run_command(sys.executable, "-m", "mxlite.config", status=2)
    assert "at least one option must be given" in done.stderr
    assert (Path(config.include_dir()) / "mxlite" / "predict.hpp").is_file()
    assert (Path(config.cmake_dir()) / "mxliteConfig.cmake").is_file()


@pytest.mark.skipif(shutil.which("nm") is None, reason="no binutils")
def test_the_library_exports_the_headers_and_needs_no_python() -> None:
    listed = run_command("nm", "-D", "--defined-only", LIBRARY).stdout
    plain = {line.split()[-1] for line in listed.splitlines() if " _Z" not in line}
    declared = set()
    for header in ("mxlite/predict.h", "mxnet/c_predict_api.h"):
        text = (Path(config.include_dir()) / header).read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        declared |= set(re.findall(r"\b(mxlite_predict_\w+|MX\w+)\(", text))
    assert len(declared) > 30
    assert plain == declared
    needed = run_command("ldd", LIBRARY)
    assert "libpython" not in needed.stdout and "not found" not in needed.stdout


def test_predictors_inside_a_python_program(tmp_path: Path) -> None:
    """ctypes calls without the GIL; float16 weights make float16 inputs and outputs."""
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.Xavier())
    net.cast("float16")
    x = mx.nd.random.normal(shape=(2, 4), dtype="float16")
    symbol_file, params_file = exported(tmp_path, net, x)
    symbol, params = Path(symbol_file).read_bytes(), Path(params_file).read_bytes()
    handle, dtype = ctypes.c_void_p(), ctypes.c_int()
    shapes = ((ctypes.c_char_p * 1)(b"data"), (mx_uint * 2)(0, 2), (mx_uint * 2)(2, 4))
    create = (symbol, params, len(params), 1, 0, 1, *shapes, ctypes.byref(handle))
    check_call(_LIB.MXPredCreate(*create))
    check_call(_LIB.MXPredGetOutputType(handle, 0, ctypes.byref(dtype)))
    assert dtype.value == 2
    found = np.empty((2, 3), "float16")
    data = x.asnumpy()
    check_call(_LIB.MXPredSetInput(handle, b"data", data.ctypes.data_as(ctypes.c_void_p), 8))
    check_call(_LIB.MXPredForward(handle))
    check_call(_LIB.MXPredGetOutput(handle, 0, found.ctypes.data_as(ctypes.c_void_p), 6))
    np.testing.assert_array_equal(found, net(x).asnumpy())
    check_call(_LIB.MXPredFree(handle))
    with pytest.raises(MXNetError, match="^MXPredFree: the handle must be one that was created"):
        check_call(_LIB.MXPredFree(handle))


def test_predictors_leave_no_memory(tmp_path: Path) -> None:
    net = mx.gluon.nn.Dense(256, in_units=1024)
    net.initialize()
    files = exported(tmp_path, net, mx.nd.zeros((1, 1024)))
    symbol, params = (Path(file).read_bytes() for file in files)
    shapes = ((ctypes.c_char_p * 1)(b"data"), (mx_uint * 2)(0, 2), (mx_uint * 2)(1, 1024))
    values = (ctypes.c_float * 1024)()
    sizes = []
    for i in range(40):
        handle = ctypes.c_void_p()
        create = (symbol, params, len(params), 1, 0, 1, *shapes, ctypes.byref(handle))
        check_call(_LIB.MXPredCreate(*create))
        check_call(_LIB.MXPredSetInput(handle, b"data", values, 1024))
        check_call(_LIB.MXPredForward(handle))
        check_call(_LIB.MXPredGetOutput(handle, 0, values, 256))
        assert _LIB.MXPredCreate(symbol, params, len(params) // 2, *create[3:]) == -1
        check_call(_LIB.MXPredFree(handle))
        if i % 10 == 9:
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
    assert sizes[-1] - sizes[0] < 8 << 20, sizes  # a predictor has 1 MB of weights
