"""Gradients: record, backward, heads, control flow, functions, second order."""

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

x = nd.array([[1, 2], [3, 4]])
x.attach_grad()
with autograd.record():
    y = 2 * x * x
y.backward()
print(x.grad)

with autograd.record():
    y = x * 2
    z = y * x
z.backward(nd.array([[10, 1.0], [0.1, 0.01]]))
print(x.grad)


def f(a):
    b = a * 2
    while b.norm().asscalar() < 1000:
        b = b * 2
    c = b if b.sum().asscalar() >= 0 else b[0]
    return c


a = nd.array([0.5, -0.25])
a.attach_grad()
with autograd.record():
    c = f(a)
c.backward()
print(a.grad, a.grad == c / a)

print(autograd.is_recording(), autograd.is_training())
with autograd.record():
    print(autograd.is_recording(), autograd.is_training())
    with autograd.pause():
        print(autograd.is_recording(), autograd.is_training())
    with autograd.predict_mode():
        print(autograd.is_recording(), autograd.is_training())
with autograd.record(train_mode=False):
    print(autograd.is_training(), nd.Dropout(nd.ones((2, 2)), p=0.9))
with autograd.train_mode():
    print(autograd.is_training())

# Accumulating and ignoring gradients.
w = nd.ones((3,))
w.attach_grad(grad_req="add")
for i in range(3):
    with autograd.record():
        loss = (w * i).sum()
    loss.backward()
print(w.grad)
w.grad[:] = 0
print(w.grad)
v = nd.ones((3,))
v.attach_grad(grad_req="null")

# Several heads, detached parts, constants.
x = nd.array([1.0, 2, 3])
x.attach_grad()
with autograd.record():
    y = x.detach() * x
    z = nd.BlockGrad(x) + x * x * x
autograd.backward([y, z], [nd.ones(3), nd.array([1, 0, 1])])
print(x.grad)
with autograd.record():
    z = x * x * x
(gradient,) = autograd.grad(z, [x], create_graph=False)
print(gradient)

# Second derivatives.
with autograd.record():
    z = nd.log(x)
    (first,) = autograd.grad(z, [x], create_graph=True, retain_graph=True)
first.backward()
print(first, x.grad)


class Sigmoid(autograd.Function):
    """A function with a gradient of its own."""

    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


x = nd.array([-1.0, 0, 2])
x.attach_grad()
with autograd.record():
    m = Sigmoid()(x)
m.backward()
expected = m * (1 - m)
print(np.allclose(x.grad.asnumpy(), expected.asnumpy()), m.shape)

# Indexing and in-place operations under record.
x = nd.arange(6).reshape((2, 3))
x.attach_grad()
with autograd.record():
    y = x[0] * 2 + x[1, ::-1]
    y = nd.concat(y, x[:, 1], dim=0)
y.backward()
print(x.grad)

params = [nd.ones((2,)), nd.ones((1,))]
grads = [nd.zeros((2,)), nd.zeros((1,))]
autograd.mark_variables(params, grads)
with autograd.record():
    out = (params[0] * 3).sum() + params[1] * 4
out.backward()
print(grads, params[0].grad)

# A linear regression by hand.
mx.random.seed(1)
data = nd.array(np.linspace(-1, 1, 40).reshape(20, 2))
target = nd.dot(data, nd.array([[2.0], [-3.4]])) + 4.2
weight, bias = nd.zeros((2, 1)), nd.zeros((1,))
for parameter in (weight, bias):
    parameter.attach_grad()
for epoch in range(200):
    with autograd.record():
        loss = ((nd.dot(data, weight) + bias - target) ** 2).mean()
    loss.backward()
    for parameter in (weight, bias):
        parameter[:] = parameter - 0.3 * parameter.grad
print(round(float(loss.asscalar()), 4), round(float(bias.asscalar()), 3))
try:
    nd.ones(2).backward()
except mx.base.MXNetError:
    print("nothing was recorded")
