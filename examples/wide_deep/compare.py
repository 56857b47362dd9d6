"""Train on the rows of a real data set, and compare with scikit-learn's models."""

from __future__ import annotations

import argparse
import contextlib
import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import prepare
import train
from model import area_under_curve
from rows import FlatRows

Row = Mapping[str, Any]


def write_rows(rows: Iterable[tuple[bool, Row]], names: Sequence[str], out: Path) -> None:
    """Write ``OUT.train.csv`` and ``OUT.test.csv`` from pairs of (is a test row, its values)."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        paths = (Path(f"{out}.{part}.csv") for part in ("train", "test"))
        writers = [csv.writer(stack.enter_context(path.open("w", newline=""))) for path in paths]
        for writer in writers:
            writer.writerow(names)
        for is_test, values in rows:
            writers[is_test].writerow([values[name] for name in names])


def baseline(out: Path) -> dict[str, float]:
    """Return areas under the curve of scikit-learn's models on the prepared rows."""
    try:
        from scipy import sparse
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise SystemExit("wide_deep: the baseline needs scikit-learn") from None
    prepared = [FlatRows(f"{out}.{part}") for part in ("train", "test")]
    files, sizes = [rows.records for rows in prepared], prepared[0].sizes

    def one_hot(records: np.ndarray) -> sparse.csr_matrix:
        wide = records["wide"] + sizes.deep_rows
        ids = np.concatenate([records["deep"], wide], axis=1)
        begins = np.arange(len(ids) + 1) * ids.shape[1]
        shape = (len(ids), sizes.deep_rows + sizes.wide_rows)
        ones = sparse.csr_matrix((np.ones(ids.size, np.float32), ids.ravel(), begins), shape)
        return sparse.hstack([ones, sparse.csr_matrix(records["numbers"])]).tocsr()

    def plain(records: np.ndarray) -> np.ndarray:
        return np.concatenate([records["deep"], records["numbers"]], axis=1)

    labels = [np.asarray(records["label"]) for records in files]
    found = {}
    for model, features in (
        (LogisticRegression(C=0.1, max_iter=300, solver="liblinear"), one_hot),
        (HistGradientBoostingClassifier(random_state=0), plain),
    ):
        model.fit(features(files[0]), labels[0])
        scores = model.predict_proba(features(files[1]))[:, 1]
        found[type(model).__name__] = area_under_curve(labels[1], scores)
    return found


def main(
    description: str,
    read: Any,
    numbers: Sequence[str],
    categories: Sequence[str],
    crosses: str,
    defaults: Sequence[str],
) -> int:
    """Run the command line of a data set.

    Parameters
    ----------
    description : str
        First line of the help text.
    read : callable
        ``read(path)`` yields pairs of (is a test row, values by name); ``label`` is 0 or 1.
    numbers, categories : sequence of str
        Names of values.
    crosses : str
        As in ``prepare.py``.
    defaults : sequence of str
        Options of ``train.py``, which the command line may replace.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="archive, or folder of its files")
    parser.add_argument("--out", type=Path, required=True, help="path without a suffix")
    parser.add_argument("--no-baseline", action="store_true")
    args, options = parser.parse_known_args()
    write_rows(read(args.data), ["label", *categories, *numbers], args.out)
    prepare.main(
        ["--format", "csv", "--train", f"{args.out}.train.csv", "--test", f"{args.out}.test.csv",
         "--numbers", ",".join(numbers), "--categories", ",".join(categories),
         "--cross", crosses, "--cross-buckets", "5000", "--out", str(args.out)]
    )  # fmt: skip
    train.main(["--data", str(args.out), *defaults, "--eval-interval", "100", *options])
    for name, area in ({} if args.no_baseline else baseline(args.out)).items():
        print(f"{name}, eval_auc: {area:.6f}")
    return 0
