"""Forecast a time series with GluonTS, whose MXNet models run on mxlite.

    pip install gluonts
    python examples/gallery/time_series.py
    python examples/gallery/time_series.py --model deepar --picture time_series.png

The series is made by this program: an hourly load with a daily pattern, a slow trend and noise.
`mxlite.compat.install()` makes `import mxnet` inside of GluonTS give mxlite. Prints the mean
absolute error of the forecast of the last day, and that of repeating the day before.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import mxlite.compat
import numpy as np

mxlite.compat.install()
warnings.filterwarnings("ignore", message="Using `json`-module")

import mxnet as mx  # noqa: E402 - after install()
import pandas as pd  # noqa: E402
from gluonts.dataset.pandas import PandasDataset  # noqa: E402
from gluonts.mx import DeepAREstimator, SimpleFeedForwardEstimator, Trainer  # noqa: E402

DAY = 24


def make_series(days: int, seed: int) -> pd.DataFrame:
    """Return hourly values with a daily pattern, noise and a slow trend."""
    hours = np.arange(days * DAY)
    daily = 10 * np.sin(2 * np.pi * (hours - 8) / DAY)
    noise = np.random.default_rng(seed).normal(0, 1.5, len(hours))
    values = 20 + daily + 0.002 * hours + noise
    index = pd.date_range("2026-01-05", periods=len(hours), freq="h")
    return pd.DataFrame({"target": values}, index=index)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("feedforward", "deepar"), default="feedforward")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="few short epochs")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the forecast")
    args = parser.parse_args()
    batches = 50
    if args.smoke:
        args.epochs, batches = 4, 25
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    series = make_series(args.days, args.seed)
    learn, truth = series[:-DAY], series["target"].to_numpy()[-DAY:]
    dataset = PandasDataset(learn, target="target")
    trainer = Trainer(epochs=args.epochs, num_batches_per_epoch=batches, learning_rate=0.003)
    options = {"prediction_length": DAY, "context_length": 2 * DAY, "trainer": trainer}
    if args.model == "deepar":
        estimator = DeepAREstimator(freq="h", **options)
    else:
        estimator = SimpleFeedForwardEstimator(**options)
    predictor = estimator.train(dataset)
    forecast = next(iter(predictor.predict(dataset)))
    error = float(np.abs(forecast.quantile(0.5) - truth).mean())
    simple = float(np.abs(series["target"].to_numpy()[-2 * DAY : -DAY] - truth).mean())
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(7, 2.6))
        shown = series["target"].to_numpy()[-4 * DAY :]
        axes.plot(np.arange(len(shown)) - 3 * DAY, shown, label="series")
        axes.plot(forecast.quantile(0.5), label="median of the forecast")
        low, high = forecast.quantile(0.1), forecast.quantile(0.9)
        axes.fill_between(np.arange(DAY), low, high, alpha=0.3, label="10 % to 90 %")
        axes.set(xlabel="hours from the beginning of the forecast")
        axes.legend()
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print(f"mean absolute error {error:.2f}, of the day before {simple:.2f}")
    return 0 if args.smoke or error < simple else 1


if __name__ == "__main__":
    sys.exit(main())
