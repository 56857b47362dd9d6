"""``mxlite.tools.parse_log`` reads MXNet's training logs."""

import pytest
from mxlite.tools.parse_log import main, parse, table
from processes import run_python

LOG = """\
INFO:root:start with arguments Namespace(batch_size=128)
INFO:root:Epoch[0] Batch [0-20]\tSpeed: 1910.41 samples/sec\taccuracy=0.200000
INFO:root:Epoch[0] Train-accuracy=0.250000
INFO:root:Epoch[0] Train-cross-entropy=2.100000
INFO:root:Epoch[0] Time cost=12.340
INFO:root:Epoch[0] Validation-accuracy=0.300000
INFO:root:Epoch[1] Train-accuracy=0.500000
INFO:root:Epoch[1] Time cost=10.000
INFO:root:Epoch[1] Validation-accuracy=0.600000
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(LOG)
    return path


def test_markdown_is_that_of_1_x(log, capsys):
    assert main([str(log)]) == 0
    assert capsys.readouterr().out == (
        "| epoch | train-accuracy | val-accuracy | time |\n"
        "| --- | --- | --- | --- |\n"
        "|  1 | 0.250000 | 0.300000 | 12.3 |\n"
        "|  2 | 0.500000 | 0.600000 | 10.0 |\n"
    )


def test_plain_columns_are_those_of_1_x(log, capsys):
    assert main([str(log), "--format", "none"]) == 0
    assert capsys.readouterr().out == (
        "epoch\ttrain-accuracy\tval-accuracy\ttime\n"
        " 1\t0.250000\t0.300000\t12.3\n"
        " 2\t0.500000\t0.600000\t10.0\n"
    )


def test_metrics_that_an_epoch_lacks_stay_empty():
    """1.x's tool divided by zero."""
    metrics = ["accuracy", "cross-entropy"]
    epochs = parse(LOG.splitlines(), metrics)
    assert epochs[0]["train-cross-entropy"] == 2.1
    assert "train-cross-entropy" not in epochs[1]
    rows = table(epochs, metrics).splitlines()
    assert rows[2] == "|  1 | 0.250000 | 2.100000 | 0.300000 |  | 12.3 |"
    assert rows[3] == "|  2 | 0.500000 |  | 0.600000 |  | 10.0 |"
    assert table(epochs, metrics, "none").splitlines()[2].split("\t")[2] == "nan"


def test_logs_of_several_workers_are_averaged_and_epochs_sorted():
    lines = [
        "Node[1] Epoch[3] Validation-accuracy=0.5",
        "Node[0] Epoch[2] Validation-accuracy=nan",
        "Node[0] Epoch[3] Validation-accuracy=0.25",
    ]
    epochs = parse(lines, ["accuracy"])
    assert list(epochs) == [2, 3]
    assert epochs[3] == {"val-accuracy": 0.375}
    assert epochs[2]["val-accuracy"] != epochs[2]["val-accuracy"]


def test_a_log_without_epochs_is_said(tmp_path):
    path = tmp_path / "empty.log"
    path.write_text("nothing\n")
    error = run_python("-m", "mxlite.tools.parse_log", path, status=1).stderr
    assert "no line of an epoch's end" in error


def test_digits_that_are_no_number_are_passed_over():
    lines = [
        "Epoch[0] Time cost=e",
        f"Epoch[{'9' * 5000}] Time cost=1",
        "Epoch[1] Train-accuracy=.-.",
        "Epoch[1] Time cost=2",
    ]
    assert parse(lines, ["accuracy"]) == {1: {"time": 2.0}}
