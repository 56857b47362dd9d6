"""Reinforcement learning on a small cart pole: losses of many steps in one backward."""

import zlib

import mxnet as mx
import mxnet.ndarray as F
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn


class ByName(mx.init.Initializer):
    """Weights that depend on their names only."""

    def _init_weight(self, name, arr):
        values = np.random.RandomState(zlib.crc32(name.encode()) % 1000)
        arr[:] = values.uniform(-0.1, 0.1, arr.shape)


class Policy(gluon.Block):
    def __init__(self, **kwargs):
        super(Policy, self).__init__(**kwargs)
        with self.name_scope():
            self.dense = nn.Dense(16, in_units=4, activation="relu")
            self.action_pred = nn.Dense(2, in_units=16)
            self.value_pred = nn.Dense(1, in_units=16)

    def forward(self, x):
        x = self.dense(x)
        return F.softmax(self.action_pred(x)), self.value_pred(x)


class CartPole(object):
    def __init__(self):
        self.rng = np.random.RandomState(543)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = np.cos(angle), np.sin(angle)
        push = (force + 0.05 * turn * turn * sin) / 1.1
        spin = (9.8 * sin - cos * push) / (0.5 * (4 / 3.0 - 0.1 * cos * cos / 1.1))
        moved = push - 0.05 * spin * cos / 1.1
        change = np.array([speed, moved, turn, spin])
        self.state = self.state + 0.02 * change
        return self.state, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21)


env, net = CartPole(), Policy(prefix="policy_")
net.initialize(ByName())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-2})
loss = gluon.loss.L1Loss()
rng = np.random.RandomState(1)
for episode in range(6):
    state, rewards, values, heads = env.reset(), [], [], []
    with autograd.record():
        for t in range(100):
            probability, value = net(F.array(np.array([state])))
            action = int(rng.uniform() > probability.asnumpy()[0, 0])
            heads.append(F.log(F.pick(probability, F.array([action]))))
            state, done = env.step(action)
            rewards.append(1.0)
            values.append(value)
            if done:
                break
        total = 0
        for i in reversed(range(len(rewards))):
            rewards[i] = total = rewards[i] + 0.99 * total
        rewards = np.array(rewards)
        rewards = (rewards - rewards.mean()) / (rewards.std() + np.finfo(rewards.dtype).eps)
        critic = sum(loss(v, mx.nd.array([r])) for r, v in zip(rewards, values))
        final = [critic]
        for head, reward, value in zip(heads, rewards, values):
            final.append(-head * float(reward) + head * value.detach().reshape((-1,)))
    autograd.backward(final)
    trainer.step(1)
    print("episode %d: %d steps, critic %.4f" % (episode, t, critic.asscalar()))
