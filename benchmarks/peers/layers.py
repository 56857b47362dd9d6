"""A network as a plain list of layers, read off the Gluon blocks.

So every system in the comparison computes exactly the same thing.

An entry is a dict: ``op``, ``inputs`` (indices of entries, -1 is the image), ``attrs``, and
``params`` (role to ``[name, shape]``). The last entry is the output.
"""

from __future__ import annotations

from typing import Any

import bert
from mxlite.base import NotSupportedError
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import HybridConcurrent, Identity
from mxlite.gluon.model_zoo.vision import mobilenet, resnet, resnet_v1b
from mxlite.gluon.model_zoo.vision.inception_resnet_v2 import _Residual


class LayerList:
    """Collects the layers of one network.

    Parameters
    ----------
    net : HybridBlock
        A network of the model zoo whose shapes are known.
    training : bool
        Whether Dropout is a layer; in inference it does nothing.
    """

    def __init__(self, net: Any, training: bool = False) -> None:
        self._training = training
        self.layers: list[dict[str, Any]] = []
        self._names = {id(value): name for name, value in net._collect_params_with_prefix().items()}
        self._root(net)

    def _emit(
        self, op: str, inputs: list[int], params: dict[str, Any] | None = None, **attrs: Any
    ) -> int:
        described = {
            role: [self._names[id(value)], list(value.shape)]
            for role, value in (params or {}).items()
        }
        self.layers.append({"op": op, "inputs": inputs, "attrs": attrs, "params": described})
        return len(self.layers) - 1

    def _relu(self, x: int) -> int:
        return self._emit("relu", [x])

    def _add(self, x: int, y: int) -> int:
        return self._emit("add", [x, y])

    def _root(self, net: Any) -> None:
        if isinstance(net, bert.Bert):
            self._bert(net)
            return
        if isinstance(net, resnet_v1b.ResNetV1b):
            stages = [net.conv1, net.bn1, net.relu, net.maxpool]
            stages += [net.layer1, net.layer2, net.layer3, net.layer4]
            stages += [net.avgpool, net.flat, net.fc]
        else:
            stages = [net.features, net.output]
        x = -1
        for block in stages:
            x = self._block(block, x)

    def _block(self, block: Any, x: int) -> int:
        # Exact classes are looked up first, because many subclasses are containers of layers.
        for kind, method in self._METHODS.items():
            if isinstance(block, kind):
                return int(method(self, block, x))
        raise NotSupportedError(f"peers: no neutral form of a {type(block).__name__} block")

    def _chain(self, block: Any, x: int) -> int:
        for child in block._children.values():
            x = self._block(child, x)
        return x

    def _concurrent(self, block: Any, x: int) -> int:
        outputs = [self._block(child, x) for child in block._children.values()]
        return self._emit("concat", outputs, axis=block.axis)

    def _conv(self, block: Any, x: int) -> int:
        options = block._kwargs
        params = {"weight": block.weight}
        if block.bias is not None:
            params["bias"] = block.bias
        x = self._emit(
            "conv",
            [x],
            params,
            stride=list(options["stride"]),
            pad=list(options["pad"]),
            groups=options["num_group"],
        )
        return x if block.act is None else self._block(block.act, x)

    def _batch_norm(self, block: Any, x: int) -> int:
        params = {
            role: getattr(block, role) for role in ("gamma", "beta", "running_mean", "running_var")
        }
        options = block._kwargs
        return self._emit(
            "batch_norm",
            [x],
            params,
            epsilon=options["eps"],
            fix_gamma=bool(options["fix_gamma"]),
        )

    def _activation(self, block: Any, x: int) -> int:
        if block._act_type != "relu":
            raise NotSupportedError(f"peers: no neutral form of activation {block._act_type!r}")
        return self._relu(x)

    def _pool(self, block: Any, x: int) -> int:
        options = block._kwargs
        if options["global_pool"]:
            return self._emit("global_avg_pool", [x])
        return self._emit(
            options["pool_type"] + "_pool",
            [x],
            kernel=list(options["kernel"]),
            stride=list(options["stride"]),
            pad=list(options["pad"]),
            ceil=options["pooling_convention"] == "full",
        )

    def _dense(self, block: Any, x: int) -> int:
        flat = self._emit("flatten", [x]) if block._flatten else x
        params = {"weight": block.weight}
        if block.bias is not None:
            params["bias"] = block.bias
        x = self._emit("dense", [flat], params)
        return x if block.act is None else self._block(block.act, x)

    def _residual_v1(self, block: Any, x: int) -> int:
        shortcut = x if block.downsample is None else self._block(block.downsample, x)
        return self._relu(self._add(self._block(block.body, x), shortcut))

    def _residual_v2(self, block: Any, x: int) -> int:
        active = self._relu(self._block(block.bn1, x))
        shortcut = x if block.downsample is None else self._block(block.downsample, active)
        y = self._relu(self._block(block.bn2, self._block(block.conv1, active)))
        y = self._block(block.conv2, y)
        if isinstance(block, resnet.BottleneckV2):
            y = self._block(block.conv3, self._relu(self._block(block.bn3, y)))
        return self._add(y, shortcut)

    def _residual_v1b(self, block: Any, x: int) -> int:
        shortcut = x if block.downsample is None else self._block(block.downsample, x)
        y = self._relu(self._block(block.bn1, self._block(block.conv1, x)))
        y = self._block(block.bn2, self._block(block.conv2, y))
        if isinstance(block, resnet_v1b.BottleneckV1b):
            y = self._block(block.bn3, self._block(block.conv3, self._relu(y)))
        return self._relu(self._add(y, shortcut))

    def _linear_bottleneck(self, block: Any, x: int) -> int:
        y = self._block(block.out, x)
        return self._add(y, x) if block.use_shortcut else y

    def _scaled_residual(self, block: Any, x: int) -> int:
        y = self._block(block.project, self._block(block.branches, x))
        y = self._add(x, self._emit("scale", [y], factor=block._scale))
        return self._relu(y) if block._activate else y

    def _linear(self, block: Any, x: int) -> int:
        x = self._emit("linear", [x], {"weight": block.weight, "bias": block.bias})
        return x if block.act is None else self._emit(block.act._act_type, [x])

    def _layer_norm(self, block: Any, x: int) -> int:
        params = {"gamma": block.gamma, "beta": block.beta}
        return self._emit("layer_norm", [x], params, epsilon=bert.EPSILON)

    def _bert(self, net: bert.Bert) -> None:
        x = self._emit("embedding", [-1], {"weight": net.embedding.weight})
        x = self._emit("add_positions", [x], {"positions": net.positions})
        x = self._layer_norm(net.norm, x)
        for layer in net.layers._children.values():
            qkv = {"weight": layer.qkv.weight, "bias": layer.qkv.bias}
            y = self._emit("self_attention", [x], qkv, heads=layer.heads)
            x = self._layer_norm(layer.attention_norm, self._add(x, self._linear(layer.project, y)))
            y = self._emit("gelu", [self._linear(layer.expand, x)])
            x = self._layer_norm(layer.norm, self._add(x, self._linear(layer.contract, y)))
        self._linear(net.pooler, self._emit("first_token", [x]))

    def _same(self, block: Any, x: int) -> int:
        return x

    def _dropout(self, block: Any, x: int) -> int:
        return self._emit("dropout", [x], rate=block._rate) if self._training else x

    def _flatten(self, block: Any, x: int) -> int:
        return self._emit("flatten", [x])

    def _relu6(self, block: Any, x: int) -> int:
        return self._emit("clip", [x], low=0.0, high=6.0)

    _METHODS = {
        HybridConcurrent: _concurrent,
        nn.HybridSequential: _chain,
        nn.Conv2D: _conv,
        nn.BatchNorm: _batch_norm,
        nn.Activation: _activation,
        nn.MaxPool2D: _pool,
        nn.AvgPool2D: _pool,
        nn.GlobalAvgPool2D: _pool,
        nn.Flatten: _flatten,
        nn.Dense: _dense,
        nn.Dropout: _dropout,
        Identity: _same,
        resnet._BlockV1: _residual_v1,
        resnet.BasicBlockV2: _residual_v2,
        resnet.BottleneckV2: _residual_v2,
        resnet_v1b.BasicBlockV1b: _residual_v1b,
        resnet_v1b.BottleneckV1b: _residual_v1b,
        mobilenet.LinearBottleneck: _linear_bottleneck,
        mobilenet.RELU6: _relu6,
        _Residual: _scaled_residual,
    }


def layer_list(net: Any, training: bool = False) -> list[dict[str, Any]]:
    """Return the layers of a network of the model zoo.

    Parameters
    ----------
    net : HybridBlock
        The network, after its first call.
    training : bool
        Whether layers that only work in training are listed.

    Returns
    -------
    list of dict
        The entries that the docstring of this module describes.

    Raises
    ------
    NotImplementedError
        If the network has a block that the list cannot describe.
    """
    return LayerList(net, training).layers
