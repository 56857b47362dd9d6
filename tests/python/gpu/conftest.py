"""Tests that need a GPU; `make test-cuda` also runs them on the stand-in tests/cpp/fake_gpu."""

from __future__ import annotations

import os

import mxlite as mx
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and skip them where there is no GPU.

    A backend that was asked for by MXLITE_CUDA_LIBRARY must have one.
    """
    reason = mx._core.why_no_gpu() or "no GPU"
    if "MXLITE_CUDA_LIBRARY" in os.environ and not mx.num_gpus():
        raise pytest.UsageError(f"{os.environ['MXLITE_CUDA_LIBRARY']} has no GPU: {reason}")
    for item in items:
        if "tests/python/gpu" not in item.path.as_posix():
            continue
        item.add_marker(pytest.mark.gpu)
        if not mx.num_gpus():
            item.add_marker(pytest.mark.skip(reason=reason))
