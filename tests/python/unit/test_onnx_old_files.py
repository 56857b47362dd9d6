"""Files of MXNet 0.x and 1.x as ONNX: operators of old detection and segmentation networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from onnx_models import session
from pairing import pairs

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from mxlite.onnx import export_model  # noqa: E402

PICTURE = (2, 4, 7, 9)
ROIS = [[0, 0, 0, 12, 9], [1, 2, 2, 6, 8], [0, 5, 1, 17, 13]]
# Operator, its parameters as files have them, and shapes or values of its inputs. Names with a
# capital are inputs of the network, others are parameters; labels have no value.
ROWS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("SoftmaxActivation", {"mode": "channel"}, {"Data": PICTURE}),
    ("SoftmaxActivation", {"mode": "instance"}, {"Data": (3, 8)}),
    ("SoftmaxActivation", {}, {"Data": PICTURE}),
    ("Crop", {"num_args": "2", "offset": "(1,2)"}, {"Data": PICTURE, "Like": (2, 4, 5, 6)}),
    ("Crop", {"num_args": "2", "center_crop": "True"}, {"Data": PICTURE, "Like": (2, 4, 4, 5)}),
    ("Crop", {"num_args": "1", "h_w": "(3,4)", "offset": "(2,1)"}, {"Data": PICTURE}),
    ("UpSampling", {"scale": "2", "sample_type": "nearest", "num_args": "1"}, {"Data": PICTURE}),
    ("UpSampling", {"scale": "4", "sample_type": "nearest", "num_args": "2"},
     {"Data": (1, 2, 3, 4), "Other": (1, 3, 6, 8)}),
    ("UpSampling", {"scale": "2", "sample_type": "bilinear", "num_args": "2", "num_filter": "4"},
     {"Data": PICTURE, "weight": (4, 1, 4, 4)}),
    ("UpSampling", {"scale": "3", "sample_type": "bilinear", "num_args": "2", "num_filter": "4"},
     {"Data": PICTURE, "weight": (4, 1, 5, 5)}),
    ("LeakyReLU", {"act_type": "prelu"}, {"Data": PICTURE, "gamma": (4,)}),
    ("LeakyReLU", {"act_type": "leaky", "slope": "0.1"}, {"Data": PICTURE}),
    ("LeakyReLU", {"act_type": "elu"}, {"Data": PICTURE}),
    ("LeakyReLU", {"act_type": "rrelu"}, {"Data": PICTURE}),
    ("BatchNorm", {"fix_gamma": "True", "eps": "2e-05", "momentum": "0.9"},
     {"Data": PICTURE, "gamma": (4,), "beta": (4,), "moving_mean": (4,), "moving_var": (4,)}),
    ("BatchNorm", {"fix_gamma": "False", "use_global_stats": "True"},
     {"Data": PICTURE, "gamma": (4,), "beta": (4,), "moving_mean": (4,), "moving_var": (4,)}),
    ("Pooling", {"kernel": "(3,3)", "stride": "(2,2)", "pool_type": "max",
                 "pooling_convention": "full"}, {"Data": (2, 4, 8, 10)}),
    ("Pooling", {"kernel": "(3,3)", "stride": "(2,2)", "pad": "(1,1)", "pool_type": "avg",
                 "pooling_convention": "full"}, {"Data": PICTURE}),
    ("Pooling", {"kernel": "(3,2)", "stride": "(3,2)", "pool_type": "sum",
                 "pooling_convention": "full"}, {"Data": PICTURE}),
    ("Pooling", {"kernel": "(1,1)", "global_pool": "True", "pool_type": "avg"}, {"Data": PICTURE}),
    ("L2Normalization", {"mode": "instance"}, {"Data": PICTURE}),
    ("L2Normalization", {"mode": "channel", "eps": "1e-05"}, {"Data": PICTURE}),
    ("L2Normalization", {"mode": "spatial"}, {"Data": PICTURE}),
    ("LRN", {"alpha": "0.05", "beta": "0.75", "knorm": "2", "nsize": "3"}, {"Data": PICTURE}),
    ("SoftmaxOutput", {}, {"Data": (3, 8), "label": None}),
    ("Softmax", {}, {"Data": (3, 8), "label": None}),
    ("SoftmaxOutput", {"multi_output": "True", "use_ignore": "True", "ignore_label": "255"},
     {"Data": PICTURE, "label": None}),
    ("SoftmaxOutput", {"preserve_shape": "True"}, {"Data": (2, 3, 5), "label": None}),
    ("LinearRegressionOutput", {}, {"Data": (3, 8), "label": None}),
    ("LogisticRegressionOutput", {}, {"Data": (3, 8), "label": None}),
    ("MAERegressionOutput", {}, {"Data": (3, 8), "label": None}),
    ("Deconvolution", {"kernel": "(4,4)", "stride": "(2,2)", "pad": "(1,1)", "num_filter": "3",
                       "no_bias": "True"}, {"Data": PICTURE, "weight": (4, 3, 4, 4)}),
    ("Deconvolution", {"kernel": "(4,4)", "stride": "(2,2)", "target_shape": "(13,17)",
                       "no_bias": "False", "num_filter": "3"},
     {"Data": PICTURE, "weight": (4, 3, 4, 4), "bias": (3,)}),
    ("Deconvolution", {"kernel": "(3,3)", "stride": "(2,2)", "adj": "(1,1)", "num_filter": "4",
                       "num_group": "2", "no_bias": "True"},
     {"Data": PICTURE, "weight": (4, 2, 3, 3)}),
    ("ROIPooling", {"pooled_size": "(3,3)", "spatial_scale": "0.5"},
     {"Data": PICTURE, "Rois": ROIS}),
    ("Concat", {"num_args": "2", "dim": "1"}, {"Data": PICTURE, "Other": PICTURE}),
    ("ElementWiseSum", {"num_args": "2"}, {"Data": PICTURE, "Other": PICTURE}),
    ("_Plus", {}, {"Data": PICTURE, "Other": PICTURE}),
    ("_MulScalar", {"scalar": "0.3"}, {"Data": PICTURE}),
    ("SwapAxis", {"dim1": "1", "dim2": "3"}, {"Data": PICTURE}),
    ("Reshape", {"target_shape": "(0,252)"}, {"Data": PICTURE}),
    ("Reshape", {"shape": "(0,-3,-2)"}, {"Data": PICTURE}),
    ("Activation", {"act_type": "softrelu"}, {"Data": PICTURE}),
    ("Embedding", {"input_dim": "5", "output_dim": "4"}, {"Data": PICTURE, "weight": (5, 4)}),
    ("Dropout", {"p": "0.5"}, {"Data": PICTURE}),
    ("BlockGrad", {}, {"Data": PICTURE}),
    ("InstanceNorm", {"eps": "0.001"}, {"Data": PICTURE, "gamma": (4,), "beta": (4,)}),
    ("SliceChannel", {"num_outputs": "2", "axis": "1"}, {"Data": PICTURE}),
    ("Cast", {"dtype": "float64"}, {"Data": PICTURE}),
]  # fmt: skip


def old_symbol(op: str, params: dict[str, str], names: list[str], key: str) -> str:
    """Return a symbol's file: up to 0.8 with ``param``, up to 1.0 with ``attr``."""
    nodes = [
        {"op": "null", key: {}, "name": name, "inputs": [], "backward_source_id": -1}
        for name in names
    ]
    sources = [[i, 0] for i in range(len(names))]
    nodes.append(
        {"op": op, key: params, "name": "out", "inputs": sources, "backward_source_id": -1}
    )
    count = len(names)
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[count, 0]]})


