"""Recommend films with matrix factorization on sparse gradients.

    python examples/gallery/recommender.py
    python examples/gallery/recommender.py --ratings u.data --picture recommender.png

Each user and each film has a vector; a rating is their product plus a bias of both. The ratings
are drawn by this program from such vectors with noise, so the best possible error is known; or
they are lines "user, film, rating" of a file, separated by tabs or commas, as MovieLens has them.
Prints the root of the mean squared error of held-out ratings, of the network and of the films'
mean ratings.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

NOISE = 0.5


def make_ratings(users: int, films: int, count: int) -> np.ndarray:
    """Return rows (user, film, rating); popular films have more ratings."""
    mine, theirs = np.random.normal(0, 0.6, (users, 4)), np.random.normal(0, 0.6, (films, 4))
    bias = np.random.normal(0, 0.4, films)
    popularity = 1 / np.arange(1, films + 1) ** 0.7
    user = np.random.randint(0, users, count)
    film = np.random.choice(films, count, p=popularity / popularity.sum())
    rating = 3.5 + (mine[user] * theirs[film]).sum(axis=1) + bias[film]
    return np.stack([user, film, rating + np.random.normal(0, NOISE, count)], axis=1)


def read_ratings(path: str) -> np.ndarray:
    """Return rows (user, film, rating) with users and films counted from 0."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"[\t,;]|::", line)[:3] for line in lines if line[:1].isdigit()]
    if not rows:
        raise SystemExit(f"recommender: {path} must have lines 'user, film, rating', got none")
    table = np.array(rows, float)
    for column in (0, 1):
        table[:, column] = np.unique(table[:, column], return_inverse=True)[1]
    return table


class Factorization(nn.HybridBlock):
    """Ratings (batch,) of users (batch,) and films (batch,)."""

    def __init__(self, users: int, films: int, units: int, mean: float) -> None:
        super().__init__()
        self.users = nn.Embedding(users, units, sparse_grad=True)
        self.films = nn.Embedding(films, units, sparse_grad=True)
        self.user_bias = nn.Embedding(users, 1, weight_initializer="zeros", sparse_grad=True)
        self.film_bias = nn.Embedding(films, 1, weight_initializer="zeros", sparse_grad=True)
        self._mean = mean

    def hybrid_forward(self, F, user, film):  # noqa: N803
        """Return the predicted ratings."""
        product = (self.users(user) * self.films(film)).sum(axis=1)
        bias = self.user_bias(user) + self.film_bias(film)
        return product + bias.reshape((-1,)) + self._mean


def predict(net: Factorization, rows: np.ndarray) -> np.ndarray:
    """Return the predicted ratings of rows."""
    return net(nd.array(rows[:, 0]), nd.array(rows[:, 1])).asnumpy()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", metavar="FILE", help="lines 'user, film, rating'")
    parser.add_argument("--units", type=int, default=8, help="length of the vectors")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="fewer ratings and epochs")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the error")
    args = parser.parse_args()
    size = (400, 300, 40000)
    if args.smoke:
        args.epochs, size = 5, (150, 100, 12000)
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    table = read_ratings(args.ratings) if args.ratings else make_ratings(*size)
    table = table[np.random.permutation(len(table))]
    held_out = len(table) // 10
    test, learn = table[:held_out], table[held_out:]
    users, films = (int(table[:, column].max()) + 1 for column in (0, 1))
    mean = float(learn[:, 2].mean())
    net = Factorization(users, films, args.units, mean)
    net.initialize(mx.init.Normal(0.1))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    loss_function = gluon.loss.L2Loss()

    count = np.bincount(learn[:, 1].astype(int), minlength=films)
    sums = np.bincount(learn[:, 1].astype(int), learn[:, 2] - mean, minlength=films)
    means = mean + sums / (count + 1)
    simple = float(np.sqrt(((means[test[:, 1].astype(int)] - test[:, 2]) ** 2).mean()))
    dataset = gluon.data.ArrayDataset(*(learn[:, i].astype("float32") for i in range(3)))
    errors = []
    for epoch in range(args.epochs):
        for user, film, rating in gluon.data.DataLoader(dataset, 256, shuffle=True):
            with autograd.record():
                loss = loss_function(net(user, film), rating)
            loss.backward()
            trainer.step(user.shape[0])
        errors.append(float(np.sqrt(((predict(net, test) - test[:, 2]) ** 2).mean())))
        print(f"epoch {epoch}: error {errors[-1]:.4f}", flush=True)
    best = int(np.argmin(errors))
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 2.5))
        axes.plot(errors, label="factorization")
        axes.axhline(simple, color="gray", linestyle=":", label="means of the films")
        if not args.ratings:
            axes.axhline(NOISE, color="green", linestyle="--", label="noise: the best possible")
        axes.set(xlabel="epoch", ylabel="error of held-out ratings")
        axes.legend()
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    user, seen = 0, set(table[table[:, 0] == 0, 1])
    scores = predict(net, np.stack([np.full(films, user), np.arange(films)], axis=1))
    advice = [int(film) for film in np.argsort(-scores) if film not in seen][:5]
    print(f"films for user {user}: {advice}")
    print(f"error {errors[best]:.4f} after epoch {best}, means of the films {simple:.4f}")
    return 0 if errors[best] < 0.95 * simple else 1


if __name__ == "__main__":
    sys.exit(main())
