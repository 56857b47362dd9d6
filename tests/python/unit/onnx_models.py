"""ONNX models for tests: parsed from text, and run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def parsed(text: str) -> Any:
    """Return the model of a graph in ONNX's text format."""
    from onnx import parser

    return parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text)


def session(path: str | Path) -> Any:
    """Return a session of ONNX Runtime on the CPU."""
    import onnxruntime  # type: ignore[import-untyped]

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
