"""examples/gluon/train_imagenet.py: gluon-cv's options and lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from PIL import Image
from processes import run_python

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "examples" / "gluon" / "train_imagenet.py"

FLOAT = r"(\d+\.\d{6})"


def write_records(folder: Path, name: str, count: int) -> None:
    """Write pictures of 40 x 40 pixels, red ones of class 0 and blue ones of class 1."""
    index, file = str(folder / f"{name}.idx"), str(folder / f"{name}.rec")
    record = mx.recordio.MXIndexedRecordIO(index, file, "w")
    random = np.random.RandomState(count)
    for number in range(count):
        picture = random.randint(0, 40, (40, 40, 3)).astype(np.uint8)
        picture[:, :, 2 if number % 2 == 0 else 0] += 180  # the order is blue, green, red
        header = mx.recordio.IRHeader(0, float(number % 2), number, 0)
        record.write_idx(number, mx.recordio.pack_img(header, picture))
    record.close()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    write_records(folder, "train", 22)
    write_records(folder, "val", 10)
    return folder


ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def train(
    records: Path, folder: Path, *options: str, status: int = 0, environment: Any = ONE_THREAD
) -> str:
    """Run the script and return what it has logged."""
    command = [str(SCRIPT), "--use-rec", "--model", "resnet18_v1b"]
    command += ["--rec-train", str(records / "train.rec"), "--rec-val", str(records / "val.rec")]
    command += ["--input-size", "32", "--batch-size", "4", "--num-training-samples", "16"]
    command += options
    return run_python(*command, cwd=folder, status=status, environment=environment).stderr


def test_log_and_files_are_those_of_gluon_cv(records: Path, tmp_path: Path) -> None:
    steps = ["--num-epochs", "2", "--lr", "0.01", "--log-interval", "4", "--save-frequency", "2"]
    steps += ["--warmup-epochs", "1", "--lr-mode", "cosine", "--last-gamma", "--no-wd"]
    log = train(records, tmp_path, *steps)
    # The schedule has 4 updates in an epoch, the records give 6 batches.
    values = rf"\tSpeed: {FLOAT} samples/sec\taccuracy={FLOAT}\tlr={FLOAT}"
    found = re.findall(rf"^Epoch\[(\d)\] Batch \[(\d+)\]{values}$", log, re.MULTILINE)
    assert [line[:2] for line in found] == [("0", "4"), ("0", "6"), ("1", "4"), ("1", "6")]
    assert all(float(line[2]) > 0 for line in found)
    # Linear to 0.01 at update 4, then half a cosine to 0 at update 8.
    half = 0.01 * (1 + np.cos(np.pi * 2 / 4)) / 2
    assert [float(line[4]) for line in found] == pytest.approx([0.01, half, 0, 0], abs=1e-6)
    assert len(re.findall(rf"^\[Epoch \d\] training: accuracy={FLOAT}$", log, re.MULTILINE)) == 2
    pattern = rf"^\[Epoch \d\] speed: \d+ samples/sec\ttime cost: {FLOAT}$"
    assert len(re.findall(pattern, log, re.MULTILINE)) == 2
    pattern = rf"^\[Epoch \d\] validation: err-top1={FLOAT} err-top5={FLOAT}$"
    errors = re.findall(pattern, log, re.MULTILINE)
    # Tenths: the pictures that only fill the last batch of 4 do not count.
    assert all(round(10 * float(e), 4) == round(10 * float(e)) for pair in errors for e in pair)
    assert re.search(rf"^Training time for 2 epochs: {FLOAT} sec\.$", log, re.MULTILINE)
    assert (tmp_path / "params" / "imagenet-resnet18_v1b-1.params").exists()
    assert (tmp_path / "params" / "imagenet-resnet18_v1b-1.states").exists()
    assert (tmp_path / "train_imagenet.log").read_text().count("Speed:") == 4

    state = tmp_path / "params" / "imagenet-resnet18_v1b-1"
    resumed = ["--resume-epoch", "1", "--resume-params", f"{state}.params", "--mixup"]
    resumed += ["--resume-states", f"{state}.states", "--label-smoothing", "--save-dir", ""]
    log = train(records, tmp_path, *steps, *resumed)
    lines = re.findall(rf"^Epoch\[(\d)\].*\trmse={FLOAT}\tlr={FLOAT}$", log, re.MULTILINE)
    assert [line[0] for line in lines] == ["1", "1"]
    assert 0 < float(lines[0][1]) < 0.1
    assert "Training time for 1 epochs" in log


def test_it_learns_two_colours(records: Path, tmp_path: Path) -> None:
    options = ["--num-epochs", "10", "--lr", "0.02", "--lr-decay-epoch", "8"]
    options += ["--num-training-samples", "22", "--num-classes", "2"]
    log = train(records, tmp_path, *options)
    saved = mx.nd.load(str(tmp_path / "params" / "imagenet-resnet18_v1b-9.params"))
    assert saved["fc.bias"].shape == (2,)
    errors = re.findall(rf"validation: err-top1={FLOAT} err-top5=0.000000", log)
    assert len(errors) == 10  # the scheduler's own line of the log does not double them
    assert max(map(float, errors[-2:])) <= 0.2


def test_folders_of_images_are_read_without_record_files(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    for part, count in (("train", 6), ("val", 3)):
        for name in ("blue", "red"):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture = random.randint(0, 256, (40, 40, 3)).astype(np.uint8)
                Image.fromarray(picture).save(folder / f"{number}.png")
    command = [str(SCRIPT), "--model", "resnet18_v1b", "--data-dir", str(tmp_path)]
    command += ["--input-size", "32", "--batch-size", "4", "-j", "0", "--num-epochs", "1"]
    command += ["--lr", "0.0001", "--log-interval", "1", "--save-dir", "", "--mode", "imperative"]
    log = run_python(*command, cwd=tmp_path, environment=ONE_THREAD).stderr
    assert re.findall(r"Batch \[(\d)\]", log) == ["1", "2", "3"]
    assert "validation: err-top1=" in log


def test_missing_records_are_named(tmp_path: Path) -> None:
    log = train(tmp_path, tmp_path, status=1)
    assert f"{tmp_path / 'train.rec'} does not exist; give it with --rec-train" in log


@pytest.mark.parametrize("hard_weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_loss_of_distillation_is_that_of_gluon_cv(hard_weight: float, sparse: bool) -> None:
    sys.path.append(str(SCRIPT.parent))
    from distillation import DistillationSoftmaxCrossEntropyLoss

    random = np.random.RandomState(0)
    scores, teacher = (random.randn(3, 5).astype("float32") for _ in range(2))
    label = np.array([4, 0, 2])
    temperature = 2.5

    def log_softmax(x: np.ndarray) -> np.ndarray:
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    target = np.exp(log_softmax(teacher / temperature))
    soft = -(target * log_softmax(scores / temperature)).sum(-1) * temperature**2
    hard = -log_softmax(scores)[np.arange(3), label]
    loss = DistillationSoftmaxCrossEntropyLoss(temperature, hard_weight, sparse_label=sparse)
    loss.hybridize()
    given = label if sparse else np.eye(5)[label]
    found = loss(mx.nd.array(scores), mx.nd.array(given), mx.nd.array(target)).asnumpy()
    np.testing.assert_allclose(found, (1 - hard_weight) * soft + hard_weight * hard, rtol=2e-5)


def test_a_teacher_is_followed(records: Path, tmp_path: Path) -> None:
    """With no weight of the labels a student learns what a teacher of wrong labels says."""
    teacher = mx.gluon.model_zoo.vision.get_model("resnet18_v1b", classes=2)
    teacher.initialize(mx.init.Zero())
    teacher(mx.nd.zeros((1, 3, 32, 32)))
    teacher.fc.bias.set_data(mx.nd.array([0.0, 50.0]))  # always class 1
    teacher.save_parameters(str(tmp_path / "teacher.params"))
    options = ["--num-epochs", "8", "--lr", "0.02", "--num-training-samples", "22"]
    options += ["--num-classes", "2", "--teacher", "resnet18_v1b", "--save-dir", ""]
    options += ["--teacher-params", str(tmp_path / "teacher.params"), "--temperature", "2"]
    log = train(records, tmp_path, *options, "--hard-weight", "0")
    errors = re.findall(rf"validation: err-top1={FLOAT}", log)
    assert errors[-1] == "0.500000"  # half of the pictures are of class 1
    log = train(records, tmp_path, *options, "--hard-weight", "1", "--mode", "symbolic")
    assert float(re.findall(rf"validation: err-top1={FLOAT}", log)[-1]) <= 0.2
    missing = train(records, tmp_path, "--teacher", "resnet18_v1b", status=1)
    assert "train_imagenet: " in missing and "resnet18_v1b" in missing
    assert "Traceback" not in missing


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["--num-epochs", "-1"], "--num-epochs must be at least 0, got -1"),
        (["--lr", "nan"], "--lr must be at least 0, got nan"),
        (["--crop-ratio", "0"], "--crop-ratio must be above 0, at most 1, got 0.0"),
        (
            ["--lr-decay-epoch", "60,40"],
            "--lr-decay-epoch must be increasing epochs above 0, got 60,40",
        ),
        (["--lr-decay-epoch", ""], "--lr-decay-epoch must be numbers with commas between, got"),
        (["--rgb-mean", "1,2"], "deviations above 0, got [1.0, 2.0, 58.393, 57.12, 57.375]"),
        (["--rgb-std", "1,0,1"], "must be three numbers each, deviations above 0, got"),
        (["--hard-weight", "2"], "--hard-weight must be 0 to 1, got 2.0"),
        (["--mixup-alpha", "0"], "--mixup-alpha must be above 0, got 0.0"),
        (["--resume-epoch", "4"], "--resume-epoch must be 0 to 3, got 4"),
        (
            ["--resume-params", "none.params"],
            "--resume-params must be an existing file, got none.params",
        ),
        (["--batch-norm"], "--batch-norm must be used with a VGG network, got resnet18_v1b"),
        (["--model", "resnet18_v9"], "get_model: no network 'resnet18_v9'"),
        (
            ["--model", "alexnet", "--last-gamma"],
            "--last-gamma must be used with a network such as resnet50_v1b, got alexnet",
        ),
        (["--use-pretrained"], "resnet18_v1b"),
    ],
)
def test_wrong_options_of_the_script_are_named(
    records: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    home = {**ONE_THREAD, "HOME": str(tmp_path), "MXNET_HOME": str(tmp_path)}
    log = train(records, tmp_path, "--rec-val", "", *options, status=1, environment=home)
    assert words in log
    assert "Traceback" not in log
