"""A layer list as an ONNX file, for ONNX Runtime and OpenVINO."""

import numpy as np
import onnx
import peer_values
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def _tensor(name, array):
    return numpy_helper.from_array(np.asarray(array, order="C"), name)


class _Part:
    """Nodes and constants of one layer that needs several of them.

    Parameters
    ----------
    output : str
        Name of the layer's value; names of the parts begin with it.
    nodes, tensors : list
        Folder of the files.
    """

    def __init__(self, output, nodes, tensors):
        self.output, self.nodes, self.tensors = output, nodes, tensors
        self.count = 0

    def name(self):
        self.count += 1
        return self.output + "_part" + str(self.count)

    def constant(self, array):
        self.tensors.append(_tensor(self.name(), array))
        return self.tensors[-1].name

    def node(self, kind, *inputs, last=False, **options):
        output = self.output if last else self.name()
        self.nodes.append(helper.make_node(kind, inputs, [output], **options))
        return output

    def linear(self, x, weight, bias, last=False):
        product = self.node("MatMul", x, self.constant(weight.T))
        return self.node("Add", product, self.constant(bias), last=last)

    def gelu(self, x):
        error = self.node("Erf", self.node("Div", x, self.constant(np.float32(np.sqrt(2)))))
        product = self.node("Mul", x, self.node("Add", error, self.constant(np.float32(1))))
        self.node("Mul", product, self.constant(np.float32(0.5)), last=True)

    def self_attention(self, x, weight, bias, heads):
        units = weight.shape[1]
        split = self.constant(np.array([0, 0, heads, units // heads], np.int64))
        merged = self.constant(np.array([0, 0, units], np.int64))
        parts = zip(*(peer_values.queries_keys_values(array, heads) for array in (weight, bias)))
        queries, keys, rows = (self.node("Reshape", self.linear(x, *part), split) for part in parts)
        queries = self.node("Transpose", queries, perm=[0, 2, 1, 3])
        scores = self.node("MatMul", queries, self.node("Transpose", keys, perm=[0, 2, 3, 1]))
        root = self.constant(np.float32(np.sqrt(units // heads)))
        attention = self.node("Softmax", self.node("Div", scores, root), axis=-1)
        rows = self.node("Transpose", rows, perm=[0, 2, 1, 3])
        mixed = self.node("Transpose", self.node("MatMul", attention, rows), perm=[0, 2, 1, 3])
        self.node("Reshape", mixed, merged, last=True)

    def sequence_layer(self, op, attrs, x, params):
        """Add a layer of a network that reads tokens; False for any other layer."""
        if op == "embedding":
            self.node("Gather", self.constant(params["weight"]), x, last=True)
        elif op == "add_positions":
            self.node("Add", x, self.constant(params["positions"]), last=True)
        elif op == "layer_norm":
            scale, shift = (self.constant(params[role]) for role in ("gamma", "beta"))
            self.node("LayerNormalization", x, scale, shift, last=True, epsilon=attrs["epsilon"])
        elif op == "linear":
            self.linear(x, params["weight"], params["bias"], last=True)
        elif op == "self_attention":
            self.self_attention(x, params["weight"], params["bias"], attrs["heads"])
        elif op == "gelu":
            self.gelu(x)
        elif op == "tanh":
            self.node("Tanh", x, last=True)
        elif op == "first_token":
            self.node("Gather", x, self.constant(np.int64(0)), last=True, axis=1)
        else:
            return False
        return True


def write(spec, batch, path):
    """Write the network for batches of a fixed size.

    Parameters
    ----------
    spec : dict
        ``network``, ``size`` and ``layers``.
    batch : int
        Images.
    path : str
        File to write; one file, at most 2 GB.
    """
    names, nodes, tensors = {-1: "data"}, [], []
    for index, layer in enumerate(spec["layers"]):
        op, attrs, params = layer["op"], layer["attrs"], layer["params"]
        inputs = [names[i] for i in layer["inputs"]]
        output = names[index] = "value" + str(index)
        arrays = {
            role: peer_values.parameter(name, shape) for role, (name, shape) in params.items()
        }
        if _Part(output, nodes, tensors).sequence_layer(op, attrs, inputs[0], arrays):
            continue
        for role, (name, _) in params.items():
            array = arrays[role]
            if role == "gamma" and attrs["fix_gamma"]:
                array[:] = 1
            tensors.append(_tensor(name, array))
        given = {role: name for role, (name, _) in params.items()}
        if op in ("conv", "dense"):
            inputs += [given[role] for role in ("weight", "bias") if role in given]
        if op == "conv":
            options = {
                "kernel_shape": params["weight"][1][2:],
                "strides": attrs["stride"],
                "pads": attrs["pad"] * 2,
                "group": attrs["groups"],
            }
            nodes.append(helper.make_node("Conv", inputs, [output], **options))
        elif op == "dense":
            nodes.append(helper.make_node("Gemm", inputs, [output], transB=1))
        elif op == "batch_norm":
            inputs += [given[role] for role in ("gamma", "beta", "running_mean", "running_var")]
            nodes.append(
                helper.make_node("BatchNormalization", inputs, [output], epsilon=attrs["epsilon"])
            )
        elif op in ("max_pool", "avg_pool"):
            options = {
                "kernel_shape": attrs["kernel"],
                "strides": attrs["stride"],
                "pads": attrs["pad"] * 2,
                "ceil_mode": int(attrs["ceil"]),
            }
            if op == "avg_pool":
                options["count_include_pad"] = 1
            kind = "MaxPool" if op == "max_pool" else "AveragePool"
            nodes.append(helper.make_node(kind, inputs, [output], **options))
        elif op in ("clip", "scale"):
            constants = [attrs["low"], attrs["high"]] if op == "clip" else [attrs["factor"]]
            for place, constant in enumerate(constants):
                name = output + "_constant" + str(place)
                tensors.append(_tensor(name, np.array(constant, np.float32)))
                inputs.append(name)
            nodes.append(helper.make_node("Clip" if op == "clip" else "Mul", inputs, [output]))
        else:
            kind, options = {
                "relu": ("Relu", {}),
                "add": ("Add", {}),
                "global_avg_pool": ("GlobalAveragePool", {}),
                "flatten": ("Flatten", {}),
                "concat": ("Concat", attrs),
            }[op]
            nodes.append(helper.make_node(kind, inputs, [output], **options))
    fed = peer_values.inputs(spec, batch)
    data = helper.make_tensor_value_info(
        "data", helper.np_dtype_to_tensor_dtype(fed.dtype), fed.shape
    )
    scores = helper.make_tensor_value_info(
        names[len(spec["layers"]) - 1], TensorProto.FLOAT, [batch, None]
    )
    graph = helper.make_graph(nodes, spec["network"], [data], [scores], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    onnx.save(model, path)
