"""Quantized networks that MXNet 1.9.1 wrote: fused layers with subgraphs, int8 parameters."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite.contrib import quantization

DATA = Path(__file__).resolve().parents[2] / "data" / "mxnet_1_9_1"
FILES = DATA / "quantized-symbol.json", DATA / "quantized-0000.params"


def test_a_network_of_1_9_1_keeps_its_outputs(tmp_path: Path) -> None:
    sym, args, aux = quantization.load_quantized(*FILES)
    counts = Counter(node.op for node in sym._nodes() if node.op)
    assert counts == {
        "_contrib_quantize_v2": 1, "_sg_mkldnn_conv": 4, "_contrib_quantized_pooling": 1,
        "_contrib_quantized_flatten": 1, "_sg_mkldnn_fully_connected": 2,
    }  # fmt: skip
    assert not aux
    assert {array.dtype for array in args.values() if array.ndim > 1} == {np.int8}
    data = np.load(DATA / "quantized.npz")
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, sym, args, aux)
    block = mx.gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    for hybridize in (False, True):
        block.hybridize(hybridize)
        found = block(mx.nd.array(data["x"])).asnumpy()
        # 1.9.1's result depends on the processor: products of int8 saturate without VNNI.
        np.testing.assert_allclose(found, data["floats"], atol=0.05 * np.abs(data["floats"]).max())


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken-symbol.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"load_quantized: .* must be a symbol file"):
        quantization.load_quantized(path, FILES[1])
    content = json.loads(FILES[0].read_text())
    for node in content["nodes"]:
        node.pop("subgraphs", None)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="must have one subgraph, got 0"):
        quantization.load_quantized(path, FILES[1])
    with pytest.raises(FileNotFoundError):
        quantization.load_quantized(tmp_path / "none", FILES[1])
