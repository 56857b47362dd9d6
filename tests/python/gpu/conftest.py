"""Tests that need a GPU; `make test-cuda` simulates one (tests/cpp/fake_gpu)."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator

import mxlite as mx
import pytest


def interrupt(*_: object) -> None:
    """Raise KeyboardInterrupt at the first of several signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure() -> None:
    """Let a run that gets SIGTERM write its junit file, as an interrupted run does."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and skip them where there is no GPU.

    A backend that was asked for by MXLITE_CUDA_LIBRARY must have one, as must a machine on which
    MXLITE_REQUIRE_GPU is set.
    """
    reason = mx._core.why_no_gpu() or "no GPU"
    if not mx.num_gpus():
        if "MXLITE_CUDA_LIBRARY" in os.environ:
            raise pytest.UsageError(f"{os.environ['MXLITE_CUDA_LIBRARY']} has no GPU: {reason}")
        if os.environ.get("MXLITE_REQUIRE_GPU", "0") not in ("", "0"):
            raise pytest.UsageError(f"MXLITE_REQUIRE_GPU is set: {reason}")
    for item in items:
        if "tests/python/gpu" not in item.path.as_posix():
            continue
        item.add_marker(pytest.mark.gpu)
        if not mx.num_gpus():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with a failure which schedule the emulator of kernels ran."""
    report = yield
    if report.failed and os.environ.get("MXLITE_EMULATED_ORDER") and item.get_closest_marker("gpu"):
        names = ("MXLITE_EMULATED_ORDER", "MXLITE_EMULATED_BLOCKS")
        chosen = " ".join(f"{n}={os.environ[n]}" for n in names if n in os.environ)
        report.sections.append(("emulated GPU", f"Repeat this schedule with {chosen}"))
    return report


def emulator_count(name: str) -> Callable[[], int]:
    """Return a function of the emulator of kernels that returns and clears a count.

    Skips the test where no emulator runs.
    """
    library = os.environ.get("MXLITE_CUDA_LIBRARY", "")
    if "emulated_gpu" not in library:
        pytest.skip("only the emulator counts launches and their blocks")
    count: Callable[[], int] = getattr(ctypes.CDLL(library), f"mxlite_emulated_{name}")
    return count


@pytest.fixture
def most_blocks() -> Callable[[], int]:
    """Return a function that counts the blocks of the largest launch since its last call."""
    return emulator_count("most_blocks")


@pytest.fixture
def launches() -> Callable[[], int]:
    """Return a function that counts the launches since its last call."""
    return emulator_count("launches")


@pytest.fixture(autouse=True)
def ends_with_its_gpu() -> Iterator[None]:
    """End a parallel process whose GPU broke; the next one runs the remaining tests.

    A kernel that reads beyond its memory breaks the GPU for the process, and all later tests would
    fail with it.
    """
    yield
    if "PYTEST_XDIST_WORKER" not in os.environ or not mx.num_gpus():
        return
    try:
        mx.nd.ones((1,), ctx=mx.gpu(0)).wait_to_read()
    except mx.base.DeviceError:
        os._exit(70)
