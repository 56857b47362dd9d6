"""An image is fitted to features: executors on shared arrays, Gram matrices, total variation."""

import zlib

import mxnet as mx
import numpy as np

SIZE = (16, 12)
rng = np.random.RandomState(0)


def values(name, shape, scale):
    return np.random.RandomState(zlib.crc32(name.encode()) % 1000).uniform(-scale, scale, shape)


def layer(data, filters, name):
    data = mx.symbol.Convolution(
        data=data, num_filter=filters, kernel=(3, 3), pad=(1, 1), name=name, workspace=1024
    )
    return mx.symbol.Activation(data=data, act_type="relu", name="relu_" + name)


data = mx.sym.Variable("data")
low = layer(data, 6, "conv1")
pool = mx.symbol.Pooling(data=low, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="pool1")
high = layer(pool, 8, "conv2")
style, content = mx.sym.Group([low, high]), high
_, shapes, _ = style.infer_shape(data=(1, 3) + SIZE)
print(style.list_outputs(), shapes)
grams, scales = [], []
for i, shape in enumerate(shapes):
    flat = mx.sym.Reshape(style[i], shape=(int(shape[1]), int(np.prod(shape[2:]))))
    grams.append(mx.sym.FullyConnected(flat, flat, no_bias=True, num_hidden=shape[1]))
    scales.append(np.prod(shape[1:]) * shape[1])
losses = [
    mx.sym.sum(mx.sym.square(mx.sym.Variable("target_gram%d" % i) - gram))
    for i, gram in enumerate(grams)
]
losses.append(mx.sym.sum(mx.sym.square(mx.sym.Variable("target_content") - content)))
net, features = mx.sym.Group(losses), mx.sym.Group(grams + [content])
names = net.list_arguments()
shapes, outputs, _ = net.infer_shape(data=(1, 3) + SIZE)
print(dict(zip(names, shapes)), outputs)
arrays = {name: mx.nd.array(values(name, shape, 0.3)) for name, shape in zip(names, shapes)}
look = features.bind(mx.cpu(), {k: arrays[k] for k in features.list_arguments()}, grad_req="null")
arrays["data"][:] = rng.uniform(-1, 1, (1, 3) + SIZE)
look.forward()
for i in range(2):
    arrays["target_gram%d" % i][:] = look.outputs[i]
arrays["data"][:] = rng.uniform(-1, 1, (1, 3) + SIZE)
look.forward()
arrays["target_content"][:] = look.outputs[2]
gradient = mx.nd.zeros((1, 3) + SIZE)
run = net.bind(mx.cpu(), args=arrays, args_grad={"data": gradient}, grad_req="write")

planes = mx.sym.SliceChannel(mx.sym.Variable("image"), num_outputs=3)
kernel = mx.sym.Variable("kernel")
smooth = mx.sym.Concat(
    *[
        mx.sym.Convolution(
            data=planes[i], weight=kernel, num_filter=1, kernel=(3, 3), pad=(1, 1), no_bias=True
        )
        for i in range(3)
    ]
)
image = mx.nd.array(rng.uniform(-0.1, 0.1, (1, 3) + SIZE))
cross = mx.nd.array(np.array([[0, -1, 0], [-1, 4, -1], [0, -1, 0]]).reshape((1, 1, 3, 3))) / 8.0
variation = (smooth * 0.01).bind(mx.cpu(), args={"image": image, "kernel": cross})
schedule = mx.lr_scheduler.FactorScheduler(step=4, factor=0.9, base_lr=0.05)
optimizer = mx.optimizer.Adam(learning_rate=0.001, wd=0.0005, lr_scheduler=schedule)
state = optimizer.create_state(0, image)
old = image.copyto(mx.cpu())
for epoch in range(8):
    image.copyto(run.arg_dict["data"])
    run.forward(is_train=True)
    heads = [mx.nd.ones((1,)) / float(scale) for scale in scales] + [mx.nd.ones((1,)) * 10]
    run.backward(heads)
    norm = mx.nd.norm(gradient).asscalar()
    if norm > 5:
        gradient[:] *= 5 / norm
    variation.forward()
    optimizer.update(0, image, gradient + variation.outputs[0], state)
    change = (mx.nd.norm(old - image) / mx.nd.norm(image)).asscalar()
    old = image.copyto(mx.cpu())
    parts = ["%.3f" % loss.asnumpy().sum() for loss in run.outputs]
    print("epoch %d change %.5f norm %.4f" % (epoch, change, norm), parts)
