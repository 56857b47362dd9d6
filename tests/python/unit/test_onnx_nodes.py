"""ONNX import: node tests of the package onnx; docs/reference/onnx_coverage.md has the counts."""

from __future__ import annotations

import importlib
import warnings
from collections import defaultdict
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from mxlite._dev import gen_onnx  # noqa: E402

# Operators whose float node tests pass, except the given tests.
OPERATORS: dict[str, tuple[str, ...]] = {
    "AffineGrid": (),
    "Attention": (),
    "AveragePool": (),
    "CenterCropPad": (),
    "Col2Im": (),
    "Compress": (),
    "DFT": (),
    "DeformConv": (),
    "DepthToSpace": (),
    "Einsum": (),
    "GRU": (),
    "GatherND": (),
    "GridSample": (),
    "LSTM": (),
    "LinearAttention": (),
    "LpNormalization": (),
    "LpPool": (),
    "Mod": (),
    "NegativeLogLikelihoodLoss": (),
    "RMSNormalization": (),
    "RNN": (),
    "Resize": (),
    "RotaryEmbedding": (),
    "Scan": ("test_scan_sum",),  # opset 8
    "ScatterElements": (),
    "ScatterND": (),
    "SoftmaxCrossEntropyLoss": (),
    "SpaceToDepth": (),
    "Unique": (),
}


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Any]]:
    """Return the float node tests by operator."""
    found: dict[str, list[Any]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("onnx.backend.test.case.node")
        for case in module.collect_testcases(None):
            if "_expanded" not in case.name and gen_onnx.is_floating(case):
                found[case.model.graph.node[0].op_type].append(case)
    return found


@pytest.mark.parametrize("op", OPERATORS)
def test_node_tests_pass(op: str, cases: dict[str, list[Any]]) -> None:
    chosen = [case for case in cases[op] if case.name not in OPERATORS[op]]
    assert chosen
    for case in chosen[:: -(-len(chosen) // 12)]:  # enough of each to find what breaks
        gen_onnx.run_case(case)
