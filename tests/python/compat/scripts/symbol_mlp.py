"""A network as a symbol: composed, inspected, bound, trained by hand."""

import json

import mxnet as mx
import numpy as np
from mxnet import nd

data = mx.sym.Variable("data")
net = mx.sym.FullyConnected(data, num_hidden=8, name="fc1")
net = mx.sym.Activation(net, act_type="relu", name="relu1")
net = mx.sym.FullyConnected(net, num_hidden=2, name="fc2")
net = mx.sym.SoftmaxOutput(net, name="softmax")
print(net.list_arguments(), net.list_outputs(), net.name)
arg_shapes, out_shapes, _ = net.infer_shape(data=(40, 2))
print(arg_shapes, out_shapes)
print(net.get_internals().list_outputs())
print(sorted(json.loads(net.tojson())), mx.sym.load_json(net.tojson()).list_arguments())

rng = np.random.RandomState(0)
points = rng.uniform(-1, 1, (40, 2)).astype("float32")
classes = (points[:, 0] * points[:, 1] > 0).astype("float32")
executor = net.simple_bind(ctx=mx.cpu(), data=(40, 2), softmax_label=(40,), grad_req="write")
for name, array in executor.arg_dict.items():
    if name not in ("data", "softmax_label"):
        array[:] = rng.normal(0, 0.5, array.shape)
executor.arg_dict["data"][:] = points
executor.arg_dict["softmax_label"][:] = classes
for step in range(600):
    executor.forward(is_train=True)
    executor.backward()
    for name in ("fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"):
        executor.arg_dict[name][:] -= 0.02 * executor.grad_dict[name]
predicted = executor.forward(is_train=False)[0].argmax(axis=1).asnumpy()
print("accuracy above 0.9:", (predicted == classes).mean() > 0.9, executor.outputs[0].shape)

a, b = mx.sym.var("a"), mx.sym.var("b", shape=(2,), lr_mult=2)
c = (a + b) * 2 - a / b
print(c.eval(ctx=mx.cpu(), a=nd.array([1, 2]), b=nd.array([2, 4]))[0])
print(b.attr("__shape__"), b.attr("__lr_mult__"), sorted(c.list_arguments()))
group = mx.sym.Group([c, mx.sym.sum(a, name="total")])
print(group.list_outputs(), len(group), group[1].name, [s.name for s in group][1])
composed = mx.sym.sqrt(mx.sym.var("z"), name="root")(z=a * a)
print(composed.list_arguments(), composed.eval(ctx=mx.cpu(), a=nd.array([3, 4]))[0])
with mx.AttrScope(ctx_group="stage1"), mx.name.Prefix("block_"):
    scoped = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2)
print(scoped.name, scoped.attr("ctx_group"), scoped.list_arguments())
print(net.infer_type(data="float32")[1], c.infer_shape_partial(a=(2,))[1])
