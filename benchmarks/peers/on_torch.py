"""The network on PyTorch: an fx graph of modules, channels last, eager or compiled and frozen."""

import importlib

import numpy as np
import peer_values
import torch
from torch import fx, nn
from torch.nn import functional

VARIANTS = ("eager", "compile")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def device():
    """Return the device that the worker was started for."""
    return torch.device("cuda" if peer_values.DEVICE == "gpu" else "cpu")


def wait():
    """Wait for the device."""
    if peer_values.DEVICE == "gpu":
        torch.cuda.synchronize()


def version():
    """Return PyTorch's version."""
    return torch.__version__


class _Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class _PaddedCeilPool(nn.Module):
    """Pooling whose last window may extend beyond the edge, as MXNet's convention ``full``."""

    def __init__(self, kind, kernel, stride, pad, ceil):
        super().__init__()
        self.arguments = (kernel, stride, pad)
        self.kind, self.ceil = kind, ceil

    def forward(self, x):
        if self.kind == "max_pool":
            return functional.max_pool2d(x, *self.arguments, ceil_mode=self.ceil)
        return functional.avg_pool2d(x, *self.arguments, ceil_mode=self.ceil)


class _AddPositions(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.positions = nn.Parameter(torch.empty(shape))

    def forward(self, x):
        return x + self.positions


class _SelfAttention(nn.Module):
    """Rows of the weight are those of all queries, then keys, then values."""

    def __init__(self, shape, heads):
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(shape[0]))

    def forward(self, x):
        batch, length, units = x.shape
        qkv = functional.linear(x, self.weight, self.bias)
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).reshape(batch, length, units)


class _FirstToken(nn.Module):
    def forward(self, x):
        return x[:, 0]


def _sequence_module(op, attrs, params):
    """Return the module of a layer that only networks of tokens have, else None."""
    shape = params["weight"][1] if "weight" in params else None
    makers = {
        "embedding": lambda: nn.Embedding(*shape),
        "add_positions": lambda: _AddPositions(params["positions"][1]),
        "layer_norm": lambda: nn.LayerNorm(params["gamma"][1], eps=attrs["epsilon"]),
        "linear": lambda: nn.Linear(shape[1], shape[0]),
        "self_attention": lambda: _SelfAttention(shape, attrs["heads"]),
        "gelu": nn.GELU,
        "tanh": nn.Tanh,
        "first_token": _FirstToken,
    }
    return makers[op]() if op in makers else None


def _module(layer):
    op, attrs, params = layer["op"], layer["attrs"], layer["params"]
    module = _sequence_module(op, attrs, params)
    if module is not None:
        return module
    shape = params["weight"][1] if "weight" in params else None
    if op == "conv":
        return nn.Conv2d(
            shape[1] * attrs["groups"],
            shape[0],
            shape[2:],
            attrs["stride"],
            attrs["pad"],
            groups=attrs["groups"],
            bias="bias" in params,
        )
    if op == "batch_norm":
        return nn.BatchNorm2d(params["gamma"][1][0], eps=attrs["epsilon"])
    if op == "dense":
        return nn.Linear(shape[1], shape[0], bias="bias" in params)
    if op in ("max_pool", "avg_pool"):
        return _PaddedCeilPool(op, attrs["kernel"], attrs["stride"], attrs["pad"], attrs["ceil"])
    return {
        "relu": lambda: nn.ReLU(inplace=False),
        "clip": lambda: nn.Hardtanh(attrs["low"], attrs["high"]),
        "global_avg_pool": lambda: nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten,
        "dropout": lambda: nn.Dropout(attrs["rate"]),
        "scale": lambda: _Scale(attrs["factor"]),
    }[op]()


def network(spec):
    """Return the fx graph of modules for a layer list."""
    graph, modules = fx.Graph(), {}
    outputs = {-1: graph.placeholder("data")}
    for index, layer in enumerate(spec["layers"]):
        inputs = [outputs[i] for i in layer["inputs"]]
        if layer["op"] == "add":
            outputs[index] = graph.call_function(torch.add, tuple(inputs))
        elif layer["op"] == "concat":
            outputs[index] = graph.call_function(torch.cat, (inputs, layer["attrs"]["axis"]))
        else:
            name = "layer" + str(index)
            modules[name] = _module(layer)
            outputs[index] = graph.call_module(name, (inputs[0],))
    graph.output(outputs[len(spec["layers"]) - 1])
    return fx.GraphModule(modules, graph)


def set_values(net, spec):
    """Fill the parameters, each from its name."""
    roles = {"gamma": "weight", "beta": "bias"}
    for index, layer in enumerate(spec["layers"]):
        for role, (name, shape) in layer["params"].items():
            array = peer_values.parameter(name, shape)
            if role == "gamma" and layer["attrs"].get("fix_gamma"):
                array[:] = 1
            if layer["op"] == "self_attention":
                parts = peer_values.queries_keys_values(array, layer["attrs"]["heads"])
                array = np.concatenate(parts)
            target = getattr(net.get_submodule("layer" + str(index)), roles.get(role, role))
            with torch.no_grad():
                target.copy_(torch.from_numpy(array))


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    net = network(spec)
    if not spec["random"]:
        set_values(net, spec)
    kind = DTYPES[dtype]
    net = net.eval().to(device(), kind).to(memory_format=torch.channels_last)
    data = torch.from_numpy(peer_values.inputs(spec, batch)).to(device())
    if data.is_floating_point():
        data = data.to(kind).contiguous(memory_format=torch.channels_last)
    if variant == "compile":
        importlib.import_module("torch._inductor.config").freezing = True
        net = torch.compile(net)

    def run(fetch=False):
        with torch.no_grad():
            output = net(data)
        wait()
        return output.float().cpu().numpy() if fetch else None

    return run
