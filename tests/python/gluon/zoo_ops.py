"""Prints the operators of the model zoo: forward, backward and optimizer step.

``tests/data/model_zoo_ops.txt`` holds the output: the list that every backend needs kernels for
(``tests/cpp/cuda_plugin_kernels_test.cc``)::

    cd tests/python/gluon
    MXLITE_DUMP_GRAPH=/tmp/graphs python zoo_ops.py > ../../data/model_zoo_ops.txt

Networks of the zoo's own block classes, with few channels, are trained for one step with graphs
dumped; the 34 networks themselves are only traced, to show that they have no other operators.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Callable

import mxlite as mx
from mxlite import autograd, gluon, nd
from mxlite.gluon.model_zoo import vision

SMALL: dict[str, Callable[[], gluon.HybridBlock]] = {
    "resnet_v1": lambda: vision.ResNetV1(
        vision.BottleneckV1, [1] * 4, [4, 8, 16, 32, 64], classes=3
    ),
    "resnet_v2": lambda: vision.ResNetV2(vision.BasicBlockV2, [1] * 4, [4, 8, 16, 32, 64]),
    "densenet": lambda: vision.DenseNet(4, 2, [1] * 4, dropout=0.1, classes=3),
    "mobilenet": lambda: vision.MobileNet(multiplier=0.05, classes=3),
    "mobilenet_v2": lambda: vision.MobileNetV2(multiplier=0.1, classes=3),
    "vgg": lambda: vision.VGG([1] * 5, [4] * 5, classes=3, batch_norm=True),
}
# Made eagerly around a training step: initializers, optimizer (also with float32 weights beside
# half ones, and several at once), gradient clipping, loss scaling, copies and casts.
AROUND = """_copyto _full _ones _zeros all_finite amp_cast amp_multicast argmax Cast clip
    mp_sgd_mom_update mp_sgd_update multi_all_finite multi_mp_sgd_mom_update multi_mp_sgd_update
    multi_sgd_mom_update multi_sgd_update multi_sum_sq random_normal random_uniform
    sgd_mom_update sgd_update zeros_like""".split()


def train_once(net: gluon.HybridBlock, dtype: str) -> None:
    """One step of SGD with momentum on two images of 224 x 224."""
    net.initialize()
    net.cast(dtype)
    net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize()
    options = {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": dtype != "float32"}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    data, label = nd.random.normal(shape=(2, 3, 224, 224)), nd.array([0, 1])
    with autograd.record():
        value = loss(net(data.astype(dtype)), label)
    value.backward()
    trainer.step(2)
    net(data.astype(dtype)).wait_to_read()


def dumped_ops(folder: Path) -> set[str]:
    """Operators of all graphs in the folder, also those that passes made or replaced."""
    found: set[str] = set()
    for path in folder.iterdir():
        if not path.name.endswith("_program.txt"):
            found |= set(re.findall(r"= ([A-Za-z_]\w*)\(", path.read_text()))
    return found


def traced_ops(name: str) -> set[str]:
    """Operators of one of the 34 networks."""
    symbol = vision.get_model(name)(mx.sym.var("data"))
    nodes = json.loads(symbol.tojson())["nodes"]
    return {node["op"] for node in nodes} - {"null"}


def main() -> None:
    """Print the names in order, one per line."""
    for make in SMALL.values():
        train_once(make(), "float32")
    found = dumped_ops(Path(os.environ["MXLITE_DUMP_GRAPH"]))
    ops = mx._core.list_ops()
    public = {name: op["name"] for op in ops for name in (op["name"], *op["aliases"])}
    canonical = {
        public.get(name, name) for name in found.union(AROUND)
    }  # graphs hold internal ones
    sys.stdout.write("\n".join(sorted(canonical)) + "\n")


if __name__ == "__main__":
    main()
