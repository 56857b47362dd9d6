"""A layer list as an ONNX file, for ONNX Runtime and OpenVINO."""

import numpy as np
import onnx
import values
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def _tensor(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


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
        for role, (name, shape) in params.items():
            array = values.parameter(name, shape)
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
    image = helper.make_tensor_value_info(
        "data", TensorProto.FLOAT, [batch, 3, spec["size"], spec["size"]]
    )
    scores = helper.make_tensor_value_info(
        names[len(spec["layers"]) - 1], TensorProto.FLOAT, [batch, None]
    )
    graph = helper.make_graph(nodes, spec["network"], [image], [scores], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    onnx.save(model, path)
