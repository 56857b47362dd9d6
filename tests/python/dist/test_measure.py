"""measure.py: MXNet's golden values, and no error, in one process and in several."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "bandwidth" / "measure.py"


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("measure", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("network", "image", "layers", "arrays", "megabytes"),
    [
        ("resnet", "3,224,224", 200, 205, 257.991328),
        ("inception-v3", "3,299,299", 0, 96, 95.200544),
    ],
)
def test_sizes_are_those_of_mxnet(measure, network, image, layers, arrays, megabytes) -> None:
    shapes = measure.shapes_of(network, image, num_layers=layers, num_classes=1000)
    size = sum(math.prod(shape) for shape in shapes) * 4 / 1e6
    assert (len(shapes), round(size, 6)) == (arrays, megabytes)


@pytest.mark.parametrize("optimizer", ["None", "sgd"])
def test_lines_and_results(measure, caplog, tmp_path: Path, optimizer: str) -> None:
    args = measure.parse_args(
        ["--num-layers", "18", "--devices", "cpu:2", "--num-batches", "2", "--disp-batches", "2"]
        + ["--optimizer", optimizer, "--json", str(tmp_path / "result.json")]
    )
    with caplog.at_level("INFO"):
        (result,) = measure.run(**vars(args))
    assert result.iter == 2
    assert result.error < 1e-6
    assert result.bandwidth > 0
    line = r"iter 2, \d+\.\d{6} sec, \d+\.\d{6} GB/sec per gpu, error 0\.000000"
    assert re.search(line, caplog.text)
    (entry,) = json.loads((tmp_path / "result.json").read_text())["results"]
    assert entry["measurements"] == 2
    assert entry["share_of_limit"] > 0


def test_one_device_prints_what_it_measured(measure) -> None:
    args = measure.parse_args(
        ["--num-layers", "18", "--devices", "cpu:1", "--num-batches", "1", "--kv-store", "local"]
    )
    (result,) = measure.run(**vars(args))
    assert result.bandwidth > 0
    with pytest.raises(SystemExit, match="--devices must be cpu:COUNT or gpu:COUNT, got 'tpu:2'"):
        measure.contexts_of(None, "tpu:2")


ERRORS = r"iter 1, .* GB/sec per gpu, error (\d\.\d+)"
PROGRAM = f"""
sys.argv = ["measure.py", "--num-layers", "18", "--num-batches", "1", *sys.argv[1:]]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""


@pytest.mark.parametrize("store", ["dist_sync", "horovod"])
def test_processes_without_servers(start, store: str) -> None:
    result = start(PROGRAM, 2, "--devices", "cpu:1", "--kv-store", store)
    assert re.findall(ERRORS, result.text) == ["0.000000"] * 2


def test_processes_with_servers(serve) -> None:
    result = serve(PROGRAM, "--devices", "cpu:2", "--kv-store", "dist_sync_device")
    assert re.findall(ERRORS, result.text) == ["0.000000"] * 2
