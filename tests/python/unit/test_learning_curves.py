"""benchmarks/learning: the pictures, the network for MXNet, the starter, and what is compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from processes import run_python

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "learning"
sys.path.insert(0, str(FOLDER))

import curves
import letters
import resnet_v1b


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("letters")
    for name in ("train", "val"):
        letters.write_records(folder, name, 20, seed=3)
    return folder


def test_records_hold_all_classes_in_turn(records: Path, tmp_path: Path) -> None:
    letters.write_records(tmp_path, "train", 20, seed=3)
    assert (tmp_path / "train.rec").read_bytes() == (records / "train.rec").read_bytes()
    reader = mx.recordio.MXIndexedRecordIO(
        str(records / "train.idx"), str(records / "train.rec"), "r"
    )
    pictures = []
    for number in range(20):
        header, picture = mx.recordio.unpack_img(reader.read_idx(number))
        assert header.label == number % 10
        assert picture.shape == (letters.SIDE, letters.SIDE, 3)
        pictures.append(picture)
    assert len({picture.tobytes() for picture in pictures}) == 20


def test_validation_has_other_typefaces_and_photographs() -> None:
    assert not set(letters.TRAIN_FACES) & set(letters.VAL_FACES)
    places = list(range(6))
    assert not set(places[letters.TRAIN_PHOTOGRAPHS]) & set(places[letters.VAL_PHOTOGRAPHS])


def test_the_network_for_mxnet_is_that_of_the_model_zoo(tmp_path: Path) -> None:
    mx.random.seed(1)
    theirs = mx.gluon.model_zoo.vision.resnet50_v1b(classes=10)
    theirs.initialize(mx.init.MSRAPrelu())
    file = str(tmp_path / "start.params")
    theirs.save_parameters(file)
    ours = resnet_v1b.get_model("resnet50_v1b", classes=10)
    ours.load_parameters(file)  # other names or missing ones are errors
    pictures = mx.nd.random.uniform(shape=(2, 3, 32, 32))
    with mx.autograd.train_mode():
        expected, given = theirs(pictures).asnumpy(), ours(pictures).asnumpy()
    np.testing.assert_array_equal(given, expected)
    zeros = resnet_v1b.get_model("resnet50_v1b", last_gamma=True)
    zeros.initialize()
    zeros(pictures)
    gammas = [block.bn3.gamma.data().asnumpy().max() for block in zeros.layer3]
    assert gammas == [0] * 6
    with pytest.raises(ValueError, match="only resnet50_v1b without pre-trained parameters"):
        resnet_v1b.get_model("resnet18_v1b")


def test_a_plain_run_notes_losses_and_batches(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [str(FOLDER / "start.py"), str(out), "mxlite", "plain", "--use-rec"]
    command += ["--rec-train", str(records / "train.rec"), "--rec-val", "", "--batch-size", "4"]
    command += ["--model", "resnet18_v1b", "--num-classes", "10", "--input-size", "32"]
    command += ["--num-training-samples", "20", "--num-epochs", "1", "--max-batches", "2"]
    command += ["--save-dir", "", "--logging-file", "", "--lr", "0.01"]
    run_python(*command, timeout=300, OMP_NUM_THREADS=1)
    notes = json.loads(out.read_text())
    assert notes["runtime"] == f"mxlite {mx.__version__}"
    assert len(notes["losses"]) == 2
    assert all(0 < loss < 10 for loss in notes["losses"])
    # Classes 0 to 3, then 4 to 7: neither shuffled nor augmented.
    assert [labels for _, labels in notes["batches"][:2]] == [6, 22]
    reader = mx.io.ImageRecordIter(
        path_imgrec=str(records / "train.rec"),
        path_imgidx=str(records / "train.idx"),
        data_shape=(3, 32, 32),
        batch_size=4,
        **dict(zip(("mean_r", "mean_g", "mean_b"), (123.68, 116.779, 103.939))),
        **dict(zip(("std_r", "std_g", "std_b"), (58.393, 57.12, 57.375))),
    )
    expected = float(reader.next().data[0].astype("float64").sum().asscalar())
    assert notes["batches"][0][0] == pytest.approx(expected, rel=1e-9)


LOG = """[Epoch 0] training: accuracy=0.100000
[Epoch 0] validation: err-top1=0.800000 err-top5=0.500000
[Epoch 1] training: accuracy=0.400000
[Epoch 1] validation: err-top1=0.250000 err-top5=0.000000
"""


def test_epochs_are_read_from_the_log() -> None:
    found = curves.epochs_of(LOG, [4.0, 2.0, 1.0, 0.5], 2)
    assert found[0] == {"loss": 3.0, "accuracy": 0.1, "top1": pytest.approx(0.2)}
    assert found[1] == {"loss": 0.75, "accuracy": 0.4, "top1": 0.75}


@pytest.mark.parametrize(
    ("log", "losses", "message"),
    [
        (LOG, [1.0, 2.0, 3.0], "2 epochs must have .*, got 3"),
        (LOG, [1.0, float("nan")], "got 2, the last"),
        (LOG.replace("Epoch 1] val", "Epoch 2] val"), [1.0, 2.0], "the log must have 2 epochs"),
        (LOG.replace("0.400000", "nan"), [1.0, 2.0], "the log must have 2 epochs"),
    ],
)
def test_other_logs_are_refused(log: str, losses: list[float], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        curves.epochs_of(log, losses, 2)


def _run(side: str, losses: list[float], top1: list[float]) -> dict[str, Any]:
    epochs = [{"loss": a, "top1": b} for a, b in zip(losses, top1)]
    return {"side": side, "epochs": epochs}


def test_curves_are_compared_by_means_and_spread() -> None:
    runs = [_run("mxnet", [2.0, 1.0], [0.2, 0.8]), _run("mxlite", [2.1, 1.5], [0.2, 0.7])]
    runs += [_run("mxnet", [2.2, 1.1], [0.3, 0.9]), _run("mxlite", [2.3, 1.7], [0.4, 0.8])]
    found = curves.compare(runs)
    first, second = found["loss"]
    assert first["mxnet"] == {"mean": pytest.approx(2.1), "spread": pytest.approx(0.2)}
    assert first["difference"] == pytest.approx(0.1)
    assert first["within"]
    assert second["difference"] == pytest.approx(0.55)
    assert not second["within"]
    assert found["within"] == {"loss": 1, "top1": 2}
    assert found["final_top1"] == {"mxnet": [0.8, 0.9], "mxlite": [0.7, 0.8]}
    assert found["final_difference"] == pytest.approx(-0.1)
    # Each side's variance is 0.005 over two runs.
    assert found["standard_error"] == pytest.approx(0.005**0.5)


class _Runner:
    """Notes that are given in place of runs."""

    def __init__(self, mxnet: dict[str, Any], mxlite: dict[str, Any]) -> None:
        self.notes = {"mxnet": mxnet, "mxlite": mxlite}
        self.changed = {"losses": [2.0, 1.0]}

    def run(self, side: str, kind: str, seed: int, more: list[str]) -> dict[str, Any]:
        assert (side, kind) == ("mxlite", "changed")
        return self.changed

    def run_both(self, kind: str, seed: int, more: list[str]) -> list[dict[str, Any]]:
        return [self.notes[side] for side in curves.SIDES]


def test_runs_on_other_batches_are_refused() -> None:
    mxnet = {"losses": [2.0, 1.0], "batches": [[10.0, 6.0], [11.0, 22.0], [12.0, 3.0]]}
    mxlite = {"losses": [2.0, 1.25], "batches": [[10.0, 6.0], [10.0, 22.0]]}
    found = curves.same_batches(_Runner(mxnet, mxlite), 2)  # type: ignore[arg-type]
    assert found["relative_differences"] == [0, 0.2]
    assert found["relative_differences_of_changed"] == [0, 0.2]
    assert found["relative_difference_of_pictures"] == pytest.approx(1 / 11)
    other = {**mxlite, "batches": [[10.0, 6.0], [10.0, 23.0]]}
    with pytest.raises(SystemExit, match="the sides read other labels"):
        curves.same_batches(_Runner(mxnet, other), 2)  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match="each side must have 3 losses, got"):
        curves.same_batches(_Runner(mxnet, mxlite), 3)  # type: ignore[arg-type]


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["curves.py", "--mxnet-python", "/missing/python"])
    with pytest.raises(SystemExit, match="/missing/python does not exist: run benchmarks/peers"):
        curves.main()
    monkeypatch.setattr(sys, "argv", ["curves.py", "--seeds", "1"])
    with pytest.raises(SystemExit):
        curves.main()


def test_parameters_are_changed_in_their_last_bits() -> None:
    values = np.array([[1.0, -2.0], [0.0, 1e-3]], np.float32)
    changed = curves.next_number(values)
    assert changed.dtype == np.float32
    apart = np.abs(changed - values) / np.maximum(np.abs(values), 1e-30)
    assert apart[1, 0] == 0
    assert (apart.ravel()[[0, 1, 3]] > 5e-8).all()
    assert (apart < 1.3e-7).all()
