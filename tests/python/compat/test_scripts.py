"""Scripts written for MXNet 1.x run unchanged and print what 1.9.1 prints.

``expected/`` holds the output of 1.9.1: ``python scripts/x.py > expected/x.txt`` in an environment
with it. Numbers may differ in their last digits.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alias_runner import SCRIPTS, run_script

EXPECTED = Path(__file__).resolve().parent / "expected"
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)(?![\w.])")


def parts(text: str) -> tuple[str, list[float]]:
    """Return a text with # for each number and without padding, and the numbers."""
    numbers = [float(n) for n in NUMBER.findall(text)]
    words = " ".join(NUMBER.sub("#", text).split())
    return words.replace("[ ", "[").replace(" ]", "]"), numbers


@pytest.mark.parametrize("name", sorted(p.stem for p in EXPECTED.glob("*.txt")))
def test_output_is_that_of_mxnet(name, tmp_path):
    found, found_numbers = parts(run_script(f"{name}.py", cwd=tmp_path))
    expected, expected_numbers = parts((EXPECTED / f"{name}.txt").read_text())
    assert found == expected
    assert found_numbers == pytest.approx(expected_numbers, rel=1e-4, abs=1e-5, nan_ok=True)


def test_every_script_has_a_test():
    scripts, expected = ({p.stem for p in f.iterdir() if p.is_file()} for f in (SCRIPTS, EXPECTED))
    assert scripts - {"digits"} == expected


@pytest.mark.parametrize("options", [[], ["--hybridize", "--workers", "2"]])
def test_digits_are_learnt(options, tmp_path):
    pytest.importorskip("sklearn")
    lines = run_script("digits.py", *options, cwd=tmp_path).splitlines()
    assert lines[-1] == "['mnist.params', 'mnist.states']"
    assert re.fullmatch(r"\[Epoch 0 Batch 10\] Training: accuracy=0\.\d{6}", lines[0])
    training, validation = (float(line.split("=")[1]) for line in lines[-3:-1])
    assert training > 0.93 and validation > 0.85, lines[-3:]
