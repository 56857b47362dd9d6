"""Shared by all Python tests: import path of the helpers, seeds, parts of the tests."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "unit"))
os.environ.setdefault("MXLITE_VERIFY_GRAPH", "1")  # read when the first graph is compiled

import mxlite as mx  # noqa: E402

SEED = int(os.environ.get("MXNET_TEST_SEED", "20240601"))


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Seed all generators; a failing run is repeated with MXNET_TEST_SEED."""
    mx.random.seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="I/N", help="run every N-th test, from the I-th on")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("--part")
    if part is None:
        return
    first, count = (int(number) for number in part.split("/"))
    if not 1 <= first <= count:
        raise pytest.UsageError(f"--part must be I/{count} with I from 1 to {count}, got {part}")
    config.hook.pytest_deselected(items=[t for i, t in enumerate(items) if i % count != first - 1])
    items[:] = items[first - 1 :: count]


def pytest_report_header(config: pytest.Config) -> str:
    return f"MXNET_TEST_SEED={SEED}, threads {mx._core.cpu_threads()}"
