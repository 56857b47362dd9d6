"""The networks of the image classification scripts are those of MXNet 1.9.1."""

import gzip
import json
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "image_classification"))
from symbols import get_symbol, networks  # noqa: E402

# Another folder's `common` must not be hidden by that of the example.
sys.path.remove(str(ROOT / "examples" / "image_classification"))

with gzip.open(ROOT / "tests" / "data" / "symbols_1.9.1.json.gz") as file:
    REFERENCE = json.load(file)


def build(network, **options):
    with mx.name.NameManager():
        return get_symbol(network, **options)


@pytest.mark.parametrize("name", REFERENCE)
def test_network_has_the_nodes_and_parameters_of_1_9_1(name):
    reference = REFERENCE[name]
    options = reference["options"]
    symbol = build(reference["network"], **options)
    shape = (2, *(int(side) for side in options["image_shape"].split(",")))
    arguments, outputs, states = symbol.infer_shape(data=shape)
    assert outputs == [(2, options["num_classes"])]
    for key, names, found in (
        ("arguments", symbol.list_arguments(), arguments),
        ("states", symbol.list_auxiliary_states(), states),
    ):
        assert [list(pair) for pair in zip(names, map(list, found))] == reference[key]
    nodes = json.loads(symbol.tojson())["nodes"]
    inputs = {n["name"]: [nodes[source[0]]["name"] for source in n["inputs"]] for n in nodes}
    made = [[n["op"], n["name"], inputs[n["name"]]] for n in nodes if n["op"] != "null"]
    assert made == reference["nodes"]


def weights_and_biases(network, image_shape, **options):
    """Number of arrays and their size in MB, as 1.x's tools/bandwidth/measure.py counts."""
    symbol = build(network, num_classes=1000, image_shape=image_shape, **options)
    shape = (32, *(int(side) for side in image_shape.split(",")))
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=shape)[0]))
    kept = [shape for name, shape in shapes.items() if "weight" in name or "bias" in name]
    return len(kept), sum(np.prod(shape) for shape in kept) * 4 / 1e6


def test_sizes_are_those_that_the_bandwidth_tool_prints():
    count, size = weights_and_biases("resnet", "3,224,224", num_layers=200)
    assert (count, f"{size:f}") == (205, "257.991328")
    count, size = weights_and_biases("inception-v3", "3,299,299")
    assert (count, f"{size:f}") == (96, "95.200544")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("network", networks())
def test_other_dtypes_are_cast_in_and_out(network, dtype):
    sides = {"mlp": "3,28,28", "lenet": "3,28,28", "inception-bn-28-small": "3,28,28"}
    shape = sides.get(network, "3,224,224")
    symbol = build(network, num_classes=7, num_layers=11 if network == "vgg" else 50,
                   image_shape=shape, dtype=dtype)  # fmt: skip
    types = dict(zip(symbol.list_arguments(), symbol.infer_type(data=np.float32)[0]))
    weights = {np.dtype(kind).name for name, kind in types.items() if name.endswith("_weight")}
    assert weights == {dtype}
    assert np.dtype(symbol.infer_type(data=np.float32)[1][0]) == np.float32


def test_small_inception_has_the_names_of_old_checkpoints():
    symbol = build("inception-bn-28-small", num_classes=10)
    names = symbol.list_arguments()
    assert names[:4] == ["data", "convolution0_weight", "convolution0_bias", "batchnorm0_gamma"]
    assert names[-3:] == ["fc1_weight", "fc1_bias", "softmax_label"]
    shapes = dict(zip(names, symbol.infer_shape(data=(2, 3, 28, 28))[0]))
    assert shapes["fc1_weight"] == (10, 336)
    assert len(names) == 19 * 4 + 4  # weight, bias, gamma, beta; data, dense layer, label


def test_underscores_and_old_file_names_are_the_same_networks():
    options = {"num_classes": 10, "num_layers": 18, "image_shape": "3,224,224"}
    one = build("resnet-v1", **options).tojson()
    assert build("resnet_v1", **options).tojson() == one
    assert build("resnetv1", **options).tojson() == one


@pytest.mark.parametrize(
    ("network", "options", "match"),
    [
        (
            "resnet",
            {"num_layers": 51, "image_shape": "3,224,224"},
            "num_layers must be one of 18, 34.*, got 51",
        ),
        (
            "resnet",
            {"num_layers": 21, "image_shape": "3,28,28"},
            "num_layers must be 6n.2 .*, got 21",
        ),
        ("vgg", {"num_layers": 12}, "num_layers must be 11, 13, 16 or 19, got 12"),
        ("mobilenet", {"image_shape": "3,100,100"}, "must be a multiple of 32, got 100 pixels"),
        ("mobilenet", {"alpha": 0.3}, "alpha must be one of .*, got 0.3"),
        ("resnet50", {}, "network must be one of alexnet.*, got 'resnet50'"),
        ("layers", {}, "network must be one of .*, got 'layers'"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(network, options, match):
    with pytest.raises(ValueError, match=match):
        get_symbol(network, num_classes=10, **options)
