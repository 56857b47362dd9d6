"""Handlers of model servers for MXNet: what multi-model-server's and SageMaker's classes call."""

from __future__ import annotations

import json
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from alias_runner import run_code
from mxlite.gluon import nn

# Loads a symbol, its parameters and a signature into a Module, as multi-model-server's services do.
MULTI_MODEL_SERVER = """
import json
import os
import mxnet as mx
from mxnet import image
from mxnet.io import DataBatch

class Service(object):
    def __init__(self, folder, name):
        with open(os.path.join(folder, "signature.json")) as file:
            self.signature = json.load(file)
        with open(os.path.join(folder, "synset.txt")) as file:
            self.labels = [line.strip() for line in file]
        shapes = [(entry["data_name"], tuple(n or 1 for n in entry["data_shape"]))
                  for entry in self.signature["inputs"]]
        symbol, args, auxs = mx.model.load_checkpoint("%s/%s" % (folder, name), 0)
        self.module = mx.mod.Module(symbol=symbol, context=mx.cpu(),
                                    data_names=[name for name, _ in shapes], label_names=None)
        self.module.bind(for_training=False, data_shapes=shapes)
        self.module.set_params(args, auxs, allow_missing=True, allow_extra=True)

    def read(self, content):
        _, _, height, width = self.signature["inputs"][0]["data_shape"]
        pixels = image.imresize(image.imdecode(content), width, height)
        return mx.nd.expand_dims(mx.nd.transpose(pixels, (2, 0, 1)), axis=0)

    def scores(self, inputs):
        assert all(isinstance(entry, mx.nd.NDArray) for entry in inputs)
        self.module.forward(DataBatch([entry.as_in_context(mx.cpu()) for entry in inputs]))
        found = self.module.get_outputs()
        for array in found:
            assert isinstance(array, mx.ndarray.ndarray.NDArray)
            array.wait_to_read()
        return found

    def best(self, content, count):
        scores = self.scores([self.read(content)])[0]
        order = mx.nd.argsort(scores[0], is_ascend=False)
        places = [int(place.asscalar()) for place in order[0:count]]
        return [{"probability": float(scores[0, place].asscalar()), "class": self.labels[place]}
                for place in places]

service = Service(".", "model")
with open("picture.jpg", "rb") as file:
    print(json.dumps(service.best(file.read(), 3)))
print(mx.__version__)
"""

# Loads a model with its shapes, pads batches, predicts with an iterator, as SageMaker's toolkit.
SAGEMAKER = """
import json
import mxnet as mx
import numpy as np

with open("model-shapes.json") as file:
    shapes = json.load(file)
names = [entry["name"] for entry in shapes]
symbol, args, auxs = mx.model.load_checkpoint("model", 0)
module = mx.mod.Module(symbol=symbol, context=mx.cpu(), data_names=names, label_names=None)
module.bind(for_training=False,
            data_shapes=[(entry["name"], [4] + entry["shape"][1:]) for entry in shapes])
module.set_params(args, auxs, allow_missing=True)

rows = mx.nd.array(np.load("rows.npy")).as_in_context(mx.cpu())
[shape] = module.data_shapes
missing = max(0, shape[1][0] - rows.shape[0])
filled = mx.ndarray.concat(rows, mx.ndarray.zeros(shape=(missing,) + rows.shape[1:]), dim=0)
batches = mx.io.NDArrayIter(filled, batch_size=shape[1][0], last_batch_handle="pad")
batches.getpad = lambda: missing
print(json.dumps(module.predict(batches).asnumpy().tolist()))

block = mx.gluon.SymbolBlock(symbol, mx.sym.var("data"))
block.collect_params().load("model-0000.params", ctx=mx.cpu(), restore_prefix="",
                            ignore_extra=True)
print(json.dumps(block(rows).asnumpy().tolist()))
"""


@pytest.fixture
def net(tmp_path: Path) -> nn.HybridBlock:
    """A network for pictures of 3 x 8 x 8, whose files are in the folder of the test."""
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=3), nn.BatchNorm(), nn.Flatten(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.ones((1, 3, 8, 8)))
    net.export(str(tmp_path / "model"))
    return net


def test_services_of_multi_model_server(net: nn.HybridBlock, tmp_path: Path) -> None:
    signature = {"inputs": [{"data_name": "data", "data_shape": [0, 3, 8, 8]}]}
    (tmp_path / "signature.json").write_text(json.dumps(signature))
    (tmp_path / "synset.txt").write_text("".join(f"class {number}\n" for number in range(5)))
    content = (Path(__file__).parents[2] / "data" / "gradient.jpg").read_bytes()
    (tmp_path / "picture.jpg").write_bytes(content)
    answer, version = run_code(MULTI_MODEL_SERVER, tmp_path).splitlines()
    pixels = mx.image.imresize(mx.image.imdecode(content), 8, 8)
    data = pixels.astype("float32").transpose((2, 0, 1)).expand_dims(0)
    scores = net(data).asnumpy()[0]
    order = np.argsort(-scores)[:3]
    found = json.loads(answer)
    assert [entry["class"] for entry in found] == [f"class {place}" for place in order]
    np.testing.assert_allclose([entry["probability"] for entry in found], scores[order], rtol=1e-4)
    assert version.startswith("1.9.1")


def test_default_handlers_of_sagemaker(net: nn.HybridBlock, tmp_path: Path) -> None:
    shapes = [{"name": "data", "shape": [1, 3, 8, 8]}]
    (tmp_path / "model-shapes.json").write_text(json.dumps(shapes))
    rows = np.random.RandomState(0).uniform(-1, 1, (3, 3, 8, 8)).astype("float32")
    np.save(tmp_path / "rows.npy", rows)
    expected = net(mx.nd.array(rows)).asnumpy()
    for line in run_code(SAGEMAKER, tmp_path).splitlines():
        np.testing.assert_allclose(json.loads(line), expected, rtol=1e-4, atol=1e-5)
