"""Write symbols_1.9.1.json.gz: parameters of the image networks of MXNet 1.9.1's scripts.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24), with a checkout of its
``example/image-classification``. For each network: names and shapes of arguments and auxiliary
states, and the nodes as operator, name and inputs.

    python tests/data/make_symbols.py CHECKOUT tests/data/symbols_1.9.1.json.gz
"""

import gzip
import importlib
import json
import sys

import mxnet as mx

# Name of the network here, file in the checkout, and options.
CASES = [
    ("mlp", "mlp", {"num_classes": 10, "image_shape": "1,28,28"}),
    ("lenet", "lenet", {"num_classes": 10, "image_shape": "1,28,28"}),
    ("lenet stn", "lenet", {"num_classes": 10, "image_shape": "1,28,28", "add_stn": True}),
    ("alexnet", "alexnet", {}),
    ("alexnet float16", "alexnet", {"dtype": "float16"}),
    ("googlenet", "googlenet", {}),
    ("mobilenet", "mobilenet", {}),
    ("inception-bn", "inception-bn", {}),
    ("inception-bn 28", "inception-bn", {"num_classes": 10, "image_shape": "3,28,28"}),
    ("inception-v3", "inception-v3", {"image_shape": "3,299,299"}),
    ("inception-v3 float16", "inception-v3", {"image_shape": "3,299,299", "dtype": "float16"}),
    ("inception-v4", "inception-v4", {"image_shape": "3,299,299"}),
    ("inception-resnet-v2", "inception-resnet-v2", {"image_shape": "3,299,299"}),
    ("mobilenetv2", "mobilenetv2", {}),
    *((f"vgg {layers}", "vgg", {"num_layers": layers}) for layers in (11, 13, 16, 19)),
    ("vgg 11 norm", "vgg", {"num_layers": 11, "batch_norm": True}),
    ("resnet 50 float16", "resnet", {"num_layers": 50, "dtype": "float16"}),
]
RESIDUAL = ("resnet", "resnet-v1", "resnext")
SMALL = {"num_classes": 10, "image_shape": "3,28,28"}
# Suffix of the name, networks, numbers of layers, options.
for suffix, names, depths, more in (
    ("", RESIDUAL, (18, 34, 50, 101, 152, 200, 269), {}),
    (" small", RESIDUAL, (8, 20, 110, 164), SMALL),
    (" on 32", RESIDUAL[:2], (18,), {"num_classes": 10, "image_shape": "3,32,32"}),
):
    for name in names:
        CASES += [(f"{name} {n}{suffix}", name, {"num_layers": n, **more}) for n in depths]


def describe(symbol, image_shape):
    """Return what a network is, for JSON."""
    shape = (2, *(int(side) for side in image_shape.split(",")))
    arguments, _, states = symbol.infer_shape(data=shape)
    nodes = json.loads(symbol.tojson())["nodes"]
    return {
        "arguments": list(zip(symbol.list_arguments(), map(list, arguments))),
        "states": list(zip(symbol.list_auxiliary_states(), map(list, states))),
        "nodes": [
            [node["op"], node["name"], [nodes[source[0]]["name"] for source in node["inputs"]]]
            for node in nodes
            if node["op"] != "null"
        ],
    }


def main():
    checkout, path = sys.argv[1:]
    sys.path.insert(0, checkout)
    networks = {}
    for name, file, given in CASES:
        options = {"num_classes": 1000, "image_shape": "3,224,224", "num_layers": 0, **given}
        if not options["num_layers"]:
            del options["num_layers"]
        with mx.name.NameManager():
            get_symbol = importlib.import_module("symbols." + file).get_symbol
            takes_classes = file == "mobilenetv2"
            symbol = get_symbol(options["num_classes"]) if takes_classes else get_symbol(**options)
        facts = describe(symbol, options["image_shape"])
        networks[name] = {"network": file, "options": options, **facts}
    with gzip.GzipFile(path, "wb", mtime=0) as output:
        output.write(json.dumps(networks, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
