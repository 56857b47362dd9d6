"""The network on MXNet 1.9.1: a SymbolBlock, hybridized, plain or fused by its oneDNN backend."""

import mxnet as mx
import values

VARIANTS = ("hybrid", "fused")


def version():
    """Return MXNet's version."""
    return mx.__version__


def _symbol(spec):
    outputs = {-1: mx.sym.var("data")}
    for index, layer in enumerate(spec["layers"]):
        op, attrs, params = layer["op"], layer["attrs"], layer["params"]
        inputs = [outputs[i] for i in layer["inputs"]]
        named = {role: mx.sym.var(name) for role, (name, _) in params.items()}
        if op == "conv":
            shape = params["weight"][1]
            outputs[index] = mx.sym.Convolution(
                inputs[0],
                num_filter=shape[0],
                kernel=shape[2:],
                stride=attrs["stride"],
                pad=attrs["pad"],
                num_group=attrs["groups"],
                no_bias="bias" not in named,
                **named,
            )
        elif op == "batch_norm":
            outputs[index] = mx.sym.BatchNorm(
                inputs[0],
                gamma=named["gamma"],
                beta=named["beta"],
                moving_mean=named["running_mean"],
                moving_var=named["running_var"],
                eps=attrs["epsilon"],
                fix_gamma=attrs["fix_gamma"],
            )
        elif op == "dense":
            outputs[index] = mx.sym.FullyConnected(
                inputs[0],
                num_hidden=params["weight"][1][0],
                no_bias="bias" not in named,
                flatten=False,
                **named,
            )
        elif op in ("max_pool", "avg_pool"):
            outputs[index] = mx.sym.Pooling(
                inputs[0],
                kernel=attrs["kernel"],
                stride=attrs["stride"],
                pad=attrs["pad"],
                pool_type=op[:3],
                pooling_convention="full" if attrs["ceil"] else "valid",
            )
        elif op == "global_avg_pool":
            outputs[index] = mx.sym.Pooling(
                inputs[0], kernel=(1, 1), global_pool=True, pool_type="avg"
            )
        elif op == "relu":
            outputs[index] = mx.sym.Activation(inputs[0], act_type="relu")
        elif op == "clip":
            outputs[index] = mx.sym.clip(inputs[0], attrs["low"], attrs["high"])
        elif op == "add":
            outputs[index] = inputs[0] + inputs[1]
        elif op == "scale":
            outputs[index] = inputs[0] * attrs["factor"]
        elif op == "concat":
            outputs[index] = mx.sym.concat(*inputs, dim=attrs["axis"])
        elif op == "flatten":
            outputs[index] = mx.sym.flatten(inputs[0])
        else:
            raise ValueError("on_mxnet: no form of layer " + op)
    return outputs[len(spec["layers"]) - 1]


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    net = mx.gluon.SymbolBlock(_symbol(spec), mx.sym.var("data"))
    data = mx.nd.array(values.images(batch, spec["size"]))
    shapes = {name: shape for layer in spec["layers"] for name, shape in layer["params"].values()}
    for name, parameter in net.collect_params().items():
        parameter.shape = tuple(shapes[name])
        parameter.initialize(mx.init.Uniform(0.01), ctx=mx.cpu())
        if not spec["random"]:
            parameter.set_data(mx.nd.array(values.parameter(name, shapes[name])))
    if variant == "fused":
        net.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    else:
        net.hybridize(static_alloc=True, static_shape=True)

    def run(fetch=False):
        output = net(data)
        output.wait_to_read()
        return output.asnumpy() if fetch else None

    return run
