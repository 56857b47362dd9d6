"""Generate handwritten digits with a DCGAN, trained on scikit-learn's digits.

    python examples/gallery/dcgan.py
    python examples/gallery/dcgan.py --epochs 100 --picture dcgan.png

The generator makes pictures of random numbers; the discriminator learns to tell them from real
ones, and the generator learns to prevent that. At the end a classifier, trained on real digits
only, says whether the pictures look like digits: the mean of its largest probability, and how
evenly it finds the ten classes.
"""

from __future__ import annotations

import argparse
import math
import sys

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

NOISE = 32


def make_generator() -> nn.HybridSequential:
    """Return a network from (batch, 32, 1, 1) to pictures (batch, 1, 8, 8) in -1..1."""
    net = nn.HybridSequential()
    net.add(nn.Conv2DTranspose(64, 4, strides=1, use_bias=False), nn.BatchNorm())
    net.add(nn.Activation("relu"))  # 4 x 4
    net.add(nn.Conv2DTranspose(32, 4, strides=2, padding=1, use_bias=False), nn.BatchNorm())
    net.add(nn.Activation("relu"))  # 8 x 8
    net.add(nn.Conv2D(1, 3, padding=1, activation="tanh"))
    return net


def make_discriminator() -> nn.HybridSequential:
    """Return a network from pictures (batch, 1, 8, 8) to scores (batch, 1)."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 4, strides=2, padding=1), nn.LeakyReLU(0.2))
    net.add(nn.Conv2D(64, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2))
    net.add(nn.Dense(1))
    return net


def draw_noise(count: int) -> nd.NDArray:
    """Return inputs of the generator."""
    return nd.random.normal(shape=(count, NOISE, 1, 1))


def train(generator: nn.Block, discriminator: nn.Block, real: np.ndarray, epochs: int) -> None:
    """Train both networks in turns."""
    loss_function = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    options = {"learning_rate": 0.001, "beta1": 0.5}
    trainers = [
        gluon.Trainer(n.collect_params(), "adam", options) for n in (generator, discriminator)
    ]
    batches = gluon.data.DataLoader(
        gluon.data.ArrayDataset(real), batch_size=64, shuffle=True, last_batch="discard"
    )
    yes, no = nd.full((64, 1), 0.9), nd.zeros((64, 1))  # 0.9, so that certainty is not rewarded
    for epoch in range(epochs):
        losses = np.zeros(2)
        for data in batches:
            fake = generator(draw_noise(64))
            with autograd.record():
                loss = loss_function(discriminator(data), yes)
                loss = loss + loss_function(discriminator(fake.detach()), no)
            loss.backward()
            trainers[1].step(64)
            with autograd.record():
                fooled = loss_function(discriminator(generator(draw_noise(64))), yes)
            fooled.backward()
            trainers[0].step(64)
            losses += (loss.mean().asscalar(), fooled.mean().asscalar())
        losses /= len(batches)
        if epoch % max(1, epochs // 10) == 0:
            print(f"epoch {epoch}: discriminator {losses[0]:.3f}, generator {losses[1]:.3f}")


def judge(pictures: np.ndarray) -> tuple[float, float]:
    """Return a classifier's mean certainty, and the entropy of its classes over that of all."""
    digits = load_digits()
    classifier = LogisticRegression(max_iter=300).fit(digits.data / 16, digits.target)
    shares = classifier.predict_proba(pictures.reshape(len(pictures), -1))
    mean = shares.mean(axis=0)
    return float(shares.max(axis=1).mean()), float(-(mean * np.log(mean)).sum() / math.log(10))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="few epochs")
    parser.add_argument("--picture", metavar="FILE", help="write pictures of the generator")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 6
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    real = (load_digits().images[:, None] / 8 - 1).astype("float32")
    generator, discriminator = make_generator(), make_discriminator()
    for net in (generator, discriminator):
        net.initialize(mx.init.Normal(0.05))
        net.hybridize()
    train(generator, discriminator, real, args.epochs)
    made = (generator(draw_noise(400)).asnumpy() + 1) / 2
    certainty, evenness = judge(made)
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(4, 12, figsize=(7, 2.4))
        for axis, picture in zip(axes.flat, made):
            axis.imshow(picture[0], cmap="gray_r", vmin=0, vmax=1)
            axis.axis("off")
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print(f"certainty of a classifier {certainty:.3f}, evenness of its classes {evenness:.3f}")
    return 0 if args.smoke or (certainty > 0.6 and evenness > 0.7) else 1


if __name__ == "__main__":
    sys.exit(main())
