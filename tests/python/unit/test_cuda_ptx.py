"""Instructions and registers of CUDA kernels, as nvcc compiles them; no GPU is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[3]
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc")


def compile_kernels(source: str, file: Path, *options: str) -> str:
    """Compile a file, or one of `cpp/ops/cuda`, and return what the compiler prints."""
    command = [str(NVCC), "-std=c++20", "-O3", "-DNDEBUG", "-arch=sm_90", *options, f"-I{ROOT}"]
    command += ["--expt-relaxed-constexpr", str(ROOT / "cpp/ops/cuda" / source), "-o", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@cache
def kernels(source: str) -> dict[str, str]:
    """Return the PTX of each kernel of a source file by its mangled name."""
    with TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernels.ptx"
        compile_kernels(source, ptx, "-ptx")
        return dict(re.findall(r"\.entry (\w+)\((.*?\n}\n)", ptx.read_text(), re.S))


LOAD_16 = r"ld\.global\S*v4"
STORE_16 = r"st\.global\.\S*v4"
STORE_8 = r"st\.global\.\S*v2"
STORE_2 = r"st\.global\.[ub]16"
DIVIDE_64 = r"(div|rem)\.[us]64"
DIVIDE = r"(div|rem)\.[us](32|64)"

# Kernels for halves: a pattern of their names, how many there are at least, how often an
# instruction must occur at least, and instructions that must not occur.
ROWS: list[tuple[str, str, int, dict[str, int], tuple[str, ...]]] = [
    ("nn/batch_norm.cu", r"apply_.*half.*Li8E", 4, {STORE_16: 1}, (STORE_2,)),
    # One load of a row that is left over, and four or more of rows that are loaded together.
    ("nn/batch_norm.cu", r"sum_columns.*half.*Li8E", 2, {LOAD_16: 5}, ()),
    ("nn/batch_norm.cu", r"sum_(columns|planes).*half.*Li8E", 4, {r"atom\.global": 1}, ()),
    ("nn/pooling.cu", r"(pool|gather)_packs.*half", 2, {LOAD_16: 1, STORE_16: 1}, (DIVIDE,)),
    ("nn/pooling.cu", r"gather_maxima.*halfaLi8E", 1, {LOAD_16: 1, STORE_16: 1}, (DIVIDE,)),
    ("nn/pooling.cu", r"find_maxima.*halfaLi8E", 1, {LOAD_16: 1, STORE_8: 1}, (DIVIDE,)),
    # Elements of floats, with 32-bit indices.
    ("nn/pooling.cu", r"(4pool|6gather)I[fd].*iEE", 3, {}, (DIVIDE_64,)),
    ("nn/dropout.cu", r"4drop.*half.*Lb1E", 1, {LOAD_16: 1, STORE_16: 1, STORE_8: 1}, ()),
    ("nn/dropout.cu", r"apply_packs.*half", 1, {LOAD_16: 1, STORE_16: 1}, ()),
    ("convert_copies.cu", r"convert_pairs.*PackedPair", 1, {LOAD_16: 4, STORE_16: 4}, (DIVIDE,)),
    ("tensor/select.cu", r"extend_rowsItLi4E", 1, {STORE_8: 1}, (DIVIDE,)),
    ("tensor/select.cu", r"pad_elementsItiE", 1, {}, (DIVIDE_64,)),
]


SLOW = ("nn/pooling.cu",)  # takes more than ten seconds to compile


@pytest.mark.parametrize(
    ("source", "name", "least", "needed", "forbidden"),
    [pytest.param(*row, marks=[pytest.mark.slow] * (row[0] in SLOW)) for row in ROWS],
)
def test_instructions(
    source: str, name: str, least: int, needed: dict[str, int], forbidden: tuple[str, ...]
) -> None:
    found = {n: text for n, text in kernels(source).items() if re.search(name, n)}
    assert len(found) >= least, sorted(kernels(source))
    for kernel, text in found.items():
        for instruction, times in needed.items():
            assert len(re.findall(instruction, text)) >= times, (kernel, instruction)
        for instruction in forbidden:
            assert not re.search(instruction, text), (kernel, instruction)


@pytest.mark.slow
def test_layer_norm_has_registers_for_several_blocks(tmp_path: Path) -> None:
    """A multiprocessor has 65,536 registers; a block has 256 threads."""
    text = compile_kernels("nn/layer_norm.cu", tmp_path / "out", "-cubin", "-Xptxas=-v")
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers"
    found = {n: (int(spilt), int(r)) for n, spilt, r in re.findall(pattern, text, re.S)}
    for kernel, packs, blocks, most_spilt in (
        ("normalize_warps", 4, 4, 0),
        ("normalize_warps", 8, 2, 0),
        ("backward_data_warps", 4, 2, 0),
        ("backward_data_warps", 8, 2, 64),
    ):
        rows = {
            n: r for n, r in found.items() if re.search(f"{kernel}I.*(half|bf).*Li8ELi{packs}E", n)
        }
        assert len(rows) == 2
        for name, (spilt, registers) in rows.items():
            assert spilt <= most_spilt, name
            assert registers * 256 * blocks <= 65536, (name, registers)


def test_bfloat16_is_rounded_by_one_instruction(tmp_path: Path) -> None:
    """Generated chains of pointwise operators round after each step."""
    source, ptx = tmp_path / "round.cu", tmp_path / "round.ptx"
    source.write_text(
        '#include "cpp/core/half.h"\n'
        "__global__ void round_one(const float* x, mxlite::bfloat16* y) { *y = *x; }\n"
    )
    compile_kernels(str(source), ptx, "-ptx")
    text = ptx.read_text()
    assert "cvt.rn.bf16.f32" in text
    assert not re.search(r"setp|selp", text)
