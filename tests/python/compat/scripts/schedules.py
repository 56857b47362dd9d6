"""Learning rates: schedulers alone, in an optimizer, in a trainer."""

import mxnet as mx
from mxnet import autograd, gluon, lr_scheduler, nd

schedulers = {
    "factor": lr_scheduler.FactorScheduler(step=5, factor=0.5, base_lr=1.0),
    "factor with a floor": lr_scheduler.FactorScheduler(3, 0.1, stop_factor_lr=1e-2, base_lr=1.0),
    "multi": lr_scheduler.MultiFactorScheduler(step=[4, 8, 15], factor=0.1, base_lr=1.0),
    "poly": lr_scheduler.PolyScheduler(max_update=20, base_lr=1.0, pwr=2, final_lr=0.1),
    "cosine": lr_scheduler.CosineScheduler(max_update=20, base_lr=1.0, final_lr=0.1),
    "warmup": lr_scheduler.CosineScheduler(
        20, 1.0, warmup_steps=5, warmup_begin_lr=0.1, warmup_mode="linear"
    ),
    "constant warmup": lr_scheduler.PolyScheduler(
        20, 1.0, warmup_steps=5, warmup_begin_lr=0.1, warmup_mode="constant"
    ),
}
for name, schedule in schedulers.items():
    print(name, " ".join("%.5f" % schedule(i) for i in range(0, 25)))


class Triangular(lr_scheduler.LRScheduler):
    """Up and down again."""

    def __init__(self, low, high, length):
        super(Triangular, self).__init__(base_lr=high)
        self.low, self.high, self.length = low, high, length

    def __call__(self, num_update):
        position = num_update % self.length
        half = self.length / 2
        scale = 1 - abs(position - half) / half
        return self.low + (self.high - self.low) * scale


triangular = Triangular(0.1, 1.1, 10)
print([round(triangular(i), 3) for i in range(12)])

net = gluon.nn.Dense(1, in_units=1, use_bias=False)
net.initialize(mx.init.One())
optimizer = mx.optimizer.SGD(lr_scheduler=lr_scheduler.FactorScheduler(2, 0.5, base_lr=1.0))
trainer = gluon.Trainer(net.collect_params(), optimizer)
for step in range(6):
    with autograd.record():
        loss = net(nd.ones((1, 1))).sum()
    loss.backward()
    trainer.step(1)
    print(step, round(trainer.learning_rate, 5), round(float(net.weight.data().asscalar()), 5))

trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
trainer.set_learning_rate(0.05)
print(trainer.learning_rate)
for epoch in range(3):
    trainer.set_learning_rate(trainer.learning_rate * 0.9)
print("%.6f" % trainer.learning_rate)

# Different rates for different parameters.
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(1, in_units=1), gluon.nn.Dense(1, in_units=1))
net.initialize(mx.init.One())
net[0].collect_params().setattr("lr_mult", 0.1)
net[1].bias.wd_mult = 0.0
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.1})
with autograd.record():
    loss = net(nd.ones((1, 1))).sum()
loss.backward()
trainer.step(1)
print([round(float(p.data().sum().asscalar()), 4) for p in net.collect_params().values()])
