"""tools/gpu/predict.py: operations of launches, and kinds of what a profile shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools/gpu"))

import predict  # noqa: E402

IMAGE, FILTER, RESULT = (
    "(2, 8, 8, 4) bfloat16;",
    "(16, 3, 3, 4) bfloat16;",
    "(2, 8, 8, 16) bfloat16;",
)
CONVOLUTION = 2 * (2 * 8 * 8 * 16) * (3 * 3 * 4)
HEADS = "(2, 3, 8, 4) bfloat16;"


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "operations"),
    [
        ("Convolution", IMAGE + FILTER, RESULT, CONVOLUTION),
        ("_convolution_backward_data", RESULT + FILTER, IMAGE, CONVOLUTION),
        ("_convolution_backward_weight", RESULT + IMAGE, FILTER, CONVOLUTION),
        ("FullyConnected", "(5, 7) float16;(11, 7) float16;", "(5, 11) float16;", 2 * 5 * 7 * 11),
        ("batch_dot", "(2, 5, 7) float16;(2, 7, 3) float16;", "(2, 5, 3) float16;", 420),
        ("dot", "(4, 5, 7) float16;(11, 7) float16;", "(4, 5, 11) float16;", 2 * 20 * 7 * 11),
        ("_contrib_dot_product_attention", 3 * HEADS, HEADS, 2 * 2 * 6 * 8 * 8 * 4),
        ("_dot_product_attention_backward", 4 * HEADS, 3 * HEADS, 5 * 2 * 6 * 8 * 8 * 4),
        ("elemwise_add", "(6,) float32;(6,) float32;", "(6,) float32;", 0),
    ],
)
def test_operations_follow_from_shapes(
    name: str, inputs: str, outputs: str, operations: int
) -> None:
    ((found, moved, computed),) = predict.read_log(f"{name}_kernel\t{inputs}\t{outputs}\n")
    assert found == name
    assert computed == pytest.approx(operations)
    assert moved == sum(map(predict.size, predict.tensors(inputs + outputs)))


def test_batch_normalization_reads_its_inputs_twice() -> None:
    ((_, moved, _),) = predict.read_log("BatchNorm\t(2, 3) float16;\t(2, 3) float16;")
    assert moved == 3 * 12


def test_a_profile_is_laid_beside_the_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = {
        "sum_columns": "batch normalization",
        "sm90_xmma_fprop_implicit_gemm_bf16": "convolution",
        "cudnn_infer_dgrad2d": "convolution, data gradient",
        "nvjet_tst_128x256": "matrix product",
        "normalize_warps": "layer normalization",
        "find_maxima": "pooling",
        "a_new_kernel": "`a_new_kernel`",
    }
    profile = {
        "network": "net",
        "kernels": [{"name": name, "Total": 3.0 + i} for i, name in enumerate(kernels)],
        "operators": [],
    }
    assert predict.measured(profile) == {
        kind: pytest.approx((3.0 + i) / 3) for i, kind in enumerate(kernels.values())
    }
    row = {"calls": 2, "GB": 1.0, "TFLOP": 0.0, "ms": 0.5}
    prediction = {"network": "net", "batch": 4, "kinds": {"batch normalization": row}}
    predict.print_table(prediction, profile)
    lines = capsys.readouterr().out.splitlines()
    assert "| batch normalization | 2 | 1.0 | 0.00 | 0.50 | 1.00 |" in lines
    assert any(line.startswith("| `a_new_kernel` |") and "3.00" in line for line in lines)


def test_every_kind_finds_its_sources() -> None:
    for kind in predict.KINDS:
        assert not kind.sources or predict.own_kernels(kind), kind.name


def test_the_batch_is_extrapolated(monkeypatch: pytest.MonkeyPatch) -> None:
    def log(network: str, batch: int) -> str:
        return f"elemwise_add\t({batch}, 3) float32;(7,) float32;\t({batch}, 3) float32;\n"

    monkeypatch.setattr(predict, "log_of_a_step", log)
    row = predict.predict("net", 10)["kinds"]["element by element"]
    assert row["GB"] == pytest.approx((10 * 24 + 28) / 1e9)
    json.dumps(row)
