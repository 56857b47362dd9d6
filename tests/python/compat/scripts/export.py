"""Hybridize, export, load again: as symbol, as block, for more training."""

import os
import tempfile

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Residual(gluon.HybridBlock):
    """Two convolutions and a shortcut."""

    def __init__(self, channels, **kwargs):
        super(Residual, self).__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(channels, kernel_size=3, padding=1)
            self.bn1 = nn.BatchNorm()
            self.conv2 = nn.Conv2D(channels, kernel_size=1)

    def hybrid_forward(self, F, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.concat(F.Activation(self.conv2(y) + y, act_type="relu"), x, dim=1)


net = nn.HybridSequential(prefix="model_")
with net.name_scope():
    net.add(Residual(2), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(3))
net.initialize(mx.init.Constant(0.1))
x = nd.arange(2 * 1 * 4 * 4).reshape((2, 1, 4, 4)) / 10
eager = net(x)
net.hybridize(static_alloc=True, static_shape=True)
print(eager, nd.abs(net(x) - eager).max().asscalar() < 1e-5)

with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "model")
    net.export(prefix, epoch=3)
    print(sorted(os.listdir(folder)))
    saved = nd.load(prefix + "-0003.params")
    print(sorted(saved))

    symbol = mx.sym.load(prefix + "-symbol.json")
    print(symbol.list_arguments(), symbol.list_auxiliary_states(), len(symbol.list_outputs()))
    arg_shapes, out_shapes, aux_shapes = symbol.infer_shape(data=(5, 1, 4, 4))
    print(out_shapes, dict(zip(symbol.list_auxiliary_states(), aux_shapes)))
    print(dict(zip(symbol.list_arguments(), arg_shapes))["model_dense0_weight"])

    block = gluon.SymbolBlock.imports(
        prefix + "-symbol.json", ["data"], prefix + "-0003.params", ctx=mx.cpu()
    )
    print(
        nd.abs(block(x) - eager).max().asscalar() < 1e-5,
        sorted(block.collect_params()) == sorted(net.collect_params()),
    )

    executor = symbol.bind(
        mx.cpu(),
        args=dict({k[4:]: v for k, v in saved.items() if k.startswith("arg:")}, data=x),
        aux_states={k[4:]: v for k, v in saved.items() if k.startswith("aux:")},
        grad_req="null",
    )
    print(nd.abs(executor.forward(is_train=False)[0] - eager).max().asscalar() < 1e-5)

    # The features before the classifier, and training on.
    internals = symbol.get_internals()
    features = internals[internals.list_outputs().index("model_dense0_weight") - 1]
    print(features.infer_shape(data=(5, 1, 4, 4))[1])
    trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = gluon.loss.L2Loss()(block(x), nd.zeros((2, 3)))
    loss.backward()
    trainer.step(2)
    with autograd.predict_mode():
        print(loss.shape, nd.abs(block(x)).sum().asscalar() < nd.abs(eager).sum().asscalar())

    net.save_parameters(os.path.join(folder, "net.params"))
    again = nn.HybridSequential()
    again.add(Residual(2), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(3))
    again.load_parameters(os.path.join(folder, "net.params"))
    print(nd.abs(again(x) - eager).max().asscalar() < 1e-5)

    net.cast("float64")
    print(net(x.astype("float64")).dtype.__name__)
