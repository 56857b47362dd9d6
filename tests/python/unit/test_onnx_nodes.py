"""ONNX import: node tests of the package onnx; docs/onnx_coverage.md has the share of all."""

from __future__ import annotations

import importlib
import warnings

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from mxlite._dev import gen_onnx  # noqa: E402

# Operators whose float node tests pass, but for those with the given parts of names.
OPERATORS: dict[str, tuple[str, ...]] = {
    "AffineGrid": (),
    "Attention": (),
    "CenterCropPad": (),
    "DepthToSpace": (),
    "Einsum": (),
    "GRU": (),
    "GatherND": (),
    "GridSample": (),
    "LSTM": (),
    "LinearAttention": (),
    "NegativeLogLikelihoodLoss": (),
    "RMSNormalization": (),
    "RNN": (),
    "Resize": (),
    "RotaryEmbedding": (),
    "Scan": ("test_scan_sum",),  # opset 8
    "SoftmaxCrossEntropyLoss": (),
    "SpaceToDepth": (),
}


@pytest.mark.parametrize("op", OPERATORS)
def test_node_tests_pass(op: str) -> None:
    module = importlib.import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [
            case
            for case in module.collect_testcases(op)
            if "_expanded" not in case.name
            and gen_onnx.is_floating(case)
            and case.model.graph.node[0].op_type == op
            and case.name not in OPERATORS[op]
        ]
    assert cases
    step = -(-len(cases) // 12)  # enough of each to find what breaks
    for case in cases[::step]:
        gen_onnx.run_case(case)