@pytest.mark.parametrize("key", ["param", "attr"])
def test_operators_of_old_files(key: str, tmp_path: Path) -> None:
    """Export all rows in one test; one file for each."""
    rng = np.random.RandomState(0)
    for op, params, inputs in ROWS:
        made = {
            name: mx.nd.array(spec if isinstance(spec, list) else rng.uniform(0.1, 1.5, spec))
            for name, spec in inputs.items()
            if spec is not None
        }
        fed = {
            f"out_{n}" if n == "label" else n.lower(): a for n, a in made.items() if n[0].isupper()
        }
        values = {f"out_{name}": a for name, a in made.items() if name[0].islower()}
        names = [n.lower() if n[0].isupper() else f"out_{n}" for n in inputs]
        if op != "Embedding":
            fed["data"] = fed["data"] - 0.8
        prefix = str(tmp_path / "net")
        Path(f"{prefix}-symbol.json").write_text(old_symbol(op, params, names, key))
        kinds = {n: "aux" if "moving" in n else "arg" for n in values}
        mx.nd.save(f"{prefix}-0003.params", {f"{kinds[n]}:{n}": a for n, a in values.items()} or [])
        files = (f"{prefix}-symbol.json", f"{prefix}-0003.params")
        symbol = mx.sym.load(files[0])
        if not values:
            files = (symbol, {})
        shapes = [fed[n].shape for n in symbol.list_inputs() if n in fed]
        path = export_model(*files, shapes, np.float32, f"{prefix}.onnx")
        runtime = session(path)
        used = {entry.name for entry in runtime.get_inputs()}
        found = runtime.run(None, {n: a.asnumpy() for n, a in fed.items() if n in used})
        bound = symbol.simple_bind(
            mx.cpu(), grad_req="null", **{n: a.shape for n, a in fed.items()}
        )
        bound.copy_params_from(
            {n: a for n, a in values.items() if kinds[n] == "arg"},
            {n: a for n, a in values.items() if kinds[n] == "aux"},
        )
        for array, expected in pairs(found, bound.forward(is_train=False, **fed)):
            assert array.shape == expected.shape, (op, params)
            np.testing.assert_allclose(
                array, expected.asnumpy(), 1e-4, 1e-5, err_msg=f"{op} {params}"
            )
