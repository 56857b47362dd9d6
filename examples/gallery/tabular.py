"""Classify rows of a table, with a network beside logistic regression.

    python examples/gallery/tabular.py
    python examples/gallery/tabular.py --data my.csv --target label --picture tabular.png

The table is scikit-learn's breast cancer data (569 rows, 30 columns), or a CSV file with a header,
whose columns with few different texts become categories. Prints the area under the ROC curve of
both, from a cross-validation with five folds.
"""

from __future__ import annotations

import argparse
import csv
import sys

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler


def read_csv(path: str, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels 0 or 1; texts become one column for each of their values."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or target not in rows[0]:
        raise SystemExit(f"tabular: {path} must have a column {target!r} and rows")
    classes = sorted({row[target] for row in rows})
    if len(classes) != 2:
        raise SystemExit(f"tabular: {target} must have 2 different values, got {len(classes)}")
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name == target:
            continue
        try:
            columns.append([float(value) for value in values])
        except ValueError:
            found = sorted(set(values))
            if len(found) <= 50:
                columns += [[float(value == one) for value in values] for one in found]
    labels = np.array([row[target] == classes[1] for row in rows])
    return np.array(columns).T, labels.astype("float32")


def train(x: np.ndarray, y: np.ndarray, epochs: int, units: int) -> nn.HybridSequential:
    """Return a network with one score for each row."""
    net = nn.HybridSequential()
    net.add(nn.Dense(units, activation="relu"), nn.Dropout(0.3))
    net.add(nn.Dense(units, activation="relu"), nn.Dropout(0.3), nn.Dense(1))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_function = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003, "wd": 0.01})
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(epochs):
        for data, label in batches:
            with autograd.record():
                loss = loss_function(net(data), label)
            loss.backward()
            trainer.step(data.shape[0])
    return net


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="FILE", help="CSV file with a header")
    parser.add_argument("--target", default="target", help="column with two different values")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="few epochs")
    parser.add_argument("--picture", metavar="FILE", help="write the ROC curves")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 6
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    if args.data:
        features, labels = read_csv(args.data, args.target)
    else:
        features, labels = load_breast_cancer(return_X_y=True)
    labels = labels.astype("float32")
    scores = {"network": np.zeros(len(labels)), "logistic regression": np.zeros(len(labels))}
    folds = StratifiedKFold(5, shuffle=True, random_state=args.seed)
    for learn, test in folds.split(features, labels):
        scaler = StandardScaler().fit(features[learn])
        x, held_out = (scaler.transform(features[i]).astype("float32") for i in (learn, test))
        net = train(x, labels[learn], args.epochs, args.units)
        scores["network"][test] = net(nd.array(held_out)).asnumpy()[:, 0]
        linear = LogisticRegression(max_iter=1000).fit(x, labels[learn])
        scores["logistic regression"][test] = linear.decision_function(held_out)
    areas = {name: roc_auc_score(labels, score) for name, score in scores.items()}
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(3.6, 3.2))
        for name, score in scores.items():
            wrong, right, _ = roc_curve(labels, score)
            axes.plot(wrong, right, label=f"{name} {areas[name]:.4f}")
        axes.set(xlabel="false alarms", ylabel="hits")
        axes.legend()
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print("area under the curve: " + ", ".join(f"{n} {a:.4f}" for n, a in areas.items()))
    return 0 if args.data or areas["network"] > 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
