#!/usr/bin/env python
"""The MNIST tutorial of Gluon on scikit-learn's digits: arguments, loader, training, saving."""

from __future__ import print_function

import argparse
import logging
import os

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description="MXNet Gluon digits example")
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--cuda", action="store_true", default=False)
parser.add_argument("--hybridize", action="store_true", default=False)
parser.add_argument("--workers", type=int, default=0)
opt = parser.parse_args()
logging.basicConfig(level=logging.INFO)
mx.random.seed(42)
np.random.seed(42)

net = nn.HybridSequential() if opt.hybridize else nn.Sequential()
with net.name_scope():
    net.add(nn.Dense(128, activation="relu"))
    net.add(nn.Dropout(0.1))
    net.add(nn.Dense(64, activation="relu"))
    net.add(nn.Dense(10))
if opt.hybridize:
    net.hybridize()

digits = load_digits()
images = digits.images.reshape(-1, 8, 8, 1).astype(np.float32)
labels = digits.target.astype(np.int32)


def transformer(data, label):
    data = data.reshape((-1,)).astype(np.float32) / 16
    return data, label


dataset = gluon.data.ArrayDataset(images, labels)
train_data = gluon.data.DataLoader(
    gluon.data.SimpleDataset([dataset[i] for i in range(1437)]).transform(transformer),
    batch_size=opt.batch_size,
    shuffle=True,
    last_batch="discard",
    num_workers=opt.workers,
)
val_data = gluon.data.DataLoader(
    gluon.data.SimpleDataset([dataset[i] for i in range(1437, 1797)]).transform(transformer),
    batch_size=opt.batch_size,
    shuffle=False,
)


def test(ctx):
    metric = mx.metric.Accuracy()
    for data, label in val_data:
        data = data.as_in_context(ctx)
        label = label.as_in_context(ctx)
        output = net(data)
        metric.update([label], [output])
    return metric.get()


def train(epochs, ctx):
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": opt.lr, "momentum": opt.momentum}
    )
    metric = mx.metric.Accuracy()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(epochs):
        metric.reset()
        for i, (data, label) in enumerate(train_data):
            data = gluon.utils.split_and_load(data, ctx_list=[ctx], batch_axis=0)[0]
            label = label.as_in_context(ctx)
            with autograd.record():
                output = net(data)
                L = loss(output, label)
                L.backward()
            trainer.step(data.shape[0])
            metric.update([label], [output])
            if i % 10 == 0 and i > 0:
                name, acc = metric.get()
                print("[Epoch %d Batch %d] Training: %s=%f" % (epoch, i, name, acc))
        name, acc = metric.get()
        print("[Epoch %d] Training: %s=%f" % (epoch, name, acc))
        name, val_acc = test(ctx)
        print("[Epoch %d] Validation: %s=%f" % (epoch, name, val_acc))
    net.save_parameters("mnist.params")
    trainer.save_states("mnist.states")


if __name__ == "__main__":
    ctx = mx.gpu(0) if opt.cuda else mx.cpu()
    train(opt.epochs, ctx)
    print(sorted(f for f in os.listdir(".") if f.startswith("mnist")))
