"""Tests that need a GPU; `make test-cuda` also runs them on the stand-in tests/cpp/fake_gpu."""

from __future__ import annotations

import mxlite as mx
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and skip them where there is no GPU."""
    reason = mx._core.why_no_gpu() or "no GPU"
    for item in items:
        if "tests/python/gpu" not in item.path.as_posix():
            continue
        item.add_marker(pytest.mark.gpu)
        if not mx.num_gpus():
            item.add_marker(pytest.mark.skip(reason=reason))
