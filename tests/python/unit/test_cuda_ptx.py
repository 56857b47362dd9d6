"""Instructions of CUDA kernels, as nvcc compiles them; no GPU is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc")


def kernels(source: str, folder: Path) -> dict[str, str]:
    """Return the PTX of each kernel of a source file by its mangled name."""
    ptx = folder / "kernels.ptx"
    command = [str(NVCC), "-std=c++20", "-O3", "-DNDEBUG", "-arch=sm_90", "-ptx", f"-I{ROOT}"]
    command += ["--expt-relaxed-constexpr", str(ROOT / source), "-o", str(ptx)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"\.entry (\w+)\((.*?\n}\n)", ptx.read_text(), re.S))


def test_batch_norm_stores_vectors_and_loads_several_rows_ahead(tmp_path: Path) -> None:
    found = kernels("cpp/ops/cuda/nn/batch_norm.cu", tmp_path)
    # Instantiations for packs of 8 halves.
    applies = {n: t for n, t in found.items() if "apply_" in n and "half" in n and "Li8E" in n}
    assert len(applies) >= 4  # forward and backward, for planes and columns
    for name, text in applies.items():
        assert re.search(r"st\.global\.\S*v4", text), name
        assert not re.search(r"st\.global\.[ub]16", text), name
    sums = {n: t for n, t in found.items() if "sum_columns" in n and "half" in n and "Li8E" in n}
    assert len(sums) >= 2
    for name, text in sums.items():
        # One load of a row that is left over, and four or more of rows that are loaded together.
        assert len(re.findall(r"ld\.global\S*v4", text)) >= 5, name
