"""Compose, inspect, bind and save symbols."""

from __future__ import annotations

import mxlite as mx
from mxlite.symbol import Symbol


def residual(x: Symbol, channels: int, name: str) -> Symbol:
    y = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=channels, name=name)
    y = mx.sym.BatchNorm(y, fix_gamma=False, name=name + "_bn")[0]
    return mx.sym.Activation(x + y * 0.5, act_type="relu").reshape((0, 0, -1)).expand_dims(3)


def main() -> None:
    data = mx.sym.var("data", shape=(2, 4, 6, 6))
    out = residual(data, 4, "block")
    out = mx.sym.concat(out, out, dim=1)
    out = mx.sym.contrib.AdaptiveAvgPooling2D(out, output_size=2)
    group = mx.sym.Group([out, mx.sym.sum(out, axis=(1, 2), keepdims=True)])
    arg_shapes, out_shapes, aux_shapes = group.infer_shape(data=(2, 4, 6, 6))
    print(group.list_arguments(), out_shapes, len(arg_shapes), aux_shapes)
    executor = out.simple_bind(mx.cpu(), data=(2, 4, 6, 6))
    executor.arg_dict["data"][:] = 1
    outputs = executor.forward(is_train=False)
    print(outputs[0].shape)
    text: str = out.tojson()
    again = mx.sym.load_json(text)
    print(again.list_outputs(), len(again.get_internals()))


if __name__ == "__main__":
    main()
