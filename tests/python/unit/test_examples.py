"""The examples run as a user would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxlite as mx
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(script: str, *args: str, cwd: Path) -> str:
    """Run an example and return what it printed."""
    command = [sys.executable, str(EXAMPLES / script), *args]
    env = {**os.environ, "PYTHONPATH": str(Path(mx.__file__).parents[1])}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_digits_are_learnt_saved_and_scored_alike_in_a_new_process(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    text = run("digits/train.py", cwd=tmp_path)
    accuracy = float(text.split()[-1])
    assert accuracy > 0.97, text
    assert (tmp_path / "digits.params").exists()


def test_photographs_go_from_jpeg_to_class_scores(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    text = run("classify/classify.py", "--network", "squeezenet1.1", "--top", "3", cwd=tmp_path)
    assert "weights are random" in text
    assert "china.jpg: input (1, 3, 224, 224), output (1, 1000)" in text


def test_classify_loads_a_parameter_file(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_sample_images

    net = mx.gluon.model_zoo.vision.squeezenet1_1()
    net.initialize()
    net(mx.nd.zeros((1, 3, 224, 224)))
    net.save_parameters(str(tmp_path / "net.params"))
    photograph = Path(load_sample_images.__globals__["__file__"]).parent / "images" / "flower.jpg"
    args = ["--network", "squeezenet1.1", "--params", str(tmp_path / "net.params")]
    text = run("classify/classify.py", str(photograph), *args, cwd=tmp_path)
    assert "weights are random" not in text and "flower.jpg" in text


def test_a_character_lstm_learns_and_writes(tmp_path: Path) -> None:
    license = (Path(__file__).parents[3] / "LICENSE").read_text()
    (tmp_path / "text.txt").write_text(license * 6)
    text = run("char_rnn/train.py", "text.txt", "--smoke", "--save", "net.params", cwd=tmp_path)
    epochs = [line.split() for line in text.splitlines() if line.startswith("epoch")]
    first, last = float(epochs[0][3].rstrip(",")), float(epochs[-1][3].rstrip(","))
    assert last < 0.6 * first, text
    assert float(text.split()[-1]) < 20, text  # among 90 characters, about 30 by their frequency
    assert (tmp_path / "net.params").exists()
