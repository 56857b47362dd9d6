"""Tests of GPUs must not be skipped where MXLITE_REQUIRE_GPU asks for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxlite as mx
import pytest

TESTS = Path(__file__).parents[1] / "gpu" / "test_fft_on_gpu.py"


@pytest.mark.skipif(mx.num_gpus() > 0, reason="this machine has a GPU")
@pytest.mark.parametrize("required", [True, False])
def test_a_missing_gpu_ends_the_run_if_one_is_required(required: bool) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env.pop("MXLITE_CUDA_LIBRARY", None)
    env.pop("MXLITE_REQUIRE_GPU", None)
    if required:
        env["MXLITE_REQUIRE_GPU"] = "1"
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(TESTS)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    if required:
        assert run.returncode == pytest.ExitCode.USAGE_ERROR, run.stdout + run.stderr
        assert "MXLITE_REQUIRE_GPU is set: " in run.stderr
    else:
        assert run.returncode == 0, run.stdout + run.stderr
        assert " skipped" in run.stdout and " passed" not in run.stdout
