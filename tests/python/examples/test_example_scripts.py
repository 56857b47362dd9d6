"""The training scripts run, write MXNet 1.x's log lines, and do what their options say."""

import ast
import importlib
import os
import pickle
import re
import sys
import tarfile
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from processes import run_python

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
IMAGES = EXAMPLES / "image_classification"

FLOAT = r"\d+\.\d{6}"
DIGITS = ["--data", "digits", "--num-layers", "8", "--batch-size", "48", "--seed", "7"]


def run(script, *options, folder, status=0):
    """Run a script in a folder; return its log (stderr) and its prints."""
    # One thread: two that other processes keep from running wait for each other.
    one = {"OMP_NUM_THREADS": "1"}
    done = run_python(script, *options, cwd=folder, status=status, environment=one, timeout=120)
    return done.stderr, done.stdout


def lines(log, pattern):
    """Return the groups of all lines of a log that are as a whole like a pattern."""
    return re.findall(rf"^INFO:root:{pattern}$", log, re.MULTILINE)


@pytest.fixture
def cifar10_records(monkeypatch):
    """The scripts' function; ``common`` of the benchmarks may have been imported before."""
    for name in [name for name in sys.modules if name.split(".")[0] == "common"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(IMAGES)
    function = importlib.import_module("common.datasets").cifar10_records
    yield function
    for name in [name for name in sys.modules if name.split(".")[0] == "common"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with records of digits, checkpoints of two epochs, and the log of training."""
    folder = tmp_path_factory.mktemp("digits")
    options = [*DIGITS, "--num-epochs", 2, "--lr-step-epochs", 1, "--disp-batches", 10]
    options += ["--top-k", 3, "--loss", "ce,nll", "--model-prefix", "net"]
    log, _ = run(IMAGES / "train_cifar10.py", *options, folder=folder)
    return folder, log


def test_training_log_has_the_lines_of_1_x(trained):
    folder, log = trained
    (arguments,) = lines(log, r"start with arguments (Namespace\(.*\))")
    assert "num_layers=8" in arguments
    assert "num_examples=1437" in arguments
    names = ("accuracy", "top_k_accuracy_3", "cross-entropy", "nll-loss")
    metrics = "".join(rf"\t{name}={FLOAT}" for name in names)
    speed = rf"\tSpeed: \d+\.\d\d samples/sec{metrics}"
    speeds = lines(log, rf"Epoch\[(\d)\] Batch \[(\d+)-(\d+)\]{speed}")
    assert speeds == [(e, *span) for e in "01" for span in [("0", "10"), ("10", "20")]]
    for epoch in "01":
        for metric in ("accuracy", "top_k_accuracy_3", "cross-entropy", "nll-loss"):
            assert len(lines(log, rf"Epoch\[{epoch}\] Train-{metric}=({FLOAT})")) == 1
            assert len(lines(log, rf"Epoch\[{epoch}\] Validation-{metric}=({FLOAT})")) == 1
        assert len(lines(log, rf"Epoch\[{epoch}\] Time cost=\d+\.\d\d\d")) == 1
    assert lines(log, r'Saved checkpoint to "(.*)"') == ["net-0001.params", "net-0002.params"]
    assert lines(log, r"Update\[(\d+)\]: Change learning rate to (.*)") == [("31", "5.00000e-03")]
    assert (folder / "net-symbol.json").exists()


def test_training_learns(trained):
    _, log = trained
    losses = lines(log, rf"Epoch\[\d\] Train-cross-entropy=({FLOAT})")
    assert float(losses[1]) < 0.85 * float(losses[0])
    accuracies = lines(log, rf"Epoch\[\d\] Validation-accuracy=({FLOAT})")
    assert float(accuracies[1]) > 0.3


def test_loading_a_checkpoint_goes_on_where_training_was(trained):
    folder, whole = trained
    options = [*DIGITS, "--lr-step-epochs", 1, "--disp-batches", 5, "--model-prefix", "net"]
    log, _ = run(IMAGES / "train_cifar10.py", *options, "--load-epoch", 1, "--num-epochs", 2,
                 folder=folder)  # fmt: skip
    assert lines(log, r"Loaded model (.*)") == ["net_0001.params"]
    assert lines(log, r"Adjust learning rate to (.*)") == ["5.000000e-03 for epoch 1"]
    (accuracy,) = lines(log, rf"Epoch\[1\] Train-accuracy=({FLOAT})")
    (first,) = lines(whole, rf"Epoch\[0\] Train-accuracy=({FLOAT})")
    assert float(accuracy) > float(first)


def test_another_network_than_the_checkpoint_s_is_refused(trained):
    folder, _ = trained
    options = [*DIGITS, "--num-layers", 14, "--model-prefix", "net", "--load-epoch", 1]
    options += ["--num-epochs", 2]
    log, _ = run(IMAGES / "train_cifar10.py", *options, folder=folder, status=1)
    assert "ValueError: net-symbol.json is not the network that the options describe" in log


def test_reading_is_measured_alone(trained):
    folder, _ = trained
    log, _ = run(IMAGES / "train_cifar10.py", *DIGITS, "--test-io", 1, "--disp-batches", 10,
                 folder=folder)  # fmt: skip
    assert lines(log, r"Batch \[(\d+)\]\tSpeed: \d+\.\d\d samples/sec") == ["9", "19", "29"]
    assert "Epoch" not in log


def test_fine_tuning_and_scoring_a_checkpoint(trained):
    folder, _ = trained
    options = [
        *("--pretrained-model", "net", "--load-epoch", 2, "--num-epochs", 3, "--batch-size", 96),
        *("--data-train", "data/digits_train.rec", "--data-val", "data/digits_val.rec"),
        *("--num-classes", 10, "--num-examples", 1437, "--image-shape", "3,28,28"),
        *("--model-prefix", "tuned", "--disp-batches", 5, "--lr", 0),
    ]
    log, _ = run(IMAGES / "fine_tune.py", *options, folder=folder)
    (accuracy,) = lines(log, rf"Epoch\[2\] Validation-accuracy=({FLOAT})")
    before = mx.nd.load(str(folder / "net-0002.params"))
    tuned = mx.nd.load(str(folder / "tuned-0003.params"))
    assert "arg:fc_weight" in tuned
    assert "arg:fc1_weight" not in tuned
    # At a learning rate of 0, everything but the new layer is unchanged.
    kept = [name for name in before if name.startswith("arg:") and "fc1" not in name]
    assert set(tuned) >= set(kept)
    assert all((before[name] == tuned[name]).asnumpy().all() for name in kept)

    options = ["--model", "tuned,3", "--data-val", "data/digits_val.rec", "--batch-size", 96]
    options += ["--image-shape", "3,28,28", "--rgb-mean", "123.68,116.779,103.939"]
    log, _ = run(IMAGES / "score.py", *options, folder=folder)
    assert len(lines(log, rf"Finished with {FLOAT} images per second")) == 1
    (scored,) = lines(log, r"\('accuracy', ([\d.]+)\)")
    # Training's own validation counts what fills the last batch, too.
    assert abs(float(scored) - float(accuracy)) < 0.02
    assert len(lines(log, r"\('top_k_accuracy_5', ([\d.]+)\)")) == 1


def test_synthetic_data_with_other_dtypes_optimizers_and_compression(tmp_path):
    options = [
        *("--benchmark", 1, "--network", "resnet", "--num-layers", 20, "--image-shape", "3,28,28"),
        *("--num-classes", 5, "--num-examples", 21, "--batch-size", 4, "--disp-batches", 2),
        *("--num-epochs", 1, "--lr-step-epochs", "pow2"),
    ]
    more = ["--dtype", "bfloat16", "--optimizer", "nag", "--gc-type", "2bit", "--monitor", 3]
    more += ["--profile-worker-suffix", "profile.json"]
    log, _ = run(IMAGES / "train_imagenet.py", *options, *more, folder=tmp_path)
    assert lines(log, r"Epoch\[0\] Batch \[(\d-\d)\]\tSpeed: .*") == ["0-2", "2-4"]
    assert re.search(r"^INFO:root:Batch: +1 (stage1_unit1_conv1\w*|bn_data\w*) ", log, re.M)
    profile = (tmp_path / "profile.json").read_text()
    assert "Convolution" in profile


def test_imagenet_augmentation_sets_defaults_that_options_override(tmp_path):
    """1.x set them after the parsing of options, where they had no effect."""
    options = [
        *("--benchmark", 1, "--network", "mlp", "--image-shape", "3,8,8", "--num-classes", 5),
        *("--num-examples", 4, "--batch-size", 4, "--num-epochs", 1, "--brightness", 0.2),
    ]
    script = IMAGES / "train_imagenet.py"

    def settings(*more):
        log, _ = run(script, *options, *more, folder=tmp_path)
        (call,) = lines(log, r"start with arguments (Namespace\(.*\))")
        keywords = ast.parse(call, mode="eval").body.keywords
        return {keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords}

    plain, augmented = settings(), settings("--use-imagenet-data-augmentation", 1)
    assert plain["rgb_std"] == "1,1,1"
    assert plain["random_resized_crop"] == 0
    assert plain["max_random_aspect_ratio"] == 0
    assert augmented["rgb_std"] == "58.393,57.12,57.375"
    assert augmented["random_resized_crop"] == augmented["random_mirror"] == 1
    assert augmented["min_random_area"] == 0.08
    assert augmented["brightness"] == plain["brightness"] == 0.2
    assert augmented["saturation"] == 0.4


def test_mnist_script_trains_on_digits(tmp_path):
    options = ["--data", "digits", "--num-epochs", 3, "--seed", 3]
    log, _ = run(IMAGES / "train_mnist.py", *options, folder=tmp_path)
    assert len(lines(log, rf"Epoch\[2\] Batch \[(10-20)\]\tSpeed: .*\taccuracy={FLOAT}")) == 1
    (accuracy,) = lines(log, rf"Epoch\[2\] Validation-accuracy=({FLOAT})")
    assert float(accuracy) > 0.8


def test_missing_data_is_said_with_the_files_that_are_expected(tmp_path):
    log, _ = run(IMAGES / "train_cifar10.py", folder=tmp_path, status=1)
    assert "FileNotFoundError" in log
    assert "cifar10_train.rec" in log
    assert "cifar-10-python.tar.gz" in log
    assert "--data digits" in log
    log, _ = run(IMAGES / "train_mnist.py", folder=tmp_path, status=1)
    assert "train-labels-idx1-ubyte.gz" in log
    log, _ = run(IMAGES / "train_imagenet.py", folder=tmp_path, status=1)
    assert "give a record file with --data-train" in log


def cifar_batches():
    """Six small batches of CIFAR-10: name to images (n, 3, 32, 32) and labels."""
    random = np.random.RandomState(0)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    return {
        name: (
            random.randint(0, 256, (3, 3, 32, 32)).astype(np.uint8),
            random.randint(0, 10, 3).tolist(),
        )
        for name in names
    }


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("version", ["py", "bin"])
def test_cifar_archives_become_the_same_records(version, packed, tmp_path, cifar10_records):
    batches = cifar_batches()
    folder = tmp_path / f"cifar-10-batches-{version}"
    folder.mkdir()
    for name, (images, labels) in batches.items():
        if version == "py":
            content = {b"data": images.reshape(3, -1), b"labels": labels, b"batch_label": b"x"}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        else:
            rows = np.hstack([np.uint8(labels)[:, None], images.reshape(3, -1)])
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
    if packed:
        name = {"py": "python", "bin": "binary"}[version]
        with tarfile.open(tmp_path / f"cifar-10-{name}.tar.gz", "w:gz") as tar:
            tar.add(folder, folder.name)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    train, val = cifar10_records(str(tmp_path))
    for path, names in ((train, list(batches)[:5]), (val, ["test_batch"])):
        records = mx.recordio.MXRecordIO(path, "r")
        for name in names:
            for image, label in zip(*batches[name]):
                header, pixels = mx.recordio.unpack(records.read())
                assert header.label == label
                found = mx.image.imdecode(pixels).asnumpy()
                assert (found == image.transpose(1, 2, 0)).all()
        assert records.read() is None
    # The second time, the records themselves are found.
    assert cifar10_records(str(tmp_path)) == (train, val)


def test_a_cifar_pickle_that_would_run_something_is_refused(tmp_path, cifar10_records):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(pickle.dumps({b"data": Harmful()}, protocol=2))
    for number in range(2, 6):
        (folder / f"data_batch_{number}").write_bytes(b"")
    with pytest.raises(ValueError, match="the name posix.mkdir is not allowed"):
        cifar10_records(str(tmp_path))
    assert not (tmp_path / "harm").exists()


def gluon(folder, mode, *more):
    options = ["--mode", mode, "--dataset", "digits", "--model", "net-symbol.json", "--resume"]
    options += ["net-0001.params", "--batch-size", 96, "--epochs", 2, "--log-interval", 5]
    options += ["--lr", 0.05, "--lr-steps", "0", "--prefix", str(folder / mode), *more]
    return run(EXAMPLES / "gluon" / "image_classification.py", *options, folder=folder)


def test_gluon_script_gives_the_same_curve_in_all_modes(trained):
    folder, _ = trained
    curves = {}
    pair = rf"accuracy=({FLOAT}), top_k_accuracy_5=({FLOAT})"
    for mode in ("imperative", "hybrid"):
        (folder / mode).mkdir()
        log, printed = gluon(folder, mode, "--save-frequency", 1)
        (start,) = lines(log, r"Starting new image-classification task:, (Namespace\(.*\))")
        assert f"mode='{mode}'" in start
        batches = lines(log, rf"Epoch\[(\d)\] Batch \[(\d+)\]\tSpeed: {FLOAT} samples/sec\t{pair}")
        assert [batch[:2] for batch in batches] == [(e, b) for e in "01" for b in ("4", "9", "14")]
        assert len(lines(log, rf"\[Epoch \d\] time cost: {FLOAT}")) == 2
        train = lines(log, rf"\[Epoch \d\] training: {pair}")
        val = lines(log, rf"\[Epoch \d\] validation: {pair}")
        saved = lines(log, r"\[Epoch (\d)\] Saving checkpoint to (.*) with Accuracy: (0\.\d{4})")
        files = {Path(path).name for _, path, _ in saved}
        assert {f"net_0_acc_{float(val[0][0]):.4f}.params", "net_best.params"} <= files
        assert all((folder / path).exists() for _, path, _ in saved)
        assert re.fullmatch(r"Average epoch time: \d+\.\d+\n", printed)
        kept = (folder / "image-classification.log").read_text()
        assert "Starting new image-classification task" in kept
        curves[mode] = np.array(train + val, float)
    (folder / "symbolic").mkdir()
    log, _ = gluon(folder, "symbolic")
    kinds = [(kind, name) for kind in ("Train",) for name in ("accuracy", "top_k_accuracy_5")]
    symbolic = [lines(log, rf"Epoch\[\d\] {kind}-{name}=({FLOAT})") for kind, name in kinds]
    curves["symbolic"] = np.array(symbolic, float).T
    assert np.allclose(curves["imperative"], curves["hybrid"], atol=0.01)
    assert np.allclose(curves["symbolic"], curves["hybrid"][:2], atol=0.01)
    assert (folder / "symbolic" / "image-classifier-net-2-final.params").exists()


def test_gluon_mnist_script_trains_on_digits(tmp_path):
    _, printed = run(EXAMPLES / "gluon" / "mnist.py", "--data", "digits", "--epochs", 2,
                     "--log-interval", 5, folder=tmp_path)  # fmt: skip
    patterns = [
        rf"\[Epoch {epoch}{batch}\] {kind}: accuracy={FLOAT}"
        for epoch in (0, 1)
        for batch, kind in [(" Batch 5", "Training"), (" Batch 10", "Training"),
                            ("", "Training"), ("", "Validation")]
    ]  # fmt: skip
    assert re.fullmatch("\n".join(patterns) + "\n", printed)
    assert (tmp_path / "mnist.params").exists()


def test_table_of_training_speeds(tmp_path):
    options = ["--networks", "mobilenet", "--batch-sizes", 1, "--batches", 2, "--warm-up", 1]
    options += ["--json", "speeds.json"]
    _, printed = run(ROOT / "benchmarks" / "run_vary_batch.py", *options, folder=tmp_path)
    assert re.search(r"^mobilenet +1  float32 +\d+\.\d\d +\S+ +\d+", printed, re.MULTILINE)
    assert '"train mobilenet batch 1 float32"' in (tmp_path / "speeds.json").read_text()
